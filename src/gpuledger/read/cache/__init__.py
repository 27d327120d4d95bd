"""Profiles that took long to read, kept as they were read."""
