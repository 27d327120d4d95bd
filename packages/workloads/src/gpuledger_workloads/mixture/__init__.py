"""A mixture of experts: routing, the experts, ways to compute them, an independent answer, tokens between ranks."""
