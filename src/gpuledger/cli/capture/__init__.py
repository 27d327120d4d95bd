"""What the capture verbs share."""
