"""Findings about the capture itself: what it leaves open, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.findings.finding import WORTH_TELLING, Finding
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.model import Trace
from gpuledger.units import count_text, share_text


def about_the_capture(trace: Trace, devices: Sequence[Device]) -> list[Finding]:
    """They save nothing by themselves, so they come last."""
    found = []
    for note in trace.health:
        if note.code == "graphs-opaque":
            claim = say(
                "{count} CUDA graph launches were traced whole: what ran inside was not recorded",
                count=count_text(note.count),
            )
            advice = say("record with `nsys profile --cuda-graph-trace=node`")
            found.append(_finding("CAPTURE-GRAPHS-OPAQUE", claim, advice))
    held, lost = (_largest_share(devices, line) for line in ("idle.profiler", "idle.unattributed"))
    if held >= WORTH_TELLING:
        claim = say("the profiler itself held the host for {share} of the time", share=share_text(held))
        found.append(_finding("CAPTURE-OVERHEAD", claim, ""))
    if lost >= WORTH_TELLING:
        claim = say("{share} of the time cannot be told: launches are missing from the profile", share=share_text(lost))
        found.append(_finding("CAPTURE-LOSS", claim, ""))
    warm_up = [
        device for device in devices if device.steps is not None and 4 * device.steps.warm_up > len(device.steps)
    ]
    for device in warm_up[:1]:
        steps = device.steps
        claim = say(
            "{count} of {steps} steps are warm-up",
            count=count_text(steps.warm_up if steps else 0),
            steps=count_text(len(steps) if steps else 0),
        )
        found.append(_finding("CAPTURE-WARMUP", claim, say("record later, or more steps")))
    return found


def _largest_share(devices: Sequence[Device], line: str) -> float:
    """The share of a line, on the device where it is the largest."""
    return max((device.line_ns.get(line, 0) / device.steady_ns for device in devices), default=0.0)


def _finding(code: str, claim: str, advice: str) -> Finding:
    evidence = (advice,) if advice else ()
    return Finding(code, claim, evidence, 0, None, None, "", say("high"), -1, f"gpuledger explain {code}")
