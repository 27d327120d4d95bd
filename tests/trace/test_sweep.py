"""The compiled passes give what numpy gives, whatever the columns; without a compiler numpy does all of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpuledger.trace import keys as joins
from gpuledger.trace import sweep
from gpuledger.trace.spans import parents
from torture.bombs import texts_of_one_place

_sweep = pytest.importorskip("gpuledger.trace.native._sweep", reason="the passes were not compiled")
pytestmark = pytest.mark.skipif(not sweep.is_there(), reason="the passes were not compiled")

Ints = NDArray[np.int64]
FAR = 2**62
instants = st.one_of(st.integers(-20, 40), st.sampled_from([-FAR + 1, FAR - 1]))
records = st.lists(st.tuples(instants, instants), max_size=30)
keys = st.lists(st.integers(-30, 60), max_size=40)


def ints(values: object) -> Ints:
    return np.array(values, np.int64)


def pair(of: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    return ints([start for start, _ in of]), ints([end for _, end in of])


def both(function: Callable[[], Any]) -> tuple[Any, Any]:
    """What a pass gives when it is compiled, however few the rows, and what it gives in numpy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "_FEW", 0)
        compiled = function()
        patch.setenv("GPULEDGER_NATIVE", "0")
        return compiled, function()


def same(function: Callable[[], Any]) -> Any:
    """The answer, which both agree on."""
    compiled, plain = both(function)
    for one, other in zip(compiled, plain, strict=True) if isinstance(compiled, tuple) else [(compiled, plain)]:
        np.testing.assert_array_equal(one, other)
    return compiled


def normal(of: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    return sweep.union(*pair(of))


@given(records)
def test_union(of: list[tuple[int, int]]) -> None:
    start, end = same(lambda: sweep.union(*pair(of)))
    assert (start < end).all()
    assert (start[1:] > end[:-1]).all()


@given(records, st.data())
def test_union_of_a_label(of: list[tuple[int, int]], data: st.DataObject) -> None:
    label = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(of), max_size=len(of))), np.int8)
    same(lambda: sweep.union_of(*pair(of), label, 1))


@given(records, records)
def test_sets_of_instants(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    for operation in (sweep.either, sweep.intersection, sweep.difference):
        start, end = same(lambda operation=operation: operation(normal(a), normal(b)))  # type: ignore[misc]
        assert (start < end).all()
        assert (start[1:] > end[:-1]).all()


@given(records, records)
def test_covered(of: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    for asked in (pair(windows), normal(windows)):  # in any order, and in order of time
        same(lambda asked=asked: sweep.covered(normal(of), *asked))  # type: ignore[misc]


@given(records)
def test_shares(of: list[tuple[int, int]]) -> None:
    same(lambda: sweep.shares(*pair(sorted(of))))


@given(records, st.data())
def test_states_partition_the_window(of: list[tuple[int, int]], data: st.DataObject) -> None:
    state = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(of), max_size=len(of))), np.int8)
    window = (-10, 30)
    (compiled, hidden), (plain, plain_hidden) = both(lambda: sweep.states(*pair(sorted(of)), state, window))
    assert hidden == plain_hidden
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    first = sweep.intersection(sweep.union_of(*pair(sorted(of)), state, 0), pair([window]))
    whole = sorted(
        span for spans in (first, *compiled) for span in zip(*(column.tolist() for column in spans), strict=True)
    )
    assert [start for start, _ in whole] == [window[0], *(end for _, end in whole[:-1])]
    assert whole[-1][1] == window[1]


calls = st.lists(st.tuples(st.integers(0, 60), st.integers(-1, 25), st.integers(0, 2), st.integers(0, 1)), max_size=25)


@given(calls, st.lists(st.integers(-5, 90), max_size=12, unique=True))
def test_calls_of_a_thread_and_what_lies_between(of: list[tuple[int, int, int, int]], cuts: list[int]) -> None:
    for ordered in (of, sorted(of, key=lambda each: (each[0], -each[1]))):
        start = ints([each[0] for each in ordered])
        end = start + ints([each[1] for each in ordered])
        kind, thread = (np.array([each[at] for each in ordered], dtype) for at, dtype in ((2, np.int8), (3, np.int32)))
        own = same(lambda s=start, e=end, k=kind, t=thread: sweep.own_calls(s, e, k, t, 1))  # type: ignore[misc]
        windows = ints(sorted(cuts))
        books = sweep.split(own, 3, 7, windows[:-1], windows[1:])
        assert books is not None
        for each in range(3):
            held = sweep.union_of(own[0], own[1], own[2], each)
            np.testing.assert_array_equal(books[:, each], sweep.covered(held, windows[:-1], windows[1:]))
        held = sweep.union(*own[:2])
        between = (held[1][:-1], held[0][1:])
        short = between[1] - between[0] < 7
        np.testing.assert_array_equal(
            books[:, 3], sweep.covered((between[0][short], between[1][short]), windows[:-1], windows[1:])
        )


