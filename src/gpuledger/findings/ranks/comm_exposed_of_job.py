"""COMM-EXPOSED of a job: what of the exposed communication is not waiting, but the transfer itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpuledger.findings.copies.comm_exposed import OVERLAP_COMMUNICATION
from gpuledger.findings.finding import SIGNIFICANT_SHARE, Evidence, Finding
from gpuledger.findings.ranks.all_ranks import AllRanks, doubts, job_finding, middle_ns, per_steady_step, steady_ns
from gpuledger.findings.ranks.fix_texts import MOSTLY, why_slow
from gpuledger.findings.rule import Rule
from gpuledger.messages import say
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.fixing import Fixing
    from gpuledger.analyse.ranks.job import Job


def _exposed_communication(rule: Rule[AllRanks], ranks: AllRanks) -> Sequence[Finding]:
    """What of the exposed communication is not waiting: the transfer itself, for the middle rank."""
    job, fixed = ranks.job, ranks.fixed
    moving = [rank.exposed_comm_ns - part.exposed_wait_ns for rank, part in zip(job.ranks, job.parts, strict=True)]
    exposed = middle_ns(moving)
    saving = min(exposed, middle_ns([rank.compute_ns for rank in job.ranks]))
    if saving < max(SIGNIFICANT_SHARE * steady_ns(job), 1):
        return ()
    claim = say(
        "{time} of communication other than waiting is not overlapped with compute",
        time=per_steady_step(job, exposed),
    )
    whole = sum(rank.exposed_comm_ns for rank in job.ranks)
    waiting = sum(part.exposed_wait_ns for part in job.parts) / whole
    share, what = (
        (1 - waiting, say("actual transfer")) if waiting < MOSTLY else (waiting, say("waiting for other ranks"))
    )
    evidence = [
        *_slow_collectives(job, fixed),
        Evidence(
            say(
                "of the exposed communication of all ranks, {share} is {what}; the waiting part is COMM-SKEW",
                share=share_text(share),
                what=what,
            ),
            count=sum(part.counted for part in job.parts),
            share=share,
            of=say("the exposed communication of all ranks"),
        ),
    ]
    unmatched = sum(part.seen - part.matched for part in job.parts)
    if unmatched:
        said = say("{count} collectives were not matched: this includes their waits", count=count_text(unmatched))
        evidence.append(Evidence(said, count=unmatched))
    assumption = say("compute in the same step hides it, without slowing down")
    return [job_finding(rule, job, claim, [*evidence, *doubts(job)], (saving, saving), assumption)]


def _slow_collectives(job: Job, fixed: Fixing | NotMeasured) -> list[Evidence]:
    """Collectives whose transfer takes longer than that of others like them."""
    if isinstance(fixed, NotMeasured):
        return []
    return [
        Evidence(
            say(
                "{why}: without that the job's step is {saved} shorter",
                why=why_slow(job, fix),
                saved=time_text(fix.alone_ns),
            ),
            kernel=fix.place.kind,
            count=fixed.steps,
        )
        for fix in fixed.in_order
        if fix.place is not None
    ]


RULE: Final = Rule("COMM-EXPOSED", _exposed_communication, OVERLAP_COMMUNICATION)
