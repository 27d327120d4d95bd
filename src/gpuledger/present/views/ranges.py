"""Ranges as a table: a tree by name, host and GPU time, launches and waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.analyse.range_tree import RangeNode, RangeRole, RangeTree, range_shares
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.messages import Message, say
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit

_COLUMNS: Final = (
    Column("range", say("Range"), Unit.TEXT),
    Column("instances", say("Instances"), Unit.COUNT),
    Column("host_ns", say("Host"), Unit.NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("gpu_ns", "GPU", Unit.NS, page_name=say("GPU time")),
    Column("gpu_own_ns", say("GPU, own"), Unit.NS, detail=2),
    Column("launches", say("Launches"), Unit.COUNT, detail=1),
    Column("syncs", say("Waits"), Unit.COUNT, detail=3),
)

_PRINTED: Final = (
    Column("range", say("Range"), Unit.TEXT),
    Column("instances", say("Instances"), Unit.COUNT),
    Column("host_ns", say("Host"), Unit.NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("role", say("Role"), Unit.TEXT, detail=1),
)

_ROLES: Final = {
    RangeRole.PART: say("part of the whole"),
    RangeRole.HOLDS: say("holds the others"),
    RangeRole.LIBRARY: say("a library's"),
    RangeRole.SET_UP: say("set-up"),
}

_USED: Final = {
    GpuMetric.SM_ACTIVE: say("SMs active"),
    GpuMetric.TENSOR: say("Tensor"),
    GpuMetric.DRAM_READ: say("DRAM read"),
    GpuMetric.DRAM_WRITE: say("DRAM write"),
}
"""What kernels use, shown where it was sampled."""

_DEEPEST: Final = 100
"""Levels that are indented: with more, what is printed would grow with the square of the ranges."""

OUTSIDE: Final[Message] = say("(in no range)")


def ranges_sheet(tree: RangeTree) -> Sheet:
    """The ranges of the whole window by their path in the tree, and what was launched in none."""
    return sheet_of_nodes(tree, tree.nodes, with_outside=True)


def printed_ranges_sheet(side: RunSide) -> Sheet:
    """The ranges of tables that `nsys stats` printed, with their shares of the program's own, set-up left out."""
    shares = range_shares(side)
    rows = tuple(
        (
            run_range.name,
            run_range.instances,
            run_range.host_ns,
            None if (share := shares.share(run_range)) is None else 100 * share,
            _ROLES[shares.roles[run_range.name]],
        )
        for run_range in side.ranges or ()
    )
    foot = ((say("whole"), None, shares.whole_ns, 100.0 if shares.whole_ns else None, ""),)
    title = say("Ranges, as `nsys stats` printed them (shares of the program's own, setup left out)")
    return Sheet("ranges", title, _PRINTED, rows, foot)


def sheet_of_nodes(tree: RangeTree, nodes: Iterable[RangeNode], *, with_outside: bool) -> Sheet:
    """Some nodes of the tree."""
    used = tuple(_USED) if any(node.use_percent for node in tree.nodes) else ()
    rows = [(*_row(node), *map(node.use_percent.get, used)) for node in nodes]
    if with_outside:
        outside = tree.outside_gpu_ns
        blank = (None,) * len(used)
        rows.append((OUTSIDE, None, None, None, outside, outside, tree.outside_launches, None, *blank))
    measured = (Column(f"{metric}_percent", _USED[metric], Unit.SHARE_PERCENT, detail=1) for metric in used)
    title = say("Ranges, GPU {gpu}", gpu=tree.gpu)
    if used:
        title = say("Ranges, GPU {gpu} (percent of peak while their kernels ran, from samples)", gpu=tree.gpu)
    return Sheet(f"ranges_gpu{tree.gpu}", title, (*_COLUMNS, *measured), tuple(rows))


def _row(node: RangeNode) -> tuple[Cell, ...]:
    depth = min(node.depth, _DEEPEST)
    return (
        Term("  " * depth + node.name, node.name, depth=depth),
        node.instances,
        node.host_ns,
        None if node.steady_share is None else 100 * node.steady_share,
        node.gpu_ns,
        node.own_gpu_ns,
        node.launches,
        node.waits,
    )
