"""Findings about the capture itself: what it leaves open, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.device import Device
from gpuledger.findings.finding import WORTH_TELLING, Finding
from gpuledger.model.trace import Trace
from gpuledger.units import count_text, share_text

_LINES = {
    "idle.profiler": ("CAPTURE-OVERHEAD", "the profiler itself held the host for {share} of the time"),
    "idle.unattributed": ("CAPTURE-LOSS", "{share} of the time cannot be told: launches are missing from the profile"),
}


def about_the_capture(trace: Trace, devices: Sequence[Device]) -> list[Finding]:
    """They save nothing by themselves, so they come last."""
    found = []
    for note in trace.health:
        if note.code == "graphs-opaque":
            claim = f"{count_text(note.count)} CUDA graph launches were traced whole: what ran inside was not recorded"
            found.append(_finding("CAPTURE-GRAPHS-OPAQUE", claim, "record with `nsys profile --cuda-graph-trace=node`"))
    for line, (code, claim) in _LINES.items():
        share = max((device.line_ns.get(line, 0) / device.steady_ns for device in devices), default=0.0)
        if share >= WORTH_TELLING:
            found.append(_finding(code, claim.format(share=share_text(share)), ""))
    warm_up = [
        device for device in devices if device.steps is not None and 4 * device.steps.warm_up > len(device.steps)
    ]
    for device in warm_up[:1]:
        steps = device.steps
        claim = (
            f"{count_text(steps.warm_up if steps else 0)} of {count_text(len(steps) if steps else 0)} steps are warm-up"
        )
        found.append(_finding("CAPTURE-WARMUP", claim, "record later, or more steps"))
    return found


def _finding(code: str, claim: str, advice: str) -> Finding:
    evidence = (advice,) if advice else ()
    return Finding(code, claim, evidence, 0, None, None, "", "high", -1, f"gpuledger explain {code}")
