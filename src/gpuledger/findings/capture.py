"""Findings about the capture itself: what it leaves open, and what it cost. They save nothing by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.findings.evidence import Evidence
from gpuledger.findings.finding import WORTH_TELLING, Finding, explain_command
from gpuledger.findings.rule import Capture, Rule
from gpuledger.ledger.causes import Cause
from gpuledger.messages import say
from gpuledger.units import count_text, share_text


def _opaque_graphs(subject: Capture) -> Sequence[Finding]:
    told = []
    for note in subject.trace.health:
        if note.code == "graphs-opaque":
            claim = say(
                "{count} CUDA graph launches were traced whole: what ran inside was not recorded",
                count=count_text(note.count),
            )
            advice = say("record with `nsys profile --cuda-graph-trace=node`")
            told.append(_finding("CAPTURE-GRAPHS-OPAQUE", claim, advice))
    return told


def _overhead(subject: Capture) -> Sequence[Finding]:
    share = _largest_share(subject, Cause.PROFILER)
    if share < WORTH_TELLING:
        return ()
    claim = say("the profiler itself held the host for {share} of the time", share=share_text(share))
    return [_finding("CAPTURE-OVERHEAD", claim)]


def _loss(subject: Capture) -> Sequence[Finding]:
    share = _largest_share(subject, Cause.UNATTRIBUTED)
    if share < WORTH_TELLING:
        return ()
    claim = say("{share} of the time cannot be told: launches are missing from the profile", share=share_text(share))
    return [_finding("CAPTURE-LOSS", claim)]


def _warm_up(subject: Capture) -> Sequence[Finding]:
    for steps in (device.steps for device in subject.devices):
        if steps is not None and 4 * steps.warm_up > len(steps):
            claim = say(
                "{count} of {steps} steps are warm-up", count=count_text(steps.warm_up), steps=count_text(len(steps))
            )
            return [_finding("CAPTURE-WARMUP", claim, say("record later, or more steps"))]
    return ()


def _largest_share(subject: Capture, cause: Cause) -> float:
    """The share of a cause, on the device where it is the largest."""
    return max((device.idle_ns(cause) / device.steady_ns for device in subject.devices), default=0.0)


def _finding(code: str, claim: str, advice: str = "") -> Finding:
    evidence = (Evidence(advice),) if advice else ()
    return Finding(code, claim, evidence, 0, None, None, "", say("high"), -1, explain_command(code))


RULES: Final = (
    Rule("CAPTURE-GRAPHS-OPAQUE", _opaque_graphs),
    Rule("CAPTURE-OVERHEAD", _overhead, (Cause.PROFILER,)),
    Rule("CAPTURE-LOSS", _loss, (Cause.UNATTRIBUTED,)),
    Rule("CAPTURE-WARMUP", _warm_up),
)
