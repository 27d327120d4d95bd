"""What a profile holds, and the tables that NVIDIA prints of it."""
