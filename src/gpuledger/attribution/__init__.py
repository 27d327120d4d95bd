"""Where time is put: ranges, call stacks, places in the program, and trees of time by them."""
