"""A comparison of two runs, per step on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from gpuledger.analyse.diff.compare import Diff, launch_split
from gpuledger.analyse.diff.gate import GateOutcome
from gpuledger.analyse.diff.noise import Controls
from gpuledger.analyse.diff.pairs import RangePair
from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.analyse.range_tree import range_shares

T = TypeVar("T")


class PerStep(Struct, frozen=True):
    """What one side does in a step; nothing, where it has none of the kind."""

    count: float = 0.0
    ns: float = 0.0
    bytes: float | None = 0.0


class RangeChange(Struct, frozen=True):
    """A kind of range on both sides, per step."""

    pair: RangePair
    host_ns: tuple[float, float]
    gpu_ns: tuple[float, float] | None
    """None where a side does not say."""
    corrected_share: float | None
    """How host time changed if the host had been as fast as before; None where controls do not say."""
    of_whole: tuple[float | None, float | None]
    """Its shares of the step, or in tables of the program's own ranges; None where it is no part of them."""

    @property
    def share(self) -> float:
        """How host time changed."""
        return change_share(*self.host_ns)


class Compared(Struct, frozen=True, dict=True):
    """A comparison, and how its gates turned out."""

    diff: Diff
    outcomes: tuple[GateOutcome, ...] = ()

    @property
    def sides(self) -> tuple[RunSide, RunSide]:
        return self.diff.before, self.diff.after

    @cached_property
    def launch_split(self) -> tuple[float, float] | None:
        """The change of time in launch calls, by number and by cost; None where they are not recorded."""
        return launch_split(*self.sides)

    @property
    def launches(self) -> tuple[PerStep, PerStep] | None:
        """Launch calls of both sides; None where they are not recorded."""
        before, after = self.sides
        if before.launches is None or after.launches is None:
            return None
        return (
            PerStep(before.launches.calls / before.steps, before.launches.time_ns / before.steps),
            PerStep(after.launches.calls / after.steps, after.launches.time_ns / after.steps),
        )

    @cached_property
    def calls(self) -> dict[str, tuple[PerStep, PerStep]]:
        """CUDA functions on either side, the most time first."""
        paired = self._paired(
            lambda side: side.calls or (),
            lambda call: call.name,
            lambda call, steps: PerStep(call.calls / steps, call.time_ns / steps),
        )
        return dict(sorted(paired.items(), key=lambda entry: (-max(side.ns for side in entry[1]), entry[0])))

    @cached_property
    def copies(self) -> dict[str, tuple[PerStep, PerStep]]:
        """Copies by kind on either side."""
        return self._paired(
            lambda side: side.copies,
            lambda copied: copied.kind,
            lambda copied, steps: PerStep(
                copied.count / steps, copied.time_ns / steps, None if copied.bytes is None else copied.bytes / steps
            ),
        )

    def _paired(
        self, of: Callable[[RunSide], Iterable[T]], name: Callable[[T], str], per_step: Callable[[T, int], PerStep]
    ) -> dict[str, tuple[PerStep, PerStep]]:
        before, after = ({name(part): per_step(part, side.steps) for part in of(side)} for side in self.sides)
        return {key: (before.get(key, PerStep()), after.get(key, PerStep())) for key in (before | after)}

    @cached_property
    def ranges(self) -> tuple[RangeChange, ...]:
        """Every kind of range on either side."""
        wholes, controls = [range_shares(side) for side in self.sides], self.diff.controls

        def changed(pair: RangePair) -> RangeChange:
            held = tuple(zip((pair.before, pair.after), self.sides, wholes, strict=True))
            host = [0.0 if of is None else of.host_ns / side.steps for of, side, _ in held]
            gpu = [0.0 if of is None else None if of.gpu_ns is None else of.gpu_ns / side.steps for of, side, _ in held]
            shares = [None if of is None else whole.share(of) for of, _, whole in held]
            corrected = None
            if isinstance(controls, Controls) and controls.corrects(pair):
                corrected = (1 + change_share(host[0], host[1])) / controls.ratio - 1
            both = None if gpu[0] is None or gpu[1] is None else (gpu[0], gpu[1])
            return RangeChange(pair, (host[0], host[1]), both, corrected, (shares[0], shares[1]))

        return tuple(map(changed, self.diff.ranges))


def change_share(before: float, after: float) -> float:
    """The change as a share of before; infinite for what was not there."""
    if before:
        return (after - before) / before
    return math.inf if after else 0.0
