"""The work inside CUDA graphs by its place in the program: how often, how long, and how much of it has a name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.operators.graph_launches import LaunchSide
from gpuledger.analyse.operators.graph_places import graph_places
from gpuledger.ledger.device import Device
from gpuledger.trace.graph_places import GraphPlace, Names
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Table


@dataclass(frozen=True, slots=True)
class GraphWork:
    """What one place in the program does inside graphs."""

    path: Names | None
    """Annotations, modules and operators, the outermost first; None: not known."""
    source: str | None
    """How it is known."""
    where: str | None
    """The line of code, where stacks were recorded."""
    count: int
    device_ns: int


@dataclass(frozen=True, slots=True)
class GraphNames:
    """The work of the graphs launched in the steady stretch of one GPU."""

    launches: int
    work: tuple[GraphWork, ...]
    """By GPU time, the longest first."""

    @property
    def device_ns(self) -> int:
        return sum(work.device_ns for work in self.work)

    @property
    def named_ns(self) -> int:
        return sum(work.device_ns for work in self.work if work.path is not None)

    @property
    def named_share(self) -> float | None:
        """Coverage: the share of the graphs' GPU time that has a name."""
        return self.named_ns / self.device_ns if self.device_ns else None


def graph_names(trace: Trace, device: Device) -> GraphNames:
    """The work inside graphs by its place, as the second file tells it, or else the profile itself."""
    side = LaunchSide.seen(trace, device.host, device.work)
    places = trace.places or graph_places(side, side)
    work = side.rows(np.zeros(len(side.call), np.intp))
    mine = np.flatnonzero(work.in_graph & (work.gpu == device.gpu))
    mine = mine[np.lexsort((work.stream[mine], work.start_ns[mine], work.launch[mine]))]
    first = np.flatnonzero(np.diff(work.launch[mine], prepend=-1))
    steady = device.begins_steady(work.start_ns[mine[first]])
    mine = mine[np.repeat(steady, np.diff(first, append=len(mine)))]
    place = np.concatenate((places.of_kernel, places.of_copy))[work.row[mine]]
    by_place = [
        GraphWork(*_told(places.places[number] if number >= 0 else None), count, time)
        for number, count, time in _sums(place, work.end_ns[mine] - work.start_ns[mine])
    ]
    opaque = trace[Table.GRAPHS]
    opaque = opaque.where((opaque["gpu"] == device.gpu) & device.begins_steady(opaque["start_ns"]))
    if len(opaque):
        by_place.append(GraphWork(None, None, None, len(opaque), int(np.maximum(opaque.duration_ns, 0).sum())))
    by_place.sort(key=lambda work: (-work.device_ns, work.path or (), work.source or "", work.where or ""))
    return GraphNames(int(steady.sum()) + len(opaque), tuple(by_place))


def _told(place: GraphPlace | None) -> tuple[Names | None, str | None, str | None]:
    return (None, None, None) if place is None else (place.path, place.source, place.where or None)


def _sums(place: NDArray[np.int32], time_ns: Ints) -> list[tuple[int, int, int]]:
    """(place, how many, how long) of each place that occurs."""
    first, number = group(place)
    total = np.zeros(len(first), np.int64)
    np.add.at(total, number, time_ns)
    counts = np.bincount(number, minlength=len(first))
    return list(zip(place[first].tolist(), counts.tolist(), total.tolist(), strict=True))
