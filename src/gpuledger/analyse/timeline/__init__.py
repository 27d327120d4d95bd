"""A timeline to look at: which stretches of a run are worth showing, and everything that happened in them."""
