"""The report of a profile: the verdict, what to do, the ledger as a bar per line, what is not known.

JSON is the document gpuledger.report/1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpuledger.answers.report import ReportAnswer
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.findings.run_rules import MAX_GPUS
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.present.document import (
    Block,
    Conclusion,
    Document,
    Findings,
    Group,
    Medium,
    Only,
    Opening,
    Page,
    Paragraph,
    Remarks,
    page_of,
)
from gpuledger.present.finding_words import shown_finding
from gpuledger.present.sheet import Column, Sheet, Unit, share_column
from gpuledger.present.terms import TOTAL, line_term, made_line
from gpuledger.present.views.info import origin_line
from gpuledger.present.views.report_parts import (
    closing,
    kernel_blocks,
    ledger_block,
    light_blocks,
    next_command,
    phase_blocks,
    saving_share,
    use_blocks_of,
    verdict,
)

if TYPE_CHECKING:
    from gpuledger.present.views.memory_snapshot import MemorySnapshotAnswer
    from gpuledger.present.views.report_answer import ReportDocument

_MOST_FINDINGS = 3
"""So many are told in text; the others are named."""


def report_document(
    report: ReportAnswer,
    pictures: Sequence[tuple[str, str]] = (),
    *,
    is_brief: bool = False,
    memory: MemorySnapshotAnswer | None = None,
) -> Document:
    """The report; `pictures` are titles and files that lie beside a Markdown document, `memory` is of the same run.

    A brief one has the verdict and what to do, and no more. JSON is the document gpuledger.report/1.
    """
    return Document(
        blocks=lambda: tuple(_blocks(report, pictures, memory, is_brief=is_brief)),
        data=lambda: _json(report, memory),
        sheets=lambda: tuple(ledger_sheet(device) for device in report.run.devices),
        page=lambda: _page(report, memory),
    )


def ledger_sheet(device: Device) -> Sheet:
    """The whole window by line; the foot is the window, which the lines sum to."""
    whole = device.ledger.window_ns
    return Sheet.of(
        f"ledger_gpu{device.gpu}",
        say("Ledger, GPU {gpu}", gpu=device.gpu),
        (
            Column("line", say("Line"), Unit.TEXT, lambda entry: line_term(entry[0])),
            Column("time_ns", say("Time"), Unit.NS, lambda entry: entry[1]),
            share_column("share_percent", say("Share"), lambda entry: entry[1], whole),
        ),
        device.ledger.total().items(),
        foot=({"line": TOTAL, "time_ns": whole, "share_percent": 100.0},),
    )


def _json(report: ReportAnswer, memory: MemorySnapshotAnswer | None) -> ReportDocument:
    from gpuledger.present.views.report_answer import report_json

    return report_json(report, memory)


def _page(report: ReportAnswer, memory: MemorySnapshotAnswer | None) -> Page:
    if len(report.run.devices) > MAX_GPUS:  # `health` says so
        report = ReportAnswer(replace(report.run, devices=report.run.asked))
    report.go_through()
    return page_of(report.run.name, _blocks(report, (), memory))


def _blocks(
    report: ReportAnswer,
    pictures: Sequence[tuple[str, str]],
    memory: MemorySnapshotAnswer | None,
    *,
    is_brief: bool = False,
) -> Iterator[Block]:
    run = report.run
    # a report that joins several files is handed on, so it says when it was made
    facts = (made_line(),) if run.kernels else ()
    findings = tuple(shown_finding(finding, saving_share(run, finding)) for finding in run.findings)
    yield Opening(run.name, origin_line(run.trace, report.contents), facts)
    yield Conclusion(verdict(run))
    yield Only(
        Medium.WRITTEN,
        (Findings(findings, most=_MOST_FINDINGS, is_brief=is_brief), *_memory_blocks(run, memory)),
    )
    if is_brief:
        yield Remarks(tuple(next_command(run)))
        return
    yield ledger_block(run, pictures)
    yield Only(Medium.WRITTEN, lambda: _written_blocks(report))
    yield Only(Medium.PAGE, lambda: _page_blocks(report, memory))


def _written_blocks(report: ReportAnswer) -> Iterator[Block]:
    """What text and Markdown say in few sentences and tables."""
    run = report.run
    yield from phase_blocks(report)
    yield from light_blocks(run)
    if report.serving is not None:
        from gpuledger.present.views.steps import headline_sentences  # few reports have one

        yield from map(Paragraph, headline_sentences(report.serving))
    yield Group(tuple(use_blocks_of(run)))
    yield Group(tuple(kernel_blocks(run)))
    yield Remarks(tuple(closing(report)))


def _page_blocks(report: ReportAnswer, memory: MemorySnapshotAnswer | None) -> Iterator[Block]:
    """What only a page has room for; what draws it is loaded here."""
    from gpuledger.present.views.page.report_page import page_blocks

    return page_blocks(report, memory)


def _memory_blocks(run: ProfiledRun, memory: MemorySnapshotAnswer | None) -> Sequence[Block]:
    if memory is None:
        return ()
    from gpuledger.present.views.memory_snapshot import TimelineClock, memory_blocks  # few reports have one

    return memory_blocks(memory, TimelineClock.of(run))


def opening_blocks(report: ReportAnswer) -> tuple[Block, ...]:
    """What a notebook shows: the verdict, where the time went, and what to do."""
    run = report.run
    return (
        Opening(run.name, origin_line(run.trace, report.contents)),
        Conclusion(verdict(run)),
        ledger_block(run),
        Findings(tuple(shown_finding(finding, saving_share(run, finding)) for finding in run.findings)),
    )
