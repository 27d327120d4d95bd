"""The steps: a column per step, its ledger on request, and the usual and unusual ones as tables.

Of many steps, each column is the longest of some neighbours: a real step, whose lines sum to its length, so that
nothing unusual is averaged away.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import Line
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.messages import say
from gpuledger.present.charts.over_time import StripLine, step_strip
from gpuledger.present.charts.svg import Picture
from gpuledger.present.html.ledger import ordered
from gpuledger.present.html.parts import Chart, Part, Section, StepStrip, Table, Text
from gpuledger.present.html.scene import Scene
from gpuledger.present.html.tables import table
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import TOTAL, line_term
from gpuledger.present.views.steps import outliers_sheet, phases_sheet, usual_sheet
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
    each: int
    """Of so many neighbours each is the longest."""


def _shown(device: Device, found: Variation) -> _Shown:
    count = len(found.steps)
    each = -(-count // MOST_COLUMNS)
    length = found.steps.length_ns
    steps = tuple(at + int(length[at : at + each].argmax()) for at in range(0, count, each))
    tiles = np.searchsorted(device.ledger.tiles_ns, found.steps.edges_ns[:-1])
    books = device.ledger.books[tiles[list(steps)]]
    sums = dict(zip(device.ledger.lines, books.sum(axis=0).tolist(), strict=True))
    lines = tuple(ordered({line: amount for line, amount in sums.items() if amount}))
    at = [device.ledger.lines.index(line) for line in lines]
    odd = {outlier.step for outlier in found.outliers}
    return _Shown(
        steps,
        lines,
        books[:, at],
        tuple(step in odd for step in steps),
        tuple(step < found.steps.warm_up for step in steps),
        each,
    )


def strip_picture(scene: Scene) -> Picture | None:
    """The strip of the main GPU's steps; None where there are none."""
    found = variation(scene.device)
    return None if found is None else _picture(scene, found, _shown(scene.device, found))


def _picture(scene: Scene, found: Variation, shown: _Shown) -> Picture:
    tell = scene.tell
    large = _large(shown)
    drawn = [
        StripLine(line_tone(line), tell(line.label), tuple(shown.ns[:, at].tolist()))
        for at, line in enumerate(shown.lines)
        if at in large
    ]
    small = [at for at in range(len(shown.lines)) if at not in large]
    if small:
        rest = tuple(shown.ns[:, small].sum(axis=1).tolist())
        drawn.append(StripLine("idle-unattributed", tell(say("all other lines")), rest))
    said = say(
        "{count} steps, half of them under {median}, eight of ten between {low} and {high}; {odd} unusual",
        count=count_text(len(found.steps)),
        median=time_text(found.median_ns),
        low=time_text(found.p10_ns),
        high=time_text(found.p90_ns),
        odd=count_text(len(found.outliers)),
    )
    ends = (tell(say("step {step}", step=shown.steps[0])), tell(say("step {step}", step=shown.steps[-1])))
    title = tell(say("Steps, one column each"))
    return step_strip(
        title, tell(said), drawn, shown.unusual, found.median_ns, ends if len(shown.steps) > 1 else (ends[0], "")
    )


def _large(shown: _Shown) -> set[int]:
    """Positions of the lines that are told apart."""
    return set(sorted(range(len(shown.lines)), key=lambda at: -int(shown.ns[:, at].sum()))[:_MOST_LINES])


def steps_section(scene: Scene) -> Section:
    """The strip, the median step, and the tables of `gpuledger steps` but the list of all steps."""
    tell, device = scene.tell, scene.device
    found = variation(device)
    if found is None:
        missing = say(
            "nothing repeats in this profile, so that it could be cut into steps; --step-range=REGEX names them"
        )
        return Section("steps", tell(say("Steps")), (scene.unknown(missing),))
    shown = _shown(device, found)
    parts: list[Part] = [Text(_sentence(scene, shown, found), "lead"), _strip(scene, found, shown)]
    usual, phases, outliers = usual_sheet(device, found), phases_sheet(device, found), outliers_sheet(device, found)
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
    return Section("steps", tell(say("Steps")), tuple(parts))


def _sentence(scene: Scene, shown: _Shown, found: Variation) -> str:
    said = say(
        "A column is a step; the dot over it marks an unusual one. Choose one to see its ledger.",
    )
    if shown.each > 1:
        said = say(
            "Of {count} steps, each column is the longest of {each} neighbours; the dot over it marks an unusual one. "
            "Choose one to see its ledger.",
            count=count_text(len(found.steps)),
            each=shown.each,
        )
    return scene.tell(said)


def _strip(scene: Scene, found: Variation, shown: _Shown) -> StepStrip:
    tell = scene.tell
    chart = Chart(_picture(scene, found, shown), name="step-strip")
    return StepStrip(chart, tell(say("Step")), _median_step(scene, found), _json(scene, found, shown))


def _median_step(scene: Scene, found: Variation) -> Table:
    """The ledger of the step that is as long as the median."""
    step, lines = _median_books(scene.device, found)
    whole = int(found.steps.length_ns[step])
    rows = tuple((line_term(line), lines[line], 100 * lines[line] / whole) for line in ordered(lines))
    caption = say("The median step, number {step}: {time}", step=step, time=time_text(whole))
    sheet = Sheet("median_step", "The median step", _MEDIAN_STEP, rows, foot=((TOTAL, whole, 100.0),))
    return table(sheet, scene.tell, scene.room, caption=scene.tell(caption), name="median-step")


def _median_books(device: Device, found: Variation) -> tuple[int, dict[Line, int]]:
    """The number of the first step that is as long as the median, and its lines."""
    step = found.steps.warm_up + int(np.flatnonzero(found.steps.steady_ns == found.median_ns)[0])
    tile = int(np.searchsorted(device.ledger.tiles_ns, found.steps.edges_ns[step]))
    books = zip(device.ledger.lines, device.ledger.books[tile].tolist(), strict=True)
    return step, {line: amount for line, amount in books if amount}


def _json(scene: Scene, found: Variation, shown: _Shown) -> str:
    """What the script needs to show a step's ledger."""
    tell = scene.tell
    usual = _median_books(scene.device, found)[1]
    content = {
        "lines": [[line, line_tone(line), tell(line.label)] for line in shown.lines],
        "median_ns": found.median_ns,
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
            "against": tell(say("against the median step")),
            "more": tell(say("Against the median")),
        },
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
