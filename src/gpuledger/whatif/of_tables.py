"""What a faster range would buy where sums are all there is: printed tables of `nsys stats` in, Amdahl's answer out.

Saving, new whole and speed-up are different numbers: 7 % of the time made ten times faster saves 6.3 % of the time, and
that is a speed-up of 1.067. The limit is what an infinitely fast range would give.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.analyse.range_shares import RangeRole, range_shares
from gpuledger.errors import NothingRecorded
from gpuledger.messages import say


@dataclass(frozen=True, slots=True)
class FasterPart:
    """A part of a whole, made faster."""

    change: str
    assumption: str
    whole_ns: int
    part_ns: int
    saving_ns: int

    @property
    def new_whole_ns(self) -> int:
        return self.whole_ns - self.saving_ns

    @property
    def speed_up(self) -> float:
        return self.whole_ns / self.new_whole_ns if self.new_whole_ns else float("inf")

    @property
    def limit(self) -> float | None:
        """The speed-up if the part took no time at all; None if nothing else remains."""
        rest = self.whole_ns - self.part_ns
        return self.whole_ns / rest if rest else None


def speed_up_of_tables(side: RunSide, wanted: str, factor: float) -> FasterPart:
    """A range of tables made `factor` times as fast: the whole is that of the program's own ranges."""
    shares = range_shares(side)
    ranges = {run_range.name: run_range for run_range in side.ranges or ()}
    chosen = ranges.get(wanted.removeprefix("range:").removeprefix(":"))
    if chosen is None:
        known = ", ".join(list(ranges)[:12])
        raise NothingRecorded(f"{side.name}: has no range '{wanted}'", found=f"its ranges are {known or 'none'}")
    if shares.share(chosen) is None:
        raise NothingRecorded(
            f"{side.name}: {chosen.name} is {shares.roles[chosen.name]}, so it is no part of the whole",
            found=f"the whole is made of {', '.join(shares.names(RangeRole.PART))}",
        )
    said = say(
        "the whole is {parts}, one after another; setup and library ranges are left out",
        parts=", ".join(shares.names(RangeRole.HOLDS)[-1:] or shares.names(RangeRole.PART)),
    )
    return FasterPart(
        say("{what} {factor} x as fast", what=wanted, factor=f"{factor:g}"),
        said,
        shares.whole_ns,
        chosen.host_ns,
        round(chosen.host_ns - chosen.host_ns / factor),
    )
