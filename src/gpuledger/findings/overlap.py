"""Findings about copies and communication that compute could hide."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gpuledger.analyse.whatif import hide
from gpuledger.findings.evidence import Evidence
from gpuledger.findings.finding import Finding, finding, per_step, worth_telling
from gpuledger.findings.memory import pageable_loss_ns
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.lines import LineKind
from gpuledger.messages import Message, say
from gpuledger.units import share_text


def _exposed(kind: LineKind, code: str, what: Message, subject: OneGpu) -> Sequence[Finding]:
    device = subject.device
    exposed = device.exposed_ns(kind)
    if not exposed:
        return ()
    # copies of pageable memory cannot overlap at all; what pinning them saves is another finding's
    hidden = hide(device, kind, but_ns=pageable_loss_ns(subject.trace, device) if kind is LineKind.COPY else 0)
    if not worth_telling(device, hidden.saved_ns):
        return ()
    claim = say("{time} of {what} with nothing computing beside it", time=per_step(device, exposed), what=what)
    share = exposed / device.steady_ns
    told = Evidence(say("{share} of the time", share=share_text(share)), share=share, of=say("the time"))
    return [finding(device, code, claim, (told,), hidden.saved_ns, hidden.assumption)]


def _exposed_rule(code: str, kind: LineKind, what: Message) -> Rule[OneGpu]:
    return Rule(code, partial(_exposed, kind, code, what), exposed=kind)


RULES: Final = (
    _exposed_rule("COPY-EXPOSED", LineKind.COPY, say("copies")),
    _exposed_rule("COMM-EXPOSED", LineKind.COMM, say("communication")),
)
