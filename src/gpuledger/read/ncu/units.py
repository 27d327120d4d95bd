"""Units of Nsight Compute: a number and its unit in, the number in base units out.

Base units are those of `model.profiled`: ns, byte, hz, things per second, and shares from 0 to 1 for per cent. All of
NVIDIA's prefixes are decimal (a Kbyte is 1000 bytes), so every factor is a power of ten and is kept as its exponent.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

SHARE: Final = "share"

_NS_EXPONENT: Final = {"ns": 0, "us": 3, "ms": 6, "s": 9, "nsecond": 0, "usecond": 3, "msecond": 6, "second": 9}
_PREFIXES: Final = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "m": -3, "u": -6, "n": -9}
_BYTES: Final = re.compile(r"(?P<prefix>[KMGTP]?)bytes?", re.IGNORECASE)
_SHORT_BYTES: Final = re.compile(r"(?P<prefix>[KkMGTP]?)B")
_HERTZ: Final = re.compile(r"(?P<prefix>[KMGT]?)hz", re.IGNORECASE)
_COUNTS: Final = frozenset(
    (
        *("block", "branch", "branches", "cluster", "cycle", "inst", "pass", "register", "request"),
        *("sample", "sector", "SM", "thread", "warp", "wavefront"),
        *("cta", "event", "flop", "instruction", "lookup", "op", "operation", "packet"),
        *("page", "pixel", "primitive", "quad", "query", "slot", "tag", "transaction"),
    )
)
"""Things that NVIDIA counts: first those that we have seen in reports, then those that its lists of metrics name."""
_PREFIXED: Final = re.compile(r"(?P<prefix>[KkMGTPmun])(?P<thing>\w+)")


class UnknownUnit(ValueError):
    """A unit that is none of those that we know; the number beside it means nothing to us."""


def to_base(value: float, unit: str) -> tuple[float, str]:
    """The number in base units, and which: (1.5, 'Kbyte/block') -> (1500.0, 'byte/block')."""
    exponent, base = scale(unit)
    return scaled(value, exponent), base


def scaled(value: float, exponent: int) -> float:
    """`value` times a power of ten; dividing by a whole power keeps digits that multiplying by 0.01 loses."""
    return value * 10.0**exponent if exponent >= 0 else value / 10.0**-exponent


@lru_cache(maxsize=4096)
def scale(unit: str) -> tuple[int, str]:
    """The power of ten that leads to the base unit, and that unit."""
    top, slash, bottom = unit.strip().partition("/")
    if not slash:
        return (0, "") if not top else (-2, SHARE) if top == "%" else _simple(top, unit)
    exponent, base = (0, "%") if top == "%" else _simple(top, unit)
    if bottom in _NS_EXPONENT:
        per_second = exponent + 9 - _NS_EXPONENT[bottom]
        return per_second, "hz" if base == "cycle" else f"{base}/s"
    below, base_below = _simple(bottom, unit)
    return exponent - below, f"{base}/{base_below}"


def _simple(word: str, unit: str) -> tuple[int, str]:
    """A unit without a slash."""
    if _is_count(word):
        return 0, word
    if word in _NS_EXPONENT:
        return _NS_EXPONENT[word], "ns"
    for pattern, base in ((_BYTES, "byte"), (_SHORT_BYTES, "byte"), (_HERTZ, "hz")):
        if match := pattern.fullmatch(word):
            return _PREFIXES[match["prefix"].upper()], base  # nobody means a thousandth of a byte by mbyte
    match = _PREFIXED.fullmatch(word)
    if match and _is_count(match["thing"]):
        return _PREFIXES[match["prefix"]], match["thing"]
    raise UnknownUnit(unit)


def _is_count(word: str) -> bool:
    """Whether this is a thing that is counted, one or several of them."""
    return word in _COUNTS or word.removesuffix("s") in _COUNTS
