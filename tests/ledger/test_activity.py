"""Activities ask their tables for a few rows as they would for all."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.ledger.activity import Activities, activities
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.traces.trace_notation import of_tables, table

ON_GPU = (Table.KERNELS, Table.COPIES, Table.GRAPHS)
rows = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.integers(0, 3)), max_size=6)


def made(*tables: list[tuple[int, int, int]]) -> Activities:
    """Activities of kernels, copies and graphs: when each began, how long it took, and its correlation id."""
    strings = Strings(("k",))
    filled = {
        which: table(
            which,
            strings,
            len(given_rows),
            start_ns=[start for start, _, _ in given_rows],
            end_ns=[start + length for start, length, _ in given_rows],
            correlation=[correlation for _, _, correlation in given_rows],
        )
        for which, given_rows in zip(ON_GPU, tables, strict=True)
    }
    return activities(of_tables(strings, filled))


def test_a_row_is_that_of_its_own_table() -> None:
    work = made([(20, 1, 7)], [(0, 1, 8), (10, 1, 9)], [(5, 1, 7)])
    assert work.row_at(np.arange(4)).tolist() == [0, 0, 1, 0]
    assert work.gathered_at("correlation", np.array([3, 2])).tolist() == [7, 9]
    assert work.with_correlation(7).tolist() == [1, 3]


@given(rows, rows, rows, st.integers(0, 3))
def test_some_rows_are_those_of_the_whole_column(
    kernels: list[tuple[int, int, int]],
    copies: list[tuple[int, int, int]],
    graphs: list[tuple[int, int, int]],
    correlation: int,
) -> None:
    work = made(kernels, copies, graphs)
    every = np.arange(len(work))[::-1]
    assert work.gathered_at("correlation", every).tolist() == work.correlation.tolist()[::-1]
    assert work.row_at(every).tolist() == work.row.tolist()[::-1]
    carrying = [place for place, carried in enumerate(work.correlation.tolist()) if carried == correlation]
    assert work.with_correlation(correlation).tolist() == carrying
