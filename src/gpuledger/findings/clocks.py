"""Findings about clocks: multiprocessors that run well below the clock that the GPU can have, while they are busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuledger.findings.evidence import Evidence
from gpuledger.findings.finding import Finding, finding
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.messages import say
from gpuledger.units import count_text, share_text

if TYPE_CHECKING:
    from gpuledger.analyse.use.stretches import Clock

HELD_DOWN: Final = 0.85
"""Of the highest clock: from there on it is well below."""

MOSTLY_BUSY: Final = 0.8
"""A GPU that works less of the time than this idles, and its clock follows: nothing is said of it."""

LEAST_NS: Final = 50_000_000
"""So long kernels must have run under the samples: clocks follow power by milliseconds."""

FIXED: Final = 0.02
"""A clock that varies by less of its mean is set, not regulated."""


def _clocks_low(subject: OneGpu) -> Sequence[Finding]:
    """A clock that is set has a bound of what it costs; one that power or heat holds down is only told."""
    if subject.use is None or (clock := subject.use[1].clock) is None:
        return ()
    device, highest = subject.device, clock.top_hz
    busy_share = 1 - sum(ns for line, ns in device.line_ns.items() if line.is_idle) / max(device.steady_ns, 1)
    # a clock that is still rising at the end was low because the GPU had idled
    low = max(clock.mean_hz, clock.late_hz) < HELD_DOWN * highest
    if not low or busy_share < MOSTLY_BUSY or clock.busy_ns < LEAST_NS:
        return ()
    if not clock.varies_by(FIXED):
        return [_fixed(subject, clock)]
    claim = say(
        "under load the SM clock drops to {mean} MHz on average, {share} of the {highest} MHz maximum",
        mean=_megahertz(clock.mean_hz),
        share=share_text(clock.mean_hz / highest),
        highest=_megahertz(highest),
    )
    assumption = say("power, temperature or a set limit holds it down; the cost is unknown")
    told = finding(device, "CLOCKS-LOW", claim, (_evidence(clock),), 0, assumption)
    return [replace(told, confidence=say("low"))]


def _fixed(subject: OneGpu, clock: Clock) -> Finding:
    """What a higher clock would save of the kernels whose speed it is; memory has a clock of its own."""
    from gpuledger.analyse.use.compute_split import compute_split
    from gpuledger.analyse.use.use_class import CLASSES, UseClass

    device, highest, use = subject.device, clock.top_hz, subject.use
    claim = say(
        "the SM clock stays at {mean} MHz, {share} of the {highest} MHz maximum",
        mean=_megahertz(clock.mean_hz),
        share=share_text(clock.mean_hz / highest),
        highest=_megahertz(highest),
    )
    class_of_row = None if use is None else use[0].class_of_row
    at_roof_ns = compute_split(device, class_of_row).steady_total[UseClass.COMPUTE_ROOF]
    less = 1 - clock.mean_hz / highest
    lost = round(at_roof_ns * less)
    assumption = say("compute-bound kernels run at the maximum clock")
    evidence = [_evidence(clock)]
    if class_of_row is None or not lost:
        return finding(device, "CLOCKS-LOW", claim, tuple(evidence), 0, assumption)
    edit = subject.fixes.faster_rows(class_of_row == CLASSES.index(UseClass.COMPUTE_ROOF), less)
    share = at_roof_ns / device.compute_ns
    told = say("{share} of compute time is at the compute roof, which scales with the clock", share=share_text(share))
    evidence.append(Evidence(told, share=share, of=say("compute time")))
    return finding(
        device,
        "CLOCKS-LOW",
        claim,
        tuple(evidence),
        subject.saved_ns(edit, lost),
        assumption,
        explains=lost,
        edit=edit,
    )


def _evidence(clock: Clock) -> Evidence:
    return Evidence(
        say(
            "{lowest} to {most} MHz in {count} samples while kernels ran",
            lowest=_megahertz(clock.lowest_hz),
            most=_megahertz(clock.most_hz),
            count=count_text(clock.samples),
        ),
        count=clock.samples,
    )


def _megahertz(hertz: float) -> str:
    return count_text(round(hertz / 1e6))


RULES: Final = (Rule("CLOCKS-LOW", _clocks_low),)
