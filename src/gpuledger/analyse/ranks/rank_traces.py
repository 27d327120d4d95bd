"""Which ranks a profile holds: one trace in, a trace of each of its ranks out.

A rank is a process on a GPU. A profile holds several where a launcher was recorded with all that it started, or where
one process drives several GPUs. The trace of a rank is what a profile of it alone would hold: its own work on the GPU
and all of its process, less the calls that launched work on other GPUs, and the threads that launched nothing else.

Ranks are the pairs that ran a kernel or a graph. Where two or more of them communicate, only those are: the others
take no part, such as a process that tries out compiled kernels, or what a library leaves on GPU 0. A profile that
records which rank of several it is, as a launcher's environment does, is that one rank unless two or more communicate:
then the environment is that of the launcher of all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.ledger.busy import default_window
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.steps import Wanted
from gpuledger.messages import say
from gpuledger.trace.health import Note, NotMeasured, Severity
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import count_text

_ON_A_GPU: Final = (Table.KERNELS, Table.COPIES, Table.GRAPHS)


@dataclass(frozen=True, slots=True)
class Place:
    """A process on a GPU."""

    gpu: int
    pid: int

    def __str__(self) -> str:
        return f"process {os_pid(self.pid)} on GPU {self.gpu}"


@dataclass(frozen=True, slots=True, eq=False)
class RankTrace:
    """One rank of a profile."""

    trace: Trace
    wanted: Wanted
    """With times that count from where this rank's own work begins."""
    place: Place | None = None
    """None: the profile is this one rank's."""
    name: str = ""
    """What tells it from the profile's other ranks: its GPU, its process, or both."""


def rank_traces(trace: Trace, wanted: Wanted) -> Iterator[RankTrace]:
    """The ranks of a trace that was read whole, by GPU, then process; made one after another, as each takes memory."""
    ran = _kernels_at(trace)
    chosen = rank_places(trace, wanted.families)
    asked = [place for place in chosen if wanted.device in (None, place.gpu)]
    if not asked:  # one rank; or not on that GPU, and whoever analyses it says which ones there are
        yield RankTrace(trace, wanted)
        return
    left_out = tuple(_left_out(place, ran[place]) for place in ran if place not in chosen)
    whole = replace(
        trace,
        health=(*trace.health, *left_out),
        origin=replace(trace.origin, rank=None, world_size=None),
    )
    zero_ns = 0 if wanted.time_ns is None else min(_zero_ns(_at(whole, place)) for place in chosen)
    names = _names(chosen)
    for place in asked:
        alone = _at(whole, place)
        yield RankTrace(alone, _counted_from(zero_ns, alone, wanted), place, names[chosen.index(place)])


def rank_places(trace: Trace, families: tuple[tuple[str, str], ...] = ()) -> list[Place]:
    """The ranks of a trace that holds several; none where it is one rank's. `families` are the user's own."""
    ran, talking = _kernels_at(trace), _talking(trace, families)
    is_one_of_several = trace.origin.rank is not None and (trace.origin.world_size or 1) > 1
    if len(talking) < 2 and (len(ran) < 2 or is_one_of_several):
        return []
    return sorted(talking if len(talking) > 1 else ran, key=lambda place: (place.gpu, place.pid))


def _kernels_at(trace: Trace) -> Counter[Place]:
    """How many kernels and graphs each process ran on each GPU; where there are none at all, how many copies."""
    for tables in ((Table.KERNELS, Table.GRAPHS), (Table.COPIES,)):
        counts = Counter[Place]()
        for table in tables:
            counts += _places(trace[table])
        if counts:
            return counts
    return Counter()


def _talking(trace: Trace, families: tuple[tuple[str, str], ...]) -> Counter[Place]:
    """How many communication kernels each process ran on each GPU."""
    kernels = trace[Table.KERNELS]
    talks = trace.strings.each(kernels.codes("name"), lambda name: family(name, families) == COMMUNICATION, np.bool_)
    return _places(kernels.only("gpu", "pid").where(talks))


def _places(rows: Rows) -> Counter[Place]:
    """How many of these rows that took time each process has on each GPU."""
    rows = rows.only("gpu", "pid").where(rows.duration_ns > 0)
    processes, process = group(rows["pid"])
    first, number = group(group(rows["gpu"])[1] * len(processes) + process)
    places = map(Place, rows["gpu"][first].tolist(), rows["pid"][first].tolist())
    return Counter(dict(zip(places, np.bincount(number, minlength=len(first)).tolist(), strict=True)))


