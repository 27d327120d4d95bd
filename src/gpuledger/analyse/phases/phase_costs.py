"""What the phases of a step cost: a device in; each phase, what lies inside and between them, and each layer, out.

All times are of the steady steps together, and sum to them: the work of the phases, and for each place between or
inside them its idle time and its work of no phase. A layer has its phases and what comes before each of them.

`phase_pieces` takes the whole window apart, a phase or a place between for each instant.
"""

from __future__ import annotations

from functools import reduce
from typing import Annotated, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.phases.work_phases import NOWHERE, Asked, Numbers, ToldBy, WorkPhases, work_phases
from gpuledger.catalog.kernel_families import COMMUNICATION
from gpuledger.errors import BooksDoNotBalance
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, Row, Unit, share
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group, take
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import (
    Ints,
    Span,
    Spans,
    clip,
    covered,
    cut_to,
    cuts_inside,
    either,
    intersection,
    shares_in_order,
    total,
    union,
)

FEWEST_PHASES: Final = 2
"""So few of a layer's phases are told in a report; of one alone its family's line says as much."""
IDLE, OTHER_WORK = "idle", "other work"
_TOLD_BY: Final = {
    ToldBy.USER: "--phase",
    ToldBy.RANGE: say("ranges"),
    ToldBy.KERNEL: say("kernel names"),
    ToldBy.ORDER: say("kernel order"),
}
ENOUGH_FOR_PHASES: Final = 8_000
"""So many activities' phases are sampled, or one step's: all steps are alike, and every report pays."""
_AGREEING: Final = 0.9
"""The share of steps with the same number of layers for them to be layers: a profiler may lose a kernel in one."""


class Pieces(Struct, frozen=True, eq=False):
    """Stretches of one GPU's window, in order and cut where steps begin. Columns of equal length."""

    start_ns: Ints
    end_ns: Ints
    tile: Numbers  # which row of the ledger's books it lies in
    phase: Numbers  # the phase that runs in it; NOWHERE in stretches between, which have a `before` and an `after`
    before: Numbers
    after: (
        Numbers  # the phases before and after a stretch; NOWHERE at the ends of the window. Those of work are its own.
    )
    inside: NDArray[np.bool_]  # whether the same phase of the same layer and step goes on after a stretch
    cycle: Numbers
    """The layer that a piece belongs to, as `WorkPhases.instance` or counted from 0; of a stretch, that of what
    comes after it. NOWHERE for none."""
    layer: Numbers  # that layer's number; NOWHERE for none
    work_ns: Ints  # how much of it the GPU worked: all of a phase's, of a stretch that in no phase
    idle_ns: Ints
    begins: NDArray[np.bool_]
    """Which stretches begin here, rather than at a cut; of work, where phase, layer or step is another than before."""

    def __len__(self) -> int:
        return len(self.start_ns)


def phase_pieces(device: Device, work: WorkPhases) -> Pieces:
    """The window of one GPU, taken apart."""
    window, edges, nowhere = device.ledger.window, device.ledger.tiles_ns, np.full(1, NOWHERE, np.int16)
    start, end, other, *columns = _work_of_phases(device, work)
    count = len(start)
    # the work of phases, then the stretches before, between and after it: together they fill the window
    whole = np.concatenate((start, [window.start_ns], end))
    order = np.flatnonzero(np.concatenate((end, start, [window.end_ns])) > whole).astype(np.int32)
    order = take(order, np.argsort(take(whole, order), kind="stable").astype(np.int32))
    del start, end  # all are as long as the profile
    start = take(whole, order)
    del whole
    whose, later, cut = cuts_inside(start, np.append(start[1:], window.end_ns), edges[1:-1])
    whose = whose.astype(np.int32)
    start = take(start, whose)
    start[later] = cut
    place = take(order, whose)
    del order, whose
    tile = sweep.search(edges, start, "right").astype(np.int32) - np.int32(1)
    is_own = place < count
    place[~is_own] -= count
    after, before, cycle, layer, begins = (take(columns.pop(0), place) for _ in range(5))
    before[is_own] = after[is_own]
    del place
    inside = ~(begins | is_own)
    begins |= ~is_own
    begins[later] = False
    end = np.append(start[1:], window.end_ns)
    work_ns, idle_ns = (covered(spans, start, end) for spans in (other, device.ledger.busy.idle))
    np.subtract(end, start, out=work_ns, where=is_own)
    idle_ns[is_own] = 0
    phase = np.where(is_own, after, nowhere)
    pieces = Pieces(start, end, tile, phase, before, after, inside, cycle, layer, work_ns, idle_ns, begins)
    _check_balance(device, pieces)
    return pieces


