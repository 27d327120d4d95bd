"""Use of the GPU: what its counters, sampled while the program ran, say of kernels and of stretches of time."""
