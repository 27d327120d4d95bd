"""Steps as tables: the usual length, the phases, the outliers, and every step with its largest line."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.step_summary import PhasePlace, StepNote, phase_times, step_books
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.messages import say
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import line_term

_USUAL: Final = (
    Column("source", say("How found"), Unit.TEXT),
    Column("steps", say("Steps"), Unit.COUNT),
    Column("warm_up", say("of them warm-up"), Unit.COUNT),
    Column("median_ns", say("Median"), Unit.NS),
    Column("p10_ns", "P10", Unit.NS, detail=1),
    Column("p90_ns", "P90", Unit.NS, detail=1),
    Column("drift_percent", say("Drift"), Unit.CHANGE_PERCENT, detail=2),
)
_LEVELS: Final = (
    Column("level", say("Level"), Unit.TEXT),
    Column("source", say("How found"), Unit.TEXT),
    Column("count", say("Count"), Unit.COUNT),
    Column("median_ns", say("Median"), Unit.NS),
    Column("coverage_percent", say("of the window"), Unit.SHARE_PERCENT),
)
_PHASES: Final = (
    Column("phase", say("Phase"), Unit.TEXT),
    Column("where", say("Where"), Unit.TEXT),
    Column("steps", say("Steps"), Unit.COUNT),
    Column("median_ns", say("Median"), Unit.NS),
    Column("total_ns", say("Total"), Unit.NS),
)
_OUTLIERS: Final = (
    Column("step", say("Step"), Unit.ID),
    Column("length_ns", say("Length"), Unit.NS),
    Column("line", say("Line that grew most"), Unit.TEXT),
    Column("excess_ns", say("Grew by"), Unit.NS),
)
_EVERY_STEP: Final = (
    Column("step", say("Step"), Unit.ID),
    Column("start_ns", say("Start"), Unit.INSTANT_NS, detail=1),
    Column("end_ns", say("End"), Unit.INSTANT_NS, detail=2),
    Column("length_ns", say("Length"), Unit.NS),
    Column("busy_ns", say("Busy"), Unit.NS, detail=3),
    Column("idle_ns", say("Idle"), Unit.NS, detail=3),
    Column("busy_percent", say("GPU busy"), Unit.SHARE_PERCENT),
    Column("kernels", say("Kernels"), Unit.COUNT),
    Column("largest", say("Largest line"), Unit.TEXT),
    Column("phase", say("Phase"), Unit.TEXT),
    Column("note", "", Unit.TEXT),
)
_WHERE: Final = {
    PhasePlace.BEFORE: say("before the steps"),
    PhasePlace.STEPS: say("steps"),
    PhasePlace.AFTER: say("after the steps"),
}
_NOTES: Final = {StepNote.USUAL: "", StepNote.WARM_UP: say("warm-up"), StepNote.UNUSUAL: say("unusual")}


def step_sheets(device: Device) -> list[Sheet]:
    """All tables about one GPU's steps; one without rows where there are none."""
    steps = variation(device)
    if steps is None:
        return [Sheet(f"steps_gpu{device.gpu}", say("Steps, GPU {gpu}", gpu=device.gpu), _USUAL), levels_sheet(device)]
    return [
        usual_sheet(device, steps),
        levels_sheet(device),
        phases_sheet(device, steps),
        outliers_sheet(device, steps),
        every_step_sheet(device, steps),
    ]


def usual_sheet(device: Device, steps: Variation) -> Sheet:
    """How long a step takes, in one row."""
    row = (
        steps.steps.source,
        len(steps.steps),
        steps.steps.warm_up,
        steps.median_ns,
        steps.p10_ns,
        steps.p90_ns,
        None if steps.drift_share is None else 100 * steps.drift_share,
    )
    return Sheet(f"steps_gpu{device.gpu}", say("Steps, GPU {gpu}", gpu=device.gpu), _USUAL, (row,), rounded=True)


def levels_sheet(device: Device) -> Sheet:
    """All that repeats: `--level` takes any of the names."""
    rows = tuple(
        (level.name, level.kind, level.count, level.median_ns, 100 * level.coverage) for level in device.levels
    )
    return Sheet(f"levels_gpu{device.gpu}", say("What repeats, GPU {gpu}", gpu=device.gpu), _LEVELS, rows, rounded=True)


def phases_sheet(device: Device, steps: Variation) -> Sheet:
    """Prefill and decode, where they can be told apart."""
    rows = tuple(
        (phase.phase or say("not told"), _WHERE[phase.where], phase.steps, phase.median_ns, phase.total_ns)
        for phase in phase_times(device, steps)
    )
    return Sheet(
        f"step_phases_gpu{device.gpu}",
        say("Prefill and decode, GPU {gpu}", gpu=device.gpu),
        _PHASES,
        rows,
        rounded=True,
    )


def outliers_sheet(device: Device, steps: Variation) -> Sheet:
    """The unusual steps, the longest first."""
    rows = tuple(
        (outlier.step, outlier.length_ns, line_term(outlier.line), outlier.excess_ns) for outlier in steps.outliers
    )
    return Sheet(
        f"step_outliers_gpu{device.gpu}", say("Unusual steps, GPU {gpu}", gpu=device.gpu), _OUTLIERS, rows, rounded=True
    )


def every_step_sheet(device: Device, steps: Variation) -> Sheet:
    """A row per step, warm-up included."""
    lines = {line: line_term(line) for line in device.ledger.lines}
    rows = tuple(
        (
            step.step,
            step.start_ns,
            step.end_ns,
            step.length_ns,
            step.busy_ns,
            step.idle_ns,
            100 * step.busy_share,
            step.kernels,
            lines[step.largest_line],
            step.phase,
            _NOTES[step.note],
        )
        for step in step_books(device, steps)
    )
    return Sheet(
        f"step_list_gpu{device.gpu}", say("Every step, GPU {gpu}", gpu=device.gpu), _EVERY_STEP, rows, rounded=True
    )
