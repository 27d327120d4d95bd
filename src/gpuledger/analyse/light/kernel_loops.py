"""Loops of small kernels: a device's kernels in order of execution in, where the same few repeat over and over, out.

A loop is a stretch whose kernels are those of a fixed distance before, at least FEWEST times over. Of stretches that
overlap the longest counts, and of its periods the shortest. Kernels of a loop do something to each element of a tensor,
or add it up: so one kernel could do it for all tensors. Layers repeat as well, but each needs what the one before gave.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.catalog.kernel_types import BY_ELEMENT
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.device import Device
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import Codes

FEWEST: Final = 16  # what repeats fewer times than this in a row may be layers, or chance
LONGEST: Final = 24  # a period has no more kernels than this: what is done for one tensor, not a layer


class KernelLoop(Struct, frozen=True):
    """The same `period` kernels over and over, from one position of the sequence to before another."""

    start: int
    end: int
    period: int

    @property
    def times(self) -> int:
        return (self.end - self.start) // self.period

    @property
    def repeated(self) -> slice:
        """All but the first of each kernel."""
        return slice(self.start + self.period, self.end)


class LoopedKernels(Struct, frozen=True, eq=False):
    """The steady kernels of a device, stream by stream, and the loops among them."""

    operations: Positions
    loops: tuple[KernelLoop, ...]

    @property
    def repeated(self) -> Positions:
        """The operations that repeat what the first round of their loop did."""
        return np.sort(np.concatenate([self.operations[loop.repeated] for loop in self.loops] or [self.operations[:0]]))

    @property
    def longest(self) -> KernelLoop | None:
        return max(self.loops, key=lambda loop: loop.end - loop.start, default=None)


def steady_kernels(device: Device, work: Activities) -> Positions:
    """A device's kernels of the steady stretch, stream by stream. `work` is all or part of the run's."""
    mine = (work.state == State.COMPUTE) & (work.gpu == device.gpu)
    chosen = np.flatnonzero(mine & device.begins_steady(work.start_ns))
    return chosen[np.argsort(work.stream[chosen], kind="stable")]


def looped_kernels(device: Device, work: Activities) -> LoopedKernels:
    """Loops within steps: without steps, what repeats may be the steps themselves."""
    chosen = steady_kernels(device, work)
    if device.steps is None:
        return LoopedKernels(chosen, ())
    step = np.searchsorted(device.steps.edges_ns, work.start_ns[chosen], side="right")
    by_element = np.array([family in BY_ELEMENT for family in work.families], np.bool_)[work.family[chosen]]
    _, stream = group(work.stream[chosen])
    loops = kernel_loops(work.name[chosen], stream * (len(device.steps) + 2) + step)
    return LoopedKernels(chosen, tuple(loop for loop in loops if by_element[loop.start : loop.end].all()))


def kernel_loops(names: Codes, parts: Ints, fewest: int = FEWEST) -> tuple[KernelLoop, ...]:
    """The loops of a sequence, in order. None goes on from one part (a step of a stream) to the next."""
    candidates = [loop for period in range(1, LONGEST + 1) for loop in _of_period(names, parts, period, fewest)]
    is_free = np.ones(len(names), np.bool_)
    chosen = []
    for loop in sorted(candidates, key=lambda loop: (loop.start - loop.end, loop.period)):
        if is_free[loop.start : loop.end].all():
            is_free[loop.start : loop.end] = False
            chosen.append(loop)
    return tuple(sorted(chosen, key=lambda loop: loop.start))


def _of_period(names: Codes, parts: Ints, period: int, fewest: int) -> list[KernelLoop]:
    if len(names) < fewest * period:
        return []
    repeats = (names[period:] == names[:-period]) & (parts[period:] == parts[:-period])
    edges = np.flatnonzero(np.diff(np.concatenate(([False], repeats, [False]))))
    first, last = edges[::2], edges[1::2]
    is_long = last - first >= (fewest - 1) * period
    return [
        KernelLoop(start, end, period)
        for start, end in zip(first[is_long].tolist(), (last[is_long] + period).tolist(), strict=True)
    ]
