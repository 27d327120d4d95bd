"""What the programs made of libraries share: sizes by device, and memory that the GPU can read by itself."""

from __future__ import annotations

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

BATCHES = 3
BF16 = torch.bfloat16


def sized(device: str, on_gpu: int, on_cpu: int) -> int:
    """A size for the device: a CPU is only to show that the program runs."""
    return on_gpu if device == "cuda" else on_cpu


def pinned(values: Tensor, device: str) -> Tensor:
    """Where the GPU can read it by itself."""
    return values.pin_memory() if device == "cuda" else values
