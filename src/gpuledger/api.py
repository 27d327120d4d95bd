"""What Python can do with profiles: the same as the command line, one function per verb.

import gpuledger

report = gpuledger.report("run.sqlite")
print(report.to_text(), report.findings[0].code)

Each takes a path or a trace that was read, and gives values that a notebook shows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuledger.analyse.align.alignment import Alignment, Isolation
from gpuledger.analyse.align.alignment import alignment as aligned
from gpuledger.analyse.align.operation_side import side as operation_side
from gpuledger.analyse.align.side_by_side import TIERS, KnownDifferences
from gpuledger.analyse.align.sides_from import mock_forwards, model_forwards
from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.diff.compare import compare as compare_sides
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.run_side import RunSide, like_sides
from gpuledger.findings.profiled_run import WHERE_SAMPLED, ProfiledRun, columns_for, diagnose
from gpuledger.ledger.device import analyse_devices
from gpuledger.ledger.steps import Selection
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import SAMPLES, open_trace
from gpuledger.sql.answer import QueryAnswer, answer_statement, to_read
from gpuledger.sql.booked import QuerySubject
from gpuledger.sql.statement import statement
from gpuledger.trace.measured import KernelReport
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import EVENTS, Table

if TYPE_CHECKING:
    from gpuledger.present.document import Document

Profile = Trace | str | Path
"""A profile: where it is, or what was read of it."""


class ShownResult:
    """The ways to show a result."""

    __slots__ = ()

    @abstractmethod
    def document(self) -> Document:
        """What is shown, for any writer."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """The answer, in a sentence."""

    def to_dict(self) -> dict[str, Any]:
        """The versioned document that `--format=json` writes."""
        return self.document().json()

    def to_text(self, *, width: int | None = None, language: str = "en") -> str:
        """What the command prints."""
        return self._write("text", width=width, language=language)

    def to_markdown(self, *, language: str = "en") -> str:
        """The same as Markdown."""
        return self._write("md", language=language)

    def to_html(self, *, language: str = "en") -> str:
        """The page, one HTML file."""
        return self._write("html", language=language)

    def _write(self, form: str, *, width: int | None = None, language: str) -> str:
        from gpuledger.present.writers import write

        return write(self.document(), form, width=width, language=language)

    def __repr__(self) -> str:
        from gpuledger.present.safe_text import visible

        return f"<{type(self).__name__}: {visible(self.headline)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from gpuledger.present.writers.html.notebook import fragment_html

        return fragment_html(self.document())


class Report(ShownResult, ProfiledRun):
    """What one profile says, and the ways to show it."""

    __slots__ = ()

    def document(self) -> Document:
        """What `gpuledger report` shows."""
        from gpuledger.present.views.report import report_document

        return report_document(self)

    @property
    def headline(self) -> str:
        """The verdict, in a sentence or two."""
        from gpuledger.present.views.report_parts import verdict

        return f"{self.name}: {verdict(self)}"

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, where the time went, and the findings."""
        from gpuledger.present.writers.html.notebook import notebook_html

        return notebook_html(self)


class DiffReport(ShownResult, Diff):
    """What changed from one run to the other, and the ways to show it."""

    __slots__ = ()

    def document(self) -> Document:
        """What `gpuledger diff` shows."""
        from gpuledger.answers.several_profiles import Compared
        from gpuledger.present.views.diff.document import diff_document

        return diff_document(Compared(self, ()))

    @property
    def headline(self) -> str:
        """Whether it is faster, and by how much."""
        from gpuledger.present.views.diff.document import verdict_text

        return verdict_text(self)


class AlignmentReport(ShownResult, Alignment):
    """Whether a mock runs what the model runs, and the ways to show it."""

    __slots__ = ()

    def document(self) -> Document:
        """What `gpuledger align` shows."""
        from gpuledger.present.views.align import align_document

        return align_document(self, ())

    @property
    def headline(self) -> str:
        """The verdict, and what weighs most."""
        return self.conclusion


