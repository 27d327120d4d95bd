"""One device's steady stretch, replayed with changes: edits in, how long it would take out.

All of a trace is replayed, or of a long run of like steps as many as are needed (`ReplayWindow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.edits import Edit, apply_edits
from gpuledger.replay.graph import DependencyGraph, Times
from gpuledger.replay.passes import replay_times
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, Spans, clip, total

ENOUGH: Final = 60_000  # operations replayed of a run of steps that has more

ENOUGH_FOLLOWED: Final = 250_000
"""So many where the critical path is to be followed: four times what savings need, as it also names what is rare."""

FEWEST_STEPS: Final = 5  # but no fewer steps than this


class ReplayWindow(Struct, frozen=True, eq=False):
    """Part of a trace, with one device's steady stretch as far as it is measured."""

    host: Host
    work: Activities
    rows: Positions | None  # which of the trace's activities these are; None: all
    measured: Spans
    steps: int  # how many steps are measured; 1 where there are none

    @property
    def measured_ns(self) -> int:
        return total(self.measured)

    def places(self, rows: Positions) -> tuple[Positions, Positions]:
        """Which of the trace's activities are here, as positions in `rows`, and where."""
        if self.rows is None:
            return np.arange(len(rows)), rows
        place = np.minimum(np.searchsorted(self.rows, rows), max(len(self.rows) - 1, 0))
        here = np.flatnonzero(self.rows[place] == rows) if len(self.rows) else np.empty(0, np.intp)
        return here, place[here]


def replay_window(
    trace: Trace, device: Device, *, enough: int = ENOUGH, fewest: int = FEWEST_STEPS, lead: int = 1
) -> ReplayWindow:
    """What is replayed for a device: so many operations, but no fewer steps than that, and `lead` steps before them."""
    if device.steps is None:
        return whole(device)
    warm_up, count, edges = device.steps.warm_up, len(device.steps), device.steps.edges_ns
    operations_per_step = max(len(device.work) // max(count, 1), 1)
    steps = max(enough // operations_per_step, fewest)
    if count - warm_up <= 2 * steps:
        return whole(device)
    first = max(warm_up + (count - warm_up - steps) // 2, 1)
    measured = Span(int(edges[first]), int(edges[first + steps]))
    host, work, rows = _cut(trace, device, Span(int(edges[first - lead]), measured.end_ns))
    return ReplayWindow(host, work, rows, clip(device.steady_stretches, measured), steps)


def whole(device: Device) -> ReplayWindow:
    """All of it."""
    return ReplayWindow(device.host, device.work, None, device.steady_stretches, device.step_count)


def _cut(trace: Trace, device: Device, span: Span) -> tuple[Host, Activities, Positions]:
    """The calls and activities of a stretch; what was launched before it keeps its place in its stream."""
    host, work = device.host, device.work
    first, last = np.searchsorted(work.start_ns, span)
    rows = np.arange(first, last)
    calls = host.calls
    inside = (calls["end_ns"] > span.start_ns) & (calls["start_ns"] < span.end_ns)
    place = np.cumsum(inside) - 1
    part = Host(trace, calls.where(inside), host.kinds[inside])
    kept = work.at(rows)
    launch = kept.launch
    known = (launch >= 0) & inside[launch] if len(calls) else launch >= 0
    return part, kept.launched_by(np.where(known, place[launch] if len(calls) else -1, -1)), rows


class AnchorKind(Enum):
    """What an instant of the recording moves with in a replay."""

    END = auto()
    START = auto()
    CALL = auto()
    CLOCK = auto()  # nothing: it keeps its time


class Anchor(Struct, frozen=True):
    """An instant of the recording, told by what it moves with."""

    kind: AnchorKind
    position: int  # of the operation that ends or starts, or of the call that begins, by then
    after_ns: int

    def in_replay(self, times: Times) -> int:
        moved = {AnchorKind.END: times.end, AnchorKind.START: times.start, AnchorKind.CALL: times.call_begin}
        return self.after_ns + (int(moved[self.kind][self.position]) if self.kind in moved else 0)


class Scenario:
    """What changes would do to one device. Its graph is that of all devices: they share hosts, and wait together."""

    def __init__(self, trace: Trace, device: Device, part: ReplayWindow, graph: DependencyGraph) -> None:
        self.trace, self.device, self.part, self.graph = trace, device, part, graph
        self._saved_ns: dict[tuple[Edit, ...], int] = {}

    @property
    def is_whole(self) -> bool:
        """Whether all of the steady stretch is replayed, and not some of its steps."""
        return self.part.rows is None

    def times(self, *edits: Edit) -> Times:
        """When everything would happen with these changes."""
        return replay_times(apply_edits(self.graph, edits))

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
        """How much shorter the steady stretch would be; a change that makes it longer saves nothing. The same changes
        are replayed once: rules ask for each of theirs, and their order for the first of them again."""
        if edits not in self._saved_ns:
            self._saved_ns[edits] = max(self.device.steady_ns - self.steady_ns(*edits), 0)
        return self._saved_ns[edits]

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
        own, end = self._by_end
        last = int(np.searchsorted(end, instant_ns, side="right")) - 1
        if last >= 0 and end[last] == instant_ns:
            return Anchor(AnchorKind.END, int(own[last]), 0)
        for kind, times in ((AnchorKind.CALL, recorded.call_begin), (AnchorKind.START, work.start_ns)):
            position = int(np.searchsorted(times, instant_ns))
            if position < len(times) and times[position] == instant_ns:
                return Anchor(kind, position, 0)
        if last < 0:
            return Anchor(AnchorKind.CLOCK, -1, instant_ns)
        return Anchor(AnchorKind.END, int(own[last]), instant_ns - int(end[last]))

    @cached_property
    def _by_end(self) -> tuple[Positions, Ints]:
        """The operations of the device in the order in which they end, and when."""
        work = self.part.work
        own = work.on(self.device.gpu)
        own = own[np.argsort(work.end_ns[own], kind="stable")]
        return own, work.end_ns[own]


def scenario(trace: Trace, device: Device, *, sampled: bool = False) -> Scenario:
    """For one device of a trace; `sampled`: of a long run of like steps only as many as are needed."""
    return _of_part(trace, device, replay_window(trace, device) if sampled else whole(device))


def scenarios(trace: Trace, devices: Sequence[Device], *, enough: int | None = None) -> tuple[Scenario, ...]:
    """For all devices of a trace, with one graph of all; with `enough`, of a long run of steps so many operations."""
    parts = [whole(device) if enough is None else replay_window(trace, device, enough=enough) for device in devices]
    return tuple(_of_part(trace, device, part) for device, part in zip(devices, parts, strict=True))


def _of_part(trace: Trace, device: Device, part: ReplayWindow) -> Scenario:
    """The graph of a whole trace is that of all its devices."""
    if part.rows is not None:
        return Scenario(trace, device, part, dependency_graph(trace, part.host, part.work))
    return Scenario(trace, device, part, device.host.once(_whole_graph, trace, device))


def _whole_graph(trace: Trace, device: Device) -> DependencyGraph:
    """The graph of a whole trace, with where its window begins: with a step that opens before it calls anything."""
    return replace(dependency_graph(trace, device.host, device.work), opens_ns=device.zero_ns)