def _work_of_phases(
    device: Device, work: WorkPhases
) -> tuple[Ints, Ints, Spans, Numbers, Numbers, Numbers, Numbers, NDArray[np.bool_]]:
    """What the GPU worked at in phases, piece by piece: starts, ends; and when it worked at what is of none.

    Then the phase of each, the one before it, its layer's instance and number, and whether it begins one; at the end
    of these what holds for a stretch that nothing comes after.
    """
    start, end, activity = _booked_work(device, device.work.of(device.gpu), device.ledger.window)
    of_phase = work.phase[activity] != NOWHERE
    other = union(start[~of_phase], end[~of_phase])
    start, end, activity = start[of_phase], end[of_phase], activity[of_phase]
    phase, count = work.phase[activity].astype(np.int16), len(start)
    parted = np.append(True, covered(other, end[:-1], start[1:]) > 0)[:count]
    step = sweep.search(device.ledger.tiles_ns, start, "right").astype(np.int32)
    before, opens, cycle, layer = _in_order(device, work, activity, phase, step, parted)
    del activity, parted, step
    nowhere = np.full(1, NOWHERE, np.int16)
    before = np.append(before, phase[-1:] if count else nowhere)
    phase, cycle, layer = (np.append(column, nowhere) for column in (phase, cycle, layer))
    return start, end, other, phase, before, cycle, layer, np.append(opens, True)


def _in_order(
    device: Device, work: WorkPhases, activity: Numbers, phase: Numbers, step: Numbers, parted: NDArray[np.bool_]
) -> tuple[Numbers, NDArray[np.bool_], Numbers, Numbers]:
    """Of each piece of work the phase before it, whether it begins one, its layer's instance and number.

    Ranks that share a GPU go through their phases each on its own.
    """
    cycle, layer = np.full((2, len(activity)), NOWHERE, np.int32)
    before, opens, cycles = np.full(len(activity), NOWHERE, np.int16), np.zeros(len(activity), np.bool_), 0
    rank, numbered = work.rank[activity], bool((work.layer != NOWHERE).any())
    ranks = distinct(rank)
    for member in ranks.tolist():
        own = np.flatnonzero(rank == member) if len(ranks) > 1 else slice(None)
        now = phase[own]
        steps_on = np.append(True, np.diff(step[own]) != 0)[: len(now)]
        number, layer[own] = _layers_of_work(device, work, activity[own], now, step[own], parted[own] | steps_on)
        cycle[own] = number if numbered else np.where(number == NOWHERE, NOWHERE, number + cycles)
        cycles = int(cycle.max(initial=-1)) + 1
        before[own] = np.append(NOWHERE, now)[: len(now)]
        changes = (np.diff(now) != 0) | (np.diff(cycle[own]) != 0)
        opens[own] = steps_on | np.append(True, changes)[: len(now)] | (parted[own] & (cycle[own] == NOWHERE))
    return before, opens, cycle, layer


