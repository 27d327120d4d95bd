"""Findings about communication that compute could hide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.lost_time import longest
from gpuledger.findings.evidence import Evidence
from gpuledger.findings.finding import Finding, finding, per_step, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.lines import LineKind
from gpuledger.messages import say
from gpuledger.trace.spans import clip
from gpuledger.units import share_text


def _exposed(subject: OneGpu) -> Sequence[Finding]:
    device = subject.device
    exposed = device.exposed_ns(LineKind.COMM)
    if not exposed:
        return ()
    lost = min(max(exposed - device.exposed_beside_lost_ns(LineKind.COMM), 0), device.compute_ns)
    if not worth_telling(device, lost):
        return ()
    edit = subject.edit("COMM-EXPOSED")
    saving, assumption = subject.saved_ns(edit, lost), say("compute in the same step hides it, without slowing down")
    time = per_step(device, exposed)
    claim = say("{time} of {what} not overlapped with compute", time=time, what=say("communication"))
    share = exposed / device.steady_ns
    steady = clip(device.ledger.busy.comm, device.steady)
    span = longest(steady) if len(steady) else None
    told = Evidence(say("{share} of the time", share=share_text(share)), span=span, share=share, of=say("the time"))
    return [finding(device, "COMM-EXPOSED", claim, (told,), saving, assumption, explains=lost, edit=edit)]


RULES: Final = (Rule("COMM-EXPOSED", _exposed, exposed=LineKind.COMM),)
