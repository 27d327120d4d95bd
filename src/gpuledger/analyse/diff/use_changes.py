"""What the same kernels use of the GPU before and after: two sides with samples in, what surely changed out.

Kernels are the same by name, grid and block; by the name without namespaces, which some releases leave out, where that
is one kernel's on each side. A number has changed if each side's lies outside the other's interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.diff.run_side import RunSide, RunUse
from gpuledger.analyse.use.use_figure import UseFigure
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.catalog.kernel_names import parse

CLOCKS_ALIKE: Final = 0.03
"""Clocks that differ by less of the higher one are the same."""


@dataclass(frozen=True, slots=True)
class UseChange:
    """One counter of one kernel."""

    before_kernel: RunUse
    after_kernel: RunUse
    metric: GpuMetric
    before: UseFigure
    after: UseFigure

    @property
    def points(self) -> float:
        return self.after.percent - self.before.percent


def use_changes(before: RunSide, after: RunSide) -> tuple[UseChange, ...] | None:
    """What changed, the kernel with the most time first; None where a side was not sampled."""
    if not before.use or not after.use:
        return None
    changed = []
    for same, kernel in _same(before.use, after.use):
        for metric in OF_KERNELS:
            one, other = (each.figures.get(metric.value) for each in (same, kernel))
            if one is not None and other is not None and not one.holds(other.percent) and not other.holds(one.percent):
                changed.append(UseChange(same, kernel, metric, one, other))
    return tuple(changed)


def _same(before: Sequence[RunUse], after: Sequence[RunUse]) -> list[tuple[RunUse, RunUse]]:
    """Kernels that are on both sides, the most time first."""
    pairs = list[tuple[RunUse, RunUse]]()
    for name_of in (_canonical, _bare):
        old, new = _alone(before, name_of), _alone(after, name_of)
        pairs += [(old[key], new[key]) for key in new if key in old]
        before, after = ([one[key] for key in one if key not in other] for one, other in ((old, new), (new, old)))
    return sorted(pairs, key=lambda pair: -pair[1].time_ns)


def _canonical(name: str) -> str:
    return parse(name).canonical


def _bare(name: str) -> str:
    return parse(name).bare


def _alone(kernels: Sequence[RunUse], name_of: Callable[[str], str]) -> dict[object, RunUse]:
    """By name and shape, those that share them with no other."""
    keys = [(name_of(kernel.name), kernel.grid, kernel.block) for kernel in kernels]
    often = Counter(keys)
    return {key: kernel for key, kernel in zip(keys, kernels, strict=True) if often[key] == 1}


def clocks_differ(before: RunSide, after: RunSide) -> tuple[float, float] | None:
    """The clocks while kernels ran, where both are known and differ."""
    one, other = before.busy_clock_hz, after.busy_clock_hz
    if one is None or other is None or abs(one - other) <= CLOCKS_ALIKE * max(one, other):
        return None
    return one, other
