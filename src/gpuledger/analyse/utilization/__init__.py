"""How well running kernels use the GPU, from samples of its counters."""
