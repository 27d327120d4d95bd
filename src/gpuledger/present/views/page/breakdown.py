"""Where a report's time went, on its page: the lines of the books, step by step, gaps by cause, the critical path."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from gpuledger.analyse.idle.gap_summary import GapSummary
from gpuledger.analyse.phases.step_summary import level_rows, unusual_steps, usual_step
from gpuledger.answers.report import ReportAnswer
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.charts import amounts
from gpuledger.present.charts.over_time import StripLine, step_strip
from gpuledger.present.palette import line_tone
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.terms import TOTAL, line_term
from gpuledger.present.views.critical import path_remarks, path_sentence
from gpuledger.present.views.gaps import GapsAnswer
from gpuledger.present.views.page.over_time import labelled_table, place_on_timeline
from gpuledger.present.views.page.rooflines import operator_roofline_chart
from gpuledger.present.views.ranges import RangesAnswer
from gpuledger.present.views.report_parts import drawing_order, ledger_title
from gpuledger.present.views.steps import StepsAnswer, batch_tables, serving_sentences
from gpuledger.present.views.whatif import WhatIfAnswer
from gpuledger.present.views.words import gaps_text
from gpuledger.present.views.work.light import light_chart, light_sheets, parts_sentence, step_sentence
from gpuledger.replay.path_summary import PathSummary
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints, Span
from gpuledger.units import count_text, share_text, time_text

MOST_COLUMNS: Final = 400
"""Columns of the strip of steps. Of more steps, each column is the longest of some neighbours: a real step, whose lines
sum to its length, so that nothing unusual is averaged away."""

_MOST_LINES: Final = 14
"""So many lines are told apart in the strip; of more, the smallest go into one."""

_GAP_SERIES: Final = (
    ("compute-elementwise", say("share of the gaps")),
    ("idle-host_code", say("share of the idle time")),
)
_MEDIAN_STEP: Final = (
    Column("line", say("Line"), Unit.TEXT),
    Column("time_ns", say("Time"), Unit.NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
)


def ledger_section(report: ReportAnswer) -> doc.Section:
    """Every line of the main GPU as a table; the bar of them stands on the first screen."""
    device = report.run.main_device
    blocks: list[doc.Block] = [doc.SheetBlock(_ledger_sheet(device), anchor="ledger")]
    blocks += [] if report.unclassified is None else [doc.Paragraph(report.unclassified, "note")]
    return doc.Section("books", ledger_title(device), tuple(blocks), say("Where the time went"))


def light_section(report: ReportAnswer) -> doc.Section | None:
    """What compute time was good for, as bars and tables; None where that is not known of most of it."""
    device, books = report.run.main_device, report.run.light
    if books is None or not books.is_telling:
        return None
    under = operator_roofline_chart(report.operator_roofline, device.step_count)
    blocks: tuple[doc.Block, ...] = (
        doc.Paragraph(step_sentence(device, books)),
        light_chart(device, books),
        *([] if under is None else [under]),
        *map(doc.SheetBlock, light_sheets(device, books)),
    )
    return doc.Section(
        "speed-of-light", say("What compute time was good for"), blocks, say("Compute time"), parts_sentence(books)
    )


def _ledger_sheet(device: Device) -> Sheet:
    """Per step over the steady steps, as on the first screen, and over the whole window. Both sum to their whole."""
    steady, window, whole_ns = device.shown_ns, device.ledger.shown_total(), device.ledger.window_ns
    line, share = Column("line", say("Line"), Unit.TEXT), Column("step_percent", say("Share"), Unit.SHARE_PERCENT)
    in_window = Column("window_ns", say("Whole window"), Unit.NS)
    per_step = Column("step_ns", say("Per step"), Unit.NS)
    of_window = Column("window_percent", say("Of the window"), Unit.SHARE_PERCENT)

    def row(name: Cell, steady_ns: int, window_ns: int) -> tuple[Cell, ...]:
        percent = 100 * steady_ns / device.steady_ns
        if device.steps is None:
            return name, percent, window_ns
        return name, percent, steady_ns // device.step_count, window_ns, 100 * window_ns / whole_ns

    order = drawing_order(steady) + [line for line in drawing_order(window) if line not in steady]
    return Sheet(
        "ledger",
        say("Time breakdown, GPU {gpu}", gpu=device.gpu),
        (line, share, in_window) if device.steps is None else (line, share, per_step, in_window, of_window),
        tuple(row(line_term(name), steady.get(name, 0), window.get(name, 0)) for name in order),
        foot=(row(TOTAL, device.steady_ns, whole_ns),),
    )


def steps_section(report: ReportAnswer) -> doc.Section:
    """The strip, the median step, and the tables of `gpuledger steps` but the list of all steps."""
    device, steps = report.run.main_device, report.variation
    repeats = labelled_table(StepsAnswer, "levels", level_rows(device))
    if steps is None:
        missing = say("nothing repeats in this profile, so no steps were found; --step-range=REGEX defines them")
        if device.levels:
            missing = say(
                "nothing that repeats covers the window, so it is shown as a whole; --level=NAME makes one "
                "level the step"
            )
        return doc.Section("steps", say("Steps"), (doc.not_measured(missing), *repeats), result=say("none found"))
    neighbours = _steps_per_column(steps)
    said = say("One column per step; a dot marks an unusual one. Pick one to see its time breakdown.")
    if neighbours > 1:
        said = say(
            "{count} steps; each column is the longest of {each} neighbors, and a dot marks an unusual "
            "one. Pick one to see its time breakdown.",
            count=count_text(len(steps.steps)),
            each=neighbours,
        )
    nothing = doc.Paragraph(say("No step is unusual for its phase."), "note")
    unusual = labelled_table(StepsAnswer, "unusual", unusual_steps(device, steps), anchor="outliers")
    blocks: tuple[doc.Block, ...] = (
        doc.Paragraph(said, "lead"),
        _step_strip(device, steps),
        *labelled_table(StepsAnswer, "by_gpu", (usual_step(device, steps),)),
        *labelled_table(StepsAnswer, "phases", report.phases),
        *_serving_blocks(report),
        *(unusual or (nothing,)),
        *repeats,
    )
    return doc.Section("steps", say("Steps"), blocks, result=_steps_sentence(steps))


def _serving_blocks(report: ReportAnswer) -> list[doc.Block]:
    if report.serving is None:
        return []
    tables = (doc.SheetBlock(row_sheet(*table)) for table in batch_tables(report.serving))
    return [*(doc.Paragraph(sentence, "note") for sentence in serving_sentences(report.serving)), *tables]


def layers_section(report: ReportAnswer) -> doc.Section | None:
    """The phases of a layer and each layer, as `gpuledger ranges` tells them; None where no layers are known."""
    costs = report.layer_phases
    if costs is None:
        return None
    most = max(costs.phases, key=lambda cost: cost.time_ns)
    share = share_text(most.time_ns / (costs.whole_ns - costs.idle_ns))
    result = say("{phase}: {share} of the GPU's work", phase=most.phase, share=share)
    layers = () if isinstance(costs.layers, NotMeasured) else costs.layers
    blocks = (
        *labelled_table(RangesAnswer, "phases", costs.rows, report.run.main_device),
        *labelled_table(RangesAnswer, "phase_layers", layers, report.run.main_device),
    )
    return doc.Section("layers", say("Phases of a layer"), blocks, say("Phases"), result)


def steps_chart(report: ReportAnswer) -> doc.Chart | None:
    """The strip of the main GPU's steps; None where there are none."""
    return None if report.variation is None else _step_strip(report.run.main_device, report.variation).chart


