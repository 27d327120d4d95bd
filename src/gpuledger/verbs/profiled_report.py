"""What a report is in Python: a profiled run, and the ways to show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.present.views.shown import ShownResult

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
