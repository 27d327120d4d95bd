"""Profiles for tests: made files of each format, ours, and those of others."""
