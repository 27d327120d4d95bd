"""Which launches to hand to Nsight Compute: launches in the order of time in, runs of ncu out.

ncu cannot be told a launch by its time; it counts. In a run it takes functions by their bare name, and of each launch
configuration (grid, block, shared memory) it leaves the first `skip` launches out and takes the next `count`. Kernels
that differ in their template arguments alone are one function to it, so `count` is large enough to meet each of those
that are wanted. A run starts the program anew, so there are as few as possible: usually one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.keys import Positions, group
from gpuledger.trace.spans import Ints


@dataclass(frozen=True, slots=True, eq=False)
class LaunchColumns:
    """The launches of one GPU in the order of time, as columns."""

    functions: tuple[str, ...]
    function: Ints
    """Position in `functions`: the bare name, all that ncu filters by."""
    alike: Ints
    """Number of the kernel, grid and block; one launch stands for all of a number."""
    counted: Ints
    """Number of what ncu counts by itself: process, function and launch configuration."""
    steady: NDArray[np.bool_]
    ns: Ints


@dataclass(frozen=True, slots=True)
class NcuRun:
    """One run of ncu."""

    functions: tuple[str, ...]
    skip: int
    count: int
    launches: int
    """How many launches that takes in all, with those that merely have the same name."""
    ns: int
    """How long they ran in the profile."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sequence:
    """Launches that ncu counts together; ordinals are from 0 on."""

    function: int
    warm: int
    """How many there are before the steady steps."""
    wanted: tuple[Ints, ...]
    """Of each wanted kernel among them the ordinals in the steady steps."""

    @property
    def last(self) -> int:
        """The most that can be skipped with all wanted kernels still to come."""
        return min(int(positions[-1]) for positions in self.wanted)


def ncu_runs(launches: LaunchColumns, wanted: Collection[int], *, together: bool = True) -> tuple[NcuRun, ...]:
    """Runs in which each wanted kernel (a number of `alike`) is met in the steady steps.

    `together` says that ncu tells functions apart when it counts, so that one run may be for several; if not, each
    function gets a run of its own.
    """
    ordinal = _ordinal(launches.counted)
    waiting = sorted(_sequences(launches, ordinal, wanted), key=lambda sequence: sequence.last)
    runs = []
    while waiting:  # the fewest numbers to skip that suit all: take along whatever the most pressing one allows
        pressing = waiting[0]
        now = [
            sequence
            for sequence in waiting
            if sequence.warm <= pressing.last and (together or sequence.function == pressing.function)
        ]
        runs.append(_run(launches, ordinal, now))
        waiting = [sequence for sequence in waiting if sequence not in now]
    return tuple(runs)


def _ordinal(counted: Ints) -> Positions:
    """How many launches of the same count come before each."""
    order = np.argsort(counted, kind="stable")
    first = np.searchsorted(counted[order], counted[order], side="left")
    ordinal = np.empty(len(counted), np.intp)
    ordinal[order] = np.arange(len(counted)) - first
    return ordinal


def _sequences(launches: LaunchColumns, ordinal: Positions, wanted: Collection[int]) -> list[_Sequence]:
    """The sequences that wanted kernels are in; one that is in several counts where it is most often."""
    rows = np.flatnonzero(launches.steady & np.isin(launches.alike, list(wanted)))
    _, pair = group(launches.alike[rows], launches.counted[rows])
    ordered = rows[np.argsort(pair, kind="stable")]
    main: dict[int, Positions] = {}
    for part in np.split(ordered, np.cumsum(np.bincount(pair))[:-1]) if len(rows) else []:
        kernel = int(launches.alike[part[0]])
        if kernel not in main or len(part) > len(main[kernel]):
            main[kernel] = part
    members: dict[int, list[Positions]] = {}
    for part in main.values():
        members.setdefault(int(launches.counted[part[0]]), []).append(part)
    warm = np.full(int(launches.counted.max(initial=-1)) + 1, len(ordinal))
    np.minimum.at(warm, launches.counted[launches.steady], ordinal[launches.steady])
    return [
        _Sequence(int(launches.function[parts[0][0]]), int(warm[counted]), tuple(ordinal[part] for part in parts))
        for counted, parts in members.items()
    ]


def _run(launches: LaunchColumns, ordinal: Positions, sequences: list[_Sequence]) -> NcuRun:
    """The run that meets every wanted kernel of these sequences after all their warm-up, with the fewest launches."""
    functions = sorted({number.function for number in sequences}, key=lambda number: launches.functions[number])
    named = np.isin(launches.function, functions)
    numbers, lengths = np.unique(launches.counted[named], return_counts=True)
    passing = lengths[~np.isin(numbers, launches.counted[launches.steady])]
    least = max(sequence.warm for sequence in sequences)
    # skipping more gets past what has the same name, but is only in the warm-up; half the way is kept for shorter runs
    most = (least + min(sequence.last for sequence in sequences)) // 2
    choices = [least, *(length for length in np.unique(passing).tolist() if least < length <= most)]

    def count_after(skip: int) -> int:
        met = [
            int(positions[np.searchsorted(positions, skip)]) for sequence in sequences for positions in sequence.wanted
        ]
        return max(met) - skip + 1

    skip = min(choices, key=lambda skip: (np.clip(lengths - skip, 0, count_after(skip)).sum(), skip))
    count = count_after(skip)
    taken = named & (ordinal >= skip) & (ordinal < skip + count)
    names = tuple(launches.functions[number] for number in functions)
    return NcuRun(names, skip, count, int(taken.sum()), int(launches.ns[taken].sum()))
