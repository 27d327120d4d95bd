"""Rows that share a key: grouping, looking up and joining on several integer columns at once. All vectorised.

A column whose rows are all the same is one value, broadcast (`same`), so that a million rows of it take no room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import DTypeLike, NDArray

from gpuledger.trace import sweep
from gpuledger.trace.sweep import expand


def same(value: int, rows: int, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """A column that holds one value throughout."""
    return np.broadcast_to(np.array(value, dtype), rows)


def is_same(values: NDArray[Any]) -> bool:
    """Whether a column is stored as one value."""
    return values.ndim == 1 and len(values) > 0 and values.strides[0] == 0


def by_row(function: Callable[..., NDArray[Any]], *columns: NDArray[Any]) -> NDArray[Any]:
    """What `function` makes of columns, row by row; asked for one row where all rows are the same."""
    if columns and all(map(is_same, columns)):
        return np.broadcast_to(function(*(values[:1] for values in columns))[0], len(columns[0]))
    return function(*columns)


def equal(values: NDArray[Any], value: int) -> NDArray[np.bool_]:
    """Which rows hold this value."""
    return by_row(lambda column: column == value, values)


def take(values: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
    """The rows at these positions, or under this mask. Positions of 32 bits count from the start."""
    is_mask = positions.dtype == np.bool_
    if is_mask and is_same(positions):
        return values if positions[0] else values[:0]
    if is_same(values):
        return np.broadcast_to(values[0], int(np.count_nonzero(positions)) if is_mask else len(positions))
    if positions.dtype == np.int32:
        return sweep.take(values, positions)
    taken: NDArray[Any] = values[positions]
    return taken


def one_after_another(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Parts of a column as one; without a copy where there is one part, or one value in all of them."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    if all(map(is_same, parts)) and len({part[0] for part in parts}) == 1:
        return np.broadcast_to(parts[0][0], sum(map(len, parts)))
    return np.concatenate(parts)


def distinct(values: NDArray[Any], bounds: tuple[int, int] | None = None) -> NDArray[Any]:
    """The different values, sorted; none lies beyond `bounds`, where those are known."""
    if is_same(values):
        return values[:1]
    low, high = bounds or (int(values.min(initial=0)), int(values.max(initial=0)))
    if _is_wide(low, high, len(values)):
        some = [sweep.distinct(values[part].astype(np.int64, copy=False)) for part in sweep.parts(len(values))]
        return sweep.distinct(np.concatenate(some)).astype(values.dtype, copy=False)
    return (np.flatnonzero(sweep.occurrence_flags(values, low, high)) + low).astype(values.dtype)


def occurrences(values: NDArray[Any]) -> tuple[NDArray[Any], Positions]:
    """The different values, sorted, and how often each is there."""
    if is_same(values):
        return values[:1], np.array([len(values)])
    first, number = group(values)
    return values[first], np.bincount(number, minlength=len(first))


def is_among(values: NDArray[Any], others: NDArray[Any] | Sequence[int]) -> NDArray[np.bool_]:
    """Which whole numbers are among others, as `np.isin` says; but that loads masked arrays, 20 ms of a start."""
    known = distinct(others if isinstance(others, np.ndarray) else np.array(others, np.int64)).reshape(-1)
    among = np.zeros(values.shape, np.bool_)
    if len(known) <= _FEW_KEYS:
        for one in known.tolist():
            among |= values == one
        return among
    least, span, table = int(known[0]), int(known[-1]) - int(known[0]), None
    if not _is_wide(0, span, len(values)):
        table = np.zeros(span + 2, np.bool_)  # the last is for what lies beyond
        table[known.astype(np.int64) - least] = True
    for part in sweep.parts(len(values)):
        some = values[part]
        if table is not None:
            place = (some.astype(np.int64) - least).view(np.uint64)  # what lies below wraps
            among[part] = table[np.minimum(place, np.uint64(span + 1)).view(np.int64)]
        else:
            place = np.minimum(np.searchsorted(known, some), len(known) - 1)
            among[part] = known[place] == some
    return among


def leave_out(values: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    """The different values that are not among `others`, sorted."""
    kept = distinct(values)
    left: NDArray[Any] = kept[~is_among(kept, others)]
    return left


Positions = NDArray[np.intp]


def group(*keys: NDArray[Any]) -> tuple[Positions, Positions]:
    """Rows with equal keys together: the first row of each group, and for each row the number of its group.

    Groups are numbered in the order of their keys.
    """
    count = len(keys[0])
    if not count:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    keys = tuple(key for key in keys if not is_same(key)) or keys[:1]
    last = len(keys) - 1  # what is on the way to it is held in few bytes
    number, groups = _numbers(keys[0], np.int32 if last else np.intp)
    for place, key in enumerate(keys[1:], 1):  # column by column: most have few values, and no row is sorted
        if groups == count:
            break
        value, values = _numbers(key, np.int32)
        if groups * values > _NARROW and number.dtype == np.int32:
            number = number.astype(np.int64)
        number *= number.dtype.type(values)
        number += value
        del value  # as long as the columns are
        number, groups = _numbers(number, np.int32 if place < last else np.intp)
    first = np.full(groups, count)
    for part in sweep.parts(count):
        sweep.fold("least", number[part], np.arange(part.start, part.stop), first)
    return first, number.astype(np.intp, copy=False)


def _numbers(key: NDArray[Any], dtype: DTypeLike) -> tuple[Positions, int]:
    """For each row the number of its key, and how many keys there are: mostly few, so no row is sorted."""
    key = key.view(np.int8) if key.dtype == np.bool_ else key
    values = distinct(key).astype(np.int64)
    if is_same(key):
        return same(0, len(key), dtype), 1
    least, most = int(values[0]), int(values[-1])
    place = None
    if not _is_wide(least, most, len(key)):
        before = min(max(least, 0), 65536)  # codes of texts count from 0, and need no column of differences
        least -= before
        place = np.zeros(most - least + 1, np.int32)
        place[values - least] = np.arange(len(values))
    number = np.empty(len(key), dtype)
    for part in sweep.parts(len(key)):
        some = key[part]
        if place is None:
            number[part] = sweep.search(values, some.astype(np.int64, copy=False))
        else:
            number[part] = take(place, some if not least and some.dtype == np.int32 else some.astype(np.int64) - least)
    return number, len(values)


def ordinals(values: NDArray[Any]) -> Positions:
    """For each row how many of those before it have the same value."""
    narrow = np.dtype(np.int32 if len(values) <= _NARROW else np.intp)
    order = np.argsort(values, kind="stable").astype(narrow)
    ordered = values[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    del ordered
    within = np.arange(len(order)).astype(narrow)
    within -= np.repeat(first.astype(narrow), np.diff(first, append=len(order)))
    ordinal = np.empty(len(values), np.intp)
    ordinal[order] = within
    return ordinal


def _is_wide(low: int, high: int, rows: int) -> bool:
    """Whether a table of all numbers from one to the other would be much larger than the column they are in."""
    return high - low > 4 * rows + 65536


_NARROW: Final = 2**31 - 1


class RowsByKey(Struct, frozen=True):
    """Where the rows of each key lie, by one sort: a profile may have as many threads or processes as rows.

    A loop that looked for the rows of each key among all of them would take time by their product.
    """

    keys: NDArray[Any]
    """Different, in order."""
    _order: Positions
    _edges: Positions

    @classmethod
    def of(cls, key: NDArray[Any]) -> RowsByKey:
        keys = distinct(key) if len(key) else key[:0]
        if len(keys) <= 1:
            order = np.arange(len(key))
            return cls(keys, order, np.array([0, len(key)]))
        if len(keys) > _FEW_MAJORS:
            order = np.argsort(key, kind="stable")
            return cls(keys, order, np.append(np.searchsorted(key[order], keys), len(key)))
        own = [np.flatnonzero(key == one) for one in keys.tolist()]
        return cls(keys, np.concatenate(own), np.cumsum([0, *map(len, own)]))

    def __iter__(self) -> Iterator[tuple[int, Positions]]:
        """Each key with the positions of its rows, in their order."""
        edges = self._edges.tolist()
        for key, first, last in zip(self.keys.tolist(), edges, edges[1:], strict=False):
            yield key, self._order[first:last]

    def rows(self, key: int) -> Positions:
        """The positions of one key's rows; none for a key that is not there."""
        place = int(np.searchsorted(self.keys, key))
        if place == len(self.keys) or self.keys[place] != key:
            return self._order[:0]
        return self._order[self._edges[place] : self._edges[place + 1]]


