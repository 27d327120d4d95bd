"""Calls by function: rows of calls in, the statistics of each function's times out."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.trace.keys import group
from gpuledger.trace.statistics import Statistics, summarise
from gpuledger.trace.tables import Rows


@dataclass(frozen=True, slots=True)
class CallTimes:
    """The calls of one function, in nanoseconds. `order` is the profiler's numbering of names."""

    name: str
    order: int
    times: Statistics


def by_function(calls: Rows) -> list[CallTimes]:
    """One entry per function as recorded, version suffix included, in no particular order."""
    names = calls.codes("name")
    first, number = group(names)
    codes = names[first]
    times = summarise(calls.duration_ns, number)
    return [
        CallTimes(text or "", code, statistics)
        for text, code, statistics in zip(calls.strings.decode(codes), codes.tolist(), times, strict=True)
    ]


def most_time_first(calls: Rows) -> tuple[CallTimes, ...]:
    """The same, sorted."""
    return tuple(sorted(by_function(calls), key=lambda function: -function.times.total))
