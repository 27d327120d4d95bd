"""Programs whose kernels use the GPU in different ways, to be sampled by nsys and counted by Nsight Compute."""
