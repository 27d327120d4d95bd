"""A kernel report judged: each launch with its figures, verdict and advice, and like launches put together.

Launches of one name, grid and block are one kernel, unless their times differ so much that they must have worked on
problems of different size: a GEMM of the same shape may have a longer inner dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.kernels.advice import advice
from gpuledger.analyse.kernels.device_roofs import Roofs, roofs
from gpuledger.analyse.kernels.launch_figures import Figure, LaunchFigures, figures
from gpuledger.analyse.kernels.roofline_points import RooflinePoint, points
from gpuledger.analyse.kernels.verdict import KernelVerdict, verdict
from gpuledger.catalog.kernel_names import cut_label, label, parse
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.kernel_report import Dim3, Profiled

OTHER_SIZE: Final = 1.5
"""Launches of one shape whose times differ by this factor worked on problems of different size."""

FLOOR_NS: Final = 2_000
"""No kernel is made shorter than this: starting and ending one takes about as long."""

SEVERITIES: Final = (("high", 0.1), ("medium", 0.03), ("low", 0.005))
"""Severity by what reaching the nearest roof would save, as a share of the whole time."""


@dataclass(frozen=True, slots=True)
class JudgedLaunch:
    """One launch and what we say of it."""

    launch: Profiled
    figures: LaunchFigures
    verdict: KernelVerdict
    advice: tuple[str, ...]
    roofs: Roofs
    points: tuple[RooflinePoint, ...]

    @property
    def duration_ns(self) -> int:
        """0 where it was not measured, so that it weighs nothing."""
        duration = self.figures.duration_ns
        return 0 if isinstance(duration, NotMeasured) else duration


@dataclass(frozen=True, slots=True)
class FigureSpread:
    """A figure over several launches; the mean is weighted by their time."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class JudgedKernel:
    """Launches of one name, shape and size of problem."""

    name: str
    grid: Dim3 | None
    block: Dim3 | None
    launches: tuple[JudgedLaunch, ...]

    @property
    def label(self) -> str:
        return cut_label(label(self.name))

    @property
    def duration_ns(self) -> int:
        return sum(launch.duration_ns for launch in self.launches)

    @property
    def typical(self) -> JudgedLaunch:
        """The launch that took the most time stands for all."""
        return max(self.launches, key=lambda judged: (judged.duration_ns, -judged.launch.order))

    @property
    def headroom(self) -> Figure:
        """Weighted by time over the launches where it is known."""
        known = [
            (launch.duration_ns, launch.verdict.headroom)
            for launch in self.launches
            if not isinstance(launch.verdict.headroom, NotMeasured)
        ]
        if not known:
            return self.typical.verdict.headroom
        return _mean(known)

    @property
    def saving_ns(self) -> int | NotMeasured:
        """What reaching the nearest roof would save."""
        return saving(self.duration_ns, len(self.launches), self.headroom)

    def spread(self, key: str) -> FigureSpread | NotMeasured:
        """A figure by its key in `launch_figures.FIGURE_NAMES`."""
        known: list[tuple[int, float]] = []
        missing = NotMeasured("there is no launch")
        for launch in self.launches:
            value = launch.figures.dram_bytes_per_s if key == "dram_bytes_per_s" else launch.figures.share(key)
            if isinstance(value, NotMeasured):
                missing = value
            else:
                known.append((launch.duration_ns, value))
        if not known:
            return missing
        values = [value for _, value in known]
        return FigureSpread(_mean(known), min(values), max(values))


def _mean(weighted: Sequence[tuple[int, float]]) -> float:
    weight = sum(weight_ns for weight_ns, _ in weighted)
    if not weight:
        return sum(value for _, value in weighted) / len(weighted)
    return sum(weight_ns * value for weight_ns, value in weighted) / weight


def judged(launch: Profiled) -> JudgedLaunch:
    """One launch with its verdict."""
    numbers, over = figures(launch), roofs(launch)
    answer = verdict(launch, numbers)
    return JudgedLaunch(launch, numbers, answer, advice(launch, answer), over, points(launch, over))


def kernels(launches: Iterable[JudgedLaunch]) -> list[JudgedKernel]:
    """Like launches together, those that took the most time first."""
    alike: dict[tuple[str, Dim3 | None, Dim3 | None], list[JudgedLaunch]] = {}
    for judged in launches:
        key = (parse(judged.launch.name).bare, judged.launch.grid, judged.launch.block)
        alike.setdefault(key, []).append(judged)
    judged_kernels = [
        JudgedKernel(size[0].launch.name, grid, block, tuple(size))
        for (_, grid, block), group in alike.items()
        for size in _by_size(group)
    ]
    return sorted(judged_kernels, key=lambda kernel: (-kernel.duration_ns, kernel.launches[0].launch.order))


def _by_size(group: list[JudgedLaunch]) -> list[list[JudgedLaunch]]:
    """Launches whose times are alike, each kept in order of launch."""
    sizes: list[list[JudgedLaunch]] = []
    for judged in sorted(group, key=lambda judged: judged.duration_ns):
        if sizes and judged.duration_ns <= OTHER_SIZE * max(sizes[-1][-1].duration_ns, 1):
            sizes[-1].append(judged)
        else:
            sizes.append([judged])
    return [sorted(size, key=lambda judged: (judged.launch.file, judged.launch.order)) for size in sizes]


def saving(time_ns: int, calls: int, headroom: Figure) -> int | NotMeasured:
    """What so many calls would save if they reached the roof; no call becomes shorter than FLOOR_NS."""
    if isinstance(headroom, NotMeasured):
        return headroom
    if not time_ns:
        return NotMeasured("how long it took was not collected")
    return max(time_ns - max(round(time_ns * (1 - headroom)), calls * FLOOR_NS), 0)


def severity(saving_ns: int | NotMeasured, whole_ns: int) -> str:
    """high, medium, low or none: how much of the whole time would be saved."""
    if isinstance(saving_ns, NotMeasured) or not whole_ns:
        return "unknown"
    return next((name for name, least in SEVERITIES if saving_ns >= least * whole_ns), "none")
