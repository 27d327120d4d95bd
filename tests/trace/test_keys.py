"""Grouping and joining on several columns, against plain Python."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.errors import TooManyPairs
from gpuledger.trace.keys import RowsByKey, group, is_among, join, last_match, leave_out

rows = st.lists(st.tuples(st.integers(-2, 3), st.integers(-2, 3)), max_size=15)


def split(given_rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(given_rows, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def test_groups_are_numbered_in_the_order_of_their_keys() -> None:
    first, number = group(*split([(2, 1), (1, 9), (2, 1), (1, 3)]))
    assert number.tolist() == [2, 1, 2, 0]
    assert first.tolist() == [3, 1, 0]


@given(rows)
def test_rows_share_a_group_when_their_keys_are_equal(given_rows: list[tuple[int, int]]) -> None:
    first, number = group(*split(given_rows))
    assert [given_rows[first[each]] for each in number.tolist()] == given_rows
    assert len(first) == len(set(given_rows))


@pytest.mark.parametrize("most", [3, 60])  # a few keys, and so many that rows are sorted
@given(data=st.data())
def test_rows_by_key_are_those_that_hold_it(data: st.DataObject, most: int) -> None:
    keys = np.array(data.draw(st.lists(st.integers(-most, most), max_size=3 * most)), np.int64)
    found = RowsByKey.of(keys)
    expected = [(key, np.flatnonzero(keys == key).tolist()) for key in sorted(set(keys.tolist()))]
    assert [(key, positions.tolist()) for key, positions in found] == expected
    assert all(found.rows(key).tolist() == positions for key, positions in expected)
    assert not len(found.rows(most + 1))


@given(rows, rows)
def test_a_join_holds_each_pair_of_equal_keys_once(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    found = list(zip(*(each.tolist() for each in join(*split(left), *split(right))), strict=True))
    assert sorted(found) == [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b]
    assert [i for i, _ in found] == sorted(i for i, _ in found)


@given(rows, rows)
def test_the_last_match_is_the_last_row_with_the_key(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    last = {key: row for row, key in enumerate(right)}
    assert last_match(*split(left), *split(right)).tolist() == [last.get(key, -1) for key in left]


def test_a_join_of_one_key_with_itself_is_refused_before_it_takes_room() -> None:
    """Half a gigabyte for each of its columns, of two columns of 64 kB."""
    key = np.zeros(8000, np.int64)
    tracemalloc.start()
    try:
        with pytest.raises(TooManyPairs, match=r"16,000 rows of the profile pair up 64,000,000 times"):
            join(key, key, key, key)
        assert tracemalloc.get_traced_memory()[1] < 200 * key.nbytes
    finally:
        tracemalloc.stop()


@given(st.lists(st.integers(-(2**40), 2**40)), st.lists(st.integers(-5, 5)), st.lists(st.integers(-5, 5)))
def test_members_are_those_that_numpy_finds(far: list[int], near: list[int], others: list[int]) -> None:
    for values, among in ((far, far[::2]), (near, others), (far, []), ([], near)):
        given_values = np.array(values, np.int64)
        expected = np.isin(given_values, among)
        assert is_among(given_values, among).tolist() == expected.tolist()
        assert leave_out(given_values, np.array(among, np.int64)).tolist() == sorted(set(values) - set(among))
    for dtype in (np.int8, np.int32):
        wide = [*others, 300, -(2**40), -(2**63), *range(-2, 4)]
        assert is_among(np.array(near, dtype), wide).tolist() == [value in wide for value in near]
    edge = np.array([-(2**63), 2**63 - 1, 0, *near], np.int64)
    low = [-(2**63) + value for value in range(9)]
    assert is_among(edge, low).tolist() == [value in low for value in edge.tolist()]
