"""The work inside CUDA graphs by its place in the program: how often, how long, and how much of it has a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.operators.graph_launches import LaunchSide
from gpuledger.analyse.operators.graph_places import graph_places
from gpuledger.catalog.name_likeness import normalised
from gpuledger.ledger.device import Device
from gpuledger.trace.graph_places import GraphPlace, Names
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Table

MODULE: Final = "nn.Module: "
"""What torch puts before a module's class and number."""

_MODULE_NUMBER: Final = re.compile(r"_\d+$")


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

    @property
    def layers_together(self) -> tuple[GraphWork, ...]:
        """The same with equal layers as one: `Layer_3 > aten::mm` and `Layer_7 > aten::mm` are `Layer_# > aten::mm`."""
        alike: dict[Names | None, list[GraphWork]] = {}
        for work in self.work:
            alike.setdefault(work.path and tuple(map(_of_any_layer, work.path)), []).append(work)
        made = (_summed(path, same) for path, same in alike.items())
        return tuple(sorted(made, key=lambda work: (-work.device_ns, work.path or ())))


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


def _of_any_layer(name: str) -> str:
    """Without the number that tells equal ones apart; a number in a class's or an operator's name is part of it."""
    if name.startswith(MODULE):
        return _MODULE_NUMBER.sub("_#", name)
    return name if "::" in name else normalised(name)


def _summed(path: Names | None, same: Sequence[GraphWork]) -> GraphWork:
    """Those of one place, under its own name where there is one only; the line of code is that of most of the time."""
    first = same[0]
    count, device_ns = sum(work.count for work in same), sum(work.device_ns for work in same)
    return GraphWork(first.path if len(same) == 1 else path, first.source, first.where, count, device_ns)


def _told(place: GraphPlace | None) -> tuple[Names | None, str | None, str | None]:
    return (None, None, None) if place is None else (place.path, place.source, place.where or None)


def _sums(place: NDArray[np.int32], time_ns: Ints) -> list[tuple[int, int, int]]:
    """(place, how many, how long) of each place that occurs."""
    first, number = group(place)
    total = np.zeros(len(first), np.int64)
    np.add.at(total, number, time_ns)
    counts = np.bincount(number, minlength=len(first))
    return list(zip(place[first].tolist(), counts.tolist(), total.tolist(), strict=True))
