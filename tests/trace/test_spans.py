"""Interval arithmetic: examples, and laws against plain sets of instants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.trace.spans import (
    Span,
    Spans,
    clip,
    complement,
    depths,
    intersection,
    pairs_inside,
    parents,
    shortest_around,
    total,
    union,
)

Pairs = list[tuple[int, int]]

pairs = st.lists(st.tuples(st.integers(-20, 40), st.integers(-20, 40)), max_size=12)
windows = st.tuples(st.integers(-25, 45), st.integers(0, 40)).map(lambda each: Span(each[0], each[0] + each[1]))


def spans(given: Pairs) -> Spans:
    return union([start for start, _ in given], [end for _, end in given])


def instants(given: Pairs) -> set[int]:
    return {instant for start, end in given for instant in range(start, end)}


def covered(found: Spans) -> set[int]:
    return instants(list(found))


def test_overlapping_and_touching_spans_become_one() -> None:
    assert list(spans([(0, 10), (5, 15), (15, 20), (30, 40)])) == [(0, 20), (30, 40)]


def test_a_long_span_hides_what_lies_in_it() -> None:
    assert list(spans([(0, 100), (10, 20), (30, 40), (99, 101)])) == [(0, 101)]


def test_complement_is_the_idle_time() -> None:
    assert list(complement(spans([(5, 10), (20, 30)]), Span(0, 25))) == [(0, 5), (10, 20)]


def test_nothing_leaves_the_window_free() -> None:
    assert list(complement(spans([]), Span(3, 7))) == [(3, 7)]


@given(pairs)
def test_union_covers_the_same_instants_in_normal_form(given_pairs: Pairs) -> None:
    found = spans(given_pairs)
    assert covered(found) == instants(given_pairs)
    assert total(found) == len(instants(given_pairs))
    assert all(start < end for start, end in found)
    assert all(end < start for end, start in zip(found.end_ns[:-1], found.start_ns[1:], strict=True))


@given(pairs, pairs)
def test_intersection_holds_the_common_instants(a: Pairs, b: Pairs) -> None:
    assert covered(intersection(spans(a), spans(b))) == instants(a) & instants(b)
    assert intersection(spans(a), spans(b)) == intersection(spans(b), spans(a))


@given(pairs, windows)
def test_clip_and_complement_fill_the_window(given_pairs: Pairs, window: Span) -> None:
    inside, outside = clip(spans(given_pairs), window), complement(spans(given_pairs), window)
    assert covered(inside) == instants(given_pairs) & instants([window])
    assert covered(outside) == instants([window]) - instants(given_pairs)
    assert total(inside) + total(outside) == window.end_ns - window.start_ns


@given(pairs, st.integers(-1000, 1000))
def test_shifting_time_changes_no_length(given_pairs: Pairs, shift: int) -> None:
    moved = [(start + shift, end + shift) for start, end in given_pairs]
    assert total(spans(moved)) == total(spans(given_pairs))


@given(st.permutations([(0, 5), (3, 9), (9, 12), (20, 21), (-4, -1)]))
def test_the_order_of_spans_does_not_matter(given_pairs: Pairs) -> None:
    assert spans(given_pairs) == spans(sorted(given_pairs))


records = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 8), st.integers(0, 1)).map(lambda r: (r[0], r[0] + r[1], r[2])),
    max_size=9,
)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


@given(records)
def test_a_parent_is_the_shortest_other_record_that_encloses(rows: list[tuple[int, int, int]]) -> None:
    found = parents(*columns(rows)).tolist()
    for at, (start, end, group) in enumerate(rows):
        enclosing = [
            (e - s, other)
            for other, (s, e, g) in enumerate(rows)
            if g == group and other != at and s <= start and end <= e and ((s, e) != (start, end) or other < at)
        ]
        if not enclosing:
            assert found[at] == -1
            continue
        length, first = min(enclosing)
        if length == end - start:
            assert found[at] == max(other for _, other in enclosing if rows[other] == rows[at])
        else:
            assert found[at] == max(other for _, other in enclosing if rows[other] == rows[first])


@given(records)
def test_parents_form_a_forest(rows: list[tuple[int, int, int]]) -> None:
    parent = parents(*columns(rows))
    assert (depths(parent) <= len(rows)).all()  # ends only if there is no cycle
    assert all((parent[at] < 0) == (depth == 0) for at, depth in enumerate(depths(parent).tolist()))


def test_neatly_nested_records_need_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    import gpuledger.trace.spans as module

    monkeypatch.setattr(module, "_parents_one_by_one", lambda *_: pytest.fail("went one by one"))
    rows = [(0, 100, 0), (0, 50, 0), (10, 20, 0), (50, 100, 0), (20, 30, 0), (0, 90, 1), (5, 6, 1)]
    assert parents(*columns(rows)).tolist() == [-1, 0, 1, 0, 1, -1, 5]


@pytest.mark.parametrize("last_is_empty", [False, True])
def test_a_hundred_thousand_ranges_left_open_are_no_burden(last_is_empty: bool) -> None:
    count = 100_000
    start = np.arange(count)
    end = np.full(count, count - last_is_empty)
    assert depths(parents(start, end, np.zeros(count, np.int64))).tolist() == list(range(count))


def test_thousands_of_overlapping_ranges_are_no_burden() -> None:
    count = 50_000
    start = np.arange(count)
    assert (parents(start, start + 5000, np.zeros(count, np.int64)) == -1).all()


@given(records, records)
def test_pairs_inside_are_all_and_only_those(
    outer: list[tuple[int, int, int]], inner: list[tuple[int, int, int]]
) -> None:
    found = pairs_inside(*columns(outer), *columns(inner))
    expected = {
        (o, i)
        for o, (start, end, group) in enumerate(outer)
        for i, (s, e, g) in enumerate(inner)
        if group == g and start <= s and e <= end
    }
    assert set(zip(*(each.tolist() for each in found), strict=True)) == expected
    assert len(found[0]) == len(expected)


@given(records, records)
def test_the_shortest_around_is_of_the_pairs_inside(
    outer: list[tuple[int, int, int]], inner: list[tuple[int, int, int]]
) -> None:
    around: dict[int, list[tuple[int, int]]] = {}
    for holder, held in zip(*(each.tolist() for each in pairs_inside(*columns(outer), *columns(inner))), strict=True):
        around.setdefault(held, []).append((outer[holder][1] - outer[holder][0], -holder))
    expected = [-min(around[held])[1] if held in around else -1 for held in range(len(inner))]
    assert shortest_around(*columns(outer), *columns(inner)).tolist() == expected
