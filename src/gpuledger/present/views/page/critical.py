"""The critical path: a bar of what the chain is made of, the longest pieces on it, and what buys nothing beside it."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.path_summary import PathSummary, path_summary
from gpuledger.messages import say
from gpuledger.present.charts.amounts import Bar, Part, stacked
from gpuledger.present.charts.svg import Picture
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.critical import (
    beside_sheet,
    calls_sheet,
    operations_sheet,
    part_term,
    path_remarks,
    path_sentence,
    step_text,
)
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.writers.html.parts import Chart, Command, Section, Text
from gpuledger.present.writers.html.parts import Part as PagePart
from gpuledger.present.writers.html.tables import table
from gpuledger.replay.scenario import scenario
from gpuledger.units import share_text

MOST_OPERATIONS: Final = 300_000
"""A part without steps that holds more is not gone through for a page: that would take longer than all else on it."""


def critical_section(scene: Scene) -> Section:
    """The chain of the main GPU, in the steps that findings are replayed in."""
    tell = scene.tell
    title = tell(say("The critical path"))
    model = scenario(scene.report.trace, scene.device, sampled=True)
    if len(model.part.work) > MOST_OPERATIONS:
        said = say("The profile is long and has no steps to pick from; run this for its path:")
        return Section("critical", title, (Text(tell(said)), Command("gpuledger critical PROFILE")))
    summary = path_summary(scene.report.trace, model)
    parts: list[PagePart] = [
        Text(tell(path_sentence(summary)), "lead"),
        Chart(_picture(scene, summary), name="critical-chart"),
        *(Text(tell(remark)) for remark in path_remarks(summary)),
        *(table(sheet, tell, scene.room, name=name, without=without) for sheet, name, without in _sheets(summary)),
    ]
    return Section("critical", title, tuple(parts))


def _sheets(summary: PathSummary) -> list[tuple[Sheet, str, tuple[str, ...]]]:
    """Those with something in them: the element's name, and the columns that are left to `gpuledger critical`."""
    sheets = (
        (operations_sheet(summary), "critical-operations", ("line",)),
        (calls_sheet(summary), "critical-calls", ()),
        (beside_sheet(summary), "critical-beside", ("launches", "least_slack_ns")),
    )
    return [(sheet, name, without) for sheet, name, without in sheets if sheet.rows]


def _picture(scene: Scene, summary: PathSummary) -> Picture:
    """One bar: the kinds of segments, the longest first."""
    parts = tuple(
        Part(
            line_tone(line),
            time / summary.whole_ns,
            scene.tell(part_term(line).words),
            share_text(time / summary.whole_ns),
            step_text(summary, time),
            scene.tell(line.brief_label),
        )
        for line, time, _ in summary.lines
    )
    return stacked(scene.tell(say("The critical path")), "; ".join(part.hint for part in parts), [Bar("", parts)])
