"""Memory snapshots of PyTorch: pickles in, `MemorySnapshot` out, no class loaded and no object made."""
