"""Recording with torch.profiler."""