def _booked_work(device: Device, own: Activities, window: Span) -> tuple[Ints, Ints, Numbers]:
    """What the GPU worked at in a window, each instant once, in order: starts, ends, and the activity that has it."""
    split, parts = device.ledger.busy, []
    for state, where in ((State.COMPUTE, split.stretches), (State.COMM, split.comm), (State.COPY, split.copy)):
        rows = np.flatnonzero(own.state == state)
        start, end, whose = cut_to(*shares_in_order(own.start_ns[rows], own.end_ns[rows]), clip(where, window))
        real = end > start
        parts.append((start[real], end[real], rows[whose[real]].astype(np.int32)))
        del rows, start, end, whose, real
    starts, ends, activities = (list(column) for column in zip(*parts, strict=True))
    del parts
    start = np.concatenate(starts)
    starts.clear()
    order = np.argsort(start, kind="stable").astype(np.int32)
    start = take(start, order)
    end = take(np.concatenate(ends), order)
    ends.clear()
    return start, end, take(np.concatenate(activities), order)


def _layers_of_work(
    device: Device, work: WorkPhases, activity: Numbers, phase: Numbers, step: Numbers, parted: NDArray[np.bool_]
) -> tuple[Numbers, Numbers]:
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


def _check_balance(device: Device, pieces: Pieces) -> None:
    edges = device.ledger.tiles_ns
    sums = np.zeros(len(edges) - 1, np.int64)
    for amounts in (pieces.work_ns, pieces.idle_ns):
        sweep.fold("sum", pieces.tile, amounts, sums)
    length = covered(device.ledger.busy.stretches, edges[:-1], edges[1:])
    if not np.array_equal(sums, length):
        raise BooksDoNotBalance(
            f"the phases of GPU {device.gpu} are off by {int(np.abs(sums - length).sum())} ns",
            found=f"{len(pieces)} pieces, {len(length)} tiles",
            hint="this is a bug in gpuledger; please report it with the output of `gpuledger info`",
        )


class PhaseRow(Row, frozen=True):
    """One phase in the steady steps; with idle time and other work they sum to them."""

    gpu: Gpu
    phase: Annotated[str, Label(say("Phase"), meaning="in the order of a layer; then idle, other work")]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, is_summed=True, meaning="without `hidden_ns`")]
    per_step_ns: Annotated[float | None, Label(say("Per step"), Unit.MEAN_NS, is_summed=True)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, is_summed=True)]
    visits: Annotated[
        int | None, Label(say("Times"), Unit.COUNT, detail=2, meaning="begun by a layer or after another phase")
    ]
    per_visit_ns: Annotated[float | None, Label(say("Each"), Unit.MEAN_NS, detail=1)]
    hidden_ns: Annotated[int | None, Label(say("Hidden"), Unit.NS, detail=1, meaning="beside something more important")]
    told_by: Annotated[tuple[str, ...], Label(say("Source"), detail=2, separator=", ")]


class PhaseGapRow(Row, frozen=True):
    """What lies between two phases, or inside one, in the steady steps."""

    gpu: Gpu
    before: Annotated[str | None, Label(say("From"), unknown=say("(start)"), meaning="null: the window begins")]
    after: Annotated[str | None, Label(say("To"), unknown=say("(end)"), meaning="null: the window ends")]
    is_inside: Annotated[bool, Label(say("Inside"), meaning="the same phase of the same layer and step goes on")]
    times: Annotated[int, Label(say("Times"), Unit.COUNT, detail=3)]
    idle_ns: Annotated[int, Label(say("Idle"), Unit.NS, detail=1, is_summed=True)]
    other_ns: Annotated[int, Label(say("Other work"), Unit.NS, detail=2, is_summed=True, meaning="of no phase")]
    idle_per_step_ns: Annotated[float | None, Label(say("Idle/step"), Unit.MEAN_NS, is_summed=True)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, is_summed=True)]
    cause: Annotated[Cause | None, Label(say("Largest cause"), meaning="of the idle time")]


class PhaseLayerRow(Row, frozen=True):
    """One layer: its phases, and idle time and other work before them. Means per step; without steps, the window's."""

    gpu: Gpu
    layer: Annotated[int | None, Label(say("Layer"), unknown=say("(in no layer)"), meaning="null: in none")]
    phases_ns: Annotated[dict[str, float], Label(say("Phases"), Unit.MEAN_NS, is_summed=True)]
    idle_ns: Annotated[float, Label(say("Idle"), Unit.MEAN_NS, is_summed=True)]
    other_ns: Annotated[float, Label(say("Other work"), Unit.MEAN_NS, is_summed=True, detail=1)]
    length_ns: Annotated[float, Label(say("Whole"), Unit.MEAN_NS, is_summed=True)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, is_summed=True, detail=2)]


