"""Findings about steps: some that take unusually long, and a run that becomes slower. They say when, not why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.findings.evidence import Evidence
from gpuledger.findings.finding import Finding, finding, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.messages import say
from gpuledger.trace.spans import Span
from gpuledger.units import count_text, share_text, time_text


def _comparable(device: Device) -> Variation | None:
    """How steps vary; None where work is missing: a step that lost its marker, or half of its work, looks unusual."""
    return None if device.lost.is_notable else variation(device)


def _outliers(subject: OneGpu) -> Sequence[Finding]:
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
        finding(
            device,
            "STEP-OUTLIERS",
            claim,
            (Evidence(evidence, span=_step(varies, worst.step), count=len(varies.outliers)),),
            saving,
            say("they take as long as the median step"),
        )
    ]


def _step(varies: Variation, number: int) -> Span:
    edges = varies.steps.edges_ns
    return Span(int(edges[number]), int(edges[number + 1]))


def _drift(subject: OneGpu) -> Sequence[Finding]:
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
        finding(
            device,
            "STEP-DRIFT",
            claim,
            (Evidence(evidence, span=_step(varies, len(varies.steps) - 1)),),
            saving,
            say("all steps take as long as the early ones"),
        )
    ]


RULES: Final = (
    Rule("STEP-OUTLIERS", _outliers, is_symptom=True),
    Rule("STEP-DRIFT", _drift, is_symptom=True),
)
