"""Decimal text in, whole nanoseconds out, exactly. A float64 cannot hold microseconds since 1970 to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, DecimalException
from typing import Final

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from gpuledger.read.plausible_times import LARGEST
from gpuledger.trace.spans import Ints

_COMMA, _DOT, _MINUS, _ZERO, _NINE = (ord(letter) for letter in ",.-09")
_MOST_DIGITS: Final = 18
"""A number of so many digits fits in 63 bits."""


def nanoseconds(texts: Sequence[bytes | Raw]) -> tuple[Ints, NDArray[np.bool_]]:
    """Microseconds as JSON numbers -> nanoseconds, and which of them are usable numbers (the others are 0)."""
    count = len(texts)
    joined = b",".join(texts) + b","
    if not count or len(joined) == count:  # none of them is there
        return np.zeros(count, np.int64), np.zeros(count, np.bool_)
    letters = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(letters == _COMMA)
    if len(ends) != count:  # a comma within one of them
        alone = [_one(bytes(text)) for text in texts]
        return np.array([value for value, _ in alone], np.int64), np.array([good for _, good in alone], np.bool_)
    if _is_usual(letters, ends):
        usual: Ints = np.fromstring(joined.replace(b".", b""), np.int64, sep=",")
        if usual.max() < LARGEST:
            return usual, np.ones(count, np.bool_)
    starts = np.append(0, ends[:-1] + 1)
    dots = np.flatnonzero(letters == _DOT)
    digits = (letters >= _ZERO) & (letters <= _NINE)
    minus = letters == _MINUS
    # per number: how many digits, dots and other letters it has, and where its dot is
    count_digits = np.add.reduceat(digits.astype(np.int64), starts)
    has_dot = np.add.reduceat((letters == _DOT).astype(np.int64), starts)
    negative = minus[starts]
    length = ends - starts
    plain = (count_digits + has_dot + negative == length) & (has_dot <= 1) & (count_digits > 0)
    dot_of = np.searchsorted(dots, ends) - 1
    decimals = np.where(has_dot == 1, ends - dots[np.maximum(dot_of, 0)] - 1 if len(dots) else 0, 0)
    usable = plain & (decimals <= 3) & (count_digits + 3 - decimals <= _MOST_DIGITS + 1)
    values = _parsed(letters, digits, starts, ends, usable)
    scale = 10 ** (3 - np.where(usable, decimals, 3))
    found = np.where(usable, values * scale * np.where(negative, -1, 1), 0)
    usable &= (found < LARGEST) & (found > -LARGEST)  # what went over 64 bits is also beyond
    for at in np.flatnonzero(~usable).tolist():
        found[at], usable[at] = _one(bytes(texts[at]))
    return found, usable


def _is_usual(letters: NDArray[np.uint8], ends: Ints) -> bool:
    """Whether all are as Kineto prints them: digits, a dot, three decimals, and not too long."""
    odd = int((letters - _ZERO > 9).sum())  # unsigned: what is below zero is above nine
    length = np.diff(ends, prepend=-1)
    return odd == 2 * len(ends) and bool(
        (length.min() > 5) and (length.max() <= _MOST_DIGITS + 3) and (letters[ends - 4] == _DOT).all()
    )


def _parsed(
    letters: NDArray[np.uint8], digits: NDArray[np.bool_], starts: Ints, ends: Ints, usable: NDArray[np.bool_]
) -> Ints:
    """The digits of each number as one integer, dots and signs left out."""
    values = np.zeros(len(starts), np.int64)
    at, left = starts.copy(), usable & (starts < ends)
    while left.any():
        here = np.flatnonzero(left)
        where = at[here]
        letter = letters[where]
        is_digit = digits[where]
        values[here] = np.where(is_digit, values[here] * 10 + (letter.astype(np.int64) - _ZERO), values[here])
        at[here] += 1
        left[here] = at[here] < ends[here]
    return values


def _one(text: bytes) -> tuple[int, bool]:
    """One number in any form that JSON allows, also within quotes; more than three decimals are rounded."""
    try:
        value = Decimal(text.decode().strip('"')) * 1000
    except (DecimalException, UnicodeDecodeError, ValueError):
        return 0, False
    if not value.is_finite() or abs(value) >= LARGEST:
        return 0, False
    return int(value.to_integral_value()), True
