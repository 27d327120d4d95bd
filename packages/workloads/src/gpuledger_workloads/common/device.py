"""Where a program runs: options in, the device and the type of numbers out; its clock, and how far tensors differ."""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.common.program import DTYPE_NAMES, refuse

DTYPES = {name: getattr(torch, of_torch) for name, of_torch in DTYPE_NAMES.items()}


def settle(options: argparse.Namespace) -> None:
    """Replace `auto` by a device, and a missing type by the device's own."""
    available = torch.cuda.is_available()
    if options.device == "auto":
        options.device = "cuda" if available else "cpu"
    if options.device == "cuda" and not available:
        refuse("torch sees no CUDA device", hint="--device=cpu runs a small size on the host")
    options.dtype = options.dtype or ("bf16" if options.device == "cuda" else "fp32")


class DeviceClock:
    """Marks on the device's own time line, or on the host's where it computes itself."""

    def __init__(self, device: str) -> None:
        self.cuda: Any = torch.cuda if device == "cuda" else None
        self.marks: list[Any] = []

    def mark(self) -> None:
        if self.cuda is None:
            self.marks.append(time.perf_counter())
        else:
            self.marks.append(self.cuda.Event(enable_timing=True))
            self.marks[-1].record()

    def synchronize(self) -> None:
        if self.cuda is not None:
            self.cuda.synchronize()

    def between_ms(self) -> list[float]:
        """The time from each mark to the next; the device must have been waited for."""
        if self.cuda is None:
            return [1e3 * (after - before) for before, after in pairwise(self.marks)]
        return [before.elapsed_time(after) for before, after in pairwise(self.marks)]


def error_of(found: torch.Tensor, expected: torch.Tensor) -> float:
    """How far a tensor is from what it should be, relative to the norm of that."""
    expected = expected.float()
    norm = float(expected.norm())
    return float((found.float() - expected).norm()) / (norm or 1.0)
