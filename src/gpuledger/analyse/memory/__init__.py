"""How much GPU memory was in use, and what was copied and allocated."""
