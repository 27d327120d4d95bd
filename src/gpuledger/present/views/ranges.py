"""Ranges as a table: a tree by name, host and GPU time, launches and waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuledger.analyse.range_tree import RangeNode, RangeTree
from gpuledger.messages import Message, say
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit

_COLUMNS: Final = (
    Column("range", say("Range"), Unit.TEXT),
    Column("instances", say("Instances"), Unit.COUNT),
    Column("host_ns", say("Host"), Unit.NS),
    Column("gpu_ns", "GPU", Unit.NS, page_name=say("GPU time")),
    Column("gpu_own_ns", say("GPU, own"), Unit.NS, detail=1),
    Column("launches", say("Launches"), Unit.COUNT),
    Column("syncs", say("Waits"), Unit.COUNT, detail=2),
)

OUTSIDE: Final[Message] = say("(in no range)")


def ranges_sheet(tree: RangeTree) -> Sheet:
    """The ranges of the whole window by their path in the tree, and what was launched in none."""
    return sheet_of_nodes(tree, tree.nodes, with_outside=True)


def sheet_of_nodes(tree: RangeTree, nodes: Iterable[RangeNode], *, with_outside: bool) -> Sheet:
    """Some nodes of the tree."""
    rows = [_row(node) for node in nodes]
    if with_outside:
        outside = tree.outside_gpu_ns
        rows.append((OUTSIDE, None, None, outside, outside, tree.outside_launches, None))
    return Sheet(f"ranges_gpu{tree.gpu}", f"Ranges, GPU {tree.gpu}", _COLUMNS, tuple(rows))


def _row(node: RangeNode) -> tuple[Cell, ...]:
    return (
        Term("  " * node.depth + node.name, node.name, depth=node.depth),
        node.instances,
        node.host_ns,
        node.gpu_ns,
        node.own_gpu_ns,
        node.launches,
        node.waits,
    )
