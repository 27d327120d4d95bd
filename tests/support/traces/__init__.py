"""Traces, graphs and ranks for tests, by hand and at random."""