_FEW_KEYS: Final = 4
"""So many values are compared one after the other: a look for each row's place among them takes longer."""

_FEW_MAJORS: Final = 16
"""Threads or processes: most profiles have no more."""


def search(
    major: NDArray[Any],
    minor: NDArray[Any],
    wanted_major: NDArray[Any],
    wanted_minor: NDArray[Any],
    *,
    side: Literal["left", "right"],
) -> Positions:
    """`np.searchsorted` for keys of two columns, sorted by (major, minor)."""
    count = len(major)
    if count and major[0] == major[-1]:  # one process, one thread: the usual case
        inside = sweep.search(minor, wanted_minor, side)
        return np.where(wanted_major == major[0], inside, np.where(wanted_major < major[0], 0, count))
    edges = np.append(0, np.flatnonzero(major[1:] != major[:-1]) + 1) if count else np.empty(0, np.intp)
    majors = major[edges]
    asked = majors if len(majors) <= _FEW_MAJORS else distinct(wanted_major)  # one thread's of many, for one
    if count and len(asked) <= _FEW_MAJORS:  # one after the other: nothing is sorted
        bounds = [*edges.tolist(), count]
        position: Positions = np.array(bounds)[np.searchsorted(majors, wanted_major)]
        for key in asked.tolist():
            place = int(np.searchsorted(majors, key))
            if place < len(majors) and majors[place] == key:
                here, first = np.flatnonzero(wanted_major == key), bounds[place]
                position[here] = first + sweep.search(minor[first : bounds[place + 1]], wanted_minor[here], side)
        return position
    rank = np.concatenate((np.ones(count, np.int8), np.full(len(wanted_major), 0 if side == "left" else 2, np.int8)))
    order = np.lexsort((rank, np.concatenate((minor, wanted_minor)), np.concatenate((major, wanted_major))))
    is_key = order < count
    below = np.cumsum(is_key)
    position = np.empty(len(wanted_major), np.intp)
    position[order[~is_key] - count] = below[~is_key]
    return position