def _left_out(place: Place, kernels: int) -> Note:
    count = say("1 kernel") if kernels == 1 else say("{count} kernels", count=count_text(kernels))
    sentence = say(
        "{place} ran {kernels} and takes no part in collectives: not counted as a rank", place=str(place), kernels=count
    )
    return Note(Severity.LOSS, "not-a-rank", sentence, kernels)


def _names(places: Sequence[Place]) -> list[str]:
    """The GPU if each has its own, the process if each has its own, else both."""
    if len({place.gpu for place in places}) == len(places):
        return [f"GPU {place.gpu}" for place in places]
    if len({place.pid for place in places}) == len(places):
        return [f"process {os_pid(place.pid)}" for place in places]
    return [str(place) for place in places]


def _at(trace: Trace, place: Place) -> Trace:
    """What there would be if only this rank had been recorded."""
    rank = _RankRows(trace, place)
    tables = {table: _kept(rows, rank.owns(table, rows)) for table, rows in trace.tables.items()}
    processes = tuple(process for process in trace.origin.processes if process.pid == place.pid)
    return replace(trace, tables=tables, origin=replace(trace.origin, processes=processes), places=None)


class _RankRows:
    """Which rows of a trace are one rank's.

    What its process does for other GPUs is not: calls that launch work there, and threads that launch nothing else.
    """

    def __init__(self, trace: Trace, place: Place) -> None:
        self._place = place
        self._launched = self._threads = np.empty(0, np.int64)
        launched = [(rows["correlation"], rows["pid"] == place.pid, rows["gpu"] == place.gpu) for rows in _work(trace)]
        there = np.concatenate([correlation[mine & ~here] for correlation, mine, here in launched])
        if not len(there):
            return
        here = np.concatenate([correlation[mine & here] for correlation, mine, here in launched])
        self._launched = np.setdiff1d(there, np.append(here, NOT_RECORDED))
        calls = trace[Table.CALLS].only("pid", "tid", "correlation")
        calls = calls.where(calls["pid"] == place.pid)
        driving, busy = (calls["tid"][np.isin(calls["correlation"], ids)] for ids in (self._launched, here))
        self._threads = np.setdiff1d(driving, busy)

    def owns(self, table: Table, rows: Rows) -> NDArray[np.bool_]:
        """Which rows of a table are the rank's."""
        own: NDArray[np.bool_] = rows["pid"] == self._place.pid
        if "gpu" in rows:  # of synchronisations it may not be known
            own &= (rows["gpu"] == self._place.gpu) | (rows["gpu"] == NOT_RECORDED) & (table not in _ON_A_GPU)
        if "tid" in rows and len(self._threads):
            own &= ~np.isin(rows["tid"], self._threads)
        if table is Table.CALLS and len(self._launched):
            own &= ~np.isin(rows["correlation"], self._launched)
        return own


def _work(trace: Trace) -> list[Rows]:
    return [trace[table] for table in _ON_A_GPU]


def _kept(rows: Rows, own: NDArray[np.bool_]) -> Rows:
    """The rows that are a rank's own. Ranges point to the one around them, which is of the same thread."""
    if "parent" in rows:
        number = np.full(len(rows) + 1, NOT_RECORDED, np.int64)  # the last is for ranges that none is around
        number[:-1][own] = np.arange(int(own.sum()))
        rows = rows.replaced("parent", number[rows["parent"]])
    return rows.where(own)


def _zero_ns(trace: Trace) -> int:
    """Where a rank's own work begins."""
    window = default_window(*host_and_activities(trace))
    return 0 if isinstance(window, NotMeasured) else window.start_ns


def _counted_from(zero_ns: int, alone: Trace, wanted: Wanted) -> Wanted:
    """What is asked for in a rank's own times: `--time` counts from where the work of the whole profile begins."""
    if wanted.time_ns is None:
        return wanted
    later_ns = _zero_ns(alone) - zero_ns
    first, last = (None if instant is None else instant - later_ns for instant in wanted.time_ns)
    return replace(wanted, time_ns=(first, last))
