"""COLD-START: the GPU's first work takes long to start, once.

The profile begins with a long idle stretch, or a process that joins later has one: the context is created, the first
kernel is loaded, a library sets itself up. In a short capture this is most of the time; in a long run it does not
matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gpuledger.catalog.calls import CallKind
from gpuledger.findings.finding import Evidence, Finding, is_significant
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import call_evidence, call_name
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.spans import Span, covered
from gpuledger.units import share_text, time_text


def _cold_start(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The context, the code or the process was not there yet. Nothing is saved: a longer run pays it once too."""
    device = subject.device
    gaps, chosen = device.ledger.gaps, device.gaps_of(QueueTrigger.COLD)
    time = device.idle_by_trigger.get(QueueTrigger.COLD, 0)
    if not len(chosen) or not is_significant(device, time):
        return ()
    creating = device.causes_of(QueueTrigger.COLD).get(Cause.CONTEXT, 0)
    longest = int(chosen[gaps.length_ns[chosen].argmax()])
    pid, captures = device.work.pid, device.host.captures
    captured = [
        covered(captures[process], gaps.start_ns[mine], gaps.end_ns[mine]).sum()
        for process in captures
        if len(mine := chosen[pid[gaps.after[chosen]] == process])
    ]
    if 2 * sum(captured) > time:
        claim = say("CUDA graphs are captured: {time}, once", time=time_text(time))
    elif gaps.before[longest] >= 0 and pid[gaps.before[longest]] == pid[gaps.after[longest]]:
        claim = say("libraries are loaded and set up: {time}, once", time=time_text(time))
    elif 2 * creating > time:
        claim = say("the CUDA context is created: {time}, once", time=time_text(creating))
    else:
        claim = say("the first GPU work takes {time} to start, once", time=time_text(time))
    evidence = (*_causes(device, longest), *_calls(device, longest))
    assumption = say("it happens once, however long the program runs")
    finding = rule.finding(device, claim, evidence, 0, assumption, explains=time)
    return [replace(finding, confidence=say("low"))]


def _causes(device: Device, gap: int) -> list[Evidence]:
    """What the time went to, as far as it is notable."""
    gaps = device.ledger.gaps
    span, length = Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap])), int(gaps.length_ns[gap])
    booked = sorted(gaps.by_cause.sums(np.array([gap])).items(), key=lambda entry: -entry[1])
    return [
        Evidence(
            say("{share} of it {cause}", share=share_text(time / length), cause=cause.label),
            span,
            share=time / length,
            of=say("the time until the first work"),
        )
        for cause, time in booked
    ]


def _calls(device: Device, gap: int) -> list[Evidence]:
    """The call that held the host longest: one that creates the context, or the launch itself."""
    gaps, calls = device.ledger.gaps, device.host.calls
    launch, length = int(gaps.call[gap]), int(gaps.length_ns[gap])
    if launch < 0:
        return []
    creating = device.host.are(CallKind.CONTEXT) & (calls["pid"] == calls["pid"][launch])
    candidates = np.append(np.flatnonzero(creating), launch)
    inside = np.minimum(calls["end_ns"][candidates], gaps.end_ns[gap]) - np.maximum(
        calls["start_ns"][candidates], gaps.start_ns[gap]
    )
    held, share = int(candidates[inside.argmax()]), int(inside.max()) / length
    sentence = say("{share} of it in {name}", share=share_text(share), name=call_name(calls, held))
    return [call_evidence(calls, held, sentence, share=share, of=say("the time until the first work"))]


RULE: Final = Rule("COLD-START", _cold_start, None, triggers=(QueueTrigger.COLD,))
