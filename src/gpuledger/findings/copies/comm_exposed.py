"""COMM-EXPOSED: communication runs while nothing computes.

The time breakdown has much `exposed communication`: for that time only communication kernels ran. On the timeline an
`ncclDevKernel_AllReduce…`, all-to-all or similar kernel runs alone between two stretches of compute. What overlaps
with compute is listed beside the line as hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from gpuledger.attribution.lost_time import longest
from gpuledger.findings.copies.flows import run_beside_compute, share_of_time
from gpuledger.findings.finding import Evidence, Finding, is_significant
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import per_step
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import LineKind
from gpuledger.messages import say
from gpuledger.trace.spans import clip

OVERLAP_COMMUNICATION: Final = say("overlap it with compute: async collectives, prefetch, two micro-batches")

_TELL_WAITING_APART: Final = say(
    "give `gpuledger fleet` the profiles of all ranks, which tells waiting from transfer; then balance the ranks, or "
    "send fewer bytes"
)

NOTABLE_COMM_SHARE: Final = 0.1  # of the time: so much is told even where hiding it would save nothing


def _exposed_communication(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Told where it takes long, even if a host that is late would use up all that is saved.

    Compute hides no more than it takes itself; but one rank's communication is transfer and waiting for other ranks,
    and waiting needs nothing to hide it.
    """
    device = subject.device
    exposed = device.exposed_ns(LineKind.COMM)
    lost = max(exposed - device.exposed_beside_lost_ns(LineKind.COMM), 0)
    if not lost or not is_significant(device, lost):
        return ()
    edit = rule.edit_of(subject)
    saving, assumption = subject.saved_ns(edit, lost), say("compute in the same step hides it, without slowing down")
    time, share = per_step(device, exposed), exposed / device.steady_ns
    claim = say("{time} of {what} not overlapped with compute", time=time, what=say("communication"))
    steady = clip(device.ledger.busy.comm, device.steady)
    part = share_of_time(device, exposed, longest(steady) if len(steady) else None)
    is_told_anyway = share >= NOTABLE_COMM_SHARE and not is_significant(device, saving)
    finding = rule.finding(
        device, claim, (part,), saving, assumption, explains=lost, edit=None if is_told_anyway else edit
    )
    if lost <= device.compute_ns:
        return [finding]
    assumption = say("the other ranks are on time, and compute in the same step hides the transfer")
    hidden = say("compute can hide at most {time} of it", time=per_step(device, device.compute_ns))
    evidence = (part, Evidence(hidden)) if device.compute_ns else (part,)
    return [replace(finding, evidence=evidence, assumption=assumption, is_bound=True, fix=_TELL_WAITING_APART)]


RULE: Final = Rule(
    "COMM-EXPOSED",
    _exposed_communication,
    OVERLAP_COMMUNICATION,
    edit=partial(run_beside_compute, state=State.COMM),
    exposed=LineKind.COMM,
)
