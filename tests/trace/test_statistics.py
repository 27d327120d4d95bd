"""Statistics of groups, and the largest of many values, against plain Python."""

from __future__ import annotations

import statistics
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.trace.statistics import largest, median, percentile_in_order, summarise

values = st.lists(st.integers(-9, 9), max_size=12)


def test_the_largest_come_first_and_of_equals_the_first() -> None:
    assert largest(np.array([3, 9, 1, 9, 3]), 3).tolist() == [1, 3, 0]


@given(values, st.integers(0, 15))
def test_the_largest_are_those_of_a_sorted_list(drawn: list[int], count: int) -> None:
    expected = sorted(range(len(drawn)), key=lambda place: -drawn[place])[:count]
    assert largest(np.array(drawn, np.int64), count).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**40), 2**40)), min_size=1, max_size=12))
def test_each_group_has_its_own_figures(drawn: list[tuple[int, int]]) -> None:
    names = sorted({group for group, _ in drawn})
    number = np.array([names.index(group) for group, _ in drawn])
    with patch("gpuledger.trace.sweep._AT_ONCE", 3):
        found = summarise(np.array([value for _, value in drawn], np.int64), number)
    for name, figures in zip(names, found, strict=True):
        own = [value for group, value in drawn if group == name]
        assert (figures.count, figures.total, figures.least, figures.most) == (len(own), sum(own), min(own), max(own))
        assert figures.median == pytest.approx(statistics.median(own))
        assert figures.deviation == pytest.approx(statistics.stdev(own) if len(own) > 1 else 0, abs=1e-3)


def test_the_values_given_stay_as_they_are() -> None:
    given_values = np.array([5, 1, 3])
    given_values.flags.writeable = False
    assert [figures.total for figures in summarise(given_values, np.array([0, 0, 1]))] == [6, 3]
    far_apart = np.array([0, 2**62, 7])
    assert [figures.total for figures in summarise(far_apart, np.array([0, 4, 2]) // 2)] == [0, 7, 2**62]
    assert far_apart.tolist() == [0, 2**62, 7]


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1), st.integers(0, 100))
def test_a_percentile_of_what_is_in_order_is_that_of_numpy_and_at_50_the_median(
    values: list[int], percent: int
) -> None:
    ordered = np.sort(np.array(values, np.int64))
    said, room = percentile_in_order(ordered, percent), 1e-9 * max(map(abs, values)) + 1e-9
    assert said == pytest.approx(np.percentile(ordered.astype(float), percent), abs=room)
    assert percentile_in_order(ordered, 50) == pytest.approx(median(ordered.astype(float)), abs=room)
