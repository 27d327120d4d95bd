"""What all programs to profile share: options and clocks, ranks, memory, CUDA calls, targets."""