class PhaseCosts(Struct, frozen=True):
    """The phases of one GPU's steady steps."""

    gpu: int
    steps: int | None  # None: no steps were found, the window is one
    whole_ns: int
    phases: tuple[PhaseRow, ...]
    between: tuple[PhaseGapRow, ...]  # the most time first
    layers: tuple[PhaseLayerRow, ...] | NotMeasured

    @property
    def idle_ns(self) -> int:
        return sum(place.idle_ns for place in self.between)

    @property
    def other_ns(self) -> int:
        return sum(place.other_ns for place in self.between)

    @property
    def of_layers_ns(self) -> dict[str, int]:
        """What each phase takes, then idle time and work of none, which sum to the whole; empty where no layers are."""
        if isinstance(self.layers, NotMeasured) or not self.tell_the_most:
            return {}
        return {cost.phase: cost.time_ns for cost in self.phases} | {IDLE: self.idle_ns, OTHER_WORK: self.other_ns}

    @property
    def tell_the_most(self) -> bool:
        """Whether the phases hold most of the GPU's work."""
        return sum(cost.time_ns for cost in self.phases) >= self.other_ns

    @property
    def rows(self) -> tuple[PhaseRow, ...]:
        """The phases, then idle time and work of none."""
        rest = (
            PhaseRow(
                self.gpu, name, time_ns, self.per_step(time_ns), share(time_ns, self.whole_ns), None, None, None, ()
            )
            for name, time_ns in ((say("idle"), self.idle_ns), (say("other work"), self.other_ns))
        )
        return (*self.phases, *rest)

    def per_step(self, time_ns: int) -> float | None:
        """The mean of the steps; None without any."""
        return None if self.steps is None else time_ns / self.steps


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
        layers=_layers(device, work, pieces, steady),
    )


def _phase(device: Device, work: WorkPhases, pieces: Pieces, steady: NDArray[np.bool_], phase: int) -> PhaseRow:
    own = device.work.of(device.gpu)
    mine, here = np.flatnonzero(work.phase == phase), steady & (pieces.phase == phase)
    parts = [mine[part] for part in sweep.parts(len(mine))]
    ran = reduce(either, (union(own.start_ns[part], own.end_ns[part]) for part in parts), union([], []))
    running = intersection(ran, device.steady_stretches)
    busy_ns, visits = int(pieces.work_ns[here].sum()), int((here & pieces.begins).sum())
    return PhaseRow(
        gpu=device.gpu,
        phase=work.phases[phase],
        time_ns=busy_ns,
        per_step_ns=None if device.steps is None else busy_ns / device.step_count,
        share=share(busy_ns, device.steady_ns),
        visits=visits,
        per_visit_ns=busy_ns / visits if visits else None,
        hidden_ns=total(running) - busy_ns,
        told_by=tuple(_TOLD_BY[source] for source in ToldBy if (work.told_by[mine] == source).any()),
    )


def _between(device: Device, work: WorkPhases, pieces: Pieces, chosen: Positions) -> tuple[PhaseGapRow, ...]:
    """The places between phases, all stretches of the same kind together."""
    names = (*work.phases, None)  # NOWHERE is the last
    columns = (pieces.before[chosen], pieces.after[chosen], pieces.inside[chosen])
    first, place = group(*columns)
    idle, other = (
        sweep.sums(place, amounts[chosen], len(first)).tolist() for amounts in (pieces.idle_ns, pieces.work_ns)
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
            PhaseGapRow(
                gpu=device.gpu,
                before=names[before],
                after=names[after],
                is_inside=bool(inside),
                times=int(times[number]),
                idle_ns=idle[number],
                other_ns=other[number],
                idle_per_step_ns=None if device.steps is None else idle[number] / device.step_count,
                share=share(idle[number] + other[number], device.steady_ns),
                cause=max(causes, key=lambda cause: causes[cause], default=None),
            )
        )
    held = [line for line in lines if line.idle_ns or line.other_ns]
    return tuple(sorted(held, key=lambda line: (-line.idle_ns - line.other_ns, str(line))))


