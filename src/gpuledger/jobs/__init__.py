"""Many profiles at once: each read and summed up, then merged. Paths in, one `Job` out, the same whoever did it."""
