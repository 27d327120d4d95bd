"""How much of the whole each range is: the ranges of one run in, their shares out, set-up left out.

A profile has steps, and the whole is their time. A table has sums alone: there the whole is the time of the program's
own ranges. Those of libraries lie inside them, or are set-up, so they count for nothing more. Tables do not say which
range lies in which either; one that is called `step`, `iter` or the like, and whose time is that of all shorter ones
or hardly more, is taken to hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpuledger.analyse.diff.run_side import KERNEL_TIME, RunRange, RunSide
from gpuledger.catalog.range_kinds import is_of_library, sounds_like_a_round, sounds_like_set_up

HELD: Final = 0.9
"""A range holds the others if they fill this share of it, and no more than all of it."""


class RangeRole(StrEnum):
    """What a range of a table is to the whole."""

    PART = "part of the whole"
    HOLDS = "holds the others"
    LIBRARY = "a library's"
    SET_UP = "set-up"


@dataclass(frozen=True, slots=True)
class RangeShares:
    """The ranges of a side against the whole."""

    whole_ns: int
    roles: dict[str, RangeRole]
    """By name; empty where the whole is that of the steps."""

    def share(self, run_range: RunRange) -> float | None:
        """Of the whole; None for what is not counted, and where there is no whole."""
        if self.roles.get(run_range.name) in (RangeRole.LIBRARY, RangeRole.SET_UP) or not self.whole_ns:
            return None
        return run_range.host_ns / self.whole_ns

    def names(self, role: RangeRole) -> list[str]:
        return [name for name, own in self.roles.items() if own is role]


def range_shares(side: RunSide) -> RangeShares:
    """The whole that a side's ranges are shares of, and which of them make it up."""
    if side.whole != KERNEL_TIME:
        return RangeShares(sum(side.length_ns), {})
    ranges = side.ranges or ()
    own = [run_range for run_range in ranges if not is_of_library(run_range.name)] or list(ranges)
    most = max((run_range.instances for run_range in own), default=0)
    working = [each for each in own if 2 * each.instances > most or not sounds_like_set_up(each.name)]
    holding, whole_ns = _holding(sorted(working, key=lambda run_range: -run_range.host_ns))
    roles = {run_range.name: RangeRole.LIBRARY for run_range in ranges}
    roles |= {run_range.name: RangeRole.SET_UP for run_range in own}
    roles |= {run_range.name: RangeRole.PART for run_range in working}
    roles |= dict.fromkeys(holding, RangeRole.HOLDS)
    return RangeShares(whole_ns, roles)


def _holding(longest_first: Sequence[RunRange]) -> tuple[list[str], int]:
    """Which ranges hold all that are shorter, and the time of those that lie in no other."""
    holding: list[str] = []
    whole_ns = 0
    for run_range in reversed(longest_first):
        if sounds_like_a_round(run_range.name) and HELD * run_range.host_ns <= whole_ns <= run_range.host_ns:
            holding.append(run_range.name)
            whole_ns = run_range.host_ns
        else:
            whole_ns += run_range.host_ns
    return holding, whole_ns
