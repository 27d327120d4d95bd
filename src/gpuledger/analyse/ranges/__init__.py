"""Ranges of the program: what each costs."""
