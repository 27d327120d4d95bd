"""Columns of whole numbers as text for a page: integers in, base64 of as few bytes as they need out.

Each number is written seven bits to a byte, the lowest first, the top bit saying that more follow (LEB128), after
folding the sign into the lowest bit; `scripts/packed.js` reads it. A column of nothing but zeros is the empty text.
"""

from __future__ import annotations

import base64

import numpy as np
from numpy.typing import NDArray

_BITS = 7


def packed(values: NDArray[np.signedinteger]) -> str:
    """The column."""
    if not values.any():
        return ""
    wide = values.astype(np.int64)
    left = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    groups: list[NDArray[np.uint64]] = []
    while left.any() or not groups:
        groups.append(left & np.uint64(0x7F))
        left = left >> np.uint64(_BITS)
    digits = np.stack(groups, axis=1)
    used = len(groups) - np.argmax((digits != 0)[:, ::-1], axis=1)
    used[~digits.any(axis=1)] = 1
    place = np.arange(len(groups))
    digits[place[None, :] < used[:, None] - 1] |= np.uint64(0x80)
    written = digits[place[None, :] < used[:, None]].astype(np.uint8)
    return base64.b64encode(written.tobytes()).decode()


def steps_between(values: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
    """How much each number is more than the one before it, the first more than 0: small numbers pack better."""
    return np.diff(values, prepend=0)
