"""Steps, layers and their phases, and what serving costs."""
