"""Calls by function: rows of calls in, the statistics of each function's times out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.trace.keys import Positions, group
from gpuledger.trace.statistics import Statistics, summarise
from gpuledger.trace.tables import Rows


@dataclass(frozen=True, slots=True)
class CallTimes:
    """The calls of one function, in nanoseconds. `order` is the profiler's numbering of names."""

    name: str
    order: int
    times: Statistics


def by_function(calls: Rows, chosen: Positions | None = None) -> list[CallTimes]:
    """One entry per function as recorded, version suffix included, in no particular order; of the chosen calls."""
    names, length = calls.codes("name"), calls.duration_ns
    if chosen is not None:
        names, length = names[chosen], length[chosen]
    first, number = group(names)
    codes = names[first]
    del names
    times = summarise(length, number.astype(np.int32))
    return [
        CallTimes(text or "", code, statistics)
        for text, code, statistics in zip(calls.strings.decode(codes), codes.tolist(), times, strict=True)
    ]


def most_time_first(calls: Rows, chosen: Positions | None = None) -> tuple[CallTimes, ...]:
    """The same, sorted."""
    return tuple(sorted(by_function(calls, chosen), key=lambda function: -function.times.total))
