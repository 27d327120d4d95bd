"""Work side by side: results in order, whether or not a thread was worth it."""

from __future__ import annotations

import threading

import pytest

from gpuledger.trace.sweep import WORTH_A_THREAD, side_by_side

FEW, MANY = WORTH_A_THREAD - 1, WORTH_A_THREAD


@pytest.mark.parametrize(("rows", "is_beside"), [(0, False), (FEW, False), (MANY, True)])
def test_a_thread_is_started_only_for_many_rows(rows: int, is_beside: bool) -> None:
    first, second = side_by_side(rows, threading.get_ident, threading.get_ident)

    assert second == threading.get_ident()
    assert (first != second) is is_beside


@pytest.mark.parametrize("rows", [FEW, MANY])
def test_what_either_raises_is_raised(rows: int) -> None:
    with pytest.raises(ZeroDivisionError):
        side_by_side(rows, lambda: 1 // 0, lambda: 2)
    with pytest.raises(ZeroDivisionError):
        side_by_side(rows, lambda: 1, lambda: 2 // 0)
