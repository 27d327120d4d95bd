"""CAPTURE-LOSS: the profile lacks work, or the calls that launched it.

One of two things is missing from the profile, and the claim says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.catalog.calls import DeviceOperation
from gpuledger.findings.finding import MAX_EXAMPLES, SIGNIFICANT_SHARE, Evidence, Finding
from gpuledger.findings.rule import Capture, Rule
from gpuledger.findings.words import call_evidence, call_name
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.lost_work import LostWork
from gpuledger.messages import Message, joined, say
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, share_text

_NSYS_ADVICE: Final = say("record a shorter window, or flush more often: `nsys profile --cuda-flush-interval=100`")
_TORCH_ADVICE: Final = say("record fewer steps: `schedule(active=3)` of torch.profiler")

_RECORDS_CALLS: Final = {
    "nsys": "`nsys profile --trace=cuda`",
    "torch.profiler": "`ProfilerActivity.CPU`",
    "rocprof": "`rocprof --hip-trace`",
    "rocprofv3": "`rocprofv3 --hip-trace --kernel-trace --memory-copy-trace`",
}
"""What makes each profiler record the host's calls."""


def _lost_work(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    """Calls whose work on the GPU is missing. Their time looks idle and is not, so this is opaque first."""
    device = subject.devices[0]
    lost, calls = device.lost, device.host.calls
    if not lost.is_notable:
        return ()
    claim = say(
        "the profiler lost {share} of the GPU's work: {what}", share=share_text(lost.share), what=_missing_words(lost)
    )
    both = np.concatenate((lost.calls, lost.nodes.calls))
    example = int(both[0])
    name, tid = call_name(calls, example), int(calls.stored("tid")[example])
    example_seen = call_evidence(
        calls,
        example,
        say("for example {name} of thread {thread}", name=name, thread=tid),
        correlations=tuple(calls["correlation"][both[:MAX_EXAMPLES]].tolist()),
        count=len(both),
    )
    beside = subject.largest_share(Cause.LOST)
    idle = Evidence(
        say("{share} of the time looks idle next to it; no saving is claimed from that", share=share_text(beside)),
        share=beside,
        of=say("the time"),
    )
    advice = _TORCH_ADVICE if subject.trace.origin.tool == "torch.profiler" else _NSYS_ADVICE
    return [Finding(rule.code, claim, (example_seen, idle, *_without_launches(subject), Evidence(advice)))]


def _missing_words(lost: LostWork) -> Message:
    words = [_calls_words(operation, *counts) for operation, counts in lost.counts.items()]
    if lost.nodes.missing:
        of = count_text(lost.nodes.expected)
        words.append(say("{count} of {of} nodes of graphs", count=count_text(lost.nodes.missing), of=of))
    return joined(say(", "), words)


def _calls_words(operation: DeviceOperation, missing: int, calls: int) -> Message:
    count, of = count_text(missing), count_text(calls)
    match operation:
        case DeviceOperation.KERNEL:
            return say("{count} of {of} kernel launches", count=count, of=of)
        case DeviceOperation.COPY:
            return say("{count} of {of} copies", count=count, of=of)
        case DeviceOperation.GRAPH:
            return say("{count} of {of} graph launches", count=count, of=of)


def _loss(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    """Work whose launch is missing, where no work is; and a report whose end is."""
    evidence = _without_launches(subject)
    cut = [Evidence(note.sentence) for note in subject.trace.health if note.code == "report-cut"]
    if not (cut or evidence) or subject.devices[0].lost.is_notable:
        return ()
    first, *others = (*cut, *evidence)
    return [Finding(rule.code, first.sentence, tuple(others))]


def _without_launches(subject: Capture) -> tuple[Evidence, ...]:
    share = subject.largest_share(Cause.UNATTRIBUTED)
    if share < SIGNIFICANT_SHARE:
        return ()
    told = share_text(share)
    if len(subject.trace[Table.CALLS]):
        missing = say("{share} of the time cannot be attributed: launches are missing from the profile", share=told)
        return (Evidence(missing),)
    claim = say("{share} of the time cannot be attributed: no call of the host was recorded", share=told)
    tool = subject.trace.origin.tool
    advice = [Evidence(say("record with {option}", option=_RECORDS_CALLS[tool]))] if tool in _RECORDS_CALLS else []
    return (Evidence(claim), *advice)


LOST_WORK: Final = Rule("CAPTURE-LOSS", _lost_work, None, triggers=(Cause.LOST, Cause.UNATTRIBUTED))

RULE: Final = Rule("CAPTURE-LOSS", _loss, None, triggers=(Cause.UNATTRIBUTED,))
