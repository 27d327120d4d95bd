"""How large a time may be: nanoseconds in, the same out, with what no clock shows taken for no time at all.

Any two times within the bound differ by less than 63 bits hold, so that a duration or a window is always what it says.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.model.spans import Ints
from gpuledger.read.export import NULL

LARGEST: Final = 2**62
"""Times are smaller, before and after zero: 146 years; since 1970 that is until 2116."""


def within_bounds(times: Ints) -> Ints:
    """`times`, NULL where one is too large."""
    if times.max(initial=0) < LARGEST and times.min(initial=0) > -LARGEST:
        return times
    return np.where((times < LARGEST) & (times > -LARGEST), times, NULL)
