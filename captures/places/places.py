"""`python places.py MODE TRACE [stacks]`: a loop whose GPU waits for host code in one known place, by torch.profiler.

`function`: a function before the forward; `after`: one after it; `loader`: a DataLoader without workers; `workers`: one
with a worker, for which the loop waits.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, schedule

STEPS = 6


def resize() -> np.ndarray[Any, Any]:
    """Some milliseconds of work on the host."""
    image = np.random.default_rng().random((256, 256))
    for _ in range(3):
        image = np.sqrt(np.abs(np.fft.fft2(image).real))
    return image


class Images(torch.utils.data.Dataset[torch.Tensor]):
    """Images that are resized when they are asked for."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.from_numpy(resize().astype(np.float32))


def main(mode: str, trace: str, *, stacks: bool) -> None:
    """Run and record."""
    weights = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    values = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    loader = iter(torch.utils.data.DataLoader(Images(), batch_size=2, num_workers=mode == "workers"))

    def step() -> None:
        if mode in ("loader", "workers"):
            next(loader).to("cuda")
        if mode == "function":
            resize()
        result = values
        for _ in range(8):
            result = torch.relu(result @ weights)
        if mode == "after":
            resize()

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(
        activities=activities,
        with_stack=stacks,
        schedule=schedule(wait=1, warmup=1, active=STEPS),
        on_trace_ready=lambda made: made.export_chrome_trace(trace),
    ) as profiler:
        for _ in range(STEPS + 2):
            step()
            profiler.step()
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], stacks="stacks" in sys.argv[3:])
