"""Findings about communication that compute could hide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.lost_time import longest
from gpuledger.analyse.whatif import hide
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
    hidden = hide(device, LineKind.COMM)
    if not worth_telling(device, hidden.saved_ns):
        return ()
    time = per_step(device, exposed)
    claim = say("{time} of {what} with nothing computing beside it", time=time, what=say("communication"))
    share = exposed / device.steady_ns
    steady = clip(device.ledger.busy.comm, device.steady)
    span = longest(steady) if len(steady) else None
    told = Evidence(say("{share} of the time", share=share_text(share)), span=span, share=share, of=say("the time"))
    return [finding(device, "COMM-EXPOSED", claim, (told,), hidden.saved_ns, hidden.assumption)]


RULES: Final = (Rule("COMM-EXPOSED", _exposed, exposed=LineKind.COMM),)
