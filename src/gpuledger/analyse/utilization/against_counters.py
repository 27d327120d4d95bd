"""Use from samples held against Nsight Compute's counters of the same kernels: both in, what differs out.

Kernels are the same by name, grid and block. Nsight Compute prints the last namespace of a name only, and some releases
none: those that only agree without namespaces are the same if they are alone in that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from gpuledger.analyse.utilization.kernel_use import KernelUse, UseFigure, UseOfKernels
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.kernel_names import parse
from gpuledger.catalog.ncu_metrics import DURATION, SM_CLOCK, USE
from gpuledger.trace.measured import Dim3, KernelReport, Profiled
from gpuledger.trace.model import NotMeasured

SHORT_NS: Final = 5_000
LONG_NS: Final = 10_000
NEAR_POINTS: Final = 5.0

_QUALIFIED: Final = re.compile(r"(?<![\w:])(?:\w+::)+(\w+::\w+)")
_TRUTH: Final = re.compile(r"\b(?:true|false)\b")

_Key = tuple[str, Dim3 | None, Dim3 | None]


class CounterComparison(Struct, frozen=True):
    """One counter of one kernel, from samples and as counted."""

    kernel: KernelUse
    metric: GpuMetric
    sampled: UseFigure
    counted: float  # percent, the mean of the counted launches by time

    @property
    def error(self) -> float:
        return self.sampled.percent - self.counted

    @property
    def is_held(self) -> bool:
        """Whether the interval has it; Nsight Compute prints two decimals."""
        return self.sampled.low - 0.01 <= self.counted <= self.sampled.high + 0.01

    @property
    def launch_ns(self) -> float:
        return self.kernel.time_ns / self.kernel.launches


class Agreement(Struct, frozen=True):
    """How one counter from samples agrees with Nsight Compute over some kernels. None: there is no such kernel."""

    kernels: int
    mean_error: float  # by time, without sign
    near_share: float | None  # of kernels over ten microseconds, those within five points
    held_share: float  # of all kernels, those whose interval holds what was counted
    short_held_share: float | None  # of kernels under five microseconds


class CountedLaunch(NamedTuple):
    """Of one kernel, over its launches by their time."""

    percent: Mapping[GpuMetric, float]
    took_ns: float  # of one launch as it was profiled; NaN where that was not recorded
    hertz: float  # the multiprocessors' clock meanwhile; likewise


class CountedUse:
    """What Nsight Compute counted of kernels."""

    def __init__(self, report: KernelReport) -> None:
        self._by_name = _counted(report, _in_short)
        self._by_bare_name = _counted(report, lambda name: parse(name).bare)

    def launches(self, kernels: Sequence[_Key]) -> list[CountedLaunch | None]:
        """What was counted of each of these kernels: name, grid and block. None: it was not profiled."""
        bare_keys = [(parse(name).bare, grid, block) for name, grid, block in kernels]
        often = Counter(bare_keys)
        return [
            self._by_name.get((_in_short(name), grid, block))
            or (self._by_bare_name.get(bare) if often[bare] == 1 else None)
            for (name, grid, block), bare in zip(kernels, bare_keys, strict=True)
        ]


def held_against(use: UseOfKernels, report: KernelReport) -> tuple[CounterComparison, ...]:
    """Every counter of every kernel that both have."""
    counted = CountedUse(report).launches([(kernel.full_name, kernel.grid, kernel.block) for kernel in use.kernels])
    return tuple(
        CounterComparison(kernel, metric, figure, launch.percent[metric])
        for kernel, launch in zip(use.kernels, counted, strict=True)
        for metric, figure in kernel.figures.items()
        if launch is not None and metric in launch.percent
    )


def _in_short(name: str) -> str:
    """With the last namespace of each name, and truth as a number, as Nsight Compute prints them."""
    return _TRUTH.sub(lambda word: str(int(word[0] == "true")), _QUALIFIED.sub(r"\1", parse(name).canonical))


def agreement(held: tuple[CounterComparison, ...], metric: GpuMetric) -> Agreement | None:
    """One counter of them all; None where nothing was counted."""
    chosen = [one for one in held if one.metric is metric]
    if not chosen:
        return None
    time = np.array([one.kernel.time_ns for one in chosen])
    error = np.abs([one.error for one in chosen])
    length = np.array([one.launch_ns for one in chosen])
    inside = np.array([one.is_held for one in chosen])
    long, short = length > LONG_NS, length < SHORT_NS
    return Agreement(
        len(chosen),
        float(np.average(error, weights=time)),
        float((error[long] <= NEAR_POINTS).mean()) if long.any() else None,
        float(inside.mean()),
        float(inside[short].mean()) if short.any() else None,
    )


def _counted(report: KernelReport, name_of: Callable[[str], str]) -> dict[_Key, CountedLaunch]:
    by_kernel: dict[_Key, list[Profiled]] = {}
    for launch in report.launches:
        by_kernel.setdefault((name_of(launch.name), launch.grid, launch.block), []).append(launch)
    return {key: _mean(launches) for key, launches in by_kernel.items()}


def _mean(launches: Sequence[Profiled]) -> CountedLaunch:
    lengths = [_known(launch.metric(*DURATION)) or 0.0 for launch in launches]

    def over_time(metric: tuple[str, ...]) -> float | None:
        known = [
            (figure, time)
            for launch, time in zip(launches, lengths, strict=True)
            if time > 0 and (figure := _known(launch.metric(*metric))) is not None
        ]
        return sum(figure * time for figure, time in known) / sum(time for _, time in known) if known else None

    shares = {metric: over_time(counters) for metric, counters in USE.items()}
    took, hertz = sum(lengths) / len(lengths) or None, over_time(SM_CLOCK)
    return CountedLaunch(
        {metric: 100 * share for metric, share in shares.items() if share is not None},
        *(float("nan") if figure is None else figure for figure in (took, hertz)),
    )


def _known(figure: float | NotMeasured) -> float | None:
    return None if isinstance(figure, NotMeasured) else figure
