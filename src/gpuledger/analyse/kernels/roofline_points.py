"""Where launches stand under the roofs: operations per byte at DRAM, L2 and L1, and how much of each roof is used.

A point's roof is the lower of two: the compute peak of what the launch mostly computes in, and its operations per byte
times the bandwidth of that level.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from gpuledger.analyse.kernels.device_roofs import LEVELS, Roofs, memory_rate
from gpuledger.catalog import ncu_metrics as m
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.kernel_report import Profiled


@dataclass(frozen=True, slots=True)
class OperationRates:
    """Operations per second of one launch by kind (`tensor fp16`, `fp32`, …); only those that it did."""

    per_s: dict[str, float]

    @property
    def main(self) -> str | None:
        """The kind of most operations; None where none were counted."""
        return max(self.per_s, key=lambda kind: self.per_s[kind]) if self.per_s else None

    @property
    def total_per_s(self) -> float:
        return sum(self.per_s.values())


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """One launch at one level of memory."""

    level: str
    kind: str
    """What it mostly computes in."""
    operations_per_byte: float
    operations_per_s: float
    roof_per_s: float
    share: float
    """Of the roof at that intensity."""
    under_memory: bool
    """Whether the slanted part of the roof, the bandwidth, is the lower one here."""


def work(launch: Profiled) -> OperationRates | NotMeasured:
    """What a launch computed, per second of its own time."""
    duration, clock = launch.metric(*m.DURATION), launch.metric(*m.SM_CLOCK)
    per_s: dict[str, float] = defaultdict(float)
    counted = False
    for name, value in launch.metrics.items():
        match = m.TENSOR_OPS.fullmatch(name)
        if match is not None and not isinstance(duration, NotMeasured) and duration:
            counted = True
            per_s[f"tensor {match['type']}"] += value / duration * 1e9
    for kind, weights in m.THREAD_OPS.items():
        for op, weight in weights.items():
            per_cycle = launch.metric(m.THREAD_OP_PER_CYCLE.format(op=op))
            count = launch.metric(*(name.format(op=op) for name in m.THREAD_OP_COUNT))
            if not isinstance(per_cycle, NotMeasured) and not isinstance(clock, NotMeasured):
                counted, rate = True, per_cycle * clock
            elif not isinstance(count, NotMeasured) and not isinstance(duration, NotMeasured) and duration:
                counted, rate = True, count / duration * 1e9
            else:
                continue
            per_s[kind] += weight * rate
    if not counted:
        return NotMeasured("operations were not counted; collect the roofline sections")
    return OperationRates({kind: rate for kind, rate in per_s.items() if rate > 0})


def points(launch: Profiled, over: Roofs) -> tuple[RooflinePoint, ...]:
    """The launch at each level where its traffic, its operations and the roofs are known."""
    done = work(launch)
    if isinstance(done, NotMeasured) or done.main is None or done.main not in over.compute:
        return ()
    standing = []
    for level in LEVELS:
        rate = memory_rate(launch, level)
        if isinstance(rate, NotMeasured) or rate <= 0 or level not in over.memory:
            continue
        if level == "L1" and _bypassed(launch, rate):
            continue
        intensity = done.total_per_s / rate
        slanted, flat = intensity * over.memory[level].per_s, over.compute[done.main].per_s
        roof = min(slanted, flat)
        if not 0 < roof < math.inf:  # a peak of 0, or one that no device has: there is no such roof
            continue
        standing.append(
            RooflinePoint(level, done.main, intensity, done.total_per_s, roof, done.total_per_s / roof, slanted < flat)
        )
    return tuple(standing)


def _bypassed(launch: Profiled, rate: float) -> bool:
    """Whether L1 saw less than DRAM gave: bulk copies (TMA) go to shared memory past what counts as L1 traffic."""
    below = memory_rate(launch, "DRAM")
    return not isinstance(below, NotMeasured) and rate < below
