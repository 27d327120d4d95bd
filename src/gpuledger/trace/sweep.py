"""Passes over sorted columns: the ones that numpy can only do in several steps, each of them over memory.

Each is written down in numpy, which says what it gives, and compiled (native/sweep.c), which gives it at once. Where
the package was installed without a compiler, or with GPULEDGER_NATIVE=0, numpy does the work. `side_by_side` goes
through rows on two threads: numpy and the compiled passes let go of the interpreter's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuledger.errors import TooManyPairs
from gpuledger.trace.deadline import check

try:
    from gpuledger.trace.native import _sweep as native
except ImportError:  # installed where there was no compiler
    native = None  # type: ignore[assignment]

Ints = NDArray[np.int64]
Pair = tuple[Ints, Ints]
Fold = Literal["sum", "least", "most"]

_FEW: Final = 2000
"""Below so many rows, numpy is done before a call has been prepared."""

_AT_ONCE: Final = 1 << 18

_PAIRS_ALWAYS: Final = 4_000_000
_PAIRS_PER_ROW: Final = 100
"""How many pairs `expand` makes at most: memory grows with the rows of a profile, not with their square."""

_FOLDS: Final = {"sum": np.add, "least": np.minimum, "most": np.maximum}


def parts(rows: int) -> Iterator[slice]:
    """A long column some rows at a time, so that there is no second one of its length."""
    for first in range(0, rows, _AT_ONCE):
        yield slice(first, min(first + _AT_ONCE, rows))


def is_there() -> bool:
    """Whether the passes were compiled; GPULEDGER_NATIVE=0 leaves them out."""
    return native is not None and os.environ.get("GPULEDGER_NATIVE") != "0"


def _pays(*columns: NDArray[Any]) -> bool:
    return max(map(len, columns)) >= _FEW and is_there()


def union(start: Ints, end: Ints) -> Pair:
    """The instants that at least one span covers, as sorted spans that do not touch. Empty spans cover none."""
    if _pays(start):
        into = _room(len(start))
        count = native.union(*_columns(start, end), *into)
        if count < 0:
            order = np.argsort(start, kind="stable")
            count = native.union(start[order], end[order], *into)
        return _cut(into, count)
    real = end > start
    if not real.all():
        start, end = start[real], end[real]
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    if not len(start):
        return start, end
    reach = np.maximum.accumulate(end)
    opens = np.concatenate(([True], start[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return start[opens], reach[closes]


def union_of(start: Ints, end: Ints, label: NDArray[np.int8], wanted: int) -> Pair:
    """The instants that some span with the label `wanted` covers."""
    if _pays(start):
        into = _room(len(start))
        count = native.union_of(*_columns(start, end), np.ascontiguousarray(label, np.int8), *into, wanted)
        if count >= 0:
            return _cut(into, count)
    return union(start[label == wanted], end[label == wanted])


def either(a: Pair, b: Pair) -> Pair:
    """The instants of one or both; each is a set as `union` gives it."""
    if not len(a[0]) or not len(b[0]):
        return a if len(a[0]) else b
    if _pays(a[0], b[0]):
        return _of_both("either", a, b)
    return union(np.concatenate((a[0], b[0])), np.concatenate((a[1], b[1])))


def intersection(a: Pair, b: Pair) -> Pair:
    """The instants of both; each is a set as `union` gives it."""
    if _pays(a[0], b[0]):
        return _of_both("intersection", a, b)
    first = np.searchsorted(b[1], a[0], side="right")
    last = np.searchsorted(b[0], a[1], side="left")
    outer, inner = expand(first, last)
    return union(np.maximum(a[0][outer], b[0][inner]), np.minimum(a[1][outer], b[1][inner]))


def difference(a: Pair, b: Pair) -> Pair:
    """The instants of `a` that are not in `b`; each is a set as `union` gives it."""
    if not len(a[0]) or not len(b[0]):
        return a
    if _pays(a[0], b[0]):
        return _of_both("difference", a, b)
    low, high = a[0][0], a[1][-1]
    inner = union(np.maximum(b[0], low), np.minimum(b[1], high))
    return intersection(a, union(np.append(low, inner[1]), np.append(inner[0], high)))


def _of_both(compiled: Literal["either", "intersection", "difference"], a: Pair, b: Pair) -> Pair:
    into = _room(len(a[0]) + len(b[0]) + 1)
    return _cut(into, getattr(native, compiled)(*_columns(*a), *_columns(*b), *into))


def covered(spans: Pair, start: Ints, end: Ints) -> Ints:
    """For each window [start, end) how many nanoseconds of it the set covers."""
    if _pays(spans[0], start):
        into = np.empty(len(start), np.int64)
        if native.covered(*_columns(*spans), *_columns(start, end), into):
            return into
    before = np.append(0, np.cumsum(spans[1] - spans[0]))

    def up_to(instant: Ints) -> Ints:
        begun = search(spans[0], instant, "right")
        overshoot = np.append(0, spans[1])[begun] - instant
        amount: Ints = before[begun] - np.where(begun > 0, np.maximum(overshoot, 0), 0)
        return amount

    return np.where(end > start, up_to(end) - up_to(start), 0)


def shares(start: Ints, end: Ints) -> Pair:
    """The part of each record that no earlier one covers, empty where there is none; records come by their start."""
    if not len(start):
        return start, end
    if _pays(start):
        into = _room(len(start))
        native.shares(*_columns(start, end), *into)
        return into
    reach = np.append(start[0], np.maximum.accumulate(end)[:-1])
    own = np.maximum(start, reach)
    return own, np.maximum(own, end)


def search(keys: NDArray[Any], wanted: NDArray[Any], side: Literal["left", "right"] = "left") -> Ints:
    """`np.searchsorted`, for wanted values that lie near one another: those in order, above all."""
    is_whole = keys.dtype == np.int64 and wanted.dtype == np.int64
    if is_whole and len(wanted) >= _FEW and is_there():
        into = np.empty(len(wanted), np.int64)
        native.search(_column(keys), _column(wanted), into, side == "right")
        return into
    positions: Ints = np.searchsorted(keys, wanted, side=side)
    return positions


def expand(first: NDArray[np.intp], last: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """All pairs (i, j) with first[i] <= j < last[i], in order of i, then j.

    Refuses, before it takes any room, what would be more than `_PAIRS_PER_ROW` for each row.
    """
    count = np.maximum(last - first, 0)
    refuse_too_many(int(count.sum()), len(first) + int(last.max(initial=0)))
    outer = np.repeat(np.arange(len(count)), count)
    inner = np.arange(len(outer))
    inner += np.repeat(first - (np.cumsum(count) - count), count)
    return outer, inner


def refuse_too_many(pairs: int, rows: int) -> None:
    """Refuse so many pairs of so many rows, before they take any room."""
    if pairs > _PAIRS_ALWAYS + _PAIRS_PER_ROW * rows:
        raise TooManyPairs(
            f"{rows:,} rows of the profile pair up {pairs:,} times, which is more than memory should hold",
            found="ids that tell rows apart are the same in many of them, or ranges lie in one another without end",
            hint="export it again, or record a shorter stretch",
        )


def fold(how: Fold, number: NDArray[Any], values: NDArray[Any], into: Ints) -> Ints:
    """Sum, least or greatest of the values of each group, on top of what `into` holds, which it gives back.

    What is in a negative group is in none.
    """
    if _pays(number) and into.flags.c_contiguous:
        for part in parts(len(number)):
            check()
            native.fold(_column(number[part]), _column(values[part]), into, list(_FOLDS).index(how))
    else:
        counts = number >= 0
        _FOLDS[how].at(into, number[counts], values[counts])
    return into


def sums(number: NDArray[Any], values: NDArray[Any], groups: int) -> Ints:
    """The sum of the values of each of so many groups, in integers; what is in a negative group is in none."""
    return fold("sum", number, values, np.zeros(groups, np.int64))


def distinct(values: Ints) -> Ints:
    """The different values, sorted."""
    if _pays(values):
        into = np.empty(_FEW, np.int64)
        count = native.distinct(_column(values), into)
        if count >= 0:
            return np.sort(into[:count])
    ordered = np.sort(values)
    is_new = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]  # `np.unique` imports numpy.ma
    different: Ints = ordered[is_new]
    return different


def take(values: NDArray[Any], positions: NDArray[np.int32]) -> NDArray[Any]:
    """`values[positions]`, none of them negative, without positions of twice the size."""
    if _pays(positions) and values.flags.c_contiguous and values.ndim == 1:
        into = np.empty(len(positions), values.dtype)
        native.take(values, np.ascontiguousarray(positions), into)
        return into
    taken: NDArray[Any] = values[positions]
    return taken


def occurrence_flags(values: NDArray[Any], least: int, most: int) -> NDArray[np.uint8]:
    """For each number from `least` to `most` whether it occurs; no value lies beyond the two."""
    flags = np.zeros(most - least + 1, np.uint8)
    if _pays(values):
        native.mark(flags, np.ascontiguousarray(values), least)
    else:
        flags[values.astype(np.int64) - least] = 1
    return flags


def positions_table(keys: Ints, least: int, most: int) -> NDArray[np.int32] | None:
    """For each number from `least` to `most` one more than the position of the key that is it; None if keys repeat."""
    table = np.zeros(most - least + 1, np.int32)
    if _pays(keys):
        return table if native.place(_column(keys), table, least) else None
    position = np.arange(1, len(keys) + 1)
    table[keys - least] = position
    return table if (table[keys - least] == position).all() else None


def states(
    start: Ints, end: Ints, state: NDArray[np.int8], window: tuple[int, int]
) -> tuple[tuple[Pair, Pair, Pair], tuple[int, int]]:
    """A window by the least state, 0, 1 or 2, that some record is in; records come by their start.

    Gives the spans in state 1 but not 0, in 2 but neither, and in none (0 has the rest); and how long state 1 was
    hidden beside 0, and 2 beside 0 or 1.
    """
    if _pays(start):
        rooms = np.empty((3, 2, len(start) + 1), np.int64)  # in one: what is not written to is given back unused
        kinds = np.ascontiguousarray(state, np.int8)
        counts = native.states(*_columns(start, end), kinds, *rooms.reshape(6, -1), *window)
        if counts is not None:
            one, two, none = (
                (room[0, :count].copy(), room[1, :count].copy()) for room, count in zip(rooms, counts[:3], strict=True)
            )
            return (one, two, none), counts[3:]
    whole = (np.array([window[0]]), np.array([window[1]]))
    zero, one, two = (intersection(union_of(start, end, state, number), whole) for number in range(3))
    above = either(zero, one)
    spans = (difference(one, zero), difference(two, above), difference(whole, either(above, two)))
    one_hidden, two_hidden = (intersection(one, zero), intersection(two, above))
    return spans, (int(np.subtract(*one_hidden[::-1]).sum()), int(np.subtract(*two_hidden[::-1]).sum()))


def own_calls(
    start: Ints, end: Ints, kind: NDArray[np.int8], thread: NDArray[np.int32], wanted: int
) -> tuple[Ints, Ints, NDArray[np.int8]]:
    """What each call of one thread owns, by time: the outermost owns what it encloses. Neighbours of a kind are one."""
    if _pays(start):
        into, kinds = _room(len(start)), np.empty(len(start), np.int8)
        small = np.ascontiguousarray(kind, np.int8)
        threads = np.ascontiguousarray(thread, np.int32)
        count = native.calls(*_columns(start, end), small, *into, threads, kinds, wanted)
        if count >= 0:
            kinds.resize(count, refcheck=False)
            return *_cut(into, count), kinds
    own = thread == wanted
    start, end, kind = start[own], end[own], kind[own]
    order = np.lexsort((-end, start))
    own_start, own_end = shares(start[order], end[order])
    kind, real = kind[order], own_end > own_start
    own_start, own_end, kind = own_start[real], own_end[real], kind[real]
    joins = (own_start[1:] == own_end[:-1]) & (kind[1:] == kind[:-1])
    opens, closes = np.append(True, ~joins)[: len(kind)], np.append(~joins, True)[: len(kind)]
    return own_start[opens], own_end[closes], kind[opens]


def split(
    calls: tuple[Ints, Ints, NDArray[np.int8]], kinds: int, short_ns: int, start: Ints, end: Ints
) -> NDArray[np.int64] | None:
    """How much of each window falls under each kind of call, and last between two calls less than `short_ns` apart.

    Calls as `own_calls` gives them; windows are disjoint and in order. None where the pass is not compiled, or windows
    are not so: then it takes a set of instants for each kind.
    """
    if not is_there():
        return None
    into = np.zeros((len(start), kinds + 1), np.int64)
    asked = native.split(*_columns(*calls[:2]), calls[2], *_columns(start, end), into.reshape(-1), short_ns, kinds + 1)
    return into if asked else None


def enclosing(outer: Pair, start: Ints, end: Ints) -> NDArray[np.int32]:
    """For each record the first of the outer spans, which come by their start, that encloses it; -1 for none.

    Bounds included. Of the outer spans that end late enough the first has begun no later than any other: it encloses
    the record, or none does.
    """
    reach = np.maximum.accumulate(outer[1])
    into = np.empty(len(start), np.int32)
    if _pays(start):
        first = np.empty(min(len(start), _AT_ONCE), np.int64)
        for part in parts(len(start)):
            some = first[: part.stop - part.start]
            native.enclosing(*_columns(outer[0], reach), *_columns(start[part], end[part]), some)
            into[part] = some
        return into
    first = np.searchsorted(reach, end)
    begun = np.append(outer[0], np.iinfo(np.int64).max)[first]
    into[:] = np.where(begun <= start, first, -1)
    return into


def held(outer: Pair, start: Ints, end: Ints, amount: Ints) -> Pair:
    """What the records that `enclosing` gives to each outer span amount to, and how many; a negative one is none."""
    if _pays(start):
        into = _room(len(outer[0]))
        reach = np.maximum.accumulate(outer[1])
        native.held(*_columns(outer[0], reach), *_columns(start, end), _column(amount), *into)
        return into
    member = np.where(amount < 0, -1, enclosing(outer, start, end))
    return sums(member, amount, len(outer[0])), sums(member, np.ones(len(start), np.int64), len(outer[0]))


def tiles(start: Ints, end: Ints, group: NDArray[np.int16], edges: Ints, groups: int) -> Ints:
    """Time by tile and group, a row per tile: each record's own part within the tiles that sorted `edges` bound.

    An instant belongs to the first record that covers it. Records come by their start; those whose group is negative
    are left out.
    """
    into = np.zeros((len(edges) - 1, groups), np.int64)
    if _pays(start):
        whole = np.ascontiguousarray(group, np.int16)
        native.tiles(*_columns(start, end), whole, _column(edges), into.reshape(-1), groups)
        return into
    counts = group >= 0
    own = shares(*(np.clip(bounds[counts], edges[0], edges[-1]) for bounds in (start, end)))
    for tile, (low, high) in enumerate(pairwise(edges.tolist())):
        part = np.clip(own[1], low, high) - np.clip(own[0], low, high)
        np.add.at(into[tile], group[counts], part)
    return into


def parents(start: Ints, end: Ints, group: Ints) -> Ints | None:
    """The position of the record that directly encloses each one of its group; None where the pass is not compiled.

    Records come by group, start, then the longer first. NOT_NESTED throughout a group in which some overlap without
    nesting, or are empty.
    """
    if not _pays(start):
        return None
    stack, into = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    native.parents(*_columns(start, end), _column(group), stack, into)
    return into


NOT_NESTED: Final = -2


def numbered_texts(whole: bytes, lengths: Ints) -> tuple[list[bytes], Ints]:
    """Texts that lie one after another, missing where a length is negative: each once, and each row's number or -1."""
    ends = np.cumsum(np.maximum(lengths, 0))
    if _pays(lengths):
        numbers, first = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
        count = native.number_texts(whole, _column(lengths), numbers, first)
        if count >= 0:
            rows = first[:count]
            bounds = zip((ends[rows] - lengths[rows]).tolist(), ends[rows].tolist(), strict=True)
            return [whole[start:end] for start, end in bounds], numbers
    number_of: dict[bytes, int] = {}
    cut = zip((ends - lengths).tolist(), ends.tolist(), (lengths >= 0).tolist(), strict=True)
    of_row = [number_of.setdefault(whole[start:end], len(number_of)) if there else -1 for start, end, there in cut]
    return list(number_of), np.array(of_row, np.int64)


