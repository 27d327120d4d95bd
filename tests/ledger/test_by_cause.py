"""Time by cause equals a plain matrix of rows and causes, whatever is booked."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.ledger.causes import ByCause, Cause

CAUSES = (Cause.SYNC, Cause.LOAD, Cause.GRAPH, Cause.TAIL)
bookings = st.lists(
    st.tuples(st.sampled_from(CAUSES), st.dictionaries(st.integers(0, 7), st.integers(0, 50))), max_size=9
)


@given(bookings, st.lists(st.integers(0, 7), unique=True))
def test_it_equals_a_matrix(made: list[tuple[Cause, dict[int, int]]], some: list[int]) -> None:
    found, plain = ByCause(8, CAUSES), np.zeros((8, len(CAUSES)), np.int64)
    for cause, amounts in made:
        rows, values = np.array([*amounts], np.intp), np.array([*amounts.values()], np.int64)
        found.add(cause, rows, values)
        plain[rows, CAUSES.index(cause)] += values
    for at, cause in enumerate(CAUSES):
        np.testing.assert_array_equal(found.of(cause), plain[:, at])
    np.testing.assert_array_equal(found.total(), plain.sum(axis=1))
    np.testing.assert_array_equal(found.total(Cause.SYNC, Cause.TAIL), plain[:, 0] + plain[:, 3])
    np.testing.assert_array_equal(found.largest(), plain.argmax(axis=1))
    rows = np.array(some, np.intp)
    assert found.sums(rows) == {
        cause: int(plain[rows, at].sum()) for at, cause in enumerate(CAUSES) if plain[rows, at].any()
    }
    assert sum(found.sums().values()) == plain.sum()
    assert found.used == [cause for at, cause in enumerate(CAUSES) if plain[:, at].any()]


def test_what_has_no_time_takes_no_room() -> None:
    found = ByCause(10**9, CAUSES)
    found.add(Cause.SYNC, np.arange(3), np.zeros(3, np.int64))
    assert found.used == []
    assert len(found) == len(found.of(Cause.SYNC)) == 10**9
