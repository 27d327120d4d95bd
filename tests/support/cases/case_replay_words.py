"""What a case may expect of the graph that is replayed, and of the path through it."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

import numpy as np

from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.critical_path import critical_path
from gpuledger.replay.edits import with_durations
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.passes import replay_times
from gpuledger.replay.scenario import scenario
from gpuledger.replay.waits import with_rendezvous
from support.cases.case import (
    US,
    Case,
    Expectation,
    figure_of,
    us,
)
from support.traces.trace_notation import time_ns


def _graph_of(case: Case, *, residuals: bool = True) -> DependencyGraph:
    return dependency_graph(case.trace, *host_and_activities(case.trace), residuals=residuals)


def _graph(case: Case, rest: str) -> tuple[bool, str]:
    """`calls.after -1 0`: a column; what ends in `_ns` is in microseconds."""
    name, *_ = rest.split()
    values = attrgetter(name)(_graph_of(case)).tolist()
    found = " ".join([name, *(us(value) if name.endswith("_ns") else str(value) for value in values)])
    return found == rest.removesuffix(" none"), found


def _ends(graph: DependencyGraph, rest: str) -> tuple[bool, str]:
    """`0=100 112 212`: when operations end where the first takes so long."""
    change, *_ = rest.split()
    row, length = change.split("=")
    changed = with_durations(graph, np.array([int(row)]), np.array([time_ns(length, US)]))
    found = " ".join([change, *map(us, replay_times(changed).end.tolist())])
    return found == rest, found


def _meeting(case: Case, rest: str) -> tuple[bool, str]:
    meetings, _, change = rest.partition(" with ")
    return _ends(with_rendezvous(_graph_of(case), np.array([*map(int, meetings.split())])), change)


def _met(case: Case, rest: str) -> tuple[bool, str]:
    """`-1 -1 5 5: 38 68 19 20`: who meets whom, and how long each takes by itself."""
    meetings, _, lengths = rest.partition(": ")
    graph = with_rendezvous(_graph_of(case), np.array([*map(int, meetings.split())]))
    found = " ".join(map(us, graph.operations.duration_ns.tolist()))
    return found == lengths, found


def _path(case: Case, rest: str) -> tuple[bool, str]:
    path = critical_path(scenario(case.trace, case.device))
    pieces = zip(path.start_ns.tolist(), path.end_ns.tolist(), path.line.tolist(), strict=True)
    found = ", ".join(f"{us(start)}-{us(end)} {path.lines[line]}" for start, end, line in pieces)
    return found == rest, found


REPLAY_WORDS: Mapping[str, Expectation] = {
    "graph": _graph,
    "meeting": _meeting,
    "met": _met,
    "path": _path,
    "unfitted": figure_of(lambda case: replay_times(_graph_of(case, residuals=False)).start[-1]),
    "resized": lambda case, rest: _ends(_graph_of(case), rest),
}
