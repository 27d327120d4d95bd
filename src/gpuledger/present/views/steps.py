"""Steps as tables: the usual length, the outliers, and every step with its largest lines."""

from __future__ import annotations

import numpy as np

from gpuledger.ledger.device import Device
from gpuledger.ledger.phases import PHASES
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.present.sheet import Cell, Column, Sheet, Unit

_SUMMARY = (
    Column("source", "Found by", Unit.TEXT),
    Column("steps", "Steps", Unit.COUNT),
    Column("warm_up", "of them warm-up", Unit.COUNT),
    Column("median_ns", "Median", Unit.NS),
    Column("p10_ns", "P10", Unit.NS, detail=1),
    Column("p90_ns", "P90", Unit.NS, detail=1),
    Column("drift_percent", "Drift", Unit.CHANGE_PERCENT, detail=2),
)
_OUTLIER = (
    Column("step", "Step", Unit.ID),
    Column("length_ns", "Length", Unit.NS),
    Column("line", "Line that grew most", Unit.TEXT),
    Column("excess_ns", "By", Unit.NS),
)
_STEP = (
    Column("step", "Step", Unit.ID),
    Column("start_ns", "Start", Unit.INSTANT_NS, detail=1),
    Column("length_ns", "Length", Unit.NS),
    Column("busy_ns", "Busy", Unit.NS),
    Column("idle_ns", "Idle", Unit.NS),
    Column("largest", "Largest line", Unit.TEXT),
    Column("phase", "Phase", Unit.TEXT),
    Column("note", "", Unit.TEXT),
)
_PHASE = (
    Column("phase", "Phase", Unit.TEXT),
    Column("where", "Where", Unit.TEXT),
    Column("steps", "Steps", Unit.COUNT),
    Column("median_ns", "Median", Unit.NS),
    Column("total_ns", "Total", Unit.NS),
)


def step_sheets(device: Device) -> list[Sheet]:
    """All tables about one GPU's steps; one without rows where there are none."""
    found = variation(device)
    gpu = device.gpu
    if found is None:
        return [Sheet(f"steps_gpu{gpu}", f"Steps, GPU {gpu}", _SUMMARY)]
    return [
        Sheet(f"steps_gpu{gpu}", f"Steps, GPU {gpu}", _SUMMARY, (_summary(found),)),
        Sheet(f"step_phases_gpu{gpu}", f"Prefill and decode, GPU {gpu}", _PHASE, _phases(device, found)),
        Sheet(
            f"step_outliers_gpu{gpu}",
            f"Unusual steps, GPU {gpu}",
            _OUTLIER,
            tuple((each.step, each.length_ns, each.line, each.excess_ns) for each in found.outliers),
        ),
        Sheet(f"step_list_gpu{gpu}", f"Every step, GPU {gpu}", _STEP, _each(device, found)),
    ]


def _summary(found: Variation) -> tuple[Cell, ...]:
    drift = None if found.drift_share is None else 100 * found.drift_share
    return (
        found.steps.source,
        len(found.steps),
        found.steps.warm_up,
        found.median_ns,
        found.p10_ns,
        found.p90_ns,
        drift,
    )


def _phases(device: Device, found: Variation) -> tuple[tuple[Cell, ...], ...]:
    """A row per phase of the steps, and one for what lies before and after them; none where nothing tells."""
    if not device.phases.known:
        return ()
    phase, window = np.array(device.phases.of_step), device.ledger.window
    rows: list[tuple[Cell, ...]] = []
    before, after = int(found.steps.edges_ns[0]) - window.start_ns, window.end_ns - int(found.steps.edges_ns[-1])
    if device.phases.before:
        rows.append((PHASES[device.phases.before], "before the steps", None, None, before))
    for each in np.unique(phase).tolist():
        lengths = found.steps.length_ns[phase == each]
        middle = int(np.percentile(lengths, 50, method="nearest"))
        rows.append((PHASES[each] or "not told", "steps", len(lengths), middle, int(lengths.sum())))
    if device.phases.after:
        rows.append((PHASES[device.phases.after], "after the steps", None, None, after))
    return tuple(rows)


def _each(device: Device, found: Variation) -> tuple[tuple[Cell, ...], ...]:
    lines = device.ledger.lines
    idle = np.array([line.startswith("idle.") for line in lines])
    unusual = {each.step for each in found.outliers}
    rows = []
    tiles = np.searchsorted(device.ledger.tiles_ns, found.steps.edges_ns[:-1])
    for step, (start, tile) in enumerate(zip(found.steps.edges_ns[:-1].tolist(), tiles.tolist(), strict=True)):
        books = device.ledger.books[tile]
        note = "warm-up" if step < found.steps.warm_up else "unusual" if step in unusual else ""
        rows.append(
            (
                step,
                start,
                int(books.sum()),
                int(books[~idle].sum()),
                int(books[idle].sum()),
                lines[int(books.argmax())],
                PHASES[device.phases.of_step[step]],
                note,
            )
        )
    return tuple(rows)
