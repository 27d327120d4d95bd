"""One writer per format: a document in, text out."""
