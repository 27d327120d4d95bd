"""How long a GPU's work would take at its roofs, kernel by kernel, and where the rest of its busy time goes."""
