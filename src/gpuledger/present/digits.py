"""One number, in NVIDIA's digits."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from gpuledger.present.sheet import Cell, Digits, Term

_TENTH = Decimal("0.1")


def cell_text(value: Cell, digits: Digits) -> str:
    """A cell as NVIDIA prints it; blank for None."""
    if value is None:
        return ""
    if isinstance(value, Term):
        return value.code
    if isinstance(value, tuple):
        return " ".join(f"{each:4d}" for each in value)
    if isinstance(value, str):
        return value
    if digits is Digits.TENTH:
        return tenths(value)
    if digits is Digits.HUNDREDTH:
        return f"{value:.2f}"
    if digits is Digits.MEGABYTES:
        return f"{value / 1e6:.3f}"
    return f"{value:d}" if isinstance(value, int) else f"{value:.0f}"


def tenths(value: float) -> str:
    """One decimal: the exact value of the double, ties away from zero (10888.25 -> 10888.3)."""
    return str(Decimal(value).quantize(_TENTH, ROUND_HALF_UP))


def percent(part: float, whole: float) -> float | None:
    """A share of a whole, for a column of percent; None where there is no whole."""
    return 100 * part / whole if whole else None
