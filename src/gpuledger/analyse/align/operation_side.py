"""One side of an alignment: the forwards of an operation in, the one that stands for them out.

The first forward is left out where there are others: it may pay for what the others find ready. Forwards that run
different kernels are different operations to compare with, so one sequence of kernels is chosen, and of its forwards
the one with the median GPU time. Of several ranks, each forward counts where it computes the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.align.kernel_sequences import ForwardKernel, Forwards, similarity
from gpuledger.messages import say
from gpuledger.timing.settle import interval_with_halves
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median
from gpuledger.units import count_text

LONG_GAP_NS: Final = 1_000_000
"""A gap inside a forward that is longer is no mere path to the next launch: a plan is made, a module loaded."""

FEWEST_WAITS: Final = 3  # in fewer forwards, standing still is an accident
RARE: Final = 0.1  # a sequence of kernels that fewer of the forwards run is not chosen to stand for them
QUARTER: Final = 4  # drift compares the last quarter of the steps with the first


class Wait(Struct, frozen=True):
    """Where forwards of a side stand still: before one kernel, for long."""

    kernel: str
    gap_ns: int  # the middle one of the long gaps
    forwards: int  # in so many of the forwards compared
    opens_step: bool  # whether each of them is the first forward of its step, and steps have others


class OperationSide(Struct, frozen=True):
    """One side, as far as checks need it: the forward that stands for all, and how the others spread around it."""

    profile: str
    gpu_name: str
    kernels: tuple[ForwardKernel, ...]
    forwards: int  # all in the steady steps
    steps: int = 0
    found_by: str = ""
    compared: int = 1  # those that were candidates: without the first, and of several ranks one each
    alike: int = 1  # of them, those with the sequence of kernels that was chosen
    ranks: int = 1
    elapsed_ns: int | None = None  # from a forward's first start to its last end, the median
    spread_ns: tuple[int, int] | None = None  # the 10th and the 90th percentile of GPU time
    bounds_ns: tuple[float, float] | None = None
    """Where the usual GPU time lies, in 95 of 100 cases; None where too few forwards were seen."""
    near_ns: tuple[float, float] | None = None
    """Of a pair timed in turns: the same by the rounds alone, which is enough to pass, not to fail."""
    timed_s: float = 0.0  # how long it was timed
    drift_share: float | None = None
    """How much longer forwards of the last quarter of steps take than those of the first."""
    wait: Wait | None = None
    ordered: bool = True  # whether `kernels` are in the order in which they ran
    is_timed: bool = False
    """Whether a clock alone was looked at: one kernel stands for all, and which there are is not known."""

    @property
    def gpu_ns(self) -> int:
        return sum(kernel.time_ns for kernel in self.kernels)

    @property
    def per_step(self) -> float:
        return self.forwards / self.steps if self.steps else float(self.forwards)


_Forward = tuple[Forwards, int]  # one forward of one rank


def _candidates(ranks: Sequence[Forwards]) -> list[_Forward]:
    """All forwards but the first; of several ranks, each from the one that computes the longest.

    The others wait for it in the next collective, so its time is the operation's, and it waits the least itself.
    """
    longest = max(len(forwards) for forwards in ranks)
    compute = np.full((len(ranks), longest), -1, np.int64)
    for rank, forwards in enumerate(ranks):
        compute[rank, : len(forwards)] = forwards.compute_ns
    first = 1 if longest > 1 else 0
    return [(ranks[rank], number) for number, rank in enumerate(compute.argmax(axis=0)[first:].tolist(), first)]


def side(ranks: Sequence[Forwards], mock: Sequence[ForwardKernel] | None = None) -> OperationSide:
    """The side that these forwards make, one entry per rank; of the model's, the sequence nearest to the mock's."""
    candidates = _candidates(ranks)
    variants: dict[tuple[str, ...], list[_Forward]] = {}
    for forwards, number in candidates:
        variants.setdefault(forwards.sequences[number], []).append((forwards, number))
    by_count = sorted(variants.values(), key=lambda variant: -len(variant))
    usual = [variant for variant in by_count if len(variant) >= RARE * len(candidates)]
    chosen = usual[0] if usual else candidates  # none is usual where each is different, as with a loop of experts
    if usual and mock is not None:  # the first of equal ones
        chosen = max(usual, key=lambda variant: similarity(mock, variant[0][0].kernels(variant[0][1])))
    times = np.array([forwards.gpu_ns[number] for forwards, number in chosen], np.int64)
    typical, place = chosen[int(np.argsort(times, kind="stable")[(len(times) - 1) // 2])]
    low, high = np.percentile(times, (10, 90)).astype(np.int64).tolist()
    whole = max(ranks, key=len)
    return OperationSide(
        profile=typical.profile,
        gpu_name=typical.gpu_name,
        kernels=typical.kernels(place),
        forwards=len(whole),
        steps=len(np.unique(whole.step)) if whole.found_by else 0,
        found_by=whole.found_by,
        compared=len(candidates),
        alike=len(chosen) if usual else 1,
        ranks=len(ranks),
        elapsed_ns=int(median(np.array([forwards.elapsed_ns[number] for forwards, number in chosen]))),
        spread_ns=(low, high),
        bounds_ns=interval_with_halves(times.tolist()),
        drift_share=_drift(chosen, times),
        wait=_wait(chosen) if usual else None,
    )


def _drift(chosen: Sequence[_Forward], times: Ints) -> float | None:
    """How much the median GPU time changes from the first quarter of the steps to the last; None for few steps."""
    step = np.array([forwards.step[number] for forwards, number in chosen], np.int64)
    distinct = np.unique(step)
    quarter = len(distinct) // QUARTER
    if quarter < 2:
        return None
    early, late = (median(times[np.isin(step, which)]) for which in (distinct[:quarter], distinct[-quarter:]))
    return late / early - 1 if early else None


def _wait(chosen: Sequence[_Forward]) -> Wait | None:
    """The kernel before which the most forwards stand still for long."""
    gaps = np.array([forwards.gap_ns[forwards.first[n] : forwards.first[n + 1]] for forwards, n in chosen], np.int64)
    long = gaps > LONG_GAP_NS
    where = int(long.sum(axis=0).argmax())
    waiting = np.flatnonzero(long[:, where])
    if len(waiting) < FEWEST_WAITS:
        return None
    forwards, number = chosen[int(waiting[0])]
    place = np.array([forwards.place[number] for forwards, number in chosen])
    return Wait(
        kernel=forwards.kernels(number)[where].name,
        gap_ns=int(median(gaps[waiting, where])),
        forwards=len(waiting),
        opens_step=not place[waiting].any() and bool(place.any()),
    )


def forwards_text(count: int) -> str:
    """How many forwards, in words."""
    return say("1 forward") if count == 1 else say("{count} forwards", count=count_text(count))
