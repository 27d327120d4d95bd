"""Questions to a trace, one file each. Traces in, results out; nothing here prints or draws."""
