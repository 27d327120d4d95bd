"""One side of an alignment: the forwards of an operation in, the one that stands for them out.

The first forward is left out where there are others: it may pay for what the others find ready. Forwards that run
different kernels are different operations to compare with, so one sequence of kernels is chosen, and of its forwards
the one with the median GPU time. Of several ranks, each forward counts where it computes the longest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.align.kernel_sequences import ForwardKernel, Forwards, similarity
from gpuledger.messages import say
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median
from gpuledger.units import count_text

LONG_GAP_NS: Final = 1_000_000
"""A gap inside a forward that is longer is no mere path to the next launch: a plan is made, a module loaded."""

FEWEST_WAITS: Final = 3  # in fewer forwards, standing still is an accident
RARE: Final = 0.1  # a sequence of kernels that fewer of the forwards run is not chosen to stand for them
QUARTER: Final = 4  # drift compares the last quarter of the steps with the first


@dataclass(frozen=True, slots=True)
class Wait:
    """Where forwards of a side stand still: before one kernel, for long."""

    kernel: str
    gap_ns: int
    """The middle one of the long gaps."""
    forwards: int
    """In so many of the forwards compared."""
    opens_step: bool
    """Whether each of them is the first forward of its step, and steps have others."""


@dataclass(frozen=True, slots=True)
class OperationSide:
    """One side, as far as checks need it: the forward that stands for all, and how the others spread around it."""

    profile: str
    gpu_name: str
    kernels: tuple[ForwardKernel, ...]
    forwards: int
    """All in the steady steps."""
    steps: int = 0
    found_by: str = ""
    compared: int = 1
    """Those that were candidates: without the first, and of several ranks one each."""
    alike: int = 1
    """Of them, those with the sequence of kernels that was chosen."""
    ranks: int = 1
    elapsed_ns: int | None = None
    """From a forward's first start to its last end, the median."""
    spread_ns: tuple[int, int] | None = None
    """The 10th and the 90th percentile of GPU time."""
    drift_share: float | None = None
    """How much longer forwards of the last quarter of steps take than those of the first."""
    wait: Wait | None = None
    ordered: bool = True
    """Whether `kernels` are in the order in which they ran."""
    is_timed: bool = False
    """Whether a clock alone was looked at: one kernel stands for all, and which there are is not known."""

    @property
    def gpu_ns(self) -> int:
        return sum(kernel.time_ns for kernel in self.kernels)

    @property
    def per_step(self) -> float:
        return self.forwards / self.steps if self.steps else float(self.forwards)


@dataclass(frozen=True, slots=True)
class RankForward:
    """One forward of one rank."""

    forwards: Forwards
    number: int

    @property
    def kernels(self) -> tuple[ForwardKernel, ...]:
        return self.forwards.kernels(self.number)

    @property
    def gpu_ns(self) -> int:
        return int(self.forwards.gpu_ns[self.number])

    @property
    def elapsed_ns(self) -> int:
        return int(self.forwards.elapsed_ns[self.number])

    @property
    def gaps_ns(self) -> Ints:
        """How long nothing of it ran before each of its kernels."""
        first = self.forwards.first
        return self.forwards.gap_ns[first[self.number] : first[self.number + 1]]

    @property
    def step(self) -> int:
        return int(self.forwards.step[self.number])

    @property
    def place(self) -> int:
        """Which of its step's forwards it is."""
        return int(self.forwards.place[self.number])


