"""How large a time, or an amount of bytes, may be: what no clock shows, and no memory holds, is none at all.

Any two times within the bound differ by less than 63 bits hold, so that a duration or a window is always what it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from gpuledger.errors import UnreadableProfile
from gpuledger.read.nsys.container import NULL
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

LARGEST: Final = 2**62
"""Times are smaller, before and after zero: 146 years; since 1970 that is until 2116."""

LARGEST_BYTES: Final = 2**48
"""No copy and no allocation has as many bytes: 281 TB."""

_YEAR_NS: Final = 31_557_600 * 10**9


def within_bounds(times: Ints) -> Ints:
    """`times`, NULL where one is too large."""
    if times.max(initial=0) < LARGEST and times.min(initial=0) > -LARGEST:
        return times
    return np.where((times < LARGEST) & (times > -LARGEST), times, NULL)


def refuse_endless(name: str, tables: Mapping[Table, Rows]) -> None:
    """Refuses a profile whose durations, or bytes, sum to more than 64 bits hold: every total would be wrong."""
    for table, rows in tables.items():
        if not len(rows):
            continue
        if "bytes" in rows:
            _refuse_bytes(name, table, rows["bytes"])
        bounds = [int(of(rows[each])) for each in ("start_ns", "end_ns") for of in (np.min, np.max)]
        if len(rows) * (max(bounds) - min(bounds)) < LARGEST:
            continue
        length = rows.duration_ns
        longest = max(int(length.max(initial=0)), -int(length.min(initial=0)))
        if longest * len(length) >= 2**63 and np.abs(length).sum(dtype=np.float64) >= LARGEST:
            raise UnreadableProfile(
                f"{name}: its {table.value} last more than 146 years together, which cannot be",
                found=f"the longest takes {longest / _YEAR_NS:,.0f} years",
                hint="export it again; clocks or units are wrong in it",
            )


def _refuse_bytes(name: str, table: Table, amounts: Ints) -> None:
    least, most = int(amounts.min()), int(amounts.max())
    if least >= NOT_RECORDED and most < LARGEST_BYTES and len(amounts) * most < LARGEST:
        return
    if least < NOT_RECORDED or most >= LARGEST_BYTES or amounts.sum(dtype=np.float64) >= LARGEST:
        raise UnreadableProfile(
            f"{name}: its {table.value} have more bytes than there can be",
            found=f"{least:,} to {most:,} bytes in each of {len(amounts):,}",
            hint="export it again; the numbers of bytes are wrong in it",
        )
