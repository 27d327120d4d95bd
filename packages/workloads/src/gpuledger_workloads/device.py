"""Where a program runs: options in, device and type of numbers out; its clock and memory, CUDA graphs and calls.

Calls are counted by torch.profiler over one more step, after all that is measured: a profiler slows what it watches.
Without a GPU, or where another profiler has the device's records, there is no number, and the reason instead.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

import torch  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.program import DTYPE_NAMES, refuse

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


def error_of(output: torch.Tensor, expected: torch.Tensor) -> float:
    """How far a tensor is from what it should be, relative to the norm of that."""
    expected = expected.float()
    norm = float(expected.norm())
    return float((output.float() - expected).norm()) / (norm or 1.0)


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


Output = TypeVar("Output")
CAPTURE_STEPS = 3
"""Run before a graph is captured: libraries choose kernels and take memory in the first calls."""


@dataclass(frozen=True, slots=True)
class GraphReplay(Generic[Output]):
    """Replays a captured step. It holds the step, as a graph reads weights and inputs where they were when captured."""

    step: Callable[[], Output]
    graph: Any
    output: Output

    def __call__(self) -> Output:
        self.graph.replay()
        return self.output


def captured(step: Callable[[], Output]) -> GraphReplay[Output]:
    """Run the step some times, then capture it."""
    cuda: Any = torch.cuda  # its classes are untyped
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(CAPTURE_STEPS):
            step()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, capture_error_mode="thread_local"):  # a thread of nccl may ask for its events meanwhile
        output = step()
    return GraphReplay(step, graph, output)


_MARK = "gpuledger:counted"
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch")
_SYNCS = tuple(
    f"{kind}Synchronize" for kind in ("cudaStream", "cudaDevice", "cudaEvent", "cuStream", "cuCtx", "cuEvent")
)
_COPIES = ("cudaMemcpy", "cuMemcpy")


@dataclass(frozen=True, slots=True)
class Calls:
    """Of one step; all None where they were not counted, and `reason` then says why."""

    launches: int | None
    syncs: int | None
    copies: int | None
    reason: str = ""


def tally(names: Iterable[str]) -> Calls:
    """Calls by what they do."""
    listed = list(names)
    launches, syncs, copies = (sum(name.startswith(kind) for name in listed) for kind in (_LAUNCHES, _SYNCS, _COPIES))
    if not launches:
        return Calls(None, None, None, "torch.profiler saw no launch; another profiler may have the records")
    return Calls(launches, syncs, copies)


def counted(step: Callable[[], object], device: str) -> Calls:
    """Do a step twice, and count the calls of the second. Other ranks may wait in it: it is done in any case."""
    under_nsys = "NSYS_PROFILING_SESSION_ID" in os.environ
    if device != "cuda" or under_nsys:
        step()
        step()
        reason = "not counted under Nsight Systems, which counts itself" if under_nsys else "not measured on a CPU"
        return Calls(None, None, None, reason)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        step()
        torch.cuda.synchronize()
        with torch.profiler.record_function(_MARK):
            step()
        torch.cuda.synchronize()
    return tally(inside(profiler.events(), _MARK))


def inside(events: Iterable[Any], mark: str) -> list[str]:
    """The names of the profiler's events that began within a range of the host."""
    listed = list(events)
    spans = [event.time_range for event in listed if event.name == mark and event.device_type.name == "CPU"]
    return [event.name for event in listed if any(span.start <= event.time_range.start <= span.end for span in spans)]