@dataclass(frozen=True, slots=True)
class Candidates:
    """The forwards that may stand for a side."""

    ranks: tuple[Forwards, ...]
    rank: Positions
    number: Positions

    @staticmethod
    def among(ranks: Sequence[Forwards]) -> Candidates:
        """All but the first; of several ranks, for each forward the one that computes the longest.

        The others wait for it in the next collective, so its time is the operation's, and it waits the least itself.
        """
        longest = max(len(forwards) for forwards in ranks)
        compute = np.full((len(ranks), longest), -1, np.int64)
        for rank, forwards in enumerate(ranks):
            compute[rank, : len(forwards)] = forwards.compute_ns
        number = np.arange(1 if longest > 1 else 0, longest)
        return Candidates(tuple(ranks), compute.argmax(axis=0)[number], number)

    def __len__(self) -> int:
        return len(self.number)

    def __iter__(self) -> Iterator[RankForward]:
        return map(self.entry, range(len(self)))

    def entry(self, index: int) -> RankForward:
        return RankForward(self.ranks[int(self.rank[index])], int(self.number[index]))

    def variants(self) -> dict[tuple[str, ...], list[int]]:
        """The different sequences of kernels, each with the positions of its forwards, the most common first."""
        variants: dict[tuple[str, ...], list[int]] = {}
        for index, entry in enumerate(self):
            variants.setdefault(entry.forwards.sequence(entry.number), []).append(index)
        return dict(sorted(variants.items(), key=lambda item: -len(item[1])))

    def median(self, chosen: Sequence[int]) -> RankForward:
        """Of the forwards at these positions the one with the middle GPU time, the earlier of two middle ones."""
        by_time = sorted(chosen, key=lambda index: (self.entry(index).gpu_ns, index))
        return self.entry(by_time[(len(by_time) - 1) // 2])


def side(ranks: Sequence[Forwards], mock: Sequence[ForwardKernel] | None = None) -> OperationSide:
    """The side that these forwards make, one entry per rank; of the model's, the sequence nearest to the mock's."""
    among = Candidates.among(ranks)
    variants = among.variants()
    usual = [variant for variant in variants.values() if len(variant) >= RARE * len(among)]
    if not usual:  # each forward is different, as where experts run in a loop: none is usual
        chosen = list(range(len(among)))
    elif mock is None:
        chosen = usual[0]
    else:
        chosen = max(
            usual, key=lambda variant: similarity(mock, among.entry(variant[0]).kernels)
        )  # the first of equal ones
    typical = among.median(chosen)
    times = np.array([among.entry(index).gpu_ns for index in chosen], np.int64)
    low, high = np.percentile(times, (10, 90)).astype(np.int64).tolist()
    whole = ranks[0] if len(ranks) == 1 else max(ranks, key=len)
    return OperationSide(
        profile=typical.forwards.profile,
        gpu_name=typical.forwards.gpu_name,
        kernels=typical.kernels,
        forwards=len(whole),
        steps=len(np.unique(whole.step)) if whole.found_by else 0,
        found_by=whole.found_by,
        compared=len(among),
        alike=len(chosen) if usual else 1,
        ranks=len(ranks),
        elapsed_ns=int(median(np.array([among.entry(index).elapsed_ns for index in chosen]))),
        spread_ns=(low, high),
        drift_share=_drift(among, chosen, times),
        wait=_wait(among, chosen) if usual else None,
    )


def _drift(among: Candidates, chosen: Sequence[int], times: Ints) -> float | None:
    """How much the median GPU time changes from the first quarter of the steps to the last; None for few steps."""
    step = np.array([among.entry(index).step for index in chosen], np.int64)
    distinct = np.unique(step)
    quarter = len(distinct) // QUARTER
    if quarter < 2:
        return None
    early, late = (median(times[np.isin(step, which)]) for which in (distinct[:quarter], distinct[-quarter:]))
    return late / early - 1 if early else None


def _wait(among: Candidates, chosen: Sequence[int]) -> Wait | None:
    """The kernel before which the most forwards stand still for long."""
    gaps = np.array([among.entry(index).gaps_ns for index in chosen], np.int64)
    long = gaps > LONG_GAP_NS
    where = int(long.sum(axis=0).argmax())
    waiting = np.flatnonzero(long[:, where])
    if len(waiting) < FEWEST_WAITS:
        return None
    entries = [among.entry(chosen[index]) for index in waiting.tolist()]
    first = entries[0]
    return Wait(
        kernel=first.kernels[where].name,
        gap_ns=int(median(gaps[waiting, where])),
        forwards=len(waiting),
        opens_step=all(not entry.place for entry in entries) and any(among.entry(index).place for index in chosen),
    )


def forwards_text(count: int) -> str:
    """How many forwards, in words."""
    return say("1 forward") if count == 1 else say("{count} forwards", count=count_text(count))
