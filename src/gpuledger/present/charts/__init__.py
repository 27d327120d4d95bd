"""Charts: numbers in, pictures out."""
