"""Threads that hand over to one another: a thread that stood still while another one worked waited for it.

A backward pass runs on a thread of its own, and so do many loaders: the profile shows one thread without calls for just
as long as the other makes them. Where the calls of one cover most of the time that the other stood still, the
other goes on when the one is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.ledger.host import Host
from gpuledger.replay.outer_calls import OuterCalls
from gpuledger.trace.keys import Positions, RowsByKey
from gpuledger.trace.spans import Ints

LEAST_NS: Final = 20_000
"""A thread that stands still for less waits for nobody."""

COVERED: Final = 0.5
"""The share of the time stood still that the other thread's calls must cover."""


@dataclass(frozen=True, slots=True, eq=False)
class HandOffs:
    """Calls that another thread's call hands over to."""

    call: Positions
    after: Positions
    lag_ns: Ints


def hand_offs(host: Host, outer: OuterCalls, code_ns: Ints) -> HandOffs:
    """All of them; between processes there are none. `code_ns` lies before each call on its thread."""
    found = [_of_process(outer, rows, code_ns) for rows in _processes(host, outer)]
    columns = [np.concatenate(parts) for parts in zip(*found, strict=True)] if found else [np.empty(0, np.intp)] * 3
    return HandOffs(*columns)


def _processes(host: Host, outer: OuterCalls) -> list[Positions]:
    """The calls of each process that makes them on several threads."""
    if len(host.threads) < 2:
        return []
    process = host.threads >> 32
    several = [pid for pid, threads in RowsByKey.of(process) if len(threads) > 1]
    if len(several) == 1 and np.all(process == process[0]):
        return [np.arange(len(outer))] if len(outer) else []
    by_process = RowsByKey.of(process[outer.thread])
    return [rows for pid in several if len(rows := by_process.rows(pid))]


def _of_process(outer: OuterCalls, rows: Positions, code_ns: Ints) -> tuple[Positions, Positions, Ints]:
    thread = outer.thread if len(rows) == len(outer) else outer.thread[rows]
    switches = np.flatnonzero(thread[1:] != thread[:-1]) + 1
    # a thread's first call may follow another thread's at once
    long = np.flatnonzero((code_ns[rows[switches]] >= LEAST_NS) | (outer.before[rows[switches]] < 0))
    first, last = rows[switches[long]], rows[switches[long] - 1]
    run_start_ns = outer.begin_ns[rows[np.append(0, switches)[long]]]  # where the run that hands over began
    own_before = outer.before[first]
    stood_from = np.where(own_before >= 0, outer.end_ns[own_before], run_start_ns)
    stood = outer.begin_ns[first] - stood_from
    lag = outer.begin_ns[first] - outer.end_ns[last]
    worked = outer.end_ns[last] - np.maximum(run_start_ns, stood_from)
    handed = (lag >= 0) & (stood >= LEAST_NS) & (worked >= COVERED * stood)
    return first[handed], last[handed], lag[handed]
