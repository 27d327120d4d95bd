"""Findings about the capture itself: what it leaves open, and what it cost. They save nothing by themselves."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gpuledger.catalog.calls import DeviceOperation
from gpuledger.findings.finding import MOST_EXAMPLES, WORTH_TELLING, Evidence, Finding
from gpuledger.findings.rule import Capture, Rule
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.lost_work import LostWork
from gpuledger.messages import Message, joined, say
from gpuledger.trace.model import CORRECTED, Trace
from gpuledger.trace.spans import Span, holds, total
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, share_text, time_text

_NSYS_ADVICE: Final = say("record a shorter window, or flush more often: `nsys profile --cuda-flush-interval=100`")
_TORCH_ADVICE: Final = say("record fewer steps: `schedule(active=3)` of torch.profiler")

_RECORDS_CALLS: Final = {
    "nsys": "`nsys profile --trace=cuda`",
    "torch.profiler": "`ProfilerActivity.CPU`",
    "rocprof": "`rocprof --hip-trace`",
    "rocprofv3": "`rocprofv3 --hip-trace --kernel-trace --memory-copy-trace`",
}
"""What makes each profiler record the host's calls."""


_NOT_KNOWN: Final = {
    "ids-repeated",
    "launches-lost",
    "starts-before-launch",
    "starts-late",
    "stream-order",
    "sync-before-end",
}
"""Damage after which nothing is known of why a GPU was idle: its work does not fit the host's calls."""


