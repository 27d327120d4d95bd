"""Results in, findings out: what to do next, ranked by what it would save."""
