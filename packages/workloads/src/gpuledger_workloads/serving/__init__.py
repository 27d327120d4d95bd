"""A server at a fixed point: whether the point fits, and ranks that take their steps in lockstep."""
