"""When a measurement may stop: times in, a median with its interval out, and whether both can be relied on.

A sample is the time of one call in ns, mostly the average over a batch of calls, so it has decimals. The interval of
the median is the exact one of order statistics: it holds the true median of the samples' distribution with a
probability of 95 % or a little more, whatever that distribution is, as long as samples do not depend on each other.
Neighbours do, because clocks and heat change slowly. So where there are many samples, the interval is that of the
medians of some forty blocks of them, and holds the median; and the two halves of the samples must tell the same story.

Nothing here knows torch or a clock; `now` and `take` are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeVar

FEWEST: Final = 10  # samples before the first look: fewer make p10 and p90 hollow
# what the second of two operations is, next to the first
SAME: Final = "same"
SLOWER: Final = "slower"
FASTER: Final = "faster"
UNKNOWN: Final = "unknown"
_BLOCKS: Final = 40
_EXACT_UP_TO: Final = 2000
_ALIKE: Final = 0.1
_IN_A_ROW: Final = 3


@dataclass(frozen=True, slots=True)
class SampleSpread:
    """What the samples say. The interval is None for fewer than 6 samples, which cannot give one of 95 %."""

    samples: int
    median_ns: float
    interval_ns: tuple[float, float] | None
    p10_ns: float
    p90_ns: float
    least_ns: float
    most_ns: float
    drift_share: float
    """The median of the second half of the samples against that of the first: 0.02 is 2 % slower."""

    @property
    def off_share(self) -> float | None:
        """How far the interval reaches from the median, relative to it, on its longer side."""
        if self.interval_ns is None:
            return None
        low, high = self.interval_ns
        return max(high - self.median_ns, self.median_ns - low) / self.median_ns if self.median_ns > 0 else 0.0

    def is_within(self, target_share: float) -> bool:
        """Whether the median is known to `target_share`, and stood still by as much while it was measured."""
        off = self.off_share
        return off is not None and max(off, abs(self.drift_share)) <= target_share


@cache
def rank_below(count: int) -> int:
    """The rank, from 1, of the sample where the median's interval begins among `count` sorted ones; 0 for none.

    It ends at the same rank from the top. The median lies below the k-th sample if fewer than k of them lie below the
    median, which has the probability of so few heads among `count` tosses: 2.5 % at most on each side.
    """
    if count > _EXACT_UP_TO:  # one rank lower than the normal approximation has it, to be on the safe side
        return math.floor(count / 2 - 0.98 * math.sqrt(count)) - 1
    rank, tosses, below = 0, 1, 0  # of 2**count outcomes: those with exactly `rank` heads, and with fewer
    while 40 * (below + tosses) <= 2**count:
        below += tosses
        tosses = tosses * (count - rank) // (rank + 1)
        rank += 1
    return rank


def median(ordered: Sequence[float]) -> float:
    """The middle of sorted values."""
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def interval(ordered: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the median, from sorted values that do not depend on each other."""
    rank = rank_below(len(ordered))
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def blocks(samples: Sequence[float]) -> list[float]:
    """The medians of forty or so blocks of neighbours; the samples themselves where they are few.

    The number in a block is odd, so that the median of a block is as likely above the true one as below it.
    """
    size = len(samples) // _BLOCKS
    size -= size % 2 == 0
    if size < 3:
        return list(samples)
    first = len(samples) % size
    return [median(sorted(samples[begin : begin + size])) for begin in range(first, len(samples), size)]


def interval_around(middle: float, samples: Sequence[float]) -> tuple[float, float] | None:
    """The interval of the median of samples that depend on their neighbours, wide enough to hold their own median.

    Where samples jump between two values, the medians of blocks may all lie on one side of it.
    """
    ends = interval(sorted(blocks(samples)))
    return None if ends is None else (min(ends[0], middle), max(ends[1], middle))


def interval_with_halves(samples: Sequence[float]) -> tuple[float, float] | None:
    """The interval of the median, wide enough to hold that of either half: what moved meanwhile may move again."""
    ends = interval_around(median(sorted(samples)), samples)
    if ends is None:
        return None
    half = len(samples) // 2
    halves = [median(sorted(part)) for part in (samples[:half], samples[half:])]
    return min(*ends, *halves), max(*ends, *halves)


def spread(samples: Sequence[float]) -> SampleSpread:
    """What samples say, in the order in which they were taken. At least one is needed."""
    ordered = sorted(samples)
    half = len(samples) // 2
    before, after = (median(sorted(part)) if part else 0.0 for part in (samples[:half], samples[half:]))
    return SampleSpread(
        samples=len(ordered),
        median_ns=median(ordered),
        interval_ns=interval_around(median(ordered), samples),
        p10_ns=_quantile(ordered, 0.1),
        p90_ns=_quantile(ordered, 0.9),
        least_ns=ordered[0],
        most_ns=ordered[-1],
        drift_share=after / before - 1 if before > 0 else 0.0,
    )


Spread = TypeVar("Spread", SampleSpread, "PairSpread")


