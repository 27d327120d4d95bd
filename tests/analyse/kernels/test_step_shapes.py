"""Kernels are told apart by shape as long as there are not too many of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.kernels import step_kernels
from gpuledger.analyse.kernels.step_kernels import telling_shapes
from gpuledger.trace.keys import group

SHAPES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6), st.integers(1, 3)), max_size=60)


def _kinds(name: np.ndarray, grid: np.ndarray, block: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(row) for row in np.column_stack((name, grid, block)).tolist()}


@given(SHAPES, st.integers(1, 12))
def test_no_more_kinds_than_are_allowed_and_shapes_are_kept_where_they_can_be(
    launched: list[tuple[int, int, int]], most: int
) -> None:
    rows = np.array(launched, np.int64).reshape(-1, 3)
    name, grid, block = rows[:, 0], np.ones((len(rows), 3), np.int64), np.ones((len(rows), 3), np.int64)
    grid[:, 0], block[:, 0] = rows[:, 1], rows[:, 2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_kernels, "MOST_SHAPES", most)
        known, number = telling_shapes(name, group(*grid.T, *block.T)[1])
    told = grid * known[:, np.newaxis], block * known[:, np.newaxis]
    kinds = _kinds(name, *told)
    assert number.tolist() == [sorted(kinds).index(kind) for kind in zip(name, *told[0].T, *told[1].T, strict=True)]
    before, names = _kinds(name, grid, block), len(set(name.tolist()))
    assert len(kinds) <= max(most, names)
    if len(before) <= most:
        assert kinds == before
    folded = {kind[0] for kind in kinds if not any(kind[1:])}
    assert {kind for kind in kinds if kind[0] not in folded} == {kind for kind in before if kind[0] not in folded}
    shapes = {code: sum(kind[0] == code for kind in before) for code in {kind[0] for kind in before}}
    assert all(shapes[code] >= shapes[other] for code in folded for other in shapes.keys() - folded)
