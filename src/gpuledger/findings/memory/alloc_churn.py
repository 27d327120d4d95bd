"""ALLOC-CHURN: memory is allocated and freed in every step.

In steady steps the call table still lists `cudaMalloc`, `cudaFree`, `cudaMallocAsync`, `cuMemAllocAsync`,
`cudaHostAlloc` or `cuMemMap`, in numbers that grow with the steps. The GPU may not be idle because of it yet: the time
is spent on the host, and shows once the host sets the pace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.catalog.calls import CallKind
from gpuledger.findings.finding import MAX_EXAMPLES, Evidence, Finding
from gpuledger.findings.memory.snapshot_words import SnapshotOfGpu, place_words, snapshot_finding
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import call_evidence, count_words, occurrences_text, per_step
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.keys import Positions
from gpuledger.units import bytes_text, count_text

MIN_SEGMENTS: Final = 8
"""From so many segments on that are taken and given back once warm-up is over, the allocator churns."""

MIN_CALLS_PER_STEP: Final = 2  # from so many allocation calls a step on, memory is churned


def _churn(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Memory allocated and freed in every step. What that costs in idle time is another finding's: it saves nothing."""
    device = subject.device
    host = device.host
    calls = np.flatnonzero(device.steady_calls & host.are(CallKind.ALLOC))
    if len(calls) < MIN_CALLS_PER_STEP * device.step_count or device.steps is None:
        return ()
    time = int(host.calls.duration_ns[calls].sum())
    names = [short_function_name(name or "") for name in host.calls.at(calls).texts("name")]
    common = sorted(set(names), key=lambda name: (-names.count(name), name))[:3]
    claim = say(
        "{calls} allocate or free memory, {time} of the host",
        calls=count_words(device, len(calls), say("call"), say("calls")),
        time=per_step(device, time),
    )
    assumption = say("hidden by the host today, but not in a faster step")
    evidence = tuple(_calls_of(device, name, calls[[other == name for other in names]]) for name in common)
    return [rule.finding(device, claim, evidence, 0, assumption)]


def _calls_of(device: Device, name: str, calls: Positions) -> Evidence:
    """How often one function was called, the longest call as the example."""
    host = device.host.calls
    longest = calls[np.argsort(-host.duration_ns[calls], kind="stable")][:MAX_EXAMPLES]
    sentence = say("{name} {often}", name=name, often=occurrences_text(device, len(calls)))
    correlations = tuple(host.stored("correlation")[longest].tolist())
    return call_evidence(host, int(longest[0]), sentence, correlations=correlations, count=len(calls))


def _segments_churn(rule: Rule[SnapshotOfGpu], subject: SnapshotOfGpu) -> Sequence[Finding]:
    churn = subject.figures.segment_churn
    if min(churn.taken, churn.given_back) < MIN_SEGMENTS:
        return ()
    claim = say(
        "torch gives memory back to CUDA and takes it again: {count} segments of {size} together in the second half of "
        "the history",
        count=count_text(churn.taken),
        size=bytes_text(churn.taken_bytes),
    )
    evidence = [say("given back by {place}", place=place_words(churn.giving_path))]
    return [snapshot_finding(rule, subject, claim, evidence)]


RULE: Final = Rule(
    "ALLOC-CHURN", _churn, say("preallocate buffers and reuse them (`out=`, one arena sized at warm-up)")
)

OF_A_SNAPSHOT: Final = Rule(
    "ALLOC-CHURN",
    _segments_churn,
    say("leave out `torch.cuda.empty_cache()` in the loop; near the limit, hold less or use expandable segments"),
)