def _steps_per_column(steps: Variation) -> int:
    """Of so many steps each column is the longest."""
    return -(-len(steps.steps) // MOST_COLUMNS)


def _step_strip(device: Device, steps: Variation) -> doc.StepStrip:
    edges_ns, length_ns, warm_up = steps.steps.edges_ns, steps.steps.length_ns, steps.steps.warm_up
    neighbours = _steps_per_column(steps)
    shown = tuple(
        first + int(length_ns[first : first + neighbours].argmax()) for first in range(0, len(steps.steps), neighbours)
    )
    all_lines, all_tiles = device.shown_tiles
    books = all_tiles[np.searchsorted(device.ledger.tiles_ns, edges_ns[:-1])[list(shown)]]
    sums = dict(zip(all_lines, books.sum(axis=0).tolist(), strict=True))
    lines = tuple(drawing_order({line: amount for line, amount in sums.items() if amount}))
    ns = books[:, [all_lines.index(line) for line in lines]]
    odd = {outlier.step for outlier in steps.outliers}
    unusual = tuple(step in odd for step in shown)
    median = warm_up + int(np.flatnonzero(steps.steps.steady_ns == steps.median_ns)[0])
    tile = int(np.searchsorted(device.ledger.tiles_ns, edges_ns[median]))
    of_median = zip(all_lines, all_tiles[tile].tolist(), strict=True)
    median_lines = {line: amount for line, amount in of_median if amount}
    return doc.StepStrip(
        chart=_strip_chart(steps, shown, lines, ns, unusual),
        still=_median_step(median, int(length_ns[median]), median_lines),
        steps=shown,
        lines=lines,
        ns=ns,
        unusual=unusual,
        warm_up=tuple(step < warm_up for step in shown),
        median_ns=steps.median_ns,
        median_lines_ns=median_lines,
    )


def _strip_chart(
    steps: Variation, shown: tuple[int, ...], lines: tuple[Line, ...], ns: Ints, unusual: tuple[bool, ...]
) -> doc.Chart:
    by_size = sorted(range(len(lines)), key=lambda column: -int(ns[:, column].sum()))
    drawn = [
        StripLine(line_tone(lines[column]), lines[column].label, tuple(ns[:, column].tolist()))
        for column in sorted(by_size[:_MOST_LINES])
    ]
    if small := by_size[_MOST_LINES:]:
        rest = tuple(ns[:, small].sum(axis=1).tolist())
        drawn.append(StripLine("idle-unattributed", say("everything else"), rest))
    said = _steps_sentence(steps)
    first, last = (say("step {step}", step=step) for step in (shown[0], shown[-1]))
    ends = (first, last if len(shown) > 1 else "")
    title = say("Steps, one column each")
    return doc.Chart(partial(step_strip, title, said, drawn, unusual, steps.median_ns, ends), name="step-strip")


def _steps_sentence(steps: Variation) -> Message:
    return say(
        "{count} steps: median {median}, P10 {low}, P90 {high}; {odd} unusual",
        count=count_text(len(steps.steps)),
        median=time_text(steps.median_ns),
        low=time_text(steps.p10_ns),
        high=time_text(steps.p90_ns),
        odd=count_text(len(steps.outliers)),
    )


def _median_step(step: int, whole_ns: int, lines: Mapping[Line, int]) -> doc.SheetBlock:
    """The ledger of the first step that is as long as the median."""
    rows = tuple((line_term(line), lines[line], 100 * lines[line] / whole_ns) for line in drawing_order(lines))
    title = say("The median step, number {step}: {time}", step=step, time=time_text(whole_ns))
    sheet = Sheet("median_step", title, _MEDIAN_STEP, rows, foot=((TOTAL, whole_ns, 100.0),))
    return doc.SheetBlock(sheet, anchor="median-step")


def gaps_section(report: ReportAnswer) -> doc.Section:
    """The tables of `gpuledger gaps`, and the histogram."""
    device, summary = report.run.main_device, report.gaps
    chart, title = gaps_chart(summary), say("Why the GPU was idle")
    if chart is None:
        return doc.Section("gaps", title, ())
    said = say("Causes show where the host was; the trigger shows what to fix.")
    result = say(
        "{gaps}, {time} in total, {share} of the window",
        gaps=gaps_text(summary.gaps),
        time=time_text(summary.idle_ns),
        share=share_text(summary.idle_ns / device.ledger.window_ns),
    )
    zero_ns = device.zero_ns
    places = tuple(
        place_on_timeline(report, Span(gap.start_ns + zero_ns, gap.end_ns + zero_ns)) for gap in summary.longest
    )
    blocks: tuple[doc.Block, ...] = (
        doc.Paragraph(said, "lead"),
        chart,
        *labelled_table(GapsAnswer, "by_length", summary.by_length),
        *labelled_table(GapsAnswer, "by_cause", summary.by_cause),
        *labelled_table(GapsAnswer, "by_trigger", summary.by_trigger, device),
        # `gpuledger gaps` has the columns that are left out
        *labelled_table(GapsAnswer, "longest", summary.longest, without=("cause_ns", "tid"), places=places),
    )
    return doc.Section("gaps", title, blocks, say("Idle time"), result)


def gaps_chart(summary: GapSummary) -> doc.Chart | None:
    """Gaps by length, shortest first: their share of all gaps, and of all idle time. None where there are none."""
    if not summary.gaps or not summary.idle_ns:
        return None
    columns = []
    for bucket in summary.by_length:
        both = (bucket.gaps / summary.gaps, bucket.time_ns / summary.idle_ns)
        columns.append(amounts.ChartColumn(bucket.length, both, (share_text(both[0]), share_text(both[1]))))
    title = say("Gaps by length: share of their number and of their time")
    draw = partial(amounts.columns, title, amounts.columns_said(columns), _GAP_SERIES, columns)
    return doc.Chart(draw, name="gap-chart")


def critical_section(report: ReportAnswer) -> doc.Section:
    """The chain of the main GPU in the steps that findings are replayed in: what it is made of, what is beside it."""
    title, summary = say("The critical path"), report.path
    if summary is None:
        said = say("The profile is long and has no steps to pick from; run this for its path:")
        return doc.Section(
            "critical",
            title,
            (doc.Paragraph(said), doc.ShellCommands((("gpuledger", "whatif", "PROFILE"),))),
            result=say("not worked out for this page"),
        )
    least = ("launches", "least_slack_ns")
    blocks: tuple[doc.Block, ...] = (
        _path_chart(summary),
        *map(doc.Paragraph, path_remarks(summary)),
        *labelled_table(WhatIfAnswer, "path_operations", summary.operations, without=("line",)),
        *labelled_table(WhatIfAnswer, "path_calls", summary.calls),
        *labelled_table(WhatIfAnswer, "off_path", summary.off_path, anchor="critical-beside", without=least),
    )
    return doc.Section("critical", title, blocks, result=path_sentence(summary))


def _path_chart(summary: PathSummary) -> doc.Chart:
    """One bar: the kinds of segments, the longest first."""
    parts = tuple(
        amounts.Part(
            line_tone(part.line),
            part.share or 0.0,
            part.part.label,
            share_text(part.share or 0.0),
            time_text(round(part.time_ns)),
            part.line.brief_label,
        )
        for part in summary.parts
    )
    said = joined("; ", (part.hint for part in parts))
    bar = amounts.Bar("", parts)
    return doc.Chart(partial(amounts.stacked_bars, say("The critical path"), said, [bar]), name="critical-chart")
