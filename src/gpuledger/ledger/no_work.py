"""Why a profile holds no GPU work, as far as it says itself: the refusal that every verb about work gives."""

from __future__ import annotations

import re
from typing import Final

from gpuledger.errors import NothingRecorded
from gpuledger.regex import regex
from gpuledger.trace.model import Severity, Trace
from gpuledger.trace.tables import Table
from gpuledger.units import count_text

_ABOUT_CUDA: Final = regex(r"cuda(?! events collected)", re.IGNORECASE)
"""That no event of it was collected says no more than that there is none."""

_ON_CPU: Final = regex(r"mkldnn|onednn", re.IGNORECASE)
_ON_GPU: Final = regex(r"cudnn|miopen", re.IGNORECASE)
"""Operators that torch has for one of the two alone: where they are in a trace, it ran there."""


def nothing_recorded(trace: Trace, name: str, reason: str) -> NothingRecorded:
    """The refusal: what was recorded instead, and why there may be no work."""
    origin = trace.origin
    events = [f"{table.value} {count_text(len(rows))}" for table, rows in trace.tables.items() if len(rows)]
    found = f"{origin.tool} {origin.tool_version or 'of unknown version'}, {', '.join(events) or 'no event'}"
    if (said := _by_the_recording(trace)) is not None:
        found = f"{found}; {said}"
    hint = "`gpuledger info` says what there is, `gpuledger explain CAPTURE-EMPTY` what it may be"
    ranges, is_torch = trace.tables.get(Table.RANGES), origin.tool.startswith("torch")
    names = trace.strings.distinct(ranges.codes("name")) if ranges is not None and is_torch else []
    operators = [trace.strings.text(code) or "" for code in names]
    on_cpu, on_gpu = (next(filter(where.search, operators), "") for where in (_ON_CPU, _ON_GPU))
    if on_gpu:
        reason = f"{reason}, though {on_gpu} runs on GPUs alone"
        hint = f"record with `ProfilerActivity.CUDA`; {hint}"
    elif on_cpu:
        reason = f"{reason}, and {on_cpu} runs on the CPU alone"
        hint = f"put the model and its inputs on the GPU: `.to('cuda')`; {hint}"
    elif ranges is not None and len(ranges) and not is_torch:
        hint = f"`gpuledger stats --report=nvtx_sum` has the host's time in the ranges; {hint}"
    return NothingRecorded(f"{name}: {reason}", found=found, hint=hint)


def _by_the_recording(trace: Trace) -> str | None:
    """What it says of this: calls without their work, the profiler's own words, what was not traced."""
    origin, notes = trace.origin, trace.health
    said = [note.sentence for note in notes if note.severity is Severity.LOSS]
    said += [note.sentence for note in notes if _ABOUT_CUDA.search(note.sentence)]
    if said:
        return said[0]
    if origin.asked_for is not None and not any(map(_ABOUT_CUDA.search, origin.asked_for)):
        return f"CUDA was not traced, but {', '.join(origin.asked_for)}"
    return None
