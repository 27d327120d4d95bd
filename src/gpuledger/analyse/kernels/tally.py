"""Judged kernels counted: bottlenecks by kind and severity, how many are far below a peak, how many hit rarely.

A kernel counts once, however often it was launched. What was not measured of a kernel is left out of that count, so
each says how many kernels it is of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.kernels.judgement import JudgedKernel, JudgedLaunch, severity
from gpuledger.analyse.kernels.timeline_match import MatchedTimeline
from gpuledger.trace.health import NotMeasured

HALF: Final = 0.5
"""Below this share of a peak, or of all accesses, a figure is counted as low."""

ROOF: Final = "roof_share"
PEAKS: Final = ("sm_busy_share", "dram_share", "occupancy_efficiency")
HITS: Final = ("l2_hit_share", "l1_hit_share")


@dataclass(frozen=True, slots=True)
class LowCount:
    """How many kernels are below half in one figure, of those that it was measured of."""

    low: int
    of: int


@dataclass(frozen=True, slots=True)
class KernelTally:
    """The kernels of a report in numbers."""

    kernels: int
    limits: Mapping[str, Mapping[str, int]]
    """Kernels by what binds them, and within that by what limits them; the most first."""
    severities: Mapping[str, int]
    low: Mapping[str, LowCount]
    """By ROOF, PEAKS and HITS."""


def kernels_tally(kernels: Sequence[JudgedKernel]) -> KernelTally:
    """Count kernels whose severity is by what they would save of the time of all of them."""
    whole_ns = sum(kernel.duration_ns for kernel in kernels)
    return _tally([(kernel.typical, kernel, severity(kernel.saving_ns, whole_ns)) for kernel in kernels])


def timeline_tally(timeline: MatchedTimeline) -> KernelTally:
    """Count the kernels of a step that a profiled launch speaks for."""
    return _tally(
        [
            (match.launch, match.judged, match.severity)
            for match in timeline.matches
            if match.covered and match.launch is not None
        ]
    )


def _tally(judged: Sequence[tuple[JudgedLaunch, JudgedKernel, str]]) -> KernelTally:
    """Kernels, each with the launch that speaks for it and its severity."""
    verdicts = [launch.verdict for launch, _, _ in judged]
    bounds = Counter(verdict.bound for verdict in verdicts)
    low = {key: _low(_mean(kernel, key) for _, kernel, _ in judged) for key in (*PEAKS, *HITS)}
    return KernelTally(
        kernels=len(judged),
        limits={
            bound: dict(Counter(verdict.limiter for verdict in verdicts if verdict.bound == bound).most_common())
            for bound, _ in bounds.most_common()
        },
        severities=dict(Counter(severe for _, _, severe in judged)),
        low={ROOF: _low(verdict.roof_share for verdict in verdicts), **low},
    )


def _mean(kernel: JudgedKernel, key: str) -> float | NotMeasured:
    spread = kernel.spread(key)
    return spread if isinstance(spread, NotMeasured) else spread.mean


def _low(values: Iterable[float | NotMeasured]) -> LowCount:
    known = [value for value in values if not isinstance(value, NotMeasured)]
    return LowCount(sum(value < HALF for value in known), len(known))