def _damage(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    """What cannot be true of the recording, before all that is said of the program."""
    damage = subject.trace.damage
    if not damage:
        return ()
    claim = say("this recording cannot be true: {sentence}", sentence=damage[0].sentence)
    others = [Evidence(note.sentence, count=note.count) for note in damage[1:]]
    return [_finding(rule, claim, *others, Evidence(say("record it again, or export it again from the original")))]


def believed(trace: Trace, findings: Sequence[Finding], about_idle: Collection[str]) -> list[Finding]:
    """The findings as far as a damaged recording lets them be believed; `about_idle` are codes of causes of idle time.

    Where clocks were put right, none is believed highly.
    """
    damage = {note.code for note in trace.damage}
    if not damage:
        is_moved = any(note.code in CORRECTED for note in trace.health)
        return [
            replace(found, confidence=say("medium")) if is_moved and found.confidence == "high" else found
            for found in findings
        ]
    refused = about_idle if damage & _NOT_KNOWN else ()
    guess = Evidence(say("a guess, as this recording cannot be true"))
    return [
        replace(found, confidence=say("low"), evidence=(guess, *found.evidence))
        for found in findings
        if found.code not in refused
    ]


def _opaque_graphs(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    opaque = []
    for note in subject.trace.health:
        if note.code == "graphs-opaque":
            claim = say(
                "{count} CUDA graph launches were traced as a whole: the kernels inside were not recorded",
                count=count_text(note.count),
            )
            advice = say("record with `nsys profile --cuda-graph-trace=node`")
            opaque.append(_finding(rule, claim, Evidence(advice, count=note.count)))
    return opaque


def _overhead(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    share = _largest_share(subject, Cause.PROFILER)
    if share < WORTH_TELLING:
        return ()
    claim = say("profiler overhead held up the host for {share} of the time", share=share_text(share))
    return [_finding(rule, claim)]


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
    name = short_function_name(calls.strings.text(int(calls.codes("name")[example])) or "")
    example_seen = Evidence(
        say("for example {name} of thread {thread}", name=name, thread=int(calls.stored("tid")[example])),
        span=Span(int(calls["start_ns"][example]), int(calls["end_ns"][example])),
        pid=int(calls["pid"][example]),
        tid=int(calls.stored("tid")[example]),
        call=name,
        correlations=tuple(calls["correlation"][both[:MOST_EXAMPLES]].tolist()),
        count=len(both),
    )
    beside = _largest_share(subject, Cause.LOST)
    idle = Evidence(
        say("{share} of the time looks idle next to it; no saving is claimed from that", share=share_text(beside)),
        share=beside,
        of=say("the time"),
    )
    advice = _TORCH_ADVICE if subject.trace.origin.tool == "torch.profiler" else _NSYS_ADVICE
    return [_finding(rule, claim, example_seen, idle, *_without_launches(subject), Evidence(advice))]


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
    return [_finding(rule, first.sentence, *others)]


def _without_launches(subject: Capture) -> tuple[Evidence, ...]:
    share = _largest_share(subject, Cause.UNATTRIBUTED)
    if share < WORTH_TELLING:
        return ()
    told = share_text(share)
    if len(subject.trace[Table.CALLS]):
        missing = say("{share} of the time cannot be attributed: launches are missing from the profile", share=told)
        return (Evidence(missing),)
    claim = say("{share} of the time cannot be attributed: no call of the host was recorded", share=told)
    tool = subject.trace.origin.tool
    advice = [Evidence(say("record with {option}", option=_RECORDS_CALLS[tool]))] if tool in _RECORDS_CALLS else []
    return (Evidence(claim), *advice)


def _graph_capture(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    """A recording of graphs being captured: more is launched into graphs than runs, and none of them is run often."""
    host, work = subject.devices[0].host, subject.devices[0].work
    if not host.captures or 2 * host.launches_per_capture > 1:
        return ()
    calls, launches = host.calls, np.flatnonzero(host.operations == DeviceOperation.KERNEL.number)
    is_captured = np.zeros(len(launches), np.bool_)
    for process, captures in host.captures.items():
        is_captured |= (calls["pid"][launches] == process) & holds(captures, calls["start_ns"][launches])
    count = int(np.count_nonzero(is_captured))
    if count <= len(work):
        return ()
    claim = say(
        "this is a recording of CUDA graphs being captured: {count} of {of} kernel launches go into graphs and run "
        "nothing",
        count=count_text(count),
        of=count_text(len(launches)),
    )
    captured_ns = sum(map(total, host.captures.values()))
    time = say("captures take {time}, once", time=time_text(captured_ns))
    later = Evidence(say("record later, when the graphs are launched"), count=count)
    return [replace(_finding(rule, claim, Evidence(time), later), explains_ns=captured_ns)]


def _warm_up(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    for steps in (device.steps for device in subject.devices):
        if steps is not None and 4 * steps.warm_up > len(steps):
            claim = say(
                "{count} of {steps} steps are warm-up", count=count_text(steps.warm_up), steps=count_text(len(steps))
            )
            advice = Evidence(say("record later, or more steps"), count=steps.warm_up)
            return [_finding(rule, claim, advice)]
    return ()


def _largest_share(subject: Capture, cause: Cause) -> float:
    """The share of a cause, on the device where it is the largest."""
    return max((device.idle_ns(cause) / device.steady_ns for device in subject.devices), default=0.0)


def _finding(rule: Rule[Capture], claim: str, *evidence: Evidence) -> Finding:
    return Finding(rule.code, claim, evidence)


GRAPH_CAPTURE: Final = Rule("CAPTURE-WARMUP", _graph_capture, None)

FIRST: Final = (
    Rule("CAPTURE-DAMAGED", _damage, None),
    Rule("CAPTURE-LOSS", _lost_work, None, triggers=(Cause.LOST, Cause.UNATTRIBUTED)),
    GRAPH_CAPTURE,
)
"""What comes before all that a profile says of the program."""

RULES: Final = (
    Rule("CAPTURE-GRAPHS-OPAQUE", _opaque_graphs, None),
    Rule("CAPTURE-OVERHEAD", _overhead, None, triggers=(Cause.PROFILER,)),
    Rule("CAPTURE-LOSS", _loss, None, triggers=(Cause.UNATTRIBUTED,)),
    Rule("CAPTURE-WARMUP", _warm_up, None),
)
