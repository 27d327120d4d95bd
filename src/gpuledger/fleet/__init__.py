"""Many profiles at once: a Dask graph over read + analyse. Paths in, one `Job` out, the same whoever did the work."""
