"""A generator of command lines that carry secrets, for a blind test of a secrets filter."""