class KeyPositions(Struct, frozen=True):
    """Where each key of two columns lies: a table with a place for each, where one major key and few gaps allow it.

    Correlation ids of one process are counted up and used once, so this is how most joins go: no sorting.
    """

    major: int
    least: int
    table: NDArray[np.int32]

    @classmethod
    def of(cls, major: NDArray[Any], minor: NDArray[Any]) -> KeyPositions | None:
        """None where keys repeat, are of several majors, or lie far apart."""
        if not len(minor) or (not is_same(major) and (major != major[0]).any()):
            return None
        least, most = int(minor.min()), int(minor.max())
        if most - least >= _SPARSE * (len(minor) + 1024):
            return None
        table = sweep.positions_table(minor, least, most)
        return None if table is None else cls(int(major[0]), least, table)

    def look_up(self, major: NDArray[Any], minor: NDArray[Any]) -> Positions:
        """For each wanted key the row that has it; -1 for none."""
        row = sweep.look_up(minor, self.table, self.least)
        if is_same(major) and major[0] == self.major:
            return row
        return np.where(major == self.major, row, -1)


def join(
    left_major: NDArray[Any],
    left_minor: NDArray[Any],
    right_major: NDArray[Any],
    right_minor: NDArray[Any],
    places: KeyPositions | None = None,
) -> tuple[Positions, Positions]:
    """All pairs of rows (left, right) with equal keys, in order of left; `places` of the right, if they are known."""
    places = places or KeyPositions.of(right_major, right_minor)
    if places is not None:
        right = places.look_up(left_major, left_minor)
        left = np.flatnonzero(right >= 0)
        return left, right[left]
    order = np.lexsort((right_minor, right_major))
    major, minor = right_major[order], right_minor[order]
    first = search(major, minor, left_major, left_minor, side="left")
    last = search(major, minor, left_major, left_minor, side="right")
    left, position = expand(first, last)
    return left, order[position]


def last_match(
    left_major: NDArray[Any], left_minor: NDArray[Any], right_major: NDArray[Any], right_minor: NDArray[Any]
) -> Positions:
    """For each row of the left the last row of the right with its key; -1 for none. However often keys repeat."""
    places = KeyPositions.of(right_major, right_minor)
    if places is not None:
        return places.look_up(left_major, left_minor)
    if not len(right_minor):
        return np.full(len(left_minor), -1, np.intp)
    order = np.lexsort((right_minor, right_major))
    after = search(right_major[order], right_minor[order], left_major, left_minor, side="right")
    last = order[after - 1]  # where nothing lies before, the very last row: its key is another
    is_match = (after > 0) & (right_major[last] == left_major) & (right_minor[last] == left_minor)
    return np.where(is_match, last, -1)


_SPARSE = 8
"""How many times as many places as rows a table may have."""
