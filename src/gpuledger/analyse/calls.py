"""Calls on the host by function: NVIDIA's cuda_api_sum and osrt_sum.

Nested calls count in full: a runtime call contains the driver calls that it makes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.analyse.sheet import Cell, Column, Digits, Sheet
from gpuledger.analyse.summary import TIME_SHARE, Summary, shares, summarise, time_cells, time_columns
from gpuledger.model.columns import by_row
from gpuledger.model.keys import group
from gpuledger.model.spans import Ints
from gpuledger.model.tables import Rows, Table
from gpuledger.model.trace import Trace

_COLUMNS = (TIME_SHARE, *time_columns("calls", "Num Calls"), Column("name", "Name", Digits.TEXT))

CUDA_LAYERS = ("runtime", "driver")
"""Calls of these layers launch GPU work; the others are of libraries and the operating system."""


@dataclass(frozen=True, slots=True)
class CallGroup:
    """The calls of one function. `order` is the profiler's numbering of names."""

    name: str
    order: int
    times: Summary


def of_layers(trace: Trace, *layers: str) -> Rows:
    """The calls that belong to these layers."""
    calls = trace[Table.CALLS]
    wanted = [calls.strings.code(layer) for layer in layers]
    return calls.where(by_row(lambda codes: np.isin(codes, wanted), calls.codes("layer")))


def cuda_calls(trace: Trace) -> Rows:
    """The CUDA runtime and driver calls."""
    return of_layers(trace, *CUDA_LAYERS)


def shortened(function: str) -> str:
    """NVIDIA's display name: a version suffix of `_v` and exactly four characters is cut, once."""
    return function[:-6] if function[-6:-4] == "_v" else function


def by_function(calls: Rows) -> list[CallGroup]:
    """One group per function as recorded, version suffix included, in no particular order."""
    names = calls.codes("name")
    first, number = group(names)
    times = summarise(calls.duration_ns, number)
    codes = names[first]
    texts = calls.strings.decode(codes)
    return [CallGroup(text or "", code, each) for text, code, each in zip(texts, codes.tolist(), times, strict=True)]


def short_names(calls: Rows) -> tuple[list[str], Ints]:
    """The display names of functions, and for each call the position of its own."""
    return calls.strings.kinds(calls.codes("name"), shortened)


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
