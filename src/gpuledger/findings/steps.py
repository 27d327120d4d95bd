"""Findings about when time is lost, not why: steps that take unusually long, a run that becomes slower, a slow first
start.

And how far a finding is believed that rests on one gap alone: what was seen once may not happen again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gpuledger.catalog.calls import CallKind
from gpuledger.findings.finding import LEAST_SHARE, Evidence, Finding, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.messages import say
from gpuledger.trace.spans import Span
from gpuledger.units import count_text, share_text, time_text


def _comparable(device: Device) -> Variation | None:
    """How steps vary; None where work is missing: a step that lost its marker, or half of its work, looks unusual."""
    return None if device.lost.is_notable else variation(device)


def _outliers(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    device = subject.device
    varies = _comparable(device)
    if varies is None or not varies.outliers:
        return ()
    saving = sum(outlier.length_ns - outlier.usual_ns for outlier in varies.outliers)
    if not worth_telling(device, saving):
        return ()
    worst = varies.outliers[0]
    claim = say(
        "{count} of {steps} steps take unusually long",
        count=count_text(len(varies.outliers)),
        steps=count_text(device.step_count),
    )
    evidence = say(
        "step {step}: {time} against {usual}, most of it {line}",
        step=worst.step,
        time=time_text(worst.length_ns),
        usual=time_text(worst.usual_ns),
        line=worst.line.label,
    )
    return [
        rule.finding(
            device,
            claim,
            (Evidence(evidence, span=_step(varies, worst.step), count=len(varies.outliers)),),
            saving,
            say("they take as long as the median step"),
        )
    ]


def _step(varies: Variation, number: int) -> Span:
    edges = varies.steps.edges_ns
    return Span(int(edges[number]), int(edges[number + 1]))


def _drift(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    device = subject.device
    varies = _comparable(device)
    if varies is None or varies.drift is None or not varies.drifts or varies.drift.share < 0:
        return ()
    drift = varies.drift
    # none of it in the first third, all of it in the last: on average half. Single long steps are another finding's
    saving = (drift.late_ns - drift.early_ns) * device.step_count // 2
    if not worth_telling(device, saving):
        return ()
    claim = say(
        "steps slow down over the run: {share} from the first third to the last",
        share=share_text(drift.share),
    )
    evidence = say(
        "from {early} to {late}, most of it {line}",
        early=time_text(drift.early_ns),
        late=time_text(drift.late_ns),
        line=drift.line.label,
    )
    return [
        rule.finding(
            device,
            claim,
            (Evidence(evidence, span=_step(varies, len(varies.steps) - 1)),),
            saving,
            say("all steps take as long as the early ones"),
        )
    ]


MOSTLY_ONE: Final = 0.9
"""A finding that has this share of its time in one gap rests on that gap alone."""


def _cold_start(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The context, the code or the process was not there yet. Nothing is saved: a longer run pays it once too."""
    device = subject.device
    gaps, chosen = device.ledger.gaps, device.gaps_of(QueueTrigger.COLD)
    time = device.idle_by_trigger.get(QueueTrigger.COLD, 0)
    if not len(chosen) or not worth_telling(device, time):
        return ()
    causes = device.causes_of(QueueTrigger.COLD)
    creating = causes.get(Cause.CONTEXT, 0)
    if 2 * creating > time:
        claim = say("the CUDA context is created: {time}, once", time=time_text(creating))
    else:
        claim = say("the first GPU work takes {time} to start, once", time=time_text(time))
    longest = int(chosen[gaps.length_ns[chosen].argmax()])
    finding = rule.finding(
        device,
        claim,
        (*_causes(device, longest), *_calls(device, longest)),
        0,
        say("it happens once, however long the program runs"),
        explains=time,
    )
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
    name = short_function_name(calls.strings.text(int(calls.codes("name")[held])) or "")
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


def with_confidence(device: Device, rule: Rule[OneGpu], finding: Finding) -> Finding:
    """A finding about gaps, believed highly only if they are several: what was seen once may not happen again.

    Code that is loaded in one gap is known not to be loaded again; nothing is saved of steps that do not have it.
    """
    gaps, triggered = device.ledger.gaps, [device.gaps_of(trigger) for trigger in rule.triggers]
    chosen = np.concatenate([np.empty(0, np.intp), *triggered])
    lengths = gaps.length_ns[chosen]
    if not len(lengths) or not finding.saving_ns or lengths.max() < MOSTLY_ONE * lengths.sum():
        return finding
    if Cause.LOAD not in rule.triggers:
        return replace(finding, confidence=say("medium")) if finding.confidence == "high" else finding
    longest, share = chosen[lengths.argmax()], float(lengths.max() / lengths.sum())
    once = Evidence(
        say("{share} of it in one gap: it is loaded once", share=share_text(share)),
        Span(int(gaps.start_ns[longest]), int(gaps.end_ns[longest])),
        share=share,
        of=say("the time of its gaps"),
    )
    cold = replace(finding, confidence=say("low"), evidence=(once, *finding.evidence))
    if device.steps is None:
        return cold
    return replace(cold, saving_ns=0, saving_ns_per_step=0, saving_low_ns_per_step=0, edit=None)


RULES: Final = (
    Rule("STEP-OUTLIERS", _outliers, None, is_symptom=True),
    Rule("STEP-DRIFT", _drift, None, is_symptom=True),
    Rule("COLD-START", _cold_start, None, triggers=(QueueTrigger.COLD,)),
)
