"""The questions of the guide, asked in SQL of both kinds of timelines: the answers are those of the verbs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuledger.analyse.idle.gap_summary import gap_summary
from gpuledger.analyse.idle.launch_costs import launch_costs
from gpuledger.analyse.phases.step_summary import step_books
from gpuledger.analyse.recorded import nvidia_tables
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import variation
from gpuledger.sql.answer import ask
from gpuledger.trace.model import Trace
from gpuledger.verbs.profiled_report import Report
from support.command import CAPTURES, ROOT
from support.profiles.opened import report_of

PROFILES = (CAPTURES / "decode.sqlite.xz", ROOT / "captures" / "torch" / "decode.json.gz")
GUIDE = ROOT / "docs" / "guides" / "query.md"
QUESTIONS = dict(re.findall(r"^### \d+\. (.*?)\n.*?```sql\n(.*?)```", GUIDE.read_text(), re.MULTILINE | re.DOTALL))


@dataclass(frozen=True)
class Subject:
    """One profile with what the verbs say of it."""

    report: Report

    @property
    def trace(self) -> Trace:
        return self.report.trace

    @property
    def device(self) -> Device:
        [device] = self.report.devices
        return device


def _kernels(subject: Subject) -> list[tuple[Any, ...]]:
    return [
        (each.name, each.times.count, each.times.total, each.times.least, each.times.most)
        for each in nvidia_tables.cuda_gpu_kern_sum(subject.trace)
    ]


def _calls(subject: Subject) -> list[tuple[Any, ...]]:
    texts = {each.name: each for each in nvidia_tables.cuda_api_sum(subject.trace)}
    return [(name, each.times.count, each.times.total) for name, each in texts.items()]


def _busy(subject: Subject) -> list[tuple[Any, ...]]:
    books = subject.device.ledger.total()
    idle = sum(amount for line, amount in books.items() if line.is_idle)
    whole = sum(books.values())
    return [(subject.device.gpu, idle, whole - idle, whole, round(100 * (whole - idle) / whole, 1))]


def _lengths(subject: Subject) -> list[tuple[Any, ...]]:
    buckets = gap_summary(subject.trace, subject.device).by_length
    return [(str(each.length), each.gaps, each.time_ns) for each in buckets if each.gaps]


def _long_gaps(subject: Subject) -> list[tuple[Any, ...]]:
    return [
        (gap.start_ns, gap.length_ns, str(gap.trigger), str(gap.cause), gap.before, gap.after)
        for gap in gap_summary(subject.trace, subject.device, 1_000_000).longest
    ]


def _steps(subject: Subject) -> list[tuple[Any, ...]]:
    varied = variation(subject.device)
    assert varied is not None
    return [
        (step.step, step.kernels, step.busy_ns, step.length_ns, round(100 * (step.busy_share or 0), 1))
        for step in step_books(subject.device, varied)
    ]


def _launches(subject: Subject) -> list[tuple[Any, ...]]:
    made = launch_costs(subject.trace, subject.device).launch_calls
    recorded = {short_function_name(name or ""): name for name in subject.device.host.calls.texts("name")}
    return [(recorded[each.name], each.calls) for each in made]


def _triggers(subject: Subject) -> list[tuple[Any, ...]]:
    told = gap_summary(subject.trace, subject.device).by_trigger
    return [(subject.device.gpu, str(each.trigger), each.call or None, each.gaps, each.time_ns) for each in told]


def _copies(subject: Subject) -> list[tuple[Any, ...]]:
    return [
        (_kind(each.operation), each.times.count, each.sizes.total, each.times.total)
        for each in nvidia_tables.cuda_gpu_mem_size_sum(subject.trace)
    ]


def _kind(operation: str) -> str:
    return "Memset" if operation == "[CUDA memset]" else operation.removeprefix("[CUDA memcpy ").removesuffix("]")


def _lines(subject: Subject) -> list[tuple[Any, ...]]:
    return [(str(line), amount) for line, amount in subject.device.line_ns.items()]


def _ranges(subject: Subject) -> list[tuple[Any, ...]]:
    return [
        (each.name.text, each.instances, each.times and each.times.total)
        for each in nvidia_tables.nvtx_sum(subject.trace)
    ]


def _findings(subject: Subject) -> list[tuple[Any, ...]]:
    return [
        (rank, each.code, each.saving_ns, each.saving_ns_per_step, each.claim)
        for rank, each in enumerate(subject.report.findings, 1)
    ]


ANSWERS: Sequence[Callable[[Subject], list[tuple[Any, ...]]]] = (
    _kernels,
    _calls,
    _busy,
    _lengths,
    _long_gaps,
    _steps,
    _launches,
    _triggers,
    _copies,
    _lines,
    _ranges,
    _findings,
)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.name)
@pytest.mark.parametrize(("question", "answer"), list(zip(QUESTIONS, ANSWERS, strict=True)), ids=list(QUESTIONS))
def test_a_question_in_sql_is_answered_as_by_the_verb(
    profile: Path, question: str, answer: Callable[[Subject], list[tuple[Any, ...]]]
) -> None:
    subject = Subject(report_of(profile))
    asked = ask(subject.trace, subject.report.devices, QUESTIONS[question])
    assert not asked.is_cut
    assert sorted(map(repr, asked.rows)) == sorted(map(repr, answer(subject)))
    assert asked.rows or profile.suffix == ".gz"  # torch records no NVTX ranges
