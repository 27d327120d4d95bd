"""A report as a page: the verdict, figures at a glance, and a section per question, the most useful first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.idle.overlap import OverlapRow
from gpuledger.analyse.recorded.inventory import Missing
from gpuledger.answers.report import ReportAnswer
from gpuledger.messages import joined, say, translated
from gpuledger.present import document as doc
from gpuledger.present.charts.svg import Picture
from gpuledger.present.finding_words import shown_finding
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.terms import made_line, notes_block
from gpuledger.present.views.memory_snapshot import (
    MemorySnapshotAnswer,
    TimelineClock,
    answer_on_timeline,
    memory_chart,
    picture_blocks,
    shown_findings,
)
from gpuledger.present.views.page.breakdown import (
    critical_section,
    gaps_chart,
    gaps_section,
    layers_section,
    ledger_section,
    light_section,
    steps_chart,
    steps_section,
)
from gpuledger.present.views.page.kernels import kernels_section, report_roofline, roofline_section
from gpuledger.present.views.page.over_time import (
    launches_section,
    memory_section,
    place_of_finding,
    ranges_section,
    streams_chart,
    streams_section,
    timeline_section,
    window_ends,
)
from gpuledger.present.views.page.rooflines import operator_roofline_chart, sampled_roofline_chart
from gpuledger.present.views.report_parts import ledger_block, saving_share
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, share_text, time_text
from gpuledger.version import own_version

_TOP: Final = 3
"""So many findings stand on the first screen."""

_EVENTS_OF_TRACE: Final = say(
    "The memory events of the trace count from its first one: what was allocated before is in the snapshot alone."
)


def page_blocks(report: ReportAnswer, memory: MemorySnapshotAnswer | None = None) -> Iterator[doc.Block]:
    """What a page has beside the verdict and the ledger; `memory` is of the same run.

    The timeline, findings and the time breakdown are open; all else is its result in one line until it is opened, and
    not there where it has none: what the profile lacks is in the last section.
    """
    run = report.run
    findings = doc.Findings(
        tuple(
            shown_finding(finding, saving_share(run, finding), place_of_finding(report, finding))
            for finding in run.findings
        ),
        names_gpu=len(run.devices) > 1,
        zero_ns=run.zero_ns,
    )
    yield tiles(report)
    if findings.entries:
        yield replace(findings, entries=findings.entries[:_TOP], form=doc.FindingsForm.TOP)
    nothing = doc.Paragraph(say("No fix stands out; look at the kernels themselves."))
    yield timeline_section(report)
    yield doc.Section("findings", say("What to do"), (findings if findings.entries else nothing,))
    yield ledger_section(report)
    folded = (
        light_section(report),
        layers_section(report),
        ranges_section(report),
        kernels_section(report),
        gaps_section(report),
        steps_section(report),
        critical_section(report),
        streams_section(report),
        launches_section(report),
        memory_section(report),
        None if memory is None else _snapshot_section(report, memory),
        roofline_section(report),
        _communication_section(report),
        _health_section(report),
    )
    yield from (section for section in folded if section is not None and section.result)


def tiles(report: ReportAnswer) -> doc.Tiles:
    """Busy share, median step, steps, and the first fix."""
    device, steps = report.run.main_device, report.variation
    working = sum(amount for line, amount in device.line_ns.items() if not line.is_idle)
    of_all = say("of {time}", time=time_text(device.steady_ns))
    shown = [doc.Tile(say("GPU busy"), share_text(working / device.steady_ns), of_all)]
    if steps is not None:
        spread = say("P10 {low}, P90 {high}", low=time_text(steps.p10_ns), high=time_text(steps.p90_ns))
        shown.append(doc.Tile(say("Median step"), time_text(steps.median_ns), spread))
        odd = say("{count} unusual", count=count_text(len(steps.outliers)))
        shown.append(doc.Tile(say("Steps"), count_text(len(steps.steps)), odd))
    top = next((finding for finding in report.run.findings if finding.saving_ns), None)
    if top is not None:
        saving_ns = top.saving_ns if top.saving_ns_per_step is None else top.saving_ns_per_step
        share = share_text(saving_share(report.run, top) or 0.0)
        shown.append(doc.Tile(say("Fix first"), time_text(saving_ns), f"{share} · {top.code}"))
    return doc.Tiles(tuple(shown))


def _snapshot_section(report: ReportAnswer, memory: MemorySnapshotAnswer) -> doc.Section:
    """Memory over the report's window, or over the history where the trace has no wall clock; findings and tables."""
    clock = TimelineClock.of(report.run)
    answers = answer_on_timeline(memory, clock)
    blocks: list[doc.Block] = [doc.Paragraph(answer, "lead") for answer in answers]
    if len(report.run.trace[Table.ALLOCS]):
        blocks.append(doc.Paragraph(_EVENTS_OF_TRACE, "note"))
    if clock is None:
        blocks += picture_blocks(memory.analysed)
    else:
        curves, ends = memory.analysed.over_time(clock.wall_window), window_ends(report.run)
        for figures in memory.analysed.figures:
            title = say("Memory over the report's window, GPU {gpu}", gpu=figures.gpu)
            chart = memory_chart(figures, f"snapshot-gpu{figures.gpu}", curves[figures.gpu], ends)
            blocks += [doc.Heading(title), chart]
    blocks.append(shown_findings(memory.analysed))
    for table in memory.table_blocks():
        blocks += [doc.Heading(table.sheet.title), table]
    return doc.Section("memory-snapshot", say("Who holds the memory"), tuple(blocks), result=answers[0])


