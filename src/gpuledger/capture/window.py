"""Marks for a profiler, set by the program that is profiled: a name in, an NVTX range around the block out.

With `profiler=True` the block is also what `gpuledger capture nsys --preset=steady` records, and what `gpuledger
capture torch` does. Marks wait for no device: where its work belongs to the block, the caller synchronises inside.
Without torch, or without a CUDA device, nothing happens, so that a program can be marked for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

_OPENS = re.compile(r"(?:^|\s)--cuda-profiler(?![^\s=;&|)])")  # as a word, or within the text of `bash -c`


@cache
def _cuda() -> Any | None:
    """`torch.cuda` where there is a device. Asked once: ranges sit in hot loops, and the question is not free."""
    try:
        torch = import_module("torch")  # late: the package itself does not need torch, and torch takes seconds to load
    except ImportError:
        return None
    # the runner of `capture torch` takes marks over, also where there is no device
    listens = getattr(getattr(torch.cuda, "profiler", None), "recorded_by_gpuledger", False)
    return torch.cuda if listens or torch.cuda.is_available() else None


@contextmanager
def window(name: str, profiler: bool = False) -> Iterator[None]:
    """An NVTX range `name` around the block; with `profiler`, cudaProfilerStart before it, cudaProfilerStop after."""
    cuda = _cuda()
    if cuda is None:
        yield
        return
    if profiler:
        cuda.profiler.start()
    try:
        cuda.nvtx.range_push(name)
        try:
            yield
        finally:
            cuda.nvtx.range_pop()
    finally:
        if profiler:
            cuda.profiler.stop()


def opens_window(command: Sequence[str]) -> bool:
    """Whether a program is told to open a window itself, as our benches are with --cuda-profiler."""
    return any(_OPENS.search(word) for word in command)
