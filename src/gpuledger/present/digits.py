"""One number: in NVIDIA's digits, or for people with its unit."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from gpuledger.present.sheet import Cell, Column, Digits, Term, Unit
from gpuledger.units import bytes_text, count_text, instant_text, signed_share, signed_time, time_text

_TENTH = Decimal("0.1")


def cell_text(value: Cell, digits: Digits) -> str:  # noqa: PLR0911 - a case per kind
    """A cell as NVIDIA prints it; blank for None."""
    if value is None:
        return ""
    if isinstance(value, Term):
        return value.code
    if isinstance(value, tuple):
        return " ".join(f"{size:4d}" for size in value)
    if isinstance(value, str):
        return value
    if digits is Digits.TENTH:
        return tenths(value)
    if digits is Digits.HUNDREDTH:
        return f"{value:.2f}"
    if digits is Digits.ALL:
        return repr(value)
    if digits is Digits.MEGABYTES:
        return f"{value / 1e6:.3f}"
    return f"{value:d}" if isinstance(value, int) else f"{value:.0f}"


def number_text(value: float, unit: Unit) -> str:  # noqa: C901, PLR0911, PLR0912 - a case per unit
    """A number for people, with its unit."""
    match unit:
        case Unit.SHARE:
            return f"{tenths(100 * value)} %"
        case Unit.CHANGE:
            return signed_share(value)
        case Unit.CHANGE_NS:
            return signed_time(value)
        case Unit.SHARE_PERCENT | Unit.CHANGE_PERCENT:
            return f"{tenths(value)} %"
        case Unit.INSTANT_NS:
            return instant_text(round(value))
        case Unit.NS | Unit.MEAN_NS:
            return time_text(round(value))
        case Unit.BYTES | Unit.MB:
            return bytes_text(round(value))
        case Unit.BYTES_PER_S:
            return f"{bytes_text(round(value))}/s"
        case Unit.GB_PER_S:
            return f"{tenths(value)} GB/s"
        case Unit.COUNT if isinstance(value, int):
            return count_text(value)
        case Unit.MEAN:
            return f"{Decimal(tenths(value)):,}"
        case Unit.ID:
            return str(value)
        case _:
            return cell_text(value, unit.digits)


def shown_text(value: Cell, column: Column, *, exact: bool) -> str:
    """A cell for people, with its unit, terms by their words, a tree set in; or exactly, as programs see it."""
    if exact or value is None:
        return cell_text(value, column.digits)
    if isinstance(value, Term):
        return "  " * value.depth + value.words
    return number_text(value, column.unit) if isinstance(value, int | float) else cell_text(value, column.digits)


def tenths(value: float) -> str:
    """One decimal: the exact value of the double, ties away from zero (10888.25 -> 10888.3)."""
    return str(Decimal(value).quantize(_TENTH, ROUND_HALF_UP) + 0)  # minus nothing is nothing


def shape_text(shape: tuple[int, int, int] | None) -> str:
    """A grid or block: (64, 1, 1)."""
    return "-" if shape is None else f"({', '.join(map(str, shape))})"
