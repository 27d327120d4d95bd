"""Whether a profile holds what its capture was asked for: a trace and the wishes in, one verdict per wish out.

A capture that lacks something looks like any other until a question about it comes up, so it is asked right away.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.capture.manifest import CaptureCheck
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, time_text

PASS: Final = "PASS"  # noqa: S105 - a verdict
MISSING: Final = "MISSING"
WARN: Final = "WARN"

_TOLERANCE_SHARE: Final = 0.2
_TOLERANCE_NS: Final = 1_000_000_000
_LAYERS: Final = (
    ("osrt", "os", "OS calls", "the program made none that wait while it was recorded, or it is linked statically"),
    *(
        (library, library, f"{library} calls", f"the program called {library} not at all while it was recorded")
        for library in ("cublas", "cudnn")
    ),
)


class CaptureWishes(Struct, frozen=True):
    """What was to be recorded."""

    traces: tuple[str, ...] = ("cuda",)  # in nsys's words
    nodes: bool = False  # whether each kernel inside a CUDA graph was to be seen
    memory: bool = False
    ranged: bool = False  # whether recording was to begin with a profiler range
    duration_ns: int | None = None


def check_capture(trace: Trace, asked: CaptureWishes) -> tuple[CaptureCheck, ...]:
    """Every wish with its verdict."""
    checks = [_work(trace, asked)]
    if "nvtx" in asked.traces:
        advice = "mark the steps: `with gpuledger.window('step'):`, or with an NVTX range"
        count = len(trace[Table.RANGES])
        checks.append(_count_check("ranges", count, "ranges and marks", "the program set no NVTX range", advice))
    calls = trace[Table.CALLS]
    for asked_for, layer, name, why in _LAYERS:
        if asked_for in asked.traces:
            code = calls.strings.code(layer)
            count = int((calls["layer"] == code).sum()) if code != NO_TEXT else 0
            checks.append(_count_check(name, count, "calls", "none was recorded", why))
    checks += _graphs(trace, asked)
    if asked.memory:
        advice = (
            "a caching allocator asks for memory in the first steps only: record those too, with --preset=memory alone"
        )
        count = len(trace[Table.ALLOCS])
        checks.append(_count_check("memory", count, "allocations and releases", "no allocation was recorded", advice))
    if asked.duration_ns is not None:
        checks.append(_length(trace, asked.duration_ns))
    return tuple(checks)


def _count_check(name: str, count: int, what: str, none: str, advice: str) -> CaptureCheck:
    if count:
        return CaptureCheck(name, PASS, f"{count_text(count)} {what}", "")
    return CaptureCheck(name, MISSING, none, advice)


def _work(trace: Trace, asked: CaptureWishes) -> CaptureCheck:
    kernels, graphs = len(trace[Table.KERNELS]), len(trace[Table.GRAPHS])
    if kernels or graphs:
        gpus = len(np.unique(np.concatenate([trace[table]["gpu"] for table in (Table.KERNELS, Table.GRAPHS)])))
        ran = f"{count_text(kernels)} kernels" + (f", {count_text(graphs)} whole graphs" if graphs else "")
        return CaptureCheck("GPU work", PASS, f"{ran} on {gpus} GPU{'s' if gpus != 1 else ''}", "")
    advice = (
        "does the program use the GPU, and in a process that the command starts? `gpuledger doctor` tries a capture"
    )
    if asked.ranged:
        advice = "launch work between cudaProfilerStart and cudaProfilerStop, and synchronise before the latter"
    return CaptureCheck("GPU work", MISSING, "no kernel was recorded", advice)


def _graphs(trace: Trace, asked: CaptureWishes) -> list[CaptureCheck]:
    whole = len(trace[Table.GRAPHS])
    nodes = int((trace[Table.KERNELS]["graph_node"] > 0).sum())
    if whole:
        advice = "" if asked.nodes else "record with --preset=graph to see the kernels inside"
        verdict = MISSING if asked.nodes else WARN
        return [CaptureCheck("graph nodes", verdict, f"{count_text(whole)} CUDA graphs were recorded whole", advice)]
    if asked.nodes:
        found = f"{count_text(nodes)} kernels ran in CUDA graphs" if nodes else "no CUDA graph ran"
        return [CaptureCheck("graph nodes", PASS, found, "")]
    return []


def _length(trace: Trace, asked_ns: int) -> CaptureCheck:
    span = trace.span
    if isinstance(span, NotMeasured):
        return CaptureCheck(
            "duration", MISSING, span.reason, "nothing happened in that time: was the program still loading?"
        )
    got = span.end_ns - span.start_ns
    found = f"{time_text(got)} of the {time_text(asked_ns)} asked for hold events"
    if abs(got - asked_ns) <= max(_TOLERANCE_NS, int(asked_ns * _TOLERANCE_SHARE)):
        return CaptureCheck("duration", PASS, found, "")
    advice = "the program ended early, or did nothing for a part of it: keep it under load, or choose another --delay"
    return CaptureCheck("duration", MISSING if got < asked_ns else WARN, found, advice if got < asked_ns else "")
