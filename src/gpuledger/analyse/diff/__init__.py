"""Did a change help, by how much, and why: two sides in, a difference whose parts sum to it out."""
