"""Steps that take longer than others.

STEP-OUTLIERS: some steps take much longer than the median.

The median step is fine, but p90 or the worst steps are not: token latency has a tail, or training has a hiccup every
so often. On the timeline most steps look alike, and a few hold something that the others lack.

STEP-DRIFT: steps change steadily in length over the run.

The steps at the end of the profile are systematically longer (or shorter) than those at its beginning; the median
describes neither. On the timeline the same sequence of kernels stretches slowly, or the gaps between them do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.findings.finding import Evidence, Finding, is_significant
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.steps.periodic_steps import comparable_steps, periodic_steps, step_span
from gpuledger.ledger.causes import QueueTrigger
from gpuledger.messages import say
from gpuledger.units import count_text, share_text, time_text


def _outliers(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    device = subject.device
    varies = comparable_steps(device)
    if varies is None:
        return ()
    periodic, edges, gaps = periodic_steps(device), varies.steps.edges_ns, device.ledger.gaps
    cold = device.gaps_of(QueueTrigger.COLD)
    step = np.searchsorted(edges, gaps.start_ns[cold], side="right") - 1
    in_steps = step >= 0
    cold_ns = np.bincount(step[in_steps], gaps.length_ns[cold][in_steps], len(edges))
    outliers = [
        outlier
        for outlier in varies.outliers
        if (periodic is None or not periodic.periodic.is_slow[outlier.step])
        and 2 * cold_ns[outlier.step] < outlier.length_ns - outlier.usual_ns
    ]
    saving = sum(outlier.length_ns - outlier.usual_ns for outlier in outliers)
    if not outliers or not is_significant(device, saving):
        return ()
    worst = outliers[0]
    figures = {
        "count": count_text(len(outliers)),
        "steps": count_text(device.step_count),
        "time": time_text(worst.length_ns),
        "usual": time_text(worst.usual_ns),
        "line": worst.line.label,
    }
    if len(outliers) == 1:
        claim = say("1 of {steps} steps takes unusually long: {time} against {usual}, most of it {line}", **figures)
    else:
        claim = say(
            "{count} of {steps} steps take unusually long: up to {time} against {usual}, most of it {line}", **figures
        )
    longest = say("the longest is step {step}", step=worst.step)
    evidence = Evidence(longest, step_span(device, worst.step), count=len(outliers))
    return [rule.finding(device, claim, (evidence,), saving, say("they take as long as the median step"))]


STEP_OUTLIERS: Final = Rule("STEP-OUTLIERS", _outliers, None, is_symptom=True)


def _drift(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    device = subject.device
    varies = comparable_steps(device)
    if varies is None or varies.drift is None or not varies.drifts or varies.drift.share < 0:
        return ()
    periodic = periodic_steps(device)
    if periodic is not None and periodic.captures_graphs:  # other graphs take another time
        return ()
    drift = varies.drift
    # none of it in the first third, all of it in the last: on average half. Single long steps are another finding's
    saving = (drift.late_ns - drift.early_ns) * device.step_count // 2
    if not is_significant(device, saving):
        return ()
    claim = say("steps slow down over the run: {share} from the first third to the last", share=share_text(drift.share))
    times = {"early": time_text(drift.early_ns), "late": time_text(drift.late_ns)}
    grown = say("from {early} to {late}, most of it {line}", **times, line=drift.line.label)
    evidence = Evidence(grown, step_span(device, len(varies.steps) - 1))
    return [rule.finding(device, claim, (evidence,), saving, say("all steps take as long as the early ones"))]


STEP_DRIFT: Final = Rule("STEP-DRIFT", _drift, None, is_symptom=True)
