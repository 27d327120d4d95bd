"""Answers about several profiles: two sides, a history, the ranks of a job."""
