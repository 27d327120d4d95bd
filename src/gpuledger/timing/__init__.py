"""How long an operation takes, measured until the median can be trusted."""
