"""The steps: a column per step, its ledger on request, and the usual and unusual ones as tables.

Of many steps, each column is the longest of some neighbours: a real step, whose lines sum to its length, so that
nothing unusual is averaged away.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpuledger.analyse.step_summary import phase_times
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation
from gpuledger.ledger.step_variation import variation as step_variation
from gpuledger.messages import say
from gpuledger.present.charts.over_time import StripLine, step_strip
from gpuledger.present.charts.svg import Picture
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import TOTAL, line_term
from gpuledger.present.views.gpu_time import levels_sheet, outliers_sheet, phases_sheet, usual_sheet
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.page.time_breakdown import ordered
from gpuledger.present.writers.html.parts import Chart, Part, Section, StepStrip, Table, Text
from gpuledger.present.writers.html.tables import table
from gpuledger.units import count_text, time_text

MOST_COLUMNS: Final = 400
_MOST_LINES: Final = 14
"""So many lines are told apart in the strip; of more, the smallest go into one."""

_MEDIAN_STEP: Final = (
    Column("line", say("Line"), Unit.TEXT),
    Column("time_ns", say("Time"), Unit.NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The steps that are drawn, with their lines."""

    steps: tuple[int, ...]
    lines: tuple[Line, ...]
    ns: np.ndarray[Any, np.dtype[np.int64]]
    """A row per step, a column per line."""
    unusual: tuple[bool, ...]
    warm: tuple[bool, ...]
    neighbours: int
    """Of so many each is the longest."""


