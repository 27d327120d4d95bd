"""What Python can do with profiles: the same as the command line, one function per verb.

from gpuledger import align, build_report, compare, open_trace

report = build_report(open_trace("run.sqlite"))
print(report.to_text(), report.findings[0].code)
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gpuledger.analyse.align.alignment import Alignment, Isolation
from gpuledger.analyse.align.alignment import alignment as aligned
from gpuledger.analyse.align.from_profiles import of_mock, of_model
from gpuledger.analyse.align.known_differences import KnownDifferences
from gpuledger.analyse.align.operation_side import side as operation_side
from gpuledger.analyse.align.verdicts import TIERS
from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.diff.compare import compare as compare_sides
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.like_sides import like_sides
from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.findings.profiled_run import ProfiledRun, diagnosed
from gpuledger.ledger.device import analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.trace.kernel_report import KernelReport
from gpuledger.trace.model import Trace


class Report(ProfiledRun):
    """What one profile says, and the ways to show it."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The versioned document gpuledger.report/1."""
        from gpuledger.present.views.report_json import report_data

        return report_data(self)

    def to_text(self, *, width: int | None = None, language: str = "en") -> str:
        """What `gpuledger report` prints."""
        return self._written("text", width=width, language=language)

    def to_markdown(self, *, language: str = "en") -> str:
        """The same as Markdown."""
        return self._written("md", language=language)

    def to_html(self, *, language: str = "en") -> str:
        """The page, one HTML file."""
        return self._written("html", language=language)

    def _written(self, form: str, *, width: int | None = None, language: str) -> str:
        from gpuledger.present.views.report import report_document
        from gpuledger.present.writers import write

        return write(report_document(self), form, width=width, language=language)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from gpuledger.present.writers.html.notebook import notebook_html

        return notebook_html(self)


def build_report(
    trace: Trace, name: str = "profile", wanted: Wanted | None = None, profiled: KernelReport | None = None
) -> Report:
    """The books and findings of a trace, together with what Nsight Compute measured of its kernels."""
    run = diagnosed(trace, name, wanted or Wanted(), profiled)
    return Report(**{field.name: getattr(run, field.name) for field in fields(run)})


def compare(before: Trace, after: Trace, wanted: Wanted | None = None, *, anyway: bool = False) -> Diff:
    """What changed from one run to the other, on the GPU that is busiest in the first; parts sum to the difference."""
    return compare_sides(*like_sides(lambda asked: _sides(before, after, asked), wanted or Wanted()), anyway=anyway)


def _sides(before: Trace, after: Trace, wanted: Wanted) -> tuple[RunSide, RunSide]:
    first = _side(before, "before", wanted, None)
    return first, _side(after, "after", wanted, first.gpu)


def _side(trace: Trace, name: str, wanted: Wanted, gpu: int | None) -> RunSide:
    devices = analysed(trace, name, wanted)
    return side_of(trace, devices, busiest(devices, gpu), name, wanted.families)


def align(
    mock: Trace,
    model: Trace,
    *,
    range_pattern: str | None = None,
    kernel_pattern: str | None = None,
    wanted: Wanted | None = None,
    tier: str = "mock",
) -> Alignment:
    """Whether a mock of one operation runs what the operation runs in the model: the seven checks of `gpuledger align`.

    The operation is what ranges that match launch, or the kernels whose names match, of the mock too; else the mock's
    own sequence of kernels is looked for.
    """
    isolation = Isolation("auto")
    if range_pattern is not None:
        isolation = Isolation("range", range_pattern)
    elif kernel_pattern is not None:
        isolation = Isolation("pattern", kernel_pattern)
    ours = of_mock(mock, "mock", Wanted(), None, isolation)
    one = operation_side(ours.forwards)
    theirs = of_model(model, "model", wanted or Wanted(), isolation, one.kernels)
    other = operation_side(theirs.forwards, one.kernels)
    return aligned(one, other, isolation, TIERS[tier], KnownDifferences(), remarks=(*ours.notes, *theirs.notes))
