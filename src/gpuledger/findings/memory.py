"""Findings about memory: what is allocated in every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.catalog.call_kinds import CallKind
from gpuledger.findings.evidence import Evidence
from gpuledger.findings.finding import Finding, finding, per_step, times_each
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.calls import shortened
from gpuledger.messages import joined, say

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
    often = [say("{name} {times} x", name=name, times=times_each(device, names.count(name))) for name in common]
    claim = say(
        "{count} calls a step allocate or free memory, {time} of the host",
        count=times_each(device, len(calls)),
        time=per_step(device, time),
    )
    assumption = say("the host hides it today; it will not in a faster step")
    return [finding(device, "ALLOC-CHURN", claim, (Evidence(joined(say(", "), often)),), 0, assumption)]


RULES: Final = (Rule("ALLOC-CHURN", _churn),)
