"""Recording with Nsight Compute."""
