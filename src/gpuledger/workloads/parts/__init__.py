"""What the programs to profile are made of: options and clocks, ranks, routing and experts, a decoder, its checks."""
