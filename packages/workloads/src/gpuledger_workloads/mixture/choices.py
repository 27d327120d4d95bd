"""What the options of a mixture choose from, by name. No torch: a command line is read without it."""

from __future__ import annotations

ROUTINGS = ("random", "uniform", "power-law", "hot")
"""See `routing`."""
EXPONENT = 1.2
"""Of power-law."""
MODE_NAMES = ("loop", "batched_gemm", "grouped")
"""See `modes`."""
CHOICES = {**{name: (name,) for name in MODE_NAMES}, "both": ("loop", "batched_gemm"), "all": MODE_NAMES}
"""What --mode may say, and the modes that run."""
DISPATCH_NAMES = ("normal", "low-latency")
"""See `spread`."""
