"""Where to look for a finding: a finding and its GPU in, the stretch of time that shows it best out.

It is the example of its evidence: the longest stretch that its place holds, or the worst step. Without one it is a
launch that the evidence names, else the longest gap or exposed stretch that it is about; what is about the run as a
whole is at the beginning of the steady stretch.
"""

from __future__ import annotations

import numpy as np

from gpuledger.findings.finding import Finding
from gpuledger.findings.rules import RULE_OF
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import LineKind
from gpuledger.trace.spans import Span, Spans


def finding_place(finding: Finding, device: Device) -> Span:
    """The stretch."""
    return finding.example or _launched(finding, device) or _about(finding.code, device)


def _launched(finding: Finding, device: Device) -> Span | None:
    """The first launch of the evidence, with its work."""
    for piece in finding.evidence:
        for correlation in piece.correlations[:1]:
            there = device.work.with_correlation(correlation)
            for row in there[:1].tolist():
                return Span(int(device.work.start_ns[row]), int(device.work.end_ns[row]))
    return None


def _about(code: str, device: Device) -> Span:
    rule = RULE_OF[code]
    if rule.triggers:
        chosen = np.concatenate([device.gaps_of(trigger) for trigger in rule.triggers])
        gaps = device.ledger.gaps
        if len(chosen):
            longest = int(chosen[gaps.length_ns[chosen].argmax()])
            return Span(int(gaps.start_ns[longest]), int(gaps.end_ns[longest]))
    spans = {LineKind.COPY: device.ledger.busy.copy, LineKind.COMM: device.ledger.busy.comm}
    exposed = None if rule.exposed is None else spans[rule.exposed]
    if exposed is not None and len(exposed):
        return _longest(exposed)
    return Span(device.steady.start_ns, device.steady.start_ns)


def _longest(spans: Spans) -> Span:
    longest = int((spans.end_ns - spans.start_ns).argmax())
    return Span(int(spans.start_ns[longest]), int(spans.end_ns[longest]))
