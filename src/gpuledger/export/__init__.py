"""A trace as a timeline for other viewers, or as tables: reports in, bytes out. Nothing here opens a file to write."""
