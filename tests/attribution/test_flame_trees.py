"""Trees of time: children under their parents, no more than these have, and all work that was launched inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.attribution import flame_trees
from gpuledger.attribution.flame_trees import FlameTree, TreeKind
from gpuledger.attribution.ranges import NamePaths
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.trace.tables import Table
from gpuledger.verbs.report import build_report
from support.pages.html_pages import named_export


def tree_of(path: Path) -> FlameTree:
    trace = open_trace(path)
    [device] = build_report(trace, "run", Selection()).devices
    tree, families = flame_trees.flame_trees(trace, device)
    assert families.kind is TreeKind.FAMILIES
    return tree


def test_ranges_hold_their_kernels(tmp_path: Path) -> None:
    tree = tree_of(named_export(tmp_path / "x.sqlite", ["gemm", "k<float>"], steps=3, ranges=["layer"]))
    assert tree.kind is TreeKind.RANGES
    rows = list(zip(tree.names, tree.parent.tolist(), tree.gpu_ns.tolist(), strict=True))
    assert rows == [("step", -1, 6_000), ("layer", 0, 6_000), ("gemm", 1, 3_000), ("k", 1, 3_000)]
    assert tree.host.tolist()[2:] == [0, 0]
    assert tree.family == ("", "", "gemm", "other")


def test_too_many_pairs_of_path_and_kernel_are_sorted_and_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = named_export(tmp_path / "x.sqlite", ["gemm", "k<float>"], steps=3, ranges=["layer"])
    counted = tree_of(path)
    monkeypatch.setattr(flame_trees, "_LARGEST_GRID", 0)
    paired = tree_of(path)
    assert (paired.names, paired.gpu_ns.tolist()) == (counted.names, counted.gpu_ns.tolist())


def test_stacks_of_calls_hold_what_the_calls_launched(unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked("host_read_stacks.sqlite"))
    [device] = build_report(trace, "run", Selection()).devices
    trees = {tree.kind: tree for tree in flame_trees.flame_trees(trace, device)}
    assert list(trees)[:2] == [TreeKind.IDLE_STACKS, TreeKind.RANGES]
    stacks = trees[TreeKind.CALL_STACKS]
    with_stack = device.host.calls["stack"][device.work.launch] >= 0
    launched_ns = (device.work.end_ns - device.work.start_ns)[with_stack & (device.work.launch >= 0)]
    named = np.array([bool(name) for name in stacks.names])
    assert stacks.gpu_ns[(stacks.parent < 0) & named].sum() == launched_ns.sum() > 0
    whole_ns = (device.work.end_ns - device.work.start_ns).sum()
    for kind in (TreeKind.RANGES, TreeKind.CALL_STACKS, TreeKind.FAMILIES):
        assert trees[kind].gpu_ns[trees[kind].parent < 0].sum() == whole_ns, "a flame graph is of all GPU time"
    inside = np.flatnonzero(stacks.parent >= 0)
    assert (stacks.gpu_ns[inside] <= stacks.gpu_ns[stacks.parent[inside]]).all()


@given(st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 2), st.integers(0, 9)), max_size=8))
def test_paths_hold_what_is_under_them_and_are_written_parents_first(drawn: list[tuple[int, int, int]]) -> None:
    parent = np.array([min(above, row - 1) for row, (above, *_) in enumerate(drawn)], np.intp)
    name, amount = (np.array([each[column] for each in drawn], np.int64) for column in (1, 2))
    paths = NamePaths(parent, name)
    whole = paths.with_inner(paths.sums(amount))
    assert whole[paths.parent < 0].sum() == amount.sum()
    order = paths.in_order(whole, [str(number) for number in paths.name.tolist()]).tolist()
    assert sorted(order) == list(range(len(paths)))
    for place, path in enumerate(order):
        above = int(paths.parent[path])
        assert above < 0 or (order.index(above) < place and whole[above] >= whole[path])
        between = order[order.index(above) + 1 : place] if above >= 0 else order[:place]
        siblings = [other for other in between if paths.parent[other] == above]
        assert all(whole[other] >= whole[path] for other in siblings)


def test_work_outside_all_ranges_is_a_frame_and_families_come_first_where_most_is(tmp_path: Path) -> None:
    path = named_export(tmp_path / "x.sqlite", ["gemm", "softmax"], steps=3, ranges=["layer"])
    trace = open_trace(path)
    short = trace[Table.RANGES].where(np.arange(len(trace[Table.RANGES])) < 2)  # of the first step
    trace = replace(trace, tables={**trace.tables, Table.RANGES: short})
    [device] = build_report(trace, "run", Selection()).devices
    families, ranges = flame_trees.flame_trees(trace, device)
    roots = [
        (name, time) for name, above, time in zip(ranges.names, ranges.parent, ranges.gpu_ns, strict=True) if above < 0
    ]
    assert roots == [("step", 2_000), ("", 4_000)]
    assert [(families.names[node], int(families.gpu_ns[node])) for node in np.flatnonzero(families.parent < 0)] == [
        ("gemm", 3_000),
        ("softmax", 3_000),
    ]


def test_a_tree_of_any_size_is_cut_to_its_largest_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"kernel_{'abcdefgh'[number]}" for number in range(8)]
    path = named_export(tmp_path / "x.sqlite", names, steps=2, ranges=["outer", "inner"])
    monkeypatch.setattr(flame_trees, "MOST_NODES", 4)
    tree = tree_of(path)
    assert tree.names[:3] == ("step", "outer", "inner")
    assert (tree.parent < np.arange(len(tree))).all()
