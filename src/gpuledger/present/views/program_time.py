"""What the program does with one GPU: its launches, copies and allocations, and ranges.

Answers in, a `TableAnswer` out: the first sentence answers the question, the others say what to change or where to
look, and the tables under them have the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gpuledger.analyse.range_tree import RangeNode, RangeRole, RangeShares, RangeTree
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.kernel_names import cut_label
from gpuledger.messages import Message, joined, say
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit, share_column
from gpuledger.present.views.tables import TableAnswer
from gpuledger.present.views.words import (
    Sentences,
)
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.diff.run_side import RunSide

NAMED: Final = 3
"""So many of the largest parts are named in a sentence."""


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

MOST_RANGES: Final = 50_000
"""So many paths of names are listed: 10 MB of JSON. `query` has every range."""

OUTSIDE: Final[Message] = say("(in no range)")


def ranges_tables(tree: RangeTree) -> TableAnswer:
    """Host and GPU time by range."""
    return TableAnswer(_range_sentences(tree), (ranges_sheet(tree),))


def _range_sentences(tree: RangeTree) -> Sentences:
    """Which ranges launch the most GPU time."""
    own: Counter[str] = Counter()
    for node in tree.nodes:
        own[node.name] += node.own_gpu_ns
    whole_ns = sum(own.values()) + tree.outside_gpu_ns
    if not tree.nodes:
        return (
            say("GPU {gpu}: no ranges were recorded.", gpu=tree.gpu),
            say("Fix: mark the program with NVTX ranges (`nvtxRangePush`, `nvtx.annotate`), and record again."),
        )
    if not whole_ns:
        return (say("GPU {gpu}: no GPU work in the window.", gpu=tree.gpu),)
    if not sum(own.values()):
        return (say("GPU {gpu}: no GPU work was launched in a range.", gpu=tree.gpu),)
    largest = [(cut_label(name), time_ns) for name, time_ns in own.most_common(NAMED) if time_ns]
    return (
        say(
            "GPU {gpu}: {share} of {time} of GPU time was launched inside ranges, most of it in "
            "{largest} (excluding nested ranges).",
            gpu=tree.gpu,
            share=share_text(1 - tree.outside_gpu_ns / whole_ns),
            time=time_text(whole_ns),
            largest=names_with_shares(largest, whole_ns),
        ),
    )


def names_with_shares(named: Iterable[tuple[str, int]], whole_ns: int) -> Message:
    """Names, each with its share of a time."""
    shares = [say("{name} {share}", name=name, share=share_text(time_ns / whole_ns)) for name, time_ns in named]
    return joined(say(", "), shares)


def ranges_sheet(tree: RangeTree) -> Sheet:
    """The ranges of the whole window by their path in the tree, and what was launched in none.

    Of very many those with the most GPU time, then host time; the others are one row.
    """
    if len(tree.nodes) <= MOST_RANGES:
        return sheet_of_nodes(tree, tree.nodes, with_outside=True)
    largest_first = sorted(
        range(len(tree.nodes)), key=lambda at: (-tree.nodes[at].gpu_ns, -tree.nodes[at].host_ns, tree.nodes[at].depth)
    )
    left = [tree.nodes[position] for position in largest_first[MOST_RANGES:]]
    rest: dict[str, Cell] = {
        "range": say("({count} more ranges)", count=count_text(len(left))),
        "instances": sum(node.instances for node in left),
        "gpu_own_ns": sum(node.own_gpu_ns for node in left),
    }
    kept = (tree.nodes[position] for position in sorted(largest_first[:MOST_RANGES]))
    return sheet_of_nodes(tree, kept, with_outside=True, rest=(rest,))


def sheet_of_nodes(
    tree: RangeTree, nodes: Iterable[RangeNode], *, with_outside: bool, rest: Sequence[Mapping[str, Cell]] = ()
) -> Sheet:
    """Some nodes of the tree, and what is said of the `rest`."""
    used = tuple(_USED) if any(node.use_percent for node in tree.nodes) else ()
    title = say("Ranges, GPU {gpu}", gpu=tree.gpu)
    if used:
        title = say("Ranges, GPU {gpu} (percent of peak while their kernels ran, from samples)", gpu=tree.gpu)
    outside: dict[str, Cell] = {
        "range": OUTSIDE,
        "gpu_ns": tree.outside_gpu_ns,
        "gpu_own_ns": tree.outside_gpu_ns,
        "launches": tree.outside_launches,
    }
    columns = (
        Column("range", say("Range"), Unit.TEXT, _indented),
        Column("instances", say("Instances"), Unit.COUNT),
        Column("host_ns", say("Host"), Unit.NS),
        share_column("share_percent", say("Share"), "steady_share"),
        Column("gpu_ns", "GPU", Unit.NS, page_name=say("GPU time")),
        Column("gpu_own_ns", say("GPU, own"), Unit.NS, "own_gpu_ns", detail=2),
        Column("launches", say("Launches"), Unit.COUNT, detail=1),
        Column("syncs", say("Waits"), Unit.COUNT, "waits", detail=3),
        *(_use_column(metric) for metric in used),
    )
    return Sheet.of(f"ranges_gpu{tree.gpu}", title, columns, (*nodes, *rest, *((outside,) if with_outside else ())))


def _use_column(metric: GpuMetric) -> Column:
    return Column(
        f"{metric}_percent", _USED[metric], Unit.SHARE_PERCENT, lambda node: node.use_percent.get(metric), detail=1
    )


def _indented(node: RangeNode) -> Term:
    depth = min(node.depth, _DEEPEST)
    return Term("  " * depth + node.name, node.name, depth=depth)


def printed_ranges_sheet(side: RunSide, shares: RangeShares) -> Sheet:
    """The ranges of tables that `nsys stats` printed, with their shares of the program's own, set-up left out."""
    whole: dict[str, Cell] = {
        "range": say("whole"),
        "host_ns": shares.whole_ns,
        "share_percent": 100.0 if shares.whole_ns else None,
        "role": "",
    }
    columns = (
        Column("range", say("Range"), Unit.TEXT, "name"),
        Column("instances", say("Instances"), Unit.COUNT),
        Column("host_ns", say("Host"), Unit.NS),
        share_column("share_percent", say("Share"), shares.share),
        Column("role", say("Role"), Unit.TEXT, lambda printed: _ROLES[shares.roles[printed.name]], detail=1),
    )
    title = say("Ranges, as `nsys stats` printed them (shares of the program's own, setup left out)")
    return Sheet.of("ranges", title, columns, side.ranges or (), foot=(whole,))
