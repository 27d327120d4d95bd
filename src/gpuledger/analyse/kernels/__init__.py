"""Single kernels against the hardware: Nsight Compute's numbers, roofs, verdicts, and what to profile next."""