def _communication_section(report: ReportAnswer) -> doc.Section | None:
    """How communication and copies overlap with compute; across ranks, another page answers."""
    most = max((communication for _, communication, *_ in report.overlaps), key=lambda row: row.running_ns)
    if not most.running_ns:
        return None
    blocks: list[doc.Block] = [
        doc.SheetBlock(row_sheet("overlap", say("Overlap over the whole window"), OverlapRow, rows))
        for rows in report.overlaps
    ]
    said = say(
        "One profile cannot tell which rank the others wait for: `gpuledger fleet DIR -o job.html` "
        "combines the profiles of all ranks."
    )
    blocks.append(doc.Paragraph(said, "note"))
    result = say(
        "{time} on GPU {gpu}, {share} of it hidden behind compute",
        time=time_text(most.running_ns),
        gpu=most.gpu,
        share=share_text(most.hidden_ns / most.running_ns),
    )
    return doc.Section("communication", say("Communication and overlap"), tuple(blocks), say("Communication"), result)


def _health_section(report: ReportAnswer) -> doc.Section:
    """What the numbers rest on: the tools, what is missing, what was lost, and how to make the page again."""
    notes = report.run.health
    missing = report.missing
    lacks = doc.SheetBlock(row_sheet("missing", say("Not in this profile"), Missing, missing), anchor="missing")
    blocks: tuple[doc.Block, ...] = (
        doc.Points(say("Source"), _source_facts(report)),
        *([lacks] if missing else []),
        notes_block(notes) if notes else doc.Paragraph(say("Nothing was lost while reading."), "note"),
        doc.Heading(say("Reproduce")),
        doc.Reproduce(),
    )
    result = say(
        "notes about the profile: {notes}; kinds of records that it lacks: {missing}",
        notes=count_text(len(notes)),
        missing=count_text(len(missing)),
    )
    return doc.Section("health", say("Health and provenance"), blocks, say("Health"), result)


def _source_facts(report: ReportAnswer) -> tuple[str, ...]:
    origin, launched, unknown = report.run.trace.origin, report.contents.launched, say("not recorded")
    tool = joined(" ", (origin.tool, origin.tool_version or unknown))
    facts = [
        say("profile: {profile}", profile=report.run.name),
        say("recorded by: {tool}, export schema {schema}", tool=tool, schema=origin.schema_version or unknown),
        say("recorded at: {time} UTC", time=origin.started_utc or unknown),
        say(
            "driver {driver}, CUDA {cuda}", driver=origin.driver_version or unknown, cuda=origin.cuda_version or unknown
        ),
        say("read by: gpuledger {version}", version=own_version()),
        made_line(),
    ]
    if not isinstance(launched, NotMeasured):
        share = share_text(launched)
        facts.append(say("{share} of the GPU work has its launch call in the profile", share=share))
    return tuple(facts)


class Named(Struct, frozen=True):
    """A picture and how its file's name ends."""

    ending: str
    picture: Picture


def report_pictures(report: ReportAnswer, language: str) -> list[Named]:
    """Those that there is something to show in."""
    charts = (
        ("ledger", ledger_block(report.run).chart),
        ("steps", steps_chart(report)),
        ("streams", streams_chart(report)),
        ("gaps", gaps_chart(report.gaps)),
        ("roofline", report_roofline(report.run)),
        ("sampled-roofline", sampled_roofline_chart(report.roofline)),
        ("operator-roofline", operator_roofline_chart(report.operator_roofline, report.run.main_device.step_count)),
    )
    tell = partial(translated, language=language)
    return [Named(f"-{name}.png", chart.picture(tell)) for name, chart in charts if chart is not None]
