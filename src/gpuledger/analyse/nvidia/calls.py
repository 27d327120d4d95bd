"""Calls on the host by function: NVIDIA's cuda_api_sum and osrt_sum.

Nested calls count in full: a runtime call contains the driver calls that it makes.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.nvidia.columns import TIME_SHARE, time_cells, time_columns
from gpuledger.ledger.calls import cuda_calls, of_layers, short_names, shortened
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import Statistics, shares, summarise
from gpuledger.trace.tables import Rows

_COLUMNS = (TIME_SHARE, *time_columns("calls", "Num Calls"), Column("name", "Name", Unit.TEXT))


@dataclass(frozen=True, slots=True)
class CallGroup:
    """The calls of one function. `order` is the profiler's numbering of names."""

    name: str
    order: int
    times: Statistics


def by_function(calls: Rows) -> list[CallGroup]:
    """One group per function as recorded, version suffix included, in no particular order."""
    names = calls.codes("name")
    first, number = group(names)
    times = summarise(calls.duration_ns, number)
    codes = names[first]
    texts = calls.strings.decode(codes)
    return [CallGroup(text or "", code, each) for text, code, each in zip(texts, codes.tolist(), times, strict=True)]


def by_short_name(trace: Trace) -> list[CallGroup]:
    """One group per display name of a CUDA function: `cudaMemcpy_v3020` and `cudaMemcpy_v7000` are one."""
    calls = cuda_calls(trace)
    names, short = short_names(calls)
    first, number = group(short)
    times = summarise(calls.duration_ns, number)
    return [CallGroup(names[at], at, each) for at, each in zip(short[first].tolist(), times, strict=True)]


def cuda_api_sum(trace: Trace) -> Sheet:
    """Time of each CUDA runtime and driver function."""
    return Sheet("cuda_api_sum", "CUDA API Summary", _COLUMNS, _rows(by_function(cuda_calls(trace)), cut=True))


def osrt_sum(trace: Trace) -> Sheet:
    """Time of each operating-system function."""
    return Sheet("osrt_sum", "OS Runtime Summary", _COLUMNS, _rows(by_function(of_layers(trace, "os")), cut=False))


def _rows(groups: list[CallGroup], *, cut: bool) -> tuple[tuple[Cell, ...], ...]:
    groups = sorted(groups, key=lambda each: (-each.times.total, each.order))
    percent = shares([each.times.total for each in groups])
    return tuple(
        (share, *time_cells(each.times), shortened(each.name) if cut else each.name)
        for share, each in zip(percent, groups, strict=True)
    )
