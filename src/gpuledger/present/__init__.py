"""Results in, text out. Nothing here computes a number or writes to a file."""
