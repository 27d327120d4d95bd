"""Tables that nsys stats printed, kept as text."""
