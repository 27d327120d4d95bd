"""Numbers with their unit: exact integers in, three figures out.

Nanoseconds and bytes are `int` everywhere in the package; only what is printed for people passes through here.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_TIME: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))
_BYTES: Final = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))

FACTORS: Final = (0.001, 1_000_000)
"""How many times as fast something may be asked to be: beyond, times are no longer whole numbers of 64 bits."""

LONGEST_LAUNCH_NS: Final = 10 * 10**9
"""No launch call may be asked to take longer."""


def parse_instant(text: str) -> int:
    """An instant in nanoseconds, as it is printed: '1.5ms' or '1.500 ms' -> 1500000; a bare whole number is in ns."""
    match = re.fullmatch(r"\s*(-?[0-9]*\.?[0-9]+)\s*(ns|us|ms|s)?\s*", text)
    if match is None:
        raise ValueError(f"'{text}' is no time; write 250ms, 1.5s or 800us")
    if match[2] is None and "." in match[1]:
        raise ValueError(f"'{text}' has no unit; write {match[1]}s or {match[1]}ms (a whole number alone is in ns)")
    factor = next(factor for factor, unit in _TIME if unit == (match[2] or "ns"))
    return int(Decimal(match[1]) * factor)


def parse_stretch(text: str) -> tuple[int | None, int | None]:
    """From A to B in nanoseconds, as `--time` takes it: '0.5s:1.5s'; either side may be left out."""
    first, colon, last = text.partition(":")
    if not colon:
        raise ValueError("expected A:B, e.g. 0.5s:1.5s")
    return (parse_instant(first) if first.strip() else None, parse_instant(last) if last.strip() else None)


def instant_text(ns: int) -> str:
    """An instant for people, exactly, so that it can be given back: 156012345678 -> '156.012345678 s'."""
    seconds, rest = divmod(abs(ns), _TIME[0][0])
    return f"{'-' if ns < 0 else ''}{seconds}.{rest:09d} s"


def three_figures(value: float) -> str:
    """`value` to three significant figures, never in exponent form below a million: 0.0123, 1.23, 12.3, 123, 1234."""
    size = abs(value)
    if value == 0:
        return "0"
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995:
        return f"{value:.2f}"
    return f"{value:.3g}"


def _unit_of(value: float, scale: tuple[tuple[int, str], ...]) -> tuple[int, str]:
    """The largest unit that the value fills, and what it counts."""
    return next(((factor, unit) for factor, unit in scale if abs(value) >= factor), scale[-1])


def _in_unit(value: int, scale: tuple[tuple[int, str], ...]) -> str:
    factor, unit = _unit_of(value, scale)
    return f"{value} {unit}" if factor == 1 else f"{three_figures(value / factor)} {unit}"


def precise_time_text(ns: float) -> str:
    """A duration to four figures, where it is known to a percent or better: 1234567.8 -> '1.235 ms'."""
    factor, unit = _unit_of(ns, _TIME)
    value = ns / factor
    return f"{value:.{max(0, 3 - len(str(int(abs(value)))) + 1)}f} {unit}"


def time_text(ns: int) -> str:
    """A duration for people: 1234567 -> '1.23 ms', and 14 -> '14 ns'."""
    return _in_unit(ns, _TIME)


def bytes_text(count: int) -> str:
    """A size for people, in powers of ten as NVIDIA prints them: 150109880320 -> '150 GB'."""
    return _in_unit(count, _BYTES)


def count_text(count: int) -> str:
    """A count for people: 24400 -> '24,400'."""
    return f"{count:,}"


def signed_time(ns: float) -> str:
    """A change of a duration: -822142 -> '-822 us'; nothing is '0'."""
    whole = round(ns)
    return f"{'+' if whole > 0 else ''}{time_text(whole)}" if whole else "0"


def signed_share(share: float) -> str:
    """A change as a share: 0.123 -> '+12.3 %'."""
    return f"{100 * share:+.1f} %" if round(1000 * share) else "0.0 %"


def share_text(share: float) -> str:
    """A share of a stated whole: 0.9721 -> '97.2 %'."""
    return f"{100 * share:z.1f} %"
