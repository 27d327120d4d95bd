"""The program's own ranges: a tree of GPU time as an icicle, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuledger.catalog.kernel_names import cut_label
from gpuledger.messages import say
from gpuledger.present.charts.amounts import THINNEST, Node, icicle
from gpuledger.present.html.parts import Chart, Part, Section, Text
from gpuledger.present.html.scene import Scene
from gpuledger.present.html.tables import table
from gpuledger.present.sheet import Cell as Value
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.ranges import ranges_sheets
from gpuledger.trace.tables import Table as Recorded
from gpuledger.units import count_text, share_text, time_text

MOST_ROWS: Final = 150


@dataclass(frozen=True, slots=True)
class _Range:
    """One row of the tree."""

    depth: int
    name: str
    gpu_ns: int
    row: tuple[Value, ...]


def ranges_section(scene: Scene) -> Section:
    """The tree of the main GPU."""
    tell = scene.tell
    title = tell(say("Ranges"))
    missing = scene.report.trace.missing(Recorded.RANGES, Recorded.CALLS)
    if missing is not None or not len(scene.device.host.calls):  # work belongs to a range through its call
        return Section("ranges", title, (scene.unknown(missing or say("no launch call is in the profile")),))
    (sheet,) = ranges_sheets(scene.report.trace, scene.device)
    if len(sheet.rows) < 2:
        return Section("ranges", title, (scene.unknown(say("no range was recorded")),))
    tree = _tree(sheet)
    said = say(
        "GPU time by the range that launched it, children under their parents, the most first. Work belongs to a range "
        "through its launch call."
    )
    parts: list[Part] = [Text(tell(said), "lead")]
    whole = sum(each.gpu_ns for each in tree if each.depth == 0)
    if whole:
        described = "; ".join(f"{each.name}: {time_text(each.gpu_ns)}" for each in tree if each.depth == 0)
        picture = icicle(tell(say("GPU time by range")), described, _nodes(scene, tree, whole))
        parts.append(Chart(picture, name="range-chart"))
    kept = _worth_showing(tree)
    caption = say("Ranges of the whole window, GPU {gpu}", gpu=scene.device.gpu)
    if len(kept) < len(tree):
        shown, count = count_text(len(kept)), count_text(len(tree))
        caption = say(
            "Ranges of the whole window, GPU {gpu} (the {shown} with the most GPU time, of {count})",
            gpu=scene.device.gpu,
            shown=shown,
            count=count,
        )
    rows = tuple(each.row for each in kept)
    made = table(replace(sheet, rows=rows), tell, scene.room, caption=tell(caption), name="range-table")
    parts.append(replace(made, sorts=False))  # a tree that is sorted is no tree
    return Section("ranges", title, tuple(parts))


def _tree(sheet: Sheet) -> list[_Range]:
    """The rows with their depth, which is how far they are set in: a child follows its parent."""
    tree: list[_Range] = []
    for row in sheet.rows:
        text, time = str(row[0]), row[3]
        bare = text.lstrip(" ")
        deepest = tree[-1].depth + 1 if tree else 0
        depth = min((len(text) - len(bare)) // 2, deepest)
        tree.append(_Range(depth, bare, time if isinstance(time, int) else 0, row))
    return tree


def _nodes(scene: Scene, tree: Sequence[_Range], whole: int) -> list[Node]:
    """Each range begins where its parent begins, or where its elder sibling ends; those too thin are left out."""
    nodes: list[Node] = []
    free = [0.0]  # by depth: where the next range begins
    for each in tree:
        left = free[each.depth]
        width = each.gpu_ns / whole
        del free[each.depth :]
        free.append(left + width)
        free.append(left)
        if width < THINNEST:
            continue
        value = f"{share_text(width)}, {time_text(each.gpu_ns)}"
        outside = each.row[1] is None
        name = scene.tell(say("(in no range)")) if outside else cut_label(each.name)
        nodes.append(Node(each.depth, left, width, name, value, outside))
    return nodes


def _worth_showing(tree: Sequence[_Range]) -> list[_Range]:
    """Those with the most GPU time, in order; a parent has at least as much as its children, so none is torn off."""
    if len(tree) <= MOST_ROWS:
        return list(tree)
    ranked = sorted(range(len(tree)), key=lambda at: (-tree[at].gpu_ns, tree[at].depth, at))
    return [tree[at] for at in sorted(ranked[:MOST_ROWS])]
