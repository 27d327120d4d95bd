"""One GPU's steps summed up: a device and how its steps vary in; rows of the usual step, levels, phases, steps out.

The steps' usual length, outliers and drift are `ledger.step_variation`'s.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from gpuledger.ledger.activity import GRAPH_FAMILY
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation
from gpuledger.ledger.steps import PHASES
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, LabelledCode, Row, Unit, share
from gpuledger.trace import sweep
from gpuledger.trace.keys import distinct
from gpuledger.trace.spans import covered, holds
from gpuledger.trace.statistics import nearest_percentiles


class PhasePlace(LabelledCode):
    """Where in the window a phase lies."""

    BEFORE = "before the steps", say("before the steps")
    STEPS = "steps", say("steps")
    AFTER = "after the steps", say("after the steps")


class StepNote(LabelledCode):
    """What sets a step apart."""

    WARM_UP = "warm-up", say("warm-up")
    UNUSUAL = "unusual", say("unusual")


class UsualStepRow(Row, frozen=True):
    """How long a steady step of one GPU takes."""

    gpu: Gpu
    source: Annotated[str, Label(say("How found"))]
    steps: Annotated[int, Label(say("Steps"), Unit.COUNT)]
    warm_up: Annotated[int, Label(say("of them warm-up"), Unit.COUNT)]
    median_ns: Annotated[int, Label(say("Median"), Unit.NS)]
    p10_ns: Annotated[int, Label("P10", Unit.NS, detail=1)]
    p90_ns: Annotated[int, Label("P90", Unit.NS, detail=1)]
    drift: Annotated[
        float | None,
        Label(say("Drift"), Unit.CHANGE, detail=2, meaning="from the first third to the last; null: under nine steps"),
    ]


class LevelRow(Row, frozen=True):
    """Something that repeats: `--level` takes any of the names."""

    gpu: Gpu
    level: Annotated[str, Label(say("Level"))]
    source: Annotated[str, Label(say("How found"))]
    count: Annotated[int, Label(say("Count"), Unit.COUNT)]
    median_ns: Annotated[int, Label(say("Median"), Unit.NS)]
    share: Annotated[float, Label(say("of the window"), Unit.SHARE)]


class PrefillRow(Row, frozen=True):
    """The time of one phase, in the steps or beside them."""

    gpu: Gpu
    phase: Annotated[str | None, Label(say("Phase"), meaning="null: nothing tells which")]
    where: Annotated[PhasePlace, Label(say("Where"))]
    steps: Annotated[int | None, Label(say("Steps"), Unit.COUNT, meaning="null beside the steps")]
    median_ns: Annotated[int | None, Label(say("Median"), Unit.NS, meaning="of its steps")]
    total_ns: Annotated[int, Label(say("Total"), Unit.NS)]


class UnusualStepRow(Row, frozen=True):
    """A step that took unusually long."""

    gpu: Gpu
    step: Annotated[int, Label(say("Step"), Unit.ID)]
    length_ns: Annotated[int, Label(say("Length"), Unit.NS)]
    line: Annotated[Line, Label(say("Line that grew most"))]
    excess_ns: Annotated[int, Label(say("Grew by"), Unit.NS)]


class StepRow(Row, frozen=True):
    """One step, warm-up included: how long it took, and how much of it the GPU worked."""

    gpu: Gpu
    step: Annotated[int, Label(say("Step"), Unit.ID)]
    start_ns: Annotated[int, Label(say("Start"), Unit.INSTANT_NS, detail=1)]
    end_ns: Annotated[int, Label(say("End"), Unit.INSTANT_NS, detail=2)]
    length_ns: Annotated[int, Label(say("Length"), Unit.NS)]
    busy_ns: Annotated[int, Label(say("Busy"), Unit.NS, detail=3)]
    idle_ns: Annotated[int, Label(say("Idle"), Unit.NS, detail=3)]
    busy_share: Annotated[float | None, Label(say("GPU busy"), Unit.SHARE)]
    kernels: Annotated[
        int | None,
        Label(say("Kernels"), Unit.COUNT, meaning="that begin in it; null where graphs were traced as a whole"),
    ]
    largest_line: Annotated[Line, Label(say("Largest line"))]
    phase: Annotated[str | None, Label(say("Phase"))]
    note: Annotated[StepNote | None, Label("", meaning="what sets the step apart")]


def usual_step(device: Device, variation: Variation) -> UsualStepRow:
    """The steady steps in a row."""
    return UsualStepRow(
        gpu=device.gpu,
        source=variation.steps.source,
        steps=len(variation.steps),
        warm_up=variation.steps.warm_up,
        median_ns=variation.median_ns,
        p10_ns=variation.p10_ns,
        p90_ns=variation.p90_ns,
        drift=variation.drift_share,
    )


def level_rows(device: Device) -> tuple[LevelRow, ...]:
    """All that repeats."""
    return tuple(
        LevelRow(device.gpu, level.name, level.kind, level.count, level.median_ns, level.coverage)
        for level in device.levels
    )


def unusual_steps(device: Device, variation: Variation) -> tuple[UnusualStepRow, ...]:
    """The longest first."""
    return tuple(
        UnusualStepRow(device.gpu, outlier.step, outlier.length_ns, outlier.line, outlier.excess_ns)
        for outlier in variation.outliers
    )


def phase_times(device: Device, variation: Variation) -> tuple[PrefillRow, ...]:
    """A line per phase of the steps, and one for what lies before and after them; none where nothing tells."""
    if not device.phases.known:
        return ()
    phase, window, edges = np.array(device.phases.of_step), device.ledger.window, variation.steps.edges_ns
    times = []

    def beside(number: int, where: PhasePlace, start_ns: int, end_ns: int) -> None:
        if number:
            looked_at = covered(device.ledger.busy.stretches, np.array([start_ns]), np.array([end_ns]))
            times.append(PrefillRow(device.gpu, PHASES[number], where, None, None, int(looked_at[0])))

    beside(device.phases.before, PhasePlace.BEFORE, window.start_ns, int(edges[0]))
    for number in distinct(phase).tolist():
        lengths = variation.steps.length_ns[phase == number]
        [middle] = nearest_percentiles(lengths, 50)
        name = PHASES[number] or None
        times.append(PrefillRow(device.gpu, name, PhasePlace.STEPS, len(lengths), middle, int(lengths.sum())))
    beside(device.phases.after, PhasePlace.AFTER, int(edges[-1]), window.end_ns)
    return tuple(times)


def step_books(device: Device, variation: Variation) -> tuple[StepRow, ...]:
    """Every step in order, warm-up included."""
    (lines, by_tile), edges = device.shown_tiles, variation.steps.edges_ns
    idle = np.array([line.is_idle for line in lines])
    unusual = {outlier.step for outlier in variation.outliers}
    own, count = device.work.of(device.gpu), len(variation.steps)
    of_step = sweep.search(edges, own.start_ns, "right") - 1
    inside = (of_step >= 0) & (of_step < count) & holds(device.ledger.busy.stretches, own.start_ns)
    kernels, whole_graphs = (
        np.bincount(of_step[inside & of_kind], minlength=count).tolist()
        for of_kind in (own.family >= 0, own.family == own.families.index(GRAPH_FAMILY))
    )
    tiles = np.searchsorted(device.ledger.tiles_ns, edges[:-1]).tolist()
    spans = zip(variation.steps.start_ns.tolist(), variation.steps.end_ns.tolist(), tiles, strict=True)
    steps = []
    for step, (start, end, tile) in enumerate(spans):
        books = by_tile[tile]
        busy_ns, idle_ns = int(books[~idle].sum()), int(books[idle].sum())
        note = StepNote.UNUSUAL if step in unusual else None
        steps.append(
            StepRow(
                gpu=device.gpu,
                step=step,
                start_ns=start - device.zero_ns,
                end_ns=end - device.zero_ns,
                length_ns=busy_ns + idle_ns,
                busy_ns=busy_ns,
                idle_ns=idle_ns,
                busy_share=share(busy_ns, busy_ns + idle_ns),
                kernels=None if whole_graphs[step] else kernels[step],
                largest_line=lines[int(books.argmax())],
                phase=PHASES[device.phases.of_step[step]] or None,
                note=StepNote.WARM_UP if step < variation.steps.warm_up else note,
            )
        )
    return tuple(steps)
