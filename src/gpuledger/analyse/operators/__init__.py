"""Framework operators: what each launched and cost, how much arithmetic it did, and the work inside CUDA graphs."""
