"""What the ranks of a job together say: ranks that wait for one another, and communication that nothing hides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuledger.findings.finding import Finding
from gpuledger.findings.ranks import comm_exposed_of_job, comm_skew
from gpuledger.findings.ranks.all_ranks import AllRanks
from gpuledger.trace.model import NotMeasured

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.fixing import Fixing
    from gpuledger.analyse.ranks.job import Job

RULES: Final = (comm_skew.RULE, comm_exposed_of_job.RULE)


def job_findings(job: Job, fixed: Fixing | NotMeasured) -> tuple[Finding, ...]:
    """What the ranks together say, what costs the most first; nothing where no collective was matched."""
    if not any(part.counted for part in job.parts):
        return ()
    findings = [finding for rule in RULES for finding in rule.findings(AllRanks(job, fixed))]
    return tuple(sorted(findings, key=lambda one: (-max(one.saving_ns, one.explains_ns), one.code)))
