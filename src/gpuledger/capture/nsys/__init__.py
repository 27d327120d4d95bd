"""Recording with Nsight Systems."""
