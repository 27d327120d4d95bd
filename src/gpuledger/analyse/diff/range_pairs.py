"""Which range of one side is which of the other: by name, then by name without numbers, then the
ones left over, if there is one on each side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuledger.analyse.diff.run_side import RunRange, added_ranges
from gpuledger.catalog.name_likeness import normalised

NAME, NUMBERS, RENAMED, NEW, VANISHED = RANGE_LEVELS = ("name", "numbers", "renamed", "new", "vanished")

TOLERANCE: Final = 0.02
"""Counts per instance that differ by less than this share are the same: a capture may begin or end inside a step."""


@dataclass(frozen=True, slots=True)
class RangePair:
    """A kind of range on both sides; None where one side has none."""

    level: str
    before: RunRange | None
    after: RunRange | None
    unchanged: bool = False
    """Whether the same calls were made and the same work launched in each instance, as far as is known."""

    @property
    def name(self) -> str:
        """What to call it: the name on both sides where it changed."""
        names = [run_range.name for run_range in (self.before, self.after) if run_range is not None]
        return " -> ".join(dict.fromkeys(names))


def paired_ranges(
    before: Sequence[RunRange], after: Sequence[RunRange], steps_before: int, steps_after: int
) -> tuple[RangePair, ...]:
    """Every range of both sides in exactly one pair: the shared ones first."""
    left, right = (
        {run_range.name: run_range for run_range in before},
        {run_range.name: run_range for run_range in after},
    )

    def pair(level: str, old: RunRange, new: RunRange) -> RangePair:
        often = _alike(old.instances / steps_before, new.instances / steps_after)
        return RangePair(level, old, new, often and _holds_the_same(old, new))

    pairs = [pair(NAME, left.pop(name), right.pop(name)) for name in [*left] if name in right]
    olds, news = _without_numbers(left.values()), _without_numbers(right.values())
    shared = [name for name in olds if name in news]
    pairs += [pair(NUMBERS, olds[name], news[name]) for name in shared]
    old_left = [run_range for run_range in left.values() if normalised(run_range.name) not in shared]
    new_left = [run_range for run_range in right.values() if normalised(run_range.name) not in shared]
    old_top, new_top = _outermost(old_left), _outermost(new_left)
    if len(old_top) == len(new_top) == 1:
        pairs.append(RangePair(RENAMED, old_top[0], new_top[0]))
        old_left.remove(old_top[0])
        new_left.remove(new_top[0])
    pairs += [RangePair(NEW, None, run_range) for run_range in new_left]
    return (*pairs, *(RangePair(VANISHED, run_range, None) for run_range in old_left))


def _outermost(ranges: Sequence[RunRange]) -> list[RunRange]:
    """Those that lie in none of the others."""
    names = {run_range.name for run_range in ranges}
    return [run_range for run_range in ranges if names.isdisjoint(run_range.inside)]


def _without_numbers(ranges: Iterable[RunRange]) -> dict[str, RunRange]:
    """Ranges that differ in their numbers alone, together."""
    groups: dict[str, RunRange] = {}
    for run_range in ranges:
        name = normalised(run_range.name)
        groups[name] = added_ranges(groups[name], run_range, name) if name in groups else replace(run_range, name=name)
    return groups


def _holds_the_same(old: RunRange, new: RunRange) -> bool:
    """Whether an instance makes the same calls and launches the same work; where that is not known, it is believed."""
    for held_before, held_after in ((old.calls, new.calls), (old.work, new.work)):
        if held_before is None or held_after is None:
            continue
        for name in {*held_before, *held_after}:
            if not _alike(held_before.get(name, 0) / old.instances, held_after.get(name, 0) / new.instances):
                return False
    return True


def _alike(first: float, second: float) -> bool:
    return abs(first - second) <= TOLERANCE * max(first, second)
