"""Barriers between ranks: what a crew of ranks can do, on a CPU and on GPUs, and the kernels."""
