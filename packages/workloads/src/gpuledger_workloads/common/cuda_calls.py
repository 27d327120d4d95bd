"""How many calls of CUDA a step takes: a step in, its launches, synchronisations and copies out.

Counted by torch.profiler over one more step, after all that is measured: a profiler slows what it watches. Without a
GPU, or where another profiler has the device's records, there is no number, and the reason instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

_MARK = "gpuledger:counted"
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch")
_SYNCS = tuple(
    f"{made}Synchronize" for made in ("cudaStream", "cudaDevice", "cudaEvent", "cuStream", "cuCtx", "cuEvent")
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