def _take_until(
    take: Callable[[], object],
    count: Callable[[], int],
    look: Callable[[], Spread],
    suffices: Callable[[Spread], bool],
    now: Callable[[], int],
    *,
    seconds: float,
    least_seconds: float,
) -> Spread:
    """Take samples until a look at them says that they suffice, or `seconds` are over; always at least once.

    It is looked after every tenth more samples: looking after each would stop at a lucky one. It is not looked before
    `least_seconds`: in a moment nothing has time to change.
    """
    start, look_at = now(), FEWEST
    while True:
        take()
        elapsed = now() - start
        is_over = elapsed >= seconds * 1e9
        if is_over or (count() >= look_at and elapsed >= least_seconds * 1e9):
            result = look()
            if is_over or suffices(result):
                return result
            look_at = count() + max(FEWEST // 2, count() // 10)


def measure(
    take: Callable[[], Sequence[float]],
    now: Callable[[], int],
    *,
    seconds: float,
    target_share: float,
    least_seconds: float = 0.0,
) -> SampleSpread:
    """Take samples until the median is known to `target_share`, or `seconds` are over; always at least one."""
    samples: list[float] = []
    return _take_until(
        lambda: samples.extend(take()),
        lambda: len(samples),
        lambda: spread(samples),
        lambda known: known.is_within(target_share),
        now,
        seconds=seconds,
        least_seconds=least_seconds,
    )


@dataclass(frozen=True, slots=True)
class PairSpread:
    """Two operations that were timed in turns: what each takes, and how they differ round by round."""

    first: SampleSpread
    second: SampleSpread
    difference_ns: float  # the median over the rounds of what the second takes more than the first
    interval_ns: tuple[float, float] | None  # of that median; None for fewer than 6 rounds
    drift_share: float
    """How much the difference moved from the first half of the rounds to the second, of what the first takes."""

    @property
    def difference_share(self) -> float:
        """Of what the first takes."""
        return self._share(self.difference_ns)

    @property
    def interval_share(self) -> tuple[float, float] | None:
        if self.interval_ns is None:
            return None
        low, high = self.interval_ns
        return self._share(low), self._share(high)

    @property
    def off_share(self) -> float | None:
        """How far the interval reaches from the difference, on its longer side, of what the first takes."""
        if self.interval_share is None:
            return None
        low, high = self.interval_share
        return max(high - self.difference_share, self.difference_share - low)

    def is_within(self, target_share: float) -> bool:
        """Whether the difference is known to `target_share`, and stood still by as much while it was measured."""
        return self.off_share is not None and max(self.off_share, abs(self.drift_share)) <= target_share

    def verdict(self, target_share: float) -> Literal["same", "slower", "faster", "unknown"]:
        """same: the whole interval is within `target_share` of no difference; else slower or faster, or unknown."""
        if self.interval_share is None:
            return UNKNOWN
        low, high = self.interval_share
        if max(abs(low), abs(high)) <= target_share:
            return SAME
        return SLOWER if low > 0 else FASTER if high < 0 else UNKNOWN

    def are_alike(self, target_share: float) -> bool | None:
        """Whether they are the same to within `target_share`; None where the interval lies on neither side of it."""
        if self.interval_share is None:
            return None
        low, high = self.interval_share
        if max(abs(low), abs(high)) <= target_share:
            return True
        return False if low > target_share or high < -target_share else None

    def _share(self, ns: float) -> float:
        return ns / self.first.median_ns if self.first.median_ns > 0 else 0.0


def pair_spread(first: Sequence[float], second: Sequence[float]) -> PairSpread:
    """What the samples of two operations say, round by round: as many of each, at least one."""
    differences = [other - one for one, other in zip(first, second, strict=True)]
    one, half = spread(first), len(differences) // 2
    before, after = (median(sorted(part)) if part else 0.0 for part in (differences[:half], differences[half:]))
    return PairSpread(
        first=one,
        second=spread(second),
        difference_ns=(middle := median(sorted(differences))),
        interval_ns=interval_around(middle, differences),
        drift_share=(after - before) / one.median_ns if half and one.median_ns > 0 else 0.0,
    )


def measure_in_turns(
    take_first: Callable[[], Sequence[float]],
    take_second: Callable[[], Sequence[float]],
    now: Callable[[], int],
    *,
    seconds: float,
    target_share: float,
    least_seconds: float = 0.0,
) -> PairSpread:
    """Take samples of two operations in turns until their difference is known to `target_share` of the first, and it
    is decided whether they differ by as much.

    What changes slowly, clocks and heat, is the same for both in a round, and falls out of the difference. Who goes
    first changes from round to round, because the second finds caches and clocks as the first left them.
    """
    samples: tuple[list[float], list[float]] = [], []
    turns = [(samples[0], take_first), (samples[1], take_second)]

    def take_both() -> None:
        for kept, take in turns:
            kept.extend(take())
        turns.reverse()

    return _take_until(
        take_both,
        lambda: len(samples[0]),
        lambda: pair_spread(*samples),
        lambda known: known.is_within(target_share) and known.are_alike(target_share) is not None,
        now,
        seconds=seconds,
        least_seconds=least_seconds,
    )


def settled_after(
    take: Callable[[], float], now: Callable[[], int], *, fewest: int, least_seconds: float = 0.0, seconds: float
) -> int:
    """Take times until the last three are alike, or `seconds` are over; how many were taken.

    At least `fewest` are taken, and for at least `least_seconds`.
    """
    times: list[float] = []
    start = now()
    while True:
        elapsed = now() - start
        last = times[-_IN_A_ROW:]
        are_alike = len(last) == _IN_A_ROW and max(last) - min(last) <= _ALIKE * min(last)
        is_done = are_alike and elapsed >= least_seconds * 1e9
        if len(times) >= fewest and (is_done or elapsed >= seconds * 1e9):
            return len(times)
        times.append(take())


def batch_size(run: Callable[[int], float], *, least_ns: float, most: int = 1 << 20) -> int:
    """How many calls take `least_ns` together; `run` makes some and says how long they took, in ns."""
    calls = 1
    while (took := run(calls)) < least_ns and calls < most:
        # at most tenfold: the first, short runs say little about how long a call takes
        needed = math.ceil(1.2 * calls * least_ns / took) if took > 0 else 10 * calls
        calls = min(max(needed, calls + 1), 10 * calls, most)
    return calls


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, between two of them where need be."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