@given(records, st.data())
def test_parents(of: list[tuple[int, int]], data: st.DataObject) -> None:
    group = ints(data.draw(st.lists(st.integers(0, 1), min_size=len(of), max_size=len(of))))
    start, end = pair(of)
    compiled, plain = both(lambda: parents(start, end, group))
    np.testing.assert_array_equal(compiled, plain)


texts = st.lists(st.one_of(st.none(), st.binary(max_size=3), st.sampled_from([b"", b"a", b"ab" * 40])), max_size=40)


@given(texts)
def test_numbered_texts(of: list[bytes | None]) -> None:
    whole, lengths = b"".join(each or b"" for each in of), ints([-1 if each is None else len(each) for each in of])
    (distinct, numbers), plain = both(lambda: sweep.numbered_texts(whole, lengths))
    assert (distinct, numbers.tolist()) == (plain[0], plain[1].tolist())
    assert [None if number < 0 else distinct[number] for number in numbers.tolist()] == of


def test_more_texts_than_a_table_holds() -> None:
    of = [f"text {each % 3001}".encode() for each in range(9000)]
    found, numbers = sweep.numbered_texts(b"".join(of), ints([len(each) for each in of]))
    assert [found[number] for number in numbers.tolist()] == of
    assert len(found) == 3001


