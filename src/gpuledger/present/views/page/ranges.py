"""The program's own ranges and what else was named: trees of time to zoom into, and the ranges as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpuledger.analyse.range_tree import RangeNode, RangeTree, range_tree
from gpuledger.catalog.kernel_names import cut_label
from gpuledger.messages import say
from gpuledger.present.charts.amounts import THINNEST, Node, icicle
from gpuledger.present.views.page.flame import flame_part
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.program_time import OUTSIDE, sheet_of_nodes
from gpuledger.present.writers.html.parts import Chart, Part, Section, Text
from gpuledger.present.writers.html.tables import table
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.tables import Table as Recorded
from gpuledger.units import count_text, share_text, time_text

MOST_ROWS: Final = 150


def ranges_section(scene: Scene) -> Section:
    """The tree of the main GPU."""
    tell = scene.tell
    title = tell(say("Flame graph"))
    missing = scene.report.trace.missing(Recorded.RANGES, Recorded.CALLS)
    if missing is not None or not len(scene.device.host.calls):  # work belongs to a range through its call
        return _without_ranges(scene, title, missing or say("no launch call is in the profile"))
    tree = range_tree(scene.report.trace, scene.device, folded=True)
    if not tree.nodes:
        return _without_ranges(scene, title, say("no range was recorded"))
    said = say(
        "GPU time by the range that launched it, nested, largest first. Work belongs to the range "
        "around its launch call."
    )
    parts: list[Part] = [Text(tell(said), "lead")]
    still: Chart | None = None
    outermost = [(node.name, node.gpu_ns) for node in tree.nodes if node.depth == 0]
    outermost.append((OUTSIDE, tree.outside_gpu_ns))
    whole = sum(gpu_ns for _, gpu_ns in outermost)
    if whole:
        described = "; ".join(f"{name}: {time_text(gpu_ns)}" for name, gpu_ns in outermost)
        picture = icicle(tell(say("GPU time by range")), described, _nodes(scene, tree, whole))
        still = Chart(picture, name="range-chart")
    drawn = flame_part(scene, still)
    if drawn is not None:
        parts.append(drawn)
    kept, with_outside = _worth_showing(tree)
    shown, count = len(kept) + with_outside, len(tree.nodes) + 1
    caption = say("Ranges of the whole window, GPU {gpu}", gpu=scene.device.gpu)
    if shown < count:
        caption = say(
            "Ranges of the whole window, GPU {gpu} (the {shown} with the most GPU time, of {count})",
            gpu=scene.device.gpu,
            shown=count_text(shown),
            count=count_text(count),
        )
    sheet = sheet_of_nodes(tree, kept, with_outside=with_outside)
    rows = table(sheet, tell, scene.room, caption=tell(caption), name="range-table")
    parts.append(replace(rows, sorts=False))  # a tree that is sorted is no tree
    return Section("ranges", title, tuple(parts))


def _without_ranges(scene: Scene, title: str, why: NotMeasured | str) -> Section:
    """The trees that there are, of operators, functions or stacks; where there is none, why."""
    return Section("ranges", title, (flame_part(scene, None) or scene.unknown(why),))


def _nodes(scene: Scene, tree: RangeTree, whole: int) -> list[Node]:
    """Each range begins where its parent begins, or where its elder sibling ends; those too thin are left out."""
    nodes: list[Node] = []
    free = [0.0]  # by depth: where the next range begins
    for node in tree.nodes:
        left = free[node.depth]
        width = node.gpu_ns / whole
        del free[node.depth :]
        free.append(left + width)
        free.append(left)
        if width >= THINNEST:
            nodes.append(_node(node.depth, left, width, cut_label(node.name), node.gpu_ns))
    width = tree.outside_gpu_ns / whole
    if width >= THINNEST:
        nodes.append(_node(0, free[0], width, scene.tell(OUTSIDE), tree.outside_gpu_ns, outside=True))
    return nodes


def _node(depth: int, left: float, width: float, name: str, gpu_ns: int, *, outside: bool = False) -> Node:
    return Node(depth, left, width, name, f"{share_text(width)}, {time_text(gpu_ns)}", outside)


def _worth_showing(tree: RangeTree) -> tuple[Sequence[RangeNode], bool]:
    """Those with the most GPU time, in order, and whether what was launched in no range is one of them.

    A parent has at least as much as its children, so none is torn off.
    """
    if len(tree.nodes) < MOST_ROWS:
        return tree.nodes, True
    # what was launched in no range comes after the ranges
    ranked = [(-node.gpu_ns, node.depth, position) for position, node in enumerate(tree.nodes)]
    ranked.append((-tree.outside_gpu_ns, 0, len(tree.nodes)))
    kept = sorted(position for *_, position in sorted(ranked)[:MOST_ROWS])
    return [tree.nodes[position] for position in kept if position < len(tree.nodes)], len(tree.nodes) in kept
