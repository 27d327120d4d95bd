"""Which thread worked while another one waited: stretches of time in, the busiest other thread out.

A program that loads its data on a thread or in a worker process loses its time there, not where it waits. A thread was
busy where a sample saw it, else where a range or a call was open on it and none that waits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from gpuledger.analyse.lost_time import ThreadTime
from gpuledger.analyse.program_ranges import NamedNest
from gpuledger.catalog.call_kinds import WAITS_FOR_THREAD, CallKind, call_kind
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.ranges import thread
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions, RowsByKey
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span, Spans, difference, either, intersection, total, union
from gpuledger.trace.tables import Rows, Table

FEWEST_SAMPLES: Final = 3
"""So many samples of a thread show that it was busy."""

MOSTLY: Final = 0.5
"""A thread with ranges open for this share of the time says where the program was."""

LEAST_BUSY: Final = 0.2
"""A thread that nothing is known of for more than the rest of the time was not what the other one waited for."""


def busiest_thread(trace: Trace, waiting: ThreadTime) -> ThreadTime | None:
    """The other thread, of any process, that did the most meanwhile, and what it did of it; None where none shows."""
    return _most_sampled(trace, waiting) or _most_covered(trace, waiting)


def named_thread(ranges: NamedNest, outside: ThreadTime) -> ThreadTime | None:
    """The other thread of the process with ranges open for most of the time; None where none has that."""
    rows, best = _others(ranges.rows.where(ranges.rows["pid"] == outside.pid), outside), None
    for other, positions in RowsByKey.of(thread(rows)):
        mine = rows.at(positions)
        held = replace(outside, thread=other, tid=int(mine["tid"][0]), spans=intersection(outside.spans, _union(mine)))
        if held.ns >= MOSTLY * outside.ns and (best is None or held.ns > best.ns):
            best = held
    return best


def _most_sampled(trace: Trace, waiting: ThreadTime) -> ThreadTime | None:
    samples = _others(trace[Table.SAMPLES], waiting)
    number = np.searchsorted(waiting.spans.start_ns, samples["start_ns"], side="right") - 1
    samples = samples.where((number >= 0) & (samples["start_ns"] < waiting.spans.end_ns[np.maximum(number, 0)]))
    owner = thread(samples)
    counts = {other: len(positions) for other, positions in RowsByKey.of(owner)}
    busiest = max(counts, key=lambda other: (counts[other], -other), default=None)
    if busiest is None or counts[busiest] < FEWEST_SAMPLES:
        return None
    return _thread_time(samples, np.flatnonzero(owner == busiest), waiting)


def _most_covered(trace: Trace, waiting: ThreadTime) -> ThreadTime | None:
    """By ranges and calls; of other processes by ranges alone, as nobody knows what their calls wait for."""
    ranges, calls = (_others(trace[table], waiting) for table in (Table.RANGES, Table.CALLS))
    ranges = ranges.where(~ranges["open"])
    waits = trace.strings.each(calls.codes("name"), _waits, np.bool_) | (calls["pid"] != waiting.pid)
    by_range, by_call = RowsByKey.of(thread(ranges)), RowsByKey.of(thread(calls))
    best: ThreadTime | None = None
    for other in distinct(np.concatenate((by_range.keys, by_call.keys))).tolist():
        named, called = ranges.at(by_range.rows(other)), by_call.rows(other)
        working, idle = calls.at(called[~waits[called]]), calls.at(called[waits[called]])
        busy = intersection(waiting.spans, difference(either(_union(named), _union(working)), _union(idle)))
        if total(busy) >= LEAST_BUSY * waiting.ns and (best is None or total(busy) > best.ns):
            of_it = named if len(named) else working
            best = ThreadTime(other, int(of_it["pid"][0]), int(of_it["tid"][0]), busy)
    return best


def _union(rows: Rows) -> Spans:
    return union(rows["start_ns"], rows["end_ns"])


def _waits(call: str) -> bool:
    return bool(WAITS_FOR_THREAD.search(call)) or call_kind(shortened(call)) is CallKind.SYNC


def _thread_time(rows: Rows, mine: Positions, waiting: ThreadTime) -> ThreadTime:
    """The whole of the stretches as the time of the thread that these rows are of."""
    first = int(mine[0])
    return ThreadTime(int(thread(rows)[first]), int(rows["pid"][first]), int(rows["tid"][first]), waiting.spans)


def _others(rows: Rows, waiting: ThreadTime) -> Rows:
    """The rows of other threads that lie anywhere near the stretches."""
    near = Span(int(waiting.spans.start_ns[0]), int(waiting.spans.end_ns[-1]))
    return rows.where(
        (thread(rows) != waiting.thread) & (rows["start_ns"] < near.end_ns) & (rows["end_ns"] >= near.start_ns)
    )
