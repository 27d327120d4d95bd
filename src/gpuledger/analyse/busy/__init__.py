"""Kernels that need not run, or that others do much faster: one way of telling them in each module."""
