"""Where the time of a profile went, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from gpuledger.findings.profiled_run import WHERE_SAMPLED, ProfiledRun, columns_for, diagnose
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.shown import ShownResult
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener, TellStage
from gpuledger.trace.measured import KernelReport
from gpuledger.trace.model import Trace
from gpuledger.verbs.profiles import Profile, ProfileReading, profile_name

if TYPE_CHECKING:
    from gpuledger.present.document import Document


class Report(ShownResult, ProfiledRun, frozen=True):
    """What one profile says, and the ways to show it."""

    def document(self) -> Document:
        from gpuledger.answers.report import ReportAnswer
        from gpuledger.present.views.report import report_document

        return report_document(ReportAnswer(self))

    @property
    def headline(self) -> str:
        """The verdict, in a sentence or two."""
        from gpuledger.present.views.report_parts import verdict

        return f"{self.name}: {verdict(self)}"

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, where the time went, and the findings."""
        from gpuledger.answers.report import ReportAnswer
        from gpuledger.present.views.report import opening_blocks
        from gpuledger.present.writers.html.notebook import fragment_html

        return fragment_html(opening_blocks(ReportAnswer(self)), 60)


def report(
    profile: Profile,
    *,
    wanted: Selection | None = None,
    profiled: KernelReport | None = None,
    ncu: Sequence[str | Path] = (),
    names_from: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> Report:
    """The books and findings of a profile: what `gpuledger report` shows.

    `ncu` are reports of Nsight Compute on its kernels, `profiled` is what `open_kernels` read of them.
    """
    trace = ProfileReading(limits, progress, names_from, wanted.rank if wanted else None).trace(
        profile, columns_for(), WHERE_SAMPLED
    )
    if ncu:
        from gpuledger.read.ncu.reader import open_kernels

        profiled = open_kernels(ncu, limits=limits, progress=progress)
    return build_report(trace, profile_name(profile), wanted, profiled, stage=progress.stage)


def build_report(
    trace: Trace,
    name: str = "profile",
    wanted: Selection | None = None,
    profiled: KernelReport | None = None,
    *,
    stage: TellStage = NOBODY.stage,
) -> Report:
    """The books and findings of a trace, together with what Nsight Compute measured of its kernels."""
    run = diagnose(trace, name, wanted or Selection(), profiled, stage=stage, shows_levels=True)
    return Report(**asdict(run))
