"""Findings about memory: what is allocated in every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.catalog.call_kinds import CallKind
from gpuledger.findings.evidence import MOST_EXAMPLES, Evidence
from gpuledger.findings.finding import Finding, counted, finding, often, per_step
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Span

CHURN_PER_STEP: Final = 2
"""From so many allocation calls a step on, memory is churned."""


def _churn(subject: OneGpu) -> Sequence[Finding]:
    """Memory allocated and freed in every step. What that costs in idle time is another finding's: it saves nothing."""
    device = subject.device
    host = device.host
    calls = np.flatnonzero(device.steady_calls & host.are(CallKind.ALLOC))
    if len(calls) < CHURN_PER_STEP * device.step_count or device.steps is None:
        return ()
    time = int(host.calls.duration_ns[calls].sum())
    names = [shortened(name or "") for name in host.calls.at(calls).texts("name")]
    common = sorted(set(names), key=lambda name: (-names.count(name), name))[:3]
    claim = say(
        "{calls} allocate or free memory, {time} of the host",
        calls=counted(device, len(calls), say("call"), say("calls")),
        time=per_step(device, time),
    )
    assumption = say("hidden by the host today, but not in a faster step")
    evidence = tuple(_calls_of(device, name, calls[[other == name for other in names]]) for name in common)
    return [finding(device, "ALLOC-CHURN", claim, evidence, 0, assumption)]


def _calls_of(device: Device, name: str, calls: Positions) -> Evidence:
    """How often one function was called, the longest call as the example."""
    rows = device.host.calls.at(calls[np.argsort(-device.host.calls.duration_ns[calls], kind="stable")])
    return Evidence(
        say("{name} {often}", name=name, often=often(device, len(calls))),
        span=Span(int(rows["start_ns"][0]), int(rows["end_ns"][0])),
        pid=int(rows["pid"][0]),
        tid=int(rows["tid"][0]),
        call=name,
        correlations=tuple(rows["correlation"][:MOST_EXAMPLES].tolist()),
        count=len(calls),
    )


RULES: Final = (Rule("ALLOC-CHURN", _churn),)
