"""Roofs of a GPU, and what limits a kernel."""
