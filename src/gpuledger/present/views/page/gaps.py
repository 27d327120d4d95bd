"""Why the GPU was idle: gaps by length as columns, by cause and trigger, and the longest ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuledger.analyse.gap_summary import GapSummary, gap_summary
from gpuledger.messages import say
from gpuledger.present.charts.amounts import Column, columns
from gpuledger.present.charts.svg import Picture
from gpuledger.present.views.gpu_time import causes_sheet, length_words, lengths_sheet, longest_sheet, triggers_sheet
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.page.timeline import ShownTimeline
from gpuledger.present.writers.html.parts import Chart, Part, Section, Table, Text, TimelinePlace
from gpuledger.present.writers.html.tables import table
from gpuledger.trace.spans import Span
from gpuledger.units import count_text, share_text, time_text

_SERIES = ("compute-elementwise", "idle-host_code")
"""The number of gaps, and their time."""

_LEFT_OUT = ("cause_ns", "tid")
"""Columns of the longest gaps that `gpuledger gaps` has."""


def gaps_picture(scene: Scene) -> Picture | None:
    """Gaps by length, shortest first: their share of all gaps, and of all idle time. None where there are none."""
    return _picture(scene, gap_summary(scene.report.trace, scene.device))


def _picture(scene: Scene, summary: GapSummary) -> Picture | None:
    if not summary.gaps or not summary.idle_ns:
        return None
    given = []
    for bucket in summary.by_length:
        shares = (bucket.gaps / summary.gaps, bucket.time_ns / summary.idle_ns)
        texts = (share_text(shares[0]), share_text(shares[1]))
        given.append(Column(scene.tell(length_words(bucket.name)), shares, texts))
    said = "; ".join(f"{column.name}: {column.texts[0]} / {column.texts[1]}" for column in given)
    words = (scene.tell(say("share of the gaps")), scene.tell(say("share of the idle time")))
    title = scene.tell(say("Gaps by length: share of their number and of their time"))
    return columns(title, said, tuple(zip(_SERIES, words, strict=True)), given)


def gaps_section(scene: Scene, timeline: ShownTimeline) -> Section:
    """The tables of `gpuledger gaps`, and the histogram."""
    tell, device = scene.tell, scene.device
    summary = gap_summary(scene.report.trace, device)
    picture = _picture(scene, summary)
    title = tell(say("Why the GPU was idle"))
    if picture is None:
        return Section("gaps", title, (Text(tell(say("The GPU was never idle in this window."))),))
    said = say(
        "{count} gaps, {time} in total, {share} of the window. Causes show where the host was; the "
        "trigger shows what to fix.",
        count=count_text(summary.gaps),
        time=time_text(summary.idle_ns),
        share=share_text(summary.idle_ns / device.ledger.window_ns),
    )
    most = say("The {count} longest gaps", count=len(summary.longest))
    parts: list[Part] = [
        Text(tell(said), "lead"),
        Chart(picture, name="gap-chart"),
        table(lengths_sheet(summary), tell, scene.room, caption=tell(say("Gaps by length"))),
        table(causes_sheet(summary), tell, scene.room, caption=tell(say("Idle time by cause")), name="causes"),
        table(
            triggers_sheet(summary),
            tell,
            scene.room,
            caption=tell(say("Idle time by trigger, steady steps")),
            name="triggers",
        ),
        _placed(
            table(
                longest_sheet(summary),
                tell,
                scene.room,
                caption=tell(most),
                name="longest-gaps",
                without=_LEFT_OUT,
                letters=24,
            ),
            [
                timeline.place(Span(gap.start_ns + device.zero_ns, gap.end_ns + device.zero_ns))
                for gap in summary.longest
            ],
        ),
    ]
    return Section("gaps", title, tuple(parts), tell(say("Idle time")))


def _placed(longest: Table, places: Sequence[TimelinePlace | None]) -> Table:
    """The same with a link from the first cell of each row to where the gap is shown, if it is."""
    rows = [(replace(row[0], place=place), *row[1:]) for row, place in zip(longest.rows, places, strict=False)]
    return replace(longest, rows=tuple(rows))
