"""A benchmark of diagnosis: programs with planted faults, and how well a tool's answers name them."""
