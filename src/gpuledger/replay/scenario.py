"""One device's steady stretch, replayed with changes: edits in, how long it would take out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

import numpy as np

from gpuledger.ledger.device import Device
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.edits import Edit, edited
from gpuledger.replay.excerpt import Excerpt, excerpt, whole
from gpuledger.replay.forward_pass import replayed
from gpuledger.replay.graph import DependencyGraph, Times
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints


class AnchorKind(Enum):
    """What an instant of the recording moves with in a replay."""

    END = auto()
    START = auto()
    CALL = auto()
    CLOCK = auto()
    """Nothing: it keeps its time."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """An instant of the recording, told by what it moves with."""

    kind: AnchorKind
    position: int
    """Of the operation that ends or starts, or of the call that begins, by then."""
    after_ns: int

    def in_replay(self, times: Times) -> int:
        """When it comes in a replay."""
        match self.kind:
            case AnchorKind.END:
                return int(times.end[self.position]) + self.after_ns
            case AnchorKind.START:
                return int(times.start[self.position]) + self.after_ns
            case AnchorKind.CALL:
                return int(times.call_begin[self.position]) + self.after_ns
            case AnchorKind.CLOCK:
                return self.after_ns


class Scenario:
    """What changes would do to one device. Its graph is that of all devices: they share hosts, and wait together."""

    def __init__(self, trace: Trace, device: Device, part: Excerpt, graph: DependencyGraph) -> None:
        self.trace, self.device, self.part, self.graph = trace, device, part, graph

    @property
    def is_whole(self) -> bool:
        """Whether all of the steady stretch is replayed, and not some of its steps."""
        return self.part.rows is None

    def times(self, *edits: Edit) -> Times:
        """When everything would happen with these changes."""
        return replayed(edited(self.graph, edits))

    def steady_ns(self, *edits: Edit) -> int:
        """How long the steady stretch would take with these changes."""
        return self.of_steady(self.measured_ns(self.times(*edits)))

    def of_steady(self, part_ns: int) -> int:
        """What is so much of the part that is replayed, of the whole steady stretch."""
        return part_ns if self.is_whole else round(part_ns * self.device.steady_ns / self.part.measured_ns)

    def measured_ns(self, times: Times) -> int:
        """How long the part of the steady stretch that is replayed takes."""
        return sum(self.instant(times, end) - self.instant(times, start) for start, end in self.stretches)

    def saved_ns(self, *edits: Edit) -> int:
        """How much shorter the steady stretch would be; a change that makes it longer saves nothing."""
        return max(self.device.steady_ns - self.steady_ns(*edits), 0)

    @cached_property
    def stretches(self) -> list[tuple[int, int]]:
        """What is measured, as recorded: the steady stretch, of a range's instances each, or some of its steps."""
        return [(int(start), int(end)) for start, end in self.part.measured]

    def instant(self, times: Times, instant_ns: int) -> int:
        """Where an instant of the recording lies in a replay."""
        return self.anchor(instant_ns).in_replay(times)

    def anchor(self, instant_ns: int) -> Anchor:
        """What an instant of the recording moves with: what ends, is called or starts there, else what ended before."""
        recorded, work = self.graph.recorded, self.part.work
        ended = self._ended_by(instant_ns)
        if ended >= 0 and work.end_ns[ended] == instant_ns:
            return Anchor(AnchorKind.END, ended, 0)
        call = int(np.searchsorted(recorded.call_begin, instant_ns))
        if call < len(recorded.call_begin) and recorded.call_begin[call] == instant_ns:
            return Anchor(AnchorKind.CALL, call, 0)
        started = int(np.searchsorted(work.start_ns, instant_ns))
        if started < len(work) and work.start_ns[started] == instant_ns:
            return Anchor(AnchorKind.START, started, 0)
        if ended < 0:
            return Anchor(AnchorKind.CLOCK, -1, instant_ns)
        return Anchor(AnchorKind.END, ended, instant_ns - int(work.end_ns[ended]))

    def _ended_by(self, instant_ns: int) -> int:
        """The operation of the device that ended last up to an instant; -1 for none."""
        own, end = self._by_end
        place = int(np.searchsorted(end, instant_ns, side="right")) - 1
        return int(own[place]) if place >= 0 else -1

    @cached_property
    def _by_end(self) -> tuple[Positions, Ints]:
        work = self.part.work
        own = work.on(self.device.gpu)
        own = own[np.argsort(work.end_ns[own], kind="stable")]
        return own, work.end_ns[own]


def scenario(trace: Trace, device: Device, *, sampled: bool = False) -> Scenario:
    """For one device of a trace; `sampled`: of a long run of like steps only as many as are needed."""
    part = excerpt(trace, device) if sampled else whole(device)
    return Scenario(trace, device, part, dependency_graph(trace, part.host, part.work))


def scenarios(trace: Trace, devices: Sequence[Device]) -> tuple[Scenario, ...]:
    """For all devices of a trace, with one graph."""
    parts = [(device, whole(device)) for device in devices]
    graph = dependency_graph(trace, parts[0][1].host, parts[0][1].work) if parts else None
    return tuple(Scenario(trace, device, part, graph) for device, part in parts if graph is not None)
