"""Every nanosecond of a GPU's window by phase: activities with their phases in, a line for each instant out.

An instant at which the GPU works belongs to the activity that the ledger books it to: compute before communication
before copies, of several the one that started first. So what runs beside something more important is hidden, and no
instant counts twice. Stretches between work of phases are idle, or hold work of no phase. A stretch is *inside* a phase
where the same phase of the same layer and step goes on after it (where layers are not known: and no other work lies in
it); else it is *between* two, named by the phase before it and the phase after it. A stretch before the first phase, or
after the last, has an end of the window on one side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.phases.work_phases import NOWHERE, WorkPhases
from gpuledger.errors import BooksDoNotBalance
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import Device
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints, Spans, covered, cut_at, cut_to, shares_in_order, union

_AGREEING: Final = 0.9
"""The share of steps with the same number of layers for them to be layers: a profiler may lose a kernel in one."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Stretches of one GPU's window, in order and cut where steps begin. Columns of equal length."""

    start_ns: Ints
    end_ns: Ints
    tile: Positions
    """Which row of the ledger's books it lies in."""
    phase: Ints
    """The phase that runs in it; NOWHERE in stretches between, which have a `before` and an `after`."""
    before: Ints
    after: Ints
    """The phases before and after a stretch; NOWHERE at the ends of the window. Those of work are its own."""
    inside: NDArray[np.bool_]
    """Whether the same phase of the same layer and step goes on after a stretch."""
    cycle: Ints
    """The layer that a piece belongs to, as `WorkPhases.instance` or the how-manieth; of a stretch, that of what
    comes after it. NOWHERE for none."""
    layer: Ints
    """That layer's number; NOWHERE for none."""
    work_ns: Ints
    """How much of it the GPU worked: all of a phase's, of a stretch that in no phase."""
    idle_ns: Ints
    begins: NDArray[np.bool_]
    """Which stretches begin here, rather than at a cut; of work, where phase, layer or step is another than before."""

    def __len__(self) -> int:
        return len(self.start_ns)


