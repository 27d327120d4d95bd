"""What the phases of a step cost: a device in; each phase, what lies inside and between them, and each layer, out.

All times are of the steady steps together, and sum to them: the work of the phases, and for each place between or
inside them its idle time and its work of no phase. A layer has its phases and what comes before each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.phases.phase_books import Pieces, phase_pieces
from gpuledger.analyse.phases.work_phases import NOWHERE, Asked, ToldBy, WorkPhases, work_phases
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import intersection, total, union


@dataclass(frozen=True, slots=True)
class PhaseCost:
    """One phase."""

    phase: str
    told_by: tuple[ToldBy, ...]
    visits: int
    """How often it was begun, by a layer or after another phase."""
    busy_ns: int
    """When the GPU worked at it and at nothing more important."""
    hidden_ns: int
    """When it ran beside something more important."""


@dataclass(frozen=True, slots=True)
class BetweenPhases:
    """What lies between two phases, or inside one."""

    before: str | None
    after: str | None
    """None: the window begins, or ends, there."""
    inside: bool
    """Whether the same phase of the same layer and step goes on."""
    times: int
    idle_ns: int
    other_ns: int
    """Work of no phase."""
    largest_cause: Cause | None
    """What most of the idle time is due to; None where there is none."""


@dataclass(frozen=True, slots=True)
class LayerCost:
    """One layer, all steps together."""

    layer: int | None
    """None: what is in no layer."""
    busy_ns: tuple[int, ...]
    """By phase."""
    idle_ns: int
    other_ns: int

    @property
    def length_ns(self) -> int:
        return sum(self.busy_ns) + self.idle_ns + self.other_ns


@dataclass(frozen=True, slots=True)
class PhaseCosts:
    """The phases of one GPU's steady steps."""

    gpu: int
    steps: int | None
    """None: no steps were found, the window is one."""
    whole_ns: int
    phases: tuple[PhaseCost, ...]
    between: tuple[BetweenPhases, ...]
    """The most time first."""
    layers: tuple[LayerCost, ...] | NotMeasured

    @property
    def idle_ns(self) -> int:
        return sum(place.idle_ns for place in self.between)

    @property
    def other_ns(self) -> int:
        return sum(place.other_ns for place in self.between)

    @property
    def tell_the_most(self) -> bool:
        """Whether the phases hold most of the GPU's work."""
        return sum(cost.busy_ns for cost in self.phases) >= self.other_ns


def phase_costs(trace: Trace, device: Device, asked: Asked = ()) -> PhaseCosts:
    """Sum up the phases of one GPU; `asked` are phases of the user's own. Where there are none, all work is of none."""
    work = work_phases(trace, device, asked)
    pieces = phase_pieces(device, work)
    steady = device.steady_tiles[pieces.tile]
    return PhaseCosts(
        gpu=device.gpu,
        steps=None if device.steps is None else device.step_count,
        whole_ns=device.steady_ns,
        phases=tuple(_phase(device, work, pieces, steady, phase) for phase in range(len(work.phases))),
        between=_between(device, work, pieces, np.flatnonzero(steady & (pieces.phase == NOWHERE))),
        layers=_layers(work, pieces, np.flatnonzero(steady)),
    )


def _phase(device: Device, work: WorkPhases, pieces: Pieces, steady: NDArray[np.bool_], phase: int) -> PhaseCost:
    own = device.work.of(device.gpu)
    mine, here = np.flatnonzero(work.phase == phase), steady & (pieces.phase == phase)
    running = intersection(union(own.start_ns[mine], own.end_ns[mine]), device.steady_stretches)
    busy_ns = int(pieces.work_ns[here].sum())
    return PhaseCost(
        phase=work.phases[phase],
        told_by=tuple(source for source in ToldBy if (work.told_by[mine] == source).any()),
        visits=int((here & pieces.begins).sum()),
        busy_ns=busy_ns,
        hidden_ns=total(running) - busy_ns,
    )


def _between(device: Device, work: WorkPhases, pieces: Pieces, chosen: Positions) -> tuple[BetweenPhases, ...]:
    """The places between phases, all stretches of the same kind together."""
    names = (*work.phases, None)  # NOWHERE is the last
    columns = (pieces.before[chosen], pieces.after[chosen], pieces.inside[chosen])
    first, place = group(*columns)
    idle, other = (
        sweep.fold("sum", place, amounts[chosen], np.zeros(len(first), np.int64))
        for amounts in (pieces.idle_ns, pieces.work_ns)
    )
    gaps = device.ledger.gaps
    piece = sweep.search(pieces.start_ns[chosen], gaps.start_ns, "right") - 1
    is_inside = (piece >= 0) & device.steady_gaps
    is_inside[is_inside] = gaps.start_ns[is_inside] < pieces.end_ns[chosen[piece[is_inside]]]
    gap_place = np.where(is_inside, np.append(place, NOWHERE)[piece], NOWHERE)
    times = np.maximum(np.bincount(place[pieces.begins[chosen]], minlength=len(first)), 1)
    lines = []
    for number, row in enumerate(first.tolist()):
        before, after, inside = (column[row] for column in columns)
        causes = gaps.by_cause.sums(np.flatnonzero(gap_place == number))
        lines.append(
            BetweenPhases(
                before=names[before],
                after=names[after],
                inside=bool(inside),
                times=int(times[number]),
                idle_ns=int(idle[number]),
                other_ns=int(other[number]),
                largest_cause=max(causes, key=lambda cause: causes[cause], default=None),
            )
        )
    held = [line for line in lines if line.idle_ns or line.other_ns]
    return tuple(sorted(held, key=lambda line: (-line.idle_ns - line.other_ns, str(line))))


def _layers(work: WorkPhases, pieces: Pieces, steady: Positions) -> tuple[LayerCost, ...] | NotMeasured:
    """The layers in the order of their numbers, and what is in none."""
    layer, phase = pieces.layer[steady], pieces.phase[steady]
    if not (layer != NOWHERE).any():
        return NotMeasured(say("no range is named after a layer, and steps disagree on how many there are"))
    first, number = group(layer)
    columns = len(work.phases) + 2
    books = np.zeros(len(first) * columns, np.int64)
    column = np.where(phase == NOWHERE, columns - 1, phase)
    sweep.fold("sum", number * columns + column, pieces.work_ns[steady], books)
    sweep.fold("sum", number * columns + columns - 2, pieces.idle_ns[steady], books)
    rows = zip(layer[first].tolist(), books.reshape(-1, columns).tolist(), strict=True)
    costs = [LayerCost(None if of == NOWHERE else of, tuple(row[:-2]), row[-2], row[-1]) for of, row in rows]
    return tuple(sorted(costs, key=lambda cost: (cost.layer is None, cost.layer)))
