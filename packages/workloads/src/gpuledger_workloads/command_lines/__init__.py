"""The options of each program to profile; no torch, so that `--help` and wrong options need none."""