def _layers(
    device: Device, work: WorkPhases, pieces: Pieces, steady: NDArray[np.bool_]
) -> tuple[PhaseLayerRow, ...] | NotMeasured:
    """The layers in the order of their numbers, and what is in none."""
    layers = distinct(pieces.layer[steady])
    if not (layers != NOWHERE).any():
        return NotMeasured(say("no range is named after a layer, and steps disagree on how many there are"))
    columns = len(work.phases) + 2
    books = np.zeros(len(layers) * columns, np.int64)
    for part in sweep.parts(len(steady)):
        chosen = part.start + np.flatnonzero(steady[part])
        number, phase = np.searchsorted(layers, pieces.layer[chosen]) * columns, pieces.phase[chosen]
        sweep.fold("sum", number + np.where(phase == NOWHERE, columns - 1, phase), pieces.work_ns[chosen], books)
        sweep.fold("sum", number + columns - 2, pieces.idle_ns[chosen], books)
    rows = []
    for layer, amounts in zip(layers.tolist(), books.reshape(-1, columns).tolist(), strict=True):
        *phases, idle, other = (amount / device.step_count for amount in amounts)
        rows.append(
            PhaseLayerRow(
                gpu=device.gpu,
                layer=None if layer == NOWHERE else layer,
                phases_ns=dict(zip(work.phases, phases, strict=True)),
                idle_ns=idle,
                other_ns=other,
                length_ns=sum(amounts) / device.step_count,
                share=share(sum(amounts), device.steady_ns),
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.layer is None, row.layer)))


class PhaseTimes(Struct, frozen=True):
    """What the phases take in some of a GPU's steady steps; with idle time and other work they sum to the whole."""

    gpu: int
    steps: int | None  # None: no steps were found, the window is one
    whole_ns: int
    phases_ns: dict[str, int]  # in the order of a layer
    idle_ns: int
    other_ns: int


def sampled_phases(trace: Trace, device: Device, enough: int) -> PhaseTimes | None:
    """The same times as `phase_costs`, of as many steps in the middle as hold so much work.

    None where there are no steps to choose from and more work, or where phases hold less than half of it.
    """
    own, window, steps = device.work.of(device.gpu), device.steady, None
    if device.steps is not None:
        count, edges = device.step_count, device.steps.edges_ns
        steps = min(max(enough * len(device.steps) // max(len(own), 1), 1), count)
        first = device.steps.warm_up + (count - steps) // 2
        window = Span(int(edges[first]), int(edges[first + steps]))
    if len(own) > enough:
        if steps is None:
            return None
        begun = int(np.searchsorted(own.start_ns, window.end_ns))
        own = own.at(np.flatnonzero(own.end_ns[:begun] > window.start_ns))
    work = work_phases(trace, device, own=own)
    start, end, activity = _booked_work(device, own, window)
    phase, count = work.phase[activity], len(work.phases)
    sums = np.zeros(count + 1, np.int64)  # the last is of work of no phase
    sweep.fold("sum", np.where(phase == NOWHERE, count, phase), end - start, sums)
    *phases_ns, other_ns = sums.tolist()
    if len({*work.phases} - {COMMUNICATION}) < FEWEST_PHASES or sum(phases_ns) < other_ns:
        return None
    return PhaseTimes(
        gpu=device.gpu,
        steps=steps,
        whole_ns=total(clip(device.steady_stretches, window)),
        phases_ns=dict(zip(work.phases, phases_ns, strict=True)),
        idle_ns=total(clip(device.ledger.busy.idle, window)),
        other_ns=other_ns,
    )
