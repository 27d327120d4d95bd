"""Whether something fits: bytes in, one sentence out where the device has not as many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.common.program import refuse

_HINT = "smaller sizes need less; `--help` names them"
_FULL = ("can't allocate memory", "DefaultCPUAllocator")


def gigabytes(count: int) -> str:
    """Bytes for people."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


def needs(what: str, count: int, device: str) -> None:
    """Refuse before the device is full; on a CPU the operating system decides."""
    if not device.startswith("cuda"):
        return
    free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    if count > free:
        refuse(f"{what} needs about {gigabytes(count)} of GPU memory, and {gigabytes(free)} are free", hint=_HINT)


@contextmanager
def refused_where_full() -> Iterator[None]:
    """One sentence where memory ran out after all."""
    try:
        yield
    except RuntimeError as error:  # torch's own on a GPU, a plain one on a CPU
        full = isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in _FULL)
        if not full:
            raise
        refuse("the device's memory is full", hint=_HINT)
