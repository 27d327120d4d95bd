"""One GPU's steps summed up: a device and how its steps vary in; its phases, and every step with its books, out.

The steps' usual length, outliers and drift are `ledger.step_variation`'s.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from msgspec import Struct

from gpuledger.ledger.activity import GRAPH_FAMILY
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation
from gpuledger.ledger.steps import PHASES
from gpuledger.trace import sweep
from gpuledger.trace.keys import distinct
from gpuledger.trace.spans import covered, holds
from gpuledger.trace.statistics import nearest_percentiles


class PhasePlace(Enum):
    """Where in the window a phase lies."""

    BEFORE = "before the steps"
    STEPS = "steps"
    AFTER = "after the steps"


class PhaseTime(Struct, frozen=True):
    """The time of one phase, in the steps or beside them."""

    phase: str  # empty where nothing tells which
    where: PhasePlace
    total_ns: int
    steps: int | None = None
    median_ns: int | None = None  # of its steps; None beside the steps


class StepNote(Enum):
    """What sets a step apart."""

    USUAL = ""
    WARM_UP = "warm-up"
    UNUSUAL = "unusual"


class StepBooks(Struct, frozen=True):
    """One step: how long it took, what of it the GPU worked, and how many kernels that were."""

    step: int
    start_ns: int  # from the run's zero, as `--time` takes it
    end_ns: int
    busy_ns: int
    idle_ns: int
    kernels: int | None
    """Those that begin in it; None where graphs were traced whole, and what ran in them is not known."""
    largest_line: Line
    phase: str
    note: StepNote

    @property
    def length_ns(self) -> int:
        return self.busy_ns + self.idle_ns

    @property
    def busy_share(self) -> float:
        return self.busy_ns / self.length_ns if self.length_ns else 0.0


def phase_times(device: Device, variation: Variation) -> tuple[PhaseTime, ...]:
    """A line per phase of the steps, and one for what lies before and after them; none where nothing tells."""
    if not device.phases.known:
        return ()
    phase, window, edges = np.array(device.phases.of_step), device.ledger.window, variation.steps.edges_ns
    times = []
    if device.phases.before:
        before_ns = _looked_at_ns(device, window.start_ns, int(edges[0]))
        times.append(PhaseTime(PHASES[device.phases.before], PhasePlace.BEFORE, before_ns))
    for number in distinct(phase).tolist():
        lengths = variation.steps.length_ns[phase == number]
        [middle] = nearest_percentiles(lengths, 50)
        times.append(PhaseTime(PHASES[number], PhasePlace.STEPS, int(lengths.sum()), len(lengths), middle))
    if device.phases.after:
        after_ns = _looked_at_ns(device, int(edges[-1]), window.end_ns)
        times.append(PhaseTime(PHASES[device.phases.after], PhasePlace.AFTER, after_ns))
    return tuple(times)


def _looked_at_ns(device: Device, start_ns: int, end_ns: int) -> int:
    return int(covered(device.ledger.busy.stretches, np.array([start_ns]), np.array([end_ns]))[0])


def step_books(device: Device, variation: Variation) -> tuple[StepBooks, ...]:
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
        note = StepNote.UNUSUAL if step in unusual else StepNote.USUAL
        steps.append(
            StepBooks(
                step=step,
                start_ns=start - device.zero_ns,
                end_ns=end - device.zero_ns,
                busy_ns=int(books[~idle].sum()),
                idle_ns=int(books[idle].sum()),
                kernels=None if whole_graphs[step] else kernels[step],
                largest_line=lines[int(books.argmax())],
                phase=PHASES[device.phases.of_step[step]],
                note=StepNote.WARM_UP if step < variation.steps.warm_up else note,
            )
        )
    return tuple(steps)