def look_up(keys: Ints, table: NDArray[np.int32], least: int) -> Ints:
    """For each key its position, by the table that `placed` gives; -1 for none."""
    if _pays(keys):
        into = np.empty(len(keys), np.int64)
        for part in parts(len(keys)):
            native.look_up(_column(keys[part]), table, into[part], least)
        return into
    inside = (keys >= least) & (keys < least + len(table))
    positions = np.full(len(keys), -1, np.int64)
    positions[inside] = table[keys[inside] - least] - 1
    return positions


def in_order(parts: Sequence[tuple[Ints, Ints, Ints]]) -> tuple[NDArray[np.signedinteger], Ints, Ints]:
    """Records (start, end, tie) of several tables by start, then tie, then as they come: which they are, start, end.

    A profiler writes down what begins as it begins, so tables are nearly sorted, and records move but a little.
    """
    count = sum(len(start) for start, _, _ in parts)
    if count < 2**31 - 1 and _pays(*(start for start, _, _ in parts)):
        (start, end), order = _room(count), np.empty(count, np.int32)
        native.in_order(*(_column(column) for part in parts for column in part), start, end, order)
        return order, start, end
    start, end, tie = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    position = np.lexsort((tie, start))
    return position, start[position], end[position]


def last_to_end(end: Ints) -> Ints:
    """For each record the latest one up to it, itself included, that ends no sooner than any of those."""
    if _pays(end):
        into = np.empty(len(end), np.int64)
        native.last_to_end(_column(end), into)
        return into
    reach = np.maximum.accumulate(end)
    return np.maximum.accumulate(np.where(end == reach, np.arange(len(end)), 0))


def _room(count: int) -> Pair:
    return np.empty(count, np.int64), np.empty(count, np.int64)


def _column(values: NDArray[Any]) -> Ints:
    return np.ascontiguousarray(values, np.int64)


def _columns(start: NDArray[Any], end: NDArray[Any]) -> Pair:
    return _column(start), _column(end)


def _cut(into: Pair, count: int) -> Pair:
    """The part that was written; the rest of the room is given back."""
    for column in into:
        column.resize(count, refcheck=False)
    return into


First = TypeVar("First")
Second = TypeVar("Second")

WORTH_A_THREAD: Final = 10_000
"""Rows. A pass over fewer is over before a thread has started, and a trace may have a thousand GPUs."""


def side_by_side(rows: int, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Both results of going through so many rows; `first` is done on a thread of its own if that is worth it.

    What either raises is raised here.
    """
    if rows < WORTH_A_THREAD:
        return first(), second()
    from concurrent.futures import ThreadPoolExecutor  # with logging

    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(first)
        here = second()
        return beside.result(), here
