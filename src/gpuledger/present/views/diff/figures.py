"""Changes as text: signed, with a unit, and before -> after in one unit."""

from __future__ import annotations

import math
from typing import Final

from gpuledger.messages import say
from gpuledger.units import bytes_text, three_figures, time_text

ARROW: Final = "->"
_TIME: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))


def signed_time(ns: float) -> str:
    """A change of a duration: -822142 -> '-822 us'; nothing is '0'."""
    whole = round(ns)
    return f"{_sign(whole)}{time_text(abs(whole))}" if whole else "0"


def signed_share(share: float) -> str:
    """A change as a share: 0.123 -> '+12.3 %'; what was not there before is 'new'."""
    if math.isinf(share):
        return say("new")
    return f"{100 * share:+.1f} %" if round(1000 * share) else "0.0 %"


def change_share(before: float, after: float) -> float:
    """The change as a share of before."""
    if before:
        return (after - before) / before
    return math.inf if after else 0.0


def interval_text(low_ns: float, high_ns: float) -> str:
    """'-4.60 to -3.90 ms'."""
    factor, unit = _unit(max(abs(low_ns), abs(high_ns)))
    low, high = (f"{_sign(each)}{three_figures(abs(each) / factor)}" for each in (low_ns, high_ns))
    return say("{low} to {high} {unit}", low=low, high=high, unit=unit)


def times(before_ns: float, after_ns: float) -> str:
    """'17.8 -> 1.28 ms' where one unit serves both, else each with its own; a side that there is none of is '-'."""
    if not before_ns or not after_ns:
        return f"{_or_dash(before_ns)} {ARROW} {_or_dash(after_ns)}"
    one, other = _unit(before_ns), _unit(after_ns)
    if one == other:
        return f"{three_figures(before_ns / one[0])} {ARROW} {three_figures(after_ns / one[0])} {one[1]}"
    return f"{time_text(round(before_ns))} {ARROW} {time_text(round(after_ns))}"


def shares_text(before: float | None, after: float | None) -> str:
    """'15.4 -> 18.8 %'; a side that there is none of is '-', and nothing at all is empty."""
    if before is None and after is None:
        return ""
    return f"{_percent(before)} {ARROW} {_percent(after)} %"


def sizes(before: float, after: float) -> str:
    """The same of bytes."""
    return f"{bytes_text(round(before))} {ARROW} {bytes_text(round(after))}"


def counts(before: float, after: float) -> str:
    """'314 -> 2'; a count per step may have decimals."""
    return f"{count_of(before)} {ARROW} {count_of(after)}"


def count_of(count: float) -> str:
    """A count per step: whole where it nearly is, else to three figures."""
    nearest = round(count)
    if abs(count - nearest) < 0.005 or abs(count) >= 1000:
        return f"{nearest:,}"
    return three_figures(count)


def bar(amount: float, largest: float, room: int, *, left: bool, right: bool) -> str:
    """A signed bar around an axis: below zero to the left of it. Sides that no bar needs are left out."""
    halves = round(2 * room * abs(amount) / largest) if largest else 0
    drawn = "█" * (halves // 2)
    below = ("▐" * (halves % 2) + drawn if amount < 0 else "").rjust(room) if left else ""
    above = (drawn + "▌" * (halves % 2) if amount > 0 else "").ljust(room) if right else ""
    return f"{below}│{above}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _or_dash(ns: float) -> str:
    return time_text(round(ns)) if ns else "-"


def _unit(ns: float) -> tuple[int, str]:
    return next((each for each in _TIME if abs(ns) >= each[0]), _TIME[-1])


def _sign(amount: float) -> str:
    return "-" if amount < 0 else "+" if amount > 0 else ""