def _shown(device: Device, variation: Variation) -> _Shown:
    count = len(variation.steps)
    neighbours = -(-count // MOST_COLUMNS)
    length = variation.steps.length_ns
    steps = tuple(first + int(length[first : first + neighbours].argmax()) for first in range(0, count, neighbours))
    tiles = np.searchsorted(device.ledger.tiles_ns, variation.steps.edges_ns[:-1])
    books = device.ledger.books[tiles[list(steps)]]
    sums = dict(zip(device.ledger.lines, books.sum(axis=0).tolist(), strict=True))
    lines = tuple(ordered({line: amount for line, amount in sums.items() if amount}))
    columns = [device.ledger.lines.index(line) for line in lines]
    odd = {outlier.step for outlier in variation.outliers}
    return _Shown(
        steps,
        lines,
        books[:, columns],
        tuple(step in odd for step in steps),
        tuple(step < variation.steps.warm_up for step in steps),
        neighbours,
    )


def strip_picture(scene: Scene) -> Picture | None:
    """The strip of the main GPU's steps; None where there are none."""
    steps = step_variation(scene.device)
    return None if steps is None else _picture(scene, steps, _shown(scene.device, steps))


def _picture(scene: Scene, variation: Variation, shown: _Shown) -> Picture:
    tell = scene.tell
    large = _large(shown)
    drawn = [
        StripLine(line_tone(line), tell(line.label), tuple(shown.ns[:, column].tolist()))
        for column, line in enumerate(shown.lines)
        if column in large
    ]
    small = [column for column in range(len(shown.lines)) if column not in large]
    if small:
        rest = tuple(shown.ns[:, small].sum(axis=1).tolist())
        drawn.append(StripLine("idle-unattributed", tell(say("everything else")), rest))
    said = say(
        "{count} steps: median {median}, P10 {low}, P90 {high}; {odd} unusual",
        count=count_text(len(variation.steps)),
        median=time_text(variation.median_ns),
        low=time_text(variation.p10_ns),
        high=time_text(variation.p90_ns),
        odd=count_text(len(variation.outliers)),
    )
    ends = (tell(say("step {step}", step=shown.steps[0])), tell(say("step {step}", step=shown.steps[-1])))
    title = tell(say("Steps, one column each"))
    return step_strip(
        title, tell(said), drawn, shown.unusual, variation.median_ns, ends if len(shown.steps) > 1 else (ends[0], "")
    )


def _large(shown: _Shown) -> set[int]:
    """Positions of the lines that are told apart."""
    return set(sorted(range(len(shown.lines)), key=lambda column: -int(shown.ns[:, column].sum()))[:_MOST_LINES])


def steps_section(scene: Scene) -> Section:
    """The strip, the median step, and the tables of `gpuledger steps` but the list of all steps."""
    tell, device = scene.tell, scene.device
    variation = step_variation(device)
    if variation is None:
        missing = say("nothing repeats in this profile, so no steps were found; --step-range=REGEX defines them")
        if device.levels:
            missing = say(
                "nothing that repeats covers the window, so it is shown as a whole; --level=NAME makes one "
                "level the step"
            )
        return Section("steps", tell(say("Steps")), (scene.unknown(missing), *_levels(scene)))
    shown = _shown(device, variation)
    parts: list[Part] = [Text(_sentence(scene, shown, variation), "lead"), _strip(scene, variation, shown)]
    usual, phases = usual_sheet(device, variation), phases_sheet(device, phase_times(device, variation))
    outliers = outliers_sheet(device, variation)
    caption = tell(say("Steps, GPU {gpu}", gpu=device.gpu))
    parts.append(table(usual, tell, scene.room, caption=caption, name=usual.name))
    if phases.rows:
        caption = tell(say("Prefill and decode"))
        parts.append(table(phases, tell, scene.room, caption=caption, name=phases.name))
    if outliers.rows:
        caption = tell(say("Unusual steps, the longest first"))
        parts.append(table(outliers, tell, scene.room, caption=caption, name="outliers"))
    else:
        parts.append(Text(tell(say("No step is unusual for its phase.")), "note"))
    return Section("steps", tell(say("Steps")), (*parts, *_levels(scene)))


def _levels(scene: Scene) -> tuple[Part, ...]:
    """All that repeats, with its share of the window."""
    sheet = levels_sheet(scene.device)
    if not sheet.rows:
        return ()
    return (table(sheet, scene.tell, scene.room, caption=scene.tell(say("What repeats")), name=sheet.name),)


def _sentence(scene: Scene, shown: _Shown, variation: Variation) -> str:
    said = say(
        "One column per step; a dot marks an unusual one. Pick one to see its time breakdown.",
    )
    if shown.neighbours > 1:
        said = say(
            "{count} steps; each column is the longest of {each} neighbors, and a dot marks an unusual "
            "one. Pick one to see its time breakdown.",
            count=count_text(len(variation.steps)),
            each=shown.neighbours,
        )
    return scene.tell(said)


def _strip(scene: Scene, variation: Variation, shown: _Shown) -> StepStrip:
    tell = scene.tell
    chart = Chart(_picture(scene, variation, shown), name="step-strip")
    return StepStrip(chart, tell(say("Step")), _median_step(scene, variation), _json(scene, variation, shown))


def _median_step(scene: Scene, variation: Variation) -> Table:
    """The ledger of the step that is as long as the median."""
    step, lines = _median_books(scene.device, variation)
    whole = int(variation.steps.length_ns[step])
    rows = tuple((line_term(line), lines[line], 100 * lines[line] / whole) for line in ordered(lines))
    caption = say("The median step, number {step}: {time}", step=step, time=time_text(whole))
    sheet = Sheet("median_step", "The median step", _MEDIAN_STEP, rows, foot=((TOTAL, whole, 100.0),))
    return table(sheet, scene.tell, scene.room, caption=scene.tell(caption), name="median-step")


def _median_books(device: Device, variation: Variation) -> tuple[int, dict[Line, int]]:
    """The number of the first step that is as long as the median, and its lines."""
    step = variation.steps.warm_up + int(np.flatnonzero(variation.steps.steady_ns == variation.median_ns)[0])
    tile = int(np.searchsorted(device.ledger.tiles_ns, variation.steps.edges_ns[step]))
    books = zip(device.ledger.lines, device.ledger.books[tile].tolist(), strict=True)
    return step, {line: amount for line, amount in books if amount}


def _json(scene: Scene, variation: Variation, shown: _Shown) -> str:
    """What the script needs to show a step's ledger."""
    tell = scene.tell
    usual = _median_books(scene.device, variation)[1]
    content = {
        "lines": [[line, line_tone(line), tell(line.label)] for line in shown.lines],
        "median_ns": variation.median_ns,
        "median_lines_ns": [usual.get(line, 0) for line in shown.lines],
        "steps": [
            {
                "step": step,
                "note": tell(say("unusual")) if odd else tell(say("warm-up")) if warm else "",
                "ns": row,
            }
            for step, odd, warm, row in zip(shown.steps, shown.unusual, shown.warm, shown.ns.tolist(), strict=True)
        ],
        "words": {
            "step": tell(say("Step")),
            "line": tell(say("Line")),
            "time": tell(say("Time")),
            "share": tell(say("Share")),
            "total": tell(say("total")),
            "against": tell(say("vs the median step")),
            "more": tell(say("vs median")),
        },
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
