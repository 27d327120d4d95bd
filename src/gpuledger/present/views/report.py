"""The report of a profile: the verdict, what to do, the ledger as a bar per line, what is not known.

JSON is the document gpuledger.report/1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuledger.analyse.inventory import contents, missing
from gpuledger.answers.memory_snapshot import SnapshotAnswer
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.levels import Level
from gpuledger.ledger.step_variation import variation
from gpuledger.ledger.steps import PHASES
from gpuledger.present.document import Block, Conclusion, Document, Findings, Group, Opening, Page, Remarks
from gpuledger.present.finding_words import shown_finding
from gpuledger.present.sheet import fields_json
from gpuledger.present.terms import made_at, made_line
from gpuledger.present.views.gpu_time import ledger_sheet
from gpuledger.present.views.info import origin_line
from gpuledger.present.views.report_parts import (
    closing,
    kernel_blocks,
    ledger_block,
    next_command,
    saving_share,
    use_blocks_of,
    verdict,
)
from gpuledger.present.writers.json import health_json
from gpuledger.trace.model import GraphPlaces
from gpuledger.trace.spans import Span

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.against_counters import CounterComparison
    from gpuledger.analyse.utilization.kernel_use import UseClass
    from gpuledger.analyse.utilization.stretches import SampledUse


_MOST_FINDINGS = 3
"""So many are told in text; the others are named."""


def report_document(
    report: ProfiledRun,
    pictures: Sequence[tuple[str, str]] = (),
    *,
    is_brief: bool = False,
    memory: SnapshotAnswer | None = None,
) -> Document:
    """The report; `pictures` are titles and files that lie beside a Markdown document, `memory` is of the same run.

    A brief one has the verdict and what to do, and no more. JSON is the document gpuledger.report/1.
    """
    return Document(
        blocks=lambda: _blocks(report, pictures, memory, is_brief=is_brief),
        data=lambda: report_data(report, memory),
        sheets=lambda: tuple(ledger_sheet(device) for device in report.devices),
        page=lambda: _page(report, memory),
    )


def _page(report: ProfiledRun, memory: SnapshotAnswer | None) -> Page:
    from gpuledger.present.views.page.report_page import report_page

    return report_page(report, memory)


def _blocks(
    report: ProfiledRun, pictures: Sequence[tuple[str, str]], memory: SnapshotAnswer | None, *, is_brief: bool
) -> tuple[Block, ...]:
    # a report that joins several files is handed on, so it says when it was made
    facts = (made_line(),) if report.kernels else ()
    whole_ns = report.main_device.steady_ns
    findings = tuple(shown_finding(finding, finding.saving_ns / whole_ns) for finding in report.findings)
    opening: tuple[Block, ...] = (
        Opening(report.name, origin_line(report.trace, contents(report.trace)), facts),
        Conclusion(verdict(report)),
        Findings(findings, most=_MOST_FINDINGS, is_brief=is_brief),
        *_memory_blocks(report, memory),
    )
    if is_brief:
        return *opening, Remarks(tuple(next_command(report)))
    return (
        *opening,
        ledger_block(report, pictures),
        Group(tuple(use_blocks_of(report))),
        Group(tuple(kernel_blocks(report))),
        Remarks(tuple(closing(report))),
    )


def _memory_blocks(report: ProfiledRun, memory: SnapshotAnswer | None) -> Sequence[Block]:
    if memory is None:
        return ()
    from gpuledger.present.views.memory_snapshot import TimelineClock, memory_blocks  # few reports have one

    return memory_blocks(memory, TimelineClock.of(report))


def opening_blocks(report: ProfiledRun) -> tuple[Block, ...]:
    """What a notebook shows: the verdict, where the time went, and what to do."""
    return (
        Opening(report.name, origin_line(report.trace, contents(report.trace))),
        Conclusion(verdict(report)),
        ledger_block(report),
        Findings(tuple(shown_finding(finding, saving_share(report, finding)) for finding in report.findings)),
    )


def report_data(report: ProfiledRun, memory: SnapshotAnswer | None = None) -> dict[str, Any]:
    """The versioned document; `memory` is of the same run."""
    origin = report.trace.origin
    return {
        "schema": "gpuledger.report/1",
        "profile": report.name,
        "origin": {
            **fields_json(origin, "tool tool_version schema_version"),
            "gpus": [gpu.name for gpu in origin.gpus],
        },
        "health": health_json((*report.trace.health, *report.kernel_health)),
        "not_measured": [fields_json(lack, "what reason means") for lack in missing(report.trace)],
        "zero_ns": report.zero_ns,
        "window_ns": report.devices[0].ledger.window_ns,
        "devices": [
            _device(device, report.use.get(device.gpu), report.against.get(device.gpu, ())) for device in report.devices
        ],
        "steps": _steps(report.main_device),
        "levels": [_level(level) for level in report.main_device.levels],
        "findings": [finding_dict(found, report.zero_ns) for found in report.findings],
        **_graph_names(report.trace.places),
        **_kernels(report),
        **_memory(memory),
    }


def _memory(memory: SnapshotAnswer | None) -> dict[str, Any]:
    if memory is None:
        return {}
    from gpuledger.present.views.memory_snapshot import snapshot_data

    return {"memory": snapshot_data(memory)}


def _graph_names(places: GraphPlaces | None) -> dict[str, Any]:
    """How much of the work inside graphs a second file names, where one was given."""
    if places is None or places.coverage is None:
        return {}
    return {"graph_names": {"file": places.file, **asdict(places.coverage)}}


def _kernels(report: ProfiledRun) -> dict[str, Any]:
    if not report.kernels:
        return {}
    from gpuledger.present.views.ncu import matched_json

    by_gpu = {device.gpu: device for device in report.devices}
    return {
        "made_at": made_at(),
        "kernels": [matched_json(matched, by_gpu[gpu]) for gpu, matched in report.kernels.items()],
    }


def _device(device: Device, use: SampledUse | None, against: tuple[CounterComparison, ...]) -> dict[str, Any]:
    from gpuledger.answers.kernels import UseAnswer  # few profiles have samples
    from gpuledger.present.views.utilization import device_use_json

    split = UseAnswer(device, use).split
    return {
        "device": device.gpu,
        "window_ns": device.ledger.window_ns,
        **_ends(device.ledger.window, device.zero_ns),
        "ledger": _ledger(device.ledger.total(), device.ledger.window_ns, split.window),
        "steady": {
            "steady_ns": device.steady_ns,
            **_ends(device.steady, device.zero_ns),
            "steps": device.step_count,
            "ledger": _ledger(device.line_ns, device.steady_ns, split.steady),
        },
        **fields_json(device.ledger.busy, "hidden_comm_ns hidden_copy_ns"),
        "triggers": [
            {"trigger": trigger, "call": call, "ns": time, "gaps": count}
            for (trigger, call), (time, count) in device.triggers.items()
        ],
        "use": None if use is None else device_use_json(use, device.zero_ns, against),
    }


def _level(level: Level) -> dict[str, Any]:
    return {"name": str(level.name), "source": str(level.kind), **fields_json(level, "count median_ns coverage")}


def _ends(span: Span, zero_ns: int) -> dict[str, int]:
    """Where a stretch begins and ends, as `--time` takes it."""
    return {"start_ns": span.start_ns - zero_ns, "end_ns": span.end_ns - zero_ns}


def _ledger(
    lines: Mapping[Line, int], whole_ns: int, by_use: Mapping[Line, Mapping[UseClass, int]]
) -> list[dict[str, Any]]:
    """Lines that sum to the whole; those of compute have parts by use that sum to the line."""
    return [
        {"line": line, "ns": amount, "share": amount / whole_ns if whole_ns else 0.0}
        | ({"use_ns": {name.value: ns for name, ns in by_use[line].items()}} if line in by_use else {})
        for line, amount in lines.items()
    ]


def _steps(device: Device) -> dict[str, Any] | None:
    found = variation(device)
    if found is None:
        return None
    return {
        "device": device.gpu,
        "source": found.steps.source,
        "coverage": device.coverage,
        "count": len(found.steps),
        "warm_up": found.steps.warm_up,
        **fields_json(found, "median_ns p10_ns p90_ns drift_share"),
        "phases": {
            name: device.phases.of_step[found.steps.warm_up :].count(at) for at, name in enumerate(PHASES) if name
        },
        "outliers": [fields_json(outlier, "step length_ns line excess_ns") for outlier in found.outliers],
    }


def finding_dict(found: Finding, zero_ns: int | None) -> dict[str, Any]:
    """A finding as every JSON document holds it; `device` is null where it is about no single one.

    Instants are told from `zero_ns`; None where the trace has no one clock, and there are none.
    """
    return {
        **fields_json(found, "code claim saving_ns_per_step saving_low_ns_per_step saving_ns"),
        "saving": _saving(found),
        "saving_is_bound": found.is_bound,
        "then_saves_ns_per_step": None if found.then_ns is None else found.then_ns // found.steps,
        "fix": found.fix,
        **fields_json(found, "assumption confidence"),
        "device": None if found.gpu < 0 else found.gpu,
        "evidence": list(found.sentences),
        "evidence_data": [_evidence(piece, zero_ns) for piece in found.evidence],
        "next": found.next,
    }


def _saving(found: Finding) -> dict[str, int | None]:
    """Per step, or of the window where there are no steps: with the profiler, and without it."""
    plain = found.plain
    return {
        "profiled_ns": found.saving_ns // found.steps,
        "plain_ns": None if plain is None or plain.ns is None else plain.ns // found.steps,
        "plain_low_ns": None if plain is None else plain.low_ns // found.steps,
        "plain_high_ns": None if plain is None else plain.high_ns // found.steps,
    }


def _evidence(piece: Evidence, zero_ns: int | None) -> dict[str, Any]:
    span = None if piece.span is None or zero_ns is None else piece.span
    return {
        "t0_ns": None if span is None else span.start_ns - (zero_ns or 0),
        "t1_ns": None if span is None else span.end_ns - (zero_ns or 0),
        **fields_json(piece, "process=pid thread=tid ranges"),
        "call": piece.call or None,
        "kernel": piece.kernel or None,
        "copy": piece.copy or None,
        **fields_json(piece, "bytes=moved_bytes correlations count share"),
        "of": piece.of or None,
    }