def _open(
    profile: Profile,
    only: Collection[Table] | Mapping[Table, Collection[str]] = EVENTS,
    where_sampled: Mapping[Table, Collection[str]] = SAMPLES,
    limits: Limits = DEFAULT_LIMITS,
) -> Trace:
    """The trace, read if it was not."""
    if isinstance(profile, Trace):
        return profile
    return open_trace(profile, only=only, where_sampled=where_sampled, limits=limits)


def _name(profile: Profile, otherwise: str) -> str:
    return otherwise if isinstance(profile, Trace) else Path(profile).name


def report(
    profile: Profile,
    *,
    wanted: Selection | None = None,
    profiled: KernelReport | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """The books and findings of a profile: what `gpuledger report` shows.

    `profiled` is what Nsight Compute measured of its kernels, read by `open_kernels`.
    """
    trace = _open(profile, columns_for(profiled=profiled is not None), WHERE_SAMPLED, limits)
    return build_report(trace, _name(profile, "profile"), wanted, profiled)


def query(
    profile: Profile, sql: str, *, wanted: Selection | None = None, limits: Limits = DEFAULT_LIMITS
) -> QueryAnswer:
    """The answer to a question in SQL: what `gpuledger query` shows; `gpuledger query --schema` lists the tables."""
    asked = statement(sql)
    read, where_sampled = to_read(asked)
    trace = _open(profile, read, where_sampled, limits)
    return answer_statement(asked, QuerySubject(trace, None, _name(profile, "profile"), wanted), limits)


def build_report(
    trace: Trace, name: str = "profile", wanted: Selection | None = None, profiled: KernelReport | None = None
) -> Report:
    """The books and findings of a trace, together with what Nsight Compute measured of its kernels."""
    run = diagnose(trace, name, wanted or Selection(), profiled)
    return Report(**{field.name: getattr(run, field.name) for field in fields(run)})


def compare(before: Profile, after: Profile, wanted: Selection | None = None, *, anyway: bool = False) -> DiffReport:
    """What changed from one run to the other, on the GPU that is busiest in the first; parts sum to the difference."""
    names = _name(before, "before"), _name(after, "after")
    if names[0] == names[1]:
        names = "before", "after"
    traces = _open(before), _open(after)
    sides = like_sides(lambda asked: _sides(traces, names, asked), wanted or Selection())
    made = compare_sides(*sides, anyway=anyway)
    return DiffReport(**{field.name: getattr(made, field.name) for field in fields(made)})


def _sides(traces: tuple[Trace, Trace], names: tuple[str, str], wanted: Selection) -> tuple[RunSide, RunSide]:
    first = _side(traces[0], names[0], wanted, None)
    return first, _side(traces[1], names[1], wanted, first.gpu)


def _side(trace: Trace, name: str, wanted: Selection, gpu: int | None) -> RunSide:
    devices = analyse_devices(trace, name, wanted)
    return side_of(trace, devices, busiest(devices, gpu), name, wanted.families)


def align(
    mock: Profile,
    model: Profile,
    *,
    range_pattern: str | None = None,
    kernel_pattern: str | None = None,
    wanted: Selection | None = None,
    tier: str = "mock",
) -> AlignmentReport:
    """Whether a mock of one operation runs what the operation runs in the model: the seven checks of `gpuledger align`.

    The operation is what ranges that match launch, or the kernels whose names match, of the mock too; else the mock's
    own sequence of kernels is looked for.
    """
    isolation = Isolation("auto")
    if range_pattern is not None:
        isolation = Isolation("range", range_pattern)
    elif kernel_pattern is not None:
        isolation = Isolation("pattern", kernel_pattern)
    ours = mock_forwards(_open(mock, where_sampled={}), _name(mock, "mock"), Selection(), None, isolation)
    one = operation_side(ours.forwards)
    theirs = model_forwards(
        _open(model, where_sampled={}), _name(model, "model"), wanted or Selection(), isolation, one.kernels
    )
    other = operation_side(theirs.forwards, one.kernels)
    made = aligned(one, other, isolation, TIERS[tier], KnownDifferences(), remarks=(*ours.notes, *theirs.notes))
    return AlignmentReport(**{field.name: getattr(made, field.name) for field in fields(made)})
