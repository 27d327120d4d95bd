"""A comparison as a document."""
