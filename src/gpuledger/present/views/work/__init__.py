"""Answers about kernels and operators, and what they use of the GPU."""