def phase_pieces(device: Device, work: WorkPhases) -> Pieces:
    """The window of one GPU, taken apart."""
    start, end, activity = _booked(device)
    of_phase = work.phase[activity] != NOWHERE
    other = union(start[~of_phase], end[~of_phase])
    start, end, activity = start[of_phase], end[of_phase], activity[of_phase]
    phase = work.phase[activity]
    parted = np.append(True, covered(other, end[:-1], start[1:]) > 0)[: len(phase)]
    step = sweep.search(device.ledger.tiles_ns, start, "right")
    steps_on = np.append(True, step[1:] != step[:-1])[: len(phase)]
    cycle, layer = _layers(device, work, activity, phase, step, parted | steps_on)
    changes = (phase[1:] != phase[:-1]) | (cycle[1:] != cycle[:-1])
    opens = steps_on | np.append(True, changes)[: len(phase)] | (parted & (cycle == NOWHERE))
    window = device.ledger.window
    ends = np.full(1, NOWHERE)
    between = _Rows(
        start_ns=np.append(window.start_ns, end),
        end_ns=np.append(start, window.end_ns),
        phase=np.full(len(start) + 1, NOWHERE),
        before=np.append(ends, phase),
        after=np.append(phase, ends),
        inside=np.append(~opens, False) & (np.arange(len(start) + 1) > 0),
        cycle=np.append(cycle, ends),
        layer=np.append(layer, ends),
        begins=np.ones(len(start) + 1, np.bool_),
    )
    own = _Rows(start, end, phase, phase, phase, np.zeros(len(start), np.bool_), cycle, layer, opens)
    return _checked(device, _cut(device, own, between, other))


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Columns of pieces before they are cut at the edges of steps."""

    start_ns: Ints
    end_ns: Ints
    phase: Ints
    before: Ints
    after: Ints
    inside: NDArray[np.bool_]
    cycle: Ints
    layer: Ints
    begins: NDArray[np.bool_]


def _booked(device: Device) -> tuple[Ints, Ints, Positions]:
    """What the GPU worked at, each instant once, in order: starts, ends, and the activity it is booked to."""
    own, split = device.work.of(device.gpu), device.ledger.busy
    parts = []
    for state, where in ((State.COMPUTE, split.stretches), (State.COMM, split.comm), (State.COPY, split.copy)):
        rows = np.flatnonzero(own.state == state)
        start, end, whose = cut_to(*shares_in_order(own.start_ns[rows], own.end_ns[rows]), where)
        parts.append((start, end, rows[whose]))
    start, end, activity = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    order = order[end[order] > start[order]]
    return start[order], end[order], activity[order]


def _layers(
    device: Device, work: WorkPhases, activity: Positions, phase: Ints, step: Ints, parted: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """For each piece of work its layer's range and number; where no range has any, layers are counted.

    A layer then begins where the first phase of a layer comes after another one, or where there is one alone after work
    of no phase or in another step. Its number counts from the step that it begins in; without steps there is none, and
    none where steps do not agree on how many there are: those are no layers of a model.
    """
    nowhere = np.full(len(activity), NOWHERE)
    if (work.layer != NOWHERE).any():
        return work.instance[activity], work.layer[activity]
    if device.steps is None or not len(activity):
        return nowhere, nowhere
    leads = phase == 0
    begins = leads & (parted if len(work.phases) == 1 else np.append(True, ~leads[:-1]))
    cycle = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    counts = np.bincount(step[first] - 1, minlength=len(device.steady_tiles))[device.steady_tiles]
    if len(first) < 2 or (counts == np.bincount(counts).argmax()).mean() < _AGREEING:
        return nowhere, nowhere
    earlier = np.searchsorted(step[first], step[first])  # how many layers began before the step that each is in
    number = np.append(np.arange(len(first)) - earlier, NOWHERE)
    return cycle, number[cycle]


def _cut(device: Device, own: _Rows, between: _Rows, other: Spans) -> Pieces:
    """Both kinds of pieces together, cut where steps begin, with what of each is work and what is idle."""
    edges = device.ledger.tiles_ns
    both = {name: np.concatenate((getattr(own, name), getattr(between, name))) for name in _Rows.__slots__}
    start, end, whose = cut_at(both["start_ns"], both["end_ns"], edges[1:-1])
    order = np.argsort(start, kind="stable")
    order = order[end[order] > start[order]]
    start, end, whose = start[order], end[order], whose[order]
    is_own = both["phase"][whose] != NOWHERE
    idle_ns = covered(device.ledger.busy.idle, start, end)
    return Pieces(
        start_ns=start,
        end_ns=end,
        tile=sweep.search(edges, start, "right") - 1,
        work_ns=np.where(is_own, end - start, covered(other, start, end)),
        idle_ns=np.where(is_own, 0, idle_ns),
        begins=both["begins"][whose] & (start == both["start_ns"][whose]),
        **{name: both[name][whose] for name in ("phase", "before", "after", "inside", "cycle", "layer")},
    )


def _checked(device: Device, pieces: Pieces) -> Pieces:
    """The pieces, if they sum to each tile of the ledger."""
    edges = device.ledger.tiles_ns
    sums = np.zeros(len(edges) - 1, np.int64)
    sweep.fold("sum", pieces.tile, pieces.work_ns + pieces.idle_ns, sums)
    length = covered(device.ledger.busy.stretches, edges[:-1], edges[1:])
    if not np.array_equal(sums, length):
        raise BooksDoNotBalance(
            f"the phases of GPU {device.gpu} are off by {int(np.abs(sums - length).sum())} ns",
            found=f"{len(pieces)} pieces, {len(length)} tiles",
            hint="this is a bug in gpuledger; please report it with the output of `gpuledger info`",
        )
    return pieces
