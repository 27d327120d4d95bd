"""What a memory snapshot of PyTorch says: who holds the peak, what leaks, what is fragmented, why memory ran out."""