def cpu_s(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


@pytest.mark.skipif(not sweep.is_there(), reason="the passes were not compiled")
def test_texts_chosen_for_one_place_cost_what_others_do() -> None:
    """They fell into one stretch of a table whose hash had no seed: at 10 MB half a minute."""
    lengths = np.full(8_000, 12)
    plain, chosen = ("".join(of).encode() for of in (map("{:012}".format, range(8_000)), texts_of_one_place(8_000)))
    usual = cpu_s(lambda: [sweep.numbered_texts(plain, lengths) for _ in range(3)])
    assert cpu_s(lambda: [sweep.numbered_texts(chosen, lengths) for _ in range(3)]) < 10 * usual


@pytest.mark.skipif(not sweep.is_there(), reason="the passes were not compiled")
def test_values_chosen_for_one_place_cost_what_others_do() -> None:
    """Multiples of the inverse of the factor that spread them all had the same upper bits."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    chosen = np.array([at * inverse % 2**64 for at in range(1900)], np.uint64).view(np.int64)
    plain, bad = np.tile(np.arange(1900), 200), np.tile(chosen, 200)
    usual = cpu_s(lambda: [sweep.distinct(plain) for _ in range(5)])
    assert cpu_s(lambda: [sweep.distinct(bad) for _ in range(5)]) < 10 * usual
    np.testing.assert_array_equal(sweep.distinct(bad), np.sort(chosen))


@given(keys, keys)
def test_search(held: list[int], wanted: list[int]) -> None:
    for side in ("left", "right"):
        found, _ = both(lambda side=side: sweep.search(np.sort(ints(held)), ints(wanted), side))  # type: ignore[misc]
        np.testing.assert_array_equal(found, np.searchsorted(np.sort(ints(held)), ints(wanted), side=side))


@given(records, records)
def test_enclosing(outer: list[tuple[int, int]], inner: list[tuple[int, int]]) -> None:
    by_start = sorted(outer, key=lambda each: (each[0], -each[1]))
    found = same(lambda: sweep.enclosing(pair(by_start), *pair(inner)))
    for (start, end), at in zip(inner, found.tolist(), strict=True):
        around = [i for i, (low, high) in enumerate(by_start) if low <= start and end <= high]
        assert at == (around[0] if around else -1)


@given(records, records, st.data())
def test_held(outer: list[tuple[int, int]], inner: list[tuple[int, int]], data: st.DataObject) -> None:
    by_start = pair(sorted(outer, key=lambda each: (each[0], -each[1])))
    amount = ints(data.draw(st.lists(st.integers(-2, 9), min_size=len(inner), max_size=len(inner))))
    sums, counts = same(lambda: sweep.held(by_start, *pair(inner), amount))
    member = sweep.enclosing(by_start, *pair(inner))
    for span in range(len(outer)):
        own = amount[(member == span) & (amount >= 0)]
        assert (sums[span], counts[span]) == (own.sum(), len(own))


@given(records, st.lists(st.integers(-25, 45), min_size=2, max_size=6, unique=True), st.data())
def test_tiles(of: list[tuple[int, int]], edges: list[int], data: st.DataObject) -> None:
    group = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=len(of), max_size=len(of))), np.int16)
    ordered = pair(sorted(of))
    found = same(lambda: sweep.tiles(*ordered, group, ints(sorted(edges)), 3))
    counted = sweep.union(*(each[group >= 0] for each in ordered))
    np.testing.assert_array_equal(
        found.sum(axis=1), sweep.covered(counted, ints(sorted(edges))[:-1], ints(sorted(edges))[1:])
    )


@given(st.lists(st.tuples(st.integers(-1, 4), instants), max_size=40), st.sampled_from(["sum", "least", "most"]))
def test_fold(of: list[tuple[int, int]], how: sweep.Fold) -> None:
    number, values = pair(of)
    same(lambda: sweep.fold(how, number, values, np.zeros(5, np.int64)))


@given(keys, keys)
def test_places_and_looking_up(held: list[int], wanted: list[int]) -> None:
    if not held:
        return
    compiled, plain = both(lambda: sweep.positions_table(ints(held), min(held), max(held)))
    assert (compiled is None) == (plain is None) == (len(set(held)) < len(held))
    if compiled is not None:
        np.testing.assert_array_equal(compiled, plain)
        found = same(lambda: sweep.look_up(ints(wanted), compiled, min(held)))
        assert found.tolist() == [held.index(key) if key in held else -1 for key in wanted]


parts = st.lists(
    st.lists(st.tuples(st.integers(0, 40), instants, st.integers(0, 2)), max_size=120), min_size=1, max_size=3
)


@given(parts, st.booleans())
def test_records_in_order(of: list[list[tuple[int, int, int]]], nearly: bool) -> None:
    """By start, then what decides, then as they come; whether parts are nearly sorted or not at all."""
    chosen = [sorted(part, key=lambda each: each[0] // 3) if nearly else part for part in of]
    given_parts = [tuple(ints([each[at] for each in part]) for at in range(3)) for part in chosen]
    which, start, end = same(lambda: sweep.in_order(given_parts))  # type: ignore[arg-type]
    rows = [row for part in chosen for row in part]
    assert which.tolist() == sorted(range(len(rows)), key=lambda row: (rows[row][0], rows[row][2], row))
    assert [(start[at], end[at]) for at in range(len(rows))] == [rows[row][:2] for row in which.tolist()]


@pytest.mark.parametrize("how", ["backwards", "shuffled", "in runs", "in order"])
def test_many_records_in_order(how: str) -> None:
    """More than one run, more than one level of merging."""
    random = np.random.default_rng(5)
    start = random.integers(0, 3000, 20_000)
    start = {"backwards": np.sort(start)[::-1], "in order": np.sort(start), "shuffled": start}.get(
        how, np.concatenate([np.sort(part) for part in np.array_split(start, 7)])
    )
    tie = random.integers(0, 3, len(start))
    which, found, _ = sweep.in_order(
        [(start[:9000], start[:9000], tie[:9000]), (start[9000:], start[9000:], tie[9000:])]
    )
    np.testing.assert_array_equal(which, np.lexsort((tie, start)))
    np.testing.assert_array_equal(found, np.sort(start))


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=40), st.data(), st.sampled_from(["i1", "i2", "i4", "i8"]))
def test_rows_at_positions(of: list[int], data: st.DataObject, dtype: str) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, len(of) - 1), max_size=60)), np.int32)
    found = same(lambda: joins.take(np.array(of, dtype), positions))
    assert found.tolist() == [of[at] for at in positions.tolist()]
    assert found.dtype == dtype


@given(st.lists(instants, max_size=40))
def test_the_last_to_end(ends: list[int]) -> None:
    found = same(lambda: sweep.last_to_end(ints(ends)))
    for at, last in enumerate(found.tolist()):
        latest = max(ends[: at + 1])
        assert last == max(i for i in range(at + 1) if ends[i] == latest)


@given(
    st.lists(st.one_of(instants, st.integers(-(2**63), 2**63 - 1)), max_size=60),
    st.sampled_from(["<i8", "<i4", "<i2", "|i1"]),
)
def test_distinct(of: list[int], dtype: str) -> None:
    values = np.array([each if dtype == "<i8" else each % 97 - 1 for each in of], dtype)
    found = same(lambda: joins.distinct(values))
    assert found.tolist() == sorted(set(values.tolist()))
    assert found.dtype == values.dtype


def test_more_different_values_than_there_is_room_for() -> None:
    values = np.random.default_rng(0).permutation(5000).astype(np.int64) << 40
    assert sweep.distinct(values).tolist() == [each << 40 for each in range(5000)]


@pytest.mark.parametrize(
    "misuse",
    [
        lambda native: native.union(ints([1]), ints([2, 3]), ints([0]), ints([0])),
        lambda native: native.union(ints([1]), ints([2]), np.empty(0, np.int64), ints([0])),
        lambda native: native.union(np.zeros(1, np.int32), ints([2]), ints([0]), ints([0])),
        lambda native: native.union(ints([1])),
        lambda native: native.difference(ints([1]), ints([2]), ints([1]), ints([2]), ints([0]), ints([0])),
        lambda native: native.fold(ints([7]), ints([1]), ints([0]), 0),
        lambda native: native.fold(ints([0]), ints([1]), ints([0]), 9),
        lambda native: native.tiles(ints([0]), ints([1]), np.array([5], np.int16), ints([0, 1]), ints([0]), 1),
        lambda native: native.tiles(ints([0]), ints([1]), np.array([0], np.int16), ints([0, 1]), ints([0]), 0),
        lambda native: native.union_of(ints([0]), ints([1]), ints([0]), ints([0]), ints([0]), 0),
        lambda native: native.search(ints([0]), ints([1]), ints([0]), "left"),
        lambda native: native.number_texts(b"ab", ints([1, 1]), ints([0]), ints([0, 0])),
        lambda native: native.parents(ints([0]), ints([1]), ints([0]), ints([]), ints([0])),
        lambda native: native.states(ints([0]), ints([1]), np.zeros(1, np.int8), *[ints([0])] * 6, 0, 1),
        lambda native: native.place(ints([0]), ints([0]), 0),
        lambda native: native.look_up(ints([0]), ints([0]), ints([0]), 0),
        lambda native: native.mark(np.zeros(2, np.uint8), np.array([2], np.int32), 0),
        lambda native: native.mark(np.zeros(2, np.uint8), np.array([-1], np.int8), 0),
        lambda native: native.mark(np.zeros(2, np.int16), np.array([0], np.int8), 0),
        lambda native: native.mark(np.zeros(2, np.uint8)),
        lambda native: native.take(ints([5]), np.array([1], np.int32), ints([0])),
        lambda native: native.take(ints([5]), np.array([-1], np.int32), ints([0])),
        lambda native: native.take(ints([5]), ints([0]), ints([0])),
        lambda native: native.take(ints([5]), np.array([0], np.int32), np.zeros(1, np.int8)),
        lambda native: native.in_order(ints([0]), ints([1]), ints([0, 0]), ints([0]), ints([0]), np.zeros(1, np.int32)),
        lambda native: native.in_order(ints([0]), ints([1]), ints([0]), ints([0]), ints([0]), ints([0])),
        lambda native: native.in_order(ints([0]), ints([1]), ints([0]), ints([0]), ints([]), np.zeros(1, np.int32)),
        lambda native: native.in_order(*[ints([])] * 5),
        lambda native: native.in_order(*[ints([])] * 14, np.zeros(0, np.int32)),
        lambda native: native.calls(
            ints([0]), ints([1]), np.zeros(1, np.int8), ints([0]), ints([0]), ints([0]), np.zeros(1, np.int8), 0
        ),
        lambda native: native.split(ints([0]), ints([1]), np.zeros(1, np.int8), ints([0]), ints([1]), ints([0]), 5, 2),
    ],
)
def test_columns_that_do_not_belong_together_are_refused(misuse: Callable[[Any], object]) -> None:
    """A mistake of ours must be an exception, never a write beyond an array."""
    with pytest.raises((ValueError, IndexError, TypeError)):
        misuse(_sweep)


def test_a_read_only_column_is_not_written() -> None:
    kept = joins.same(0, 3)
    with pytest.raises((ValueError, BufferError)):
        _sweep.shares(ints([1, 2, 3]), ints([2, 3, 4]), kept, ints([0, 0, 0]))


def test_columns_of_one_value() -> None:
    one = joins.same(7, 5)
    assert joins.is_same(one)
    assert not joins.is_same(np.full(5, 7))
    assert joins.is_same(joins.take(one, np.array([0, 3])))
    assert joins.take(one, np.array([True, False, True, False, False])).tolist() == [7, 7]
    assert joins.is_same(joins.one_after_another([one, joins.same(7, 2)]))
    assert joins.one_after_another([one[:2], joins.same(8, 1)]).tolist() == [7, 7, 8]
    assert joins.by_row(lambda values: values + 1, one).tolist() == [8] * 5
    assert joins.distinct(one).tolist() == [7]
    assert joins.equal(one, 7).all()
