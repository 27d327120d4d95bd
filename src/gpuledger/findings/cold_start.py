"""What happens once: how long a GPU's first work took to start, and how far a finding about one gap is believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gpuledger.catalog.call_kinds import CallKind
from gpuledger.findings.evidence import LEAST_SHARE, Evidence
from gpuledger.findings.finding import Finding, finding, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.spans import Span
from gpuledger.units import share_text, time_text

MOSTLY_ONE: Final = 0.9
"""A finding that has this share of its time in one gap rests on that gap alone."""


def _cold_start(subject: OneGpu) -> Sequence[Finding]:
    """The context, the code or the process was not there yet. Nothing is saved: a longer run pays it once too."""
    device = subject.device
    gaps, chosen = device.ledger.gaps, device.gaps_of(QueueTrigger.COLD)
    time = int(gaps.length_ns[chosen].sum())
    if not len(chosen) or not worth_telling(device, time):
        return ()
    causes = device.causes_of(QueueTrigger.COLD)
    creating = causes.get(Cause.CONTEXT, 0)
    if 2 * creating > time:
        claim = say("the CUDA context is created: {time}, once", time=time_text(creating))
    else:
        claim = say("the first GPU work takes {time} to start, once", time=time_text(time))
    longest = int(chosen[gaps.length_ns[chosen].argmax()])
    told = finding(
        device,
        "COLD-START",
        claim,
        (*_causes(device, longest), *_calls(device, longest)),
        0,
        say("it happens once, however long the program runs"),
        explains=time,
    )
    return [replace(told, confidence=say("low"))]


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
        if time >= LEAST_SHARE * length
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
    if share < LEAST_SHARE:
        return []
    name = shortened(calls.strings.text(int(calls.codes("name")[held])) or "")
    return [
        Evidence(
            say("{share} of it in {name}", share=share_text(share), name=name),
            Span(int(calls["start_ns"][held]), int(calls["end_ns"][held])),
            int(calls["pid"][held]),
            int(calls["tid"][held]),
            call=name,
            share=share,
            of=say("the time until the first work"),
        )
    ]


def believed(device: Device, rule: Rule[OneGpu], told: Finding) -> Finding:
    """A finding about gaps, believed highly only if they are several: what was seen once may not happen again.

    Code that is loaded in one gap is known not to be loaded again; nothing is saved of steps that do not have it.
    """
    gaps, triggered = device.ledger.gaps, [device.gaps_of(trigger) for trigger in rule.triggers]
    chosen = np.concatenate([np.empty(0, np.intp), *triggered])
    lengths = gaps.length_ns[chosen]
    if not len(lengths) or not told.saving_ns or lengths.max() < MOSTLY_ONE * lengths.sum():
        return told
    if Cause.LOAD not in rule.triggers:
        return replace(told, confidence=say("medium")) if told.confidence == "high" else told
    longest, share = chosen[lengths.argmax()], float(lengths.max() / lengths.sum())
    once = Evidence(
        say("{share} of it in one gap: it is loaded once", share=share_text(share)),
        Span(int(gaps.start_ns[longest]), int(gaps.end_ns[longest])),
        share=share,
        of=say("the time of its gaps"),
    )
    cold = replace(told, confidence=say("low"), evidence=(once, *told.evidence))
    if device.steps is None:
        return cold
    return replace(cold, saving_ns=0, saving_ns_per_step=0, saving_low_ns_per_step=0, edit=None)


RULES: Final = (Rule("COLD-START", _cold_start, (QueueTrigger.COLD,)),)
