"""The page writer: parts of a page in, one self-contained HTML file out; how it looks is in `templates`."""
