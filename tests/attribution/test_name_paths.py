"""Paths of names in a forest, and stretches that repeat, against a look at every member and every stretch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.attribution.launch_places import longest_repeat
from gpuledger.attribution.ranges import NamePaths, folded_names
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.traces.trace_notation import table

forests = st.lists(st.tuples(st.integers(-1, 8), st.integers(0, 2), st.integers(0, 9)), max_size=9).map(
    lambda rows: [(min(above, place - 1), name, weight) for place, (above, name, weight) in enumerate(rows)]
)


@given(forests)
def test_paths_are_the_names_from_the_outermost_down(rows: list[tuple[int, int, int]]) -> None:
    path_of: list[tuple[int, ...]] = []
    for above, name, _ in rows:
        path_of.append((*(path_of[above] if above >= 0 else ()), name))
    parent, names, weight = (
        (np.array(column, np.int64) for column in zip(*rows, strict=True))
        if rows
        else (np.empty(0, np.int64) for _ in range(3))
    )
    paths = NamePaths(parent, names)
    spelled: list[tuple[int, ...]] = []
    for above, name in zip(paths.parent.tolist(), paths.name.tolist(), strict=True):
        spelled.append((*(spelled[above] if above >= 0 else ()), name))
    assert sorted(spelled) == sorted(set(path_of))
    assert [spelled[number] for number in paths.of_row[:-1].tolist()] == path_of
    assert paths.of_row[-1] == -1
    assert paths.depth.tolist() == [len(path) - 1 for path in spelled]
    own = Counter[tuple[int, ...]]()
    for path, amount in zip(path_of, weight.tolist(), strict=True):
        own[path] += amount
    sums = paths.sums(weight)
    assert sums.tolist() == [own[path] for path in spelled]
    inside = [[other for other in spelled if other[: len(path)] == path] for path in spelled]
    assert paths.with_inner(sums).tolist() == [sum(own[other] for other in others) for others in inside]
    assert paths.least_inner(sums).tolist() == [min(own[other] for other in others) for others in inside]
    texts = ["cab"[path[-1]] for path in spelled]

    def written(above: tuple[int, ...]) -> list[tuple[int, ...]]:
        children = [path for path in spelled if path[:-1] == above and len(path) == len(above) + 1]
        ordered = sorted(children, key=lambda path: (-own[path], "cab"[path[-1]]))
        return [line for path in ordered for line in (path, *written(path))]

    assert [spelled[number] for number in paths.in_order(sums, texts).tolist()] == written(())


@given(st.lists(st.integers(0, 2), max_size=24))
def test_the_longest_repeat_is_that_of_all_stretches(names: list[int]) -> None:
    best: tuple[int, int, int] | None = None
    for period in range(2, len(names) // 3 + 1):
        most: tuple[int, int] | None = None
        for begin in range(len(names) - period):
            length = 0
            while begin + length + period < len(names) and names[begin + length] == names[begin + length + period]:
                length += 1
            if length and (most is None or length > most[1]):
                most = begin, length
        count = most[1] // period + 1 if most else 0
        if most and count >= 3 and (best is None or count * period > best[1] * best[2]):
            best = most[0], period, count
    assert longest_repeat(np.array(names, np.int64)) == best


def test_layers_are_three_at_least_of_two_kernels() -> None:
    assert longest_repeat(np.array([9, 1, 2, 1, 2, 1, 2, 8])) == (1, 2, 3)
    assert longest_repeat(np.array([9, 1, 2, 1, 2, 8, 7, 6])) is None
    assert longest_repeat(np.array([1] * 8)) == (0, 2, 4)


@pytest.mark.parametrize(
    ("kind", "names", "expected"),
    [
        ("push_pop", ["step 7", "step 8"], ["step #"]),
        ("push_pop", ["step 7", "step 7"], ["step 7"]),  # a name that stands alone keeps its numbers
        ("op", ["aten::conv2d", "aten::conv3d"], ["aten::conv2d", "aten::conv3d"]),
        ("op", ["Optimizer 1", "Optimizer 2"], ["Optimizer #"]),
        ("push_pop", ["aten::conv2d, seq = 3", "aten::conv2d, seq = 4"], ["aten::conv2d"]),
        ("python", ["nn.Module: Linear_0", "nn.Module: Linear_12"], ["nn.Module: Linear_#"]),
        ("python", ["f <A object at 0x7f01>", "f <A object at 0x7f02>"], ["f <A>"]),
        ("python", ["run2 (a.py:3)", "run3 (a.py:3)"], ["run2 (a.py:3)", "run3 (a.py:3)"]),
    ],
)
def test_what_differs_from_time_to_time_is_folded_out_of_names(
    kind: str, names: list[str], expected: list[str]
) -> None:
    strings = Strings(dict.fromkeys([*names, kind]))
    rows = table(Table.RANGES, strings, len(names), name=names, kind=[kind] * len(names))
    found, position = folded_names(rows)
    assert found == expected
    assert len({*position.tolist()}) == len(expected)
