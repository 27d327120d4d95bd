"""What a memory snapshot of the same run says, on a report's page: over the report's own window where clocks agree."""

from __future__ import annotations

from typing import Final

from gpuledger.messages import say
from gpuledger.present.document import Block, Heading, Picture
from gpuledger.present.views.memory_snapshot import (
    AnalysedSnapshot,
    answer_on_timeline,
    finding_points,
    picture_blocks,
    sheet_blocks,
    snapshot_sheets,
    timeline_chart,
)
from gpuledger.present.views.page.over_time import window_ends
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.report import clock_of
from gpuledger.present.writers.html.blocks import block_parts
from gpuledger.present.writers.html.parts import Part, Section, Text
from gpuledger.trace.tables import Table

EVENTS_OF_TRACE: Final = say(
    "The memory events of the trace count from its first one: what was allocated before is in the snapshot alone."
)


def snapshot_section(scene: Scene, made: AnalysedSnapshot) -> Section:
    """Memory over the report's window, or over the history where the trace has no wall clock; findings and tables."""
    clock, tell = clock_of(scene.report), scene.tell
    answers = answer_on_timeline(made, clock)
    blocks: list[Block] = []
    if clock is None:
        blocks += picture_blocks(made.figures)
    else:
        for figures in made.figures:
            drawn = timeline_chart(figures, clock, window_ends(scene))
            title = say("Memory over the report's window, GPU {gpu}", gpu=figures.gpu)
            blocks += [Heading(title), Picture(f"snapshot-gpu{figures.gpu}", drawn)]
    blocks += [finding_points(found) for found in made.findings]
    blocks += sheet_blocks([sheet for figures in made.figures for sheet in snapshot_sheets(figures)])
    parts: list[Part] = [Text(tell(answer), "lead") for answer in answers]
    if len(scene.report.trace[Table.ALLOCS]):
        parts.append(Text(tell(EVENTS_OF_TRACE), "note"))
    return Section("memory-snapshot", tell(say("Who holds the memory")), (*parts, *block_parts(blocks, scene.reader)))
