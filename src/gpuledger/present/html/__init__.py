"""Results as one self-contained HTML page: what to show is decided in Python, how it looks in `templates`."""
