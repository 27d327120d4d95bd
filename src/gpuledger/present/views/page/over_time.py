"""What happened when, on a report's page: the timeline, streams, launches and their queue, memory, and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from gpuledger.analyse.ranges.range_tree import OUTSIDE, RangeRow, RangeTree
from gpuledger.answers.report import ReportAnswer
from gpuledger.attribution.flame_trees import FlameTree, TreeKind
from gpuledger.catalog.kernel_names import cut_label
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.findings.rules import RULE_OF
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.charts.amounts import THINNEST, ChartColumn, Node, columns, columns_said, icicle
from gpuledger.present.charts.over_time import Band, HeatRow, heat_map, memory_area
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.views.answer import VerbAnswer
from gpuledger.present.views.gaps import GapsAnswer
from gpuledger.present.views.memory import MemoryAnswer
from gpuledger.present.views.words import steady_title
from gpuledger.rows import Row, labels_of
from gpuledger.trace.model import NotMeasured, os_pid
from gpuledger.trace.spans import Span
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text, count_text, instant_text, share_text, time_text

_MOST_MARKED: Final = 200
"""Launches that a finding's link marks."""

_MOST_DESCRIBED: Final = 20
"""Ranges that are told to whoever cannot see the picture."""

MOST_ROWS: Final = 150
"""Ranges in the table."""


def place_on_timeline(report: ReportAnswer, span: Span) -> doc.TimelinePlace | None:
    """Where on the page a stretch of time is shown; None: nowhere."""
    number = report.stretch_of(span)
    return None if number is None else _placed(report, number, span)


def place_of_finding(report: ReportAnswer, finding: Finding) -> doc.TimelinePlace:
    """Where a finding is seen; where its best example is not shown, the stretch that is shown first."""
    place = place_on_timeline(report, report.place(finding)) or _placed(report, 0, report.stretches[0].core)
    rule = RULE_OF[finding.code]
    launches = tuple(number for piece in finding.evidence for number in piece.correlations)
    return replace(
        place,
        triggers=tuple(map(TRIGGERS.index, rule.triggers)),
        correlations=launches[:_MOST_MARKED],
        tone="" if rule.exposed is None else str(rule.exposed),
    )


def _placed(report: ReportAnswer, number: int, span: Span) -> doc.TimelinePlace:
    return doc.TimelinePlace(number, span.start_ns - report.run.zero_ns, span.end_ns - report.run.zero_ns)


def timeline_section(report: ReportAnswer) -> doc.Section:
    """The timeline, with what it does not show."""
    blocks: list[doc.Block] = [doc.TimelineBlock(report.run, report.finder, report.stretches, report.fixed)]
    steps, shown = report.run.main_device.steps, sum(stretch.step is not None for stretch in report.stretches)
    if steps is not None and shown < len(steps):
        said = say(
            "{shown} of {count} steps are in this page; `gpuledger view` shows the whole run in Perfetto.",
            shown=count_text(shown),
            count=count_text(len(steps)),
        )
        blocks.append(doc.Paragraph(said, "note"))
    return doc.Section("timeline", say("Timeline"), tuple(blocks))


def window_ends(run: ProfiledRun) -> tuple[str, str]:
    """Where the window begins and ends, as `--time` takes it."""
    start_ns, end_ns = (instant - run.zero_ns for instant in run.window)
    return instant_text(start_ns) if start_ns else "0", instant_text(end_ns)


def streams_section(report: ReportAnswer) -> doc.Section:
    """Every GPU and stream."""
    use = report.streams
    said = say(
        "The window in {bins} bins of {time}; the stronger the color, the busier the stream.",
        bins=len(use.edges_ns) - 1,
        time=time_text(int(use.edges_ns[1] - use.edges_ns[0])),
    )
    blocks: list[doc.Block] = [doc.Paragraph(said, "lead"), streams_chart(report)]
    if use.left_out:
        blocks.append(doc.Paragraph(say("{count} streams with less work are not shown.", count=use.left_out), "note"))
    if not use.streams:
        return doc.Section("streams", say("Streams over time"), ())
    most = max(use.streams, key=lambda stream: int(stream.busy_ns.sum()))
    result = say(
        "streams: {count}; the busiest, GPU {gpu} stream {stream}, is busy {share} of the window",
        count=count_text(len(use.streams) + use.left_out),
        gpu=most.gpu,
        stream=most.stream,
        share=share_text(int(most.busy_ns.sum()) / (report.run.window.end_ns - report.run.window.start_ns)),
    )
    return doc.Section("streams", say("Streams over time"), tuple(blocks), result=result)


def streams_chart(report: ReportAnswer) -> doc.Chart:
    """The map of streams over the window."""
    use, window = report.streams, report.run.window
    length_ns = window.end_ns - window.start_ns
    several_pids = len({stream.pid for stream in use.streams}) > 1
    rows = []
    for stream in use.streams:
        name = say("GPU {gpu}, stream {stream}", gpu=stream.gpu, stream=stream.stream)
        if several_pids:
            pid = os_pid(stream.pid)
            name = say("GPU {gpu}, stream {stream} of process {pid}", gpu=stream.gpu, stream=stream.stream, pid=pid)
        busy = share_text(int(stream.busy_ns.sum()) / length_ns)
        rows.append(HeatRow(name, stream.busy_ns, say("{share} busy", share=busy)))
    widths = (use.edges_ns[1:] - use.edges_ns[:-1]).tolist()
    said = joined("; ", (joined(": ", (row.name, row.said)) for row in rows))
    draw = partial(heat_map, say("How busy each stream was"), said, rows, widths, window_ends(report.run), say("busy"))
    return doc.Chart(draw, name="stream-map")


def labelled_table(
    answer: type[VerbAnswer], name: str, rows: Sequence[Row], steady: Device | None = None, **how: Any
) -> list[doc.SheetBlock]:
    """A table as a verb's answer labels it, where it has rows; `steady`: about the steady steps of this GPU."""
    if not rows:
        return []
    title = labels_of(answer)[name].text
    title = title if steady is None else steady_title(steady, title)
    return [doc.SheetBlock(replace(row_sheet(name, title, type(rows[0]), rows), title=title), **how)]


def launches_section(report: ReportAnswer) -> doc.Section:
    """What launching costs, and how far the host runs ahead."""
    costs, queue, device = report.launches, report.launches.queue, report.run.main_device
    said = say(
        "Work that queues for long was launched well ahead: the host keeps up. Where work starts at "
        "once, the GPU was waiting for it."
    )
    blocks: list[doc.Block] = (
        [doc.not_measured(say("no launch call is in the profile"))]
        if queue.queued_median_ns is None
        else [_delays_chart(costs.by_delay), doc.Paragraph(said, "note")]
    )
    blocks += [
        *labelled_table(GapsAnswer, "launch_calls", costs.launch_calls, device),
        *labelled_table(GapsAnswer, "waiting_calls", costs.waiting_calls, device),
        *labelled_table(GapsAnswer, "queue", (queue,), device),
        *labelled_table(GapsAnswer, "launches_by_range", costs.by_range, device),
    ]
    result = ""
    if queue.queued_median_ns is not None:
        queued = time_text(round(queue.queued_median_ns))
        result = say("work starts {time} after its launch returned (median)", time=queued)
        if queue.per_step is not None:
            count = count_text(round(queue.per_step))
            result = say("{count} pieces of work per step; {queued}", count=count, queued=result)
    return doc.Section("launches", say("Launches and the queue"), tuple(blocks), result=result)


def _delays_chart(delays: Sequence[tuple[str, int]]) -> doc.Chart:
    total = sum(count for _, count in delays)
    shown = [ChartColumn(name, (count / total,), (share_text(count / total),)) for name, count in delays]
    title = say("Queue time: from the launch call's return to the start on the GPU")
    draw = partial(columns, title, columns_said(shown), (("compute-gemm", ""),), shown, tall=110)
    return doc.Chart(draw, name="queue-chart")


def memory_section(report: ReportAnswer) -> doc.Section:
    """Memory in use, copies and allocations."""
    trace, use = report.run.trace, report.memory_use
    blocks: list[doc.Block] = []
    if isinstance(use, NotMeasured):
        blocks.append(doc.not_measured(use.reason))
    else:
        said = say("Peak: {size} in use", size=bytes_text(int(use.most_bytes.max())))
        draw = partial(memory_area, say("Device memory in use"), said, [Band(use.most_bytes)], window_ends(report.run))
        blocks += [doc.Paragraph(said, "lead"), doc.Chart(draw, name="memory-chart")]
    device, in_use = report.run.main_device, report.memory.in_use
    blocks += [
        *labelled_table(MemoryAnswer, "copies", report.memory.copies, device),
        *labelled_table(MemoryAnswer, "allocation_calls", report.memory.allocation_calls, device),
        *labelled_table(MemoryAnswer, "in_use", () if isinstance(in_use, NotMeasured) else (in_use,)),
    ]
    if not len(trace[Table.COPIES]):
        missing = trace.missing(Table.COPIES)
        nothing = doc.Paragraph(say("Nothing was copied."), "note")
        blocks.append(nothing if missing is None else doc.not_measured(missing.reason))
    copied = int(trace[Table.COPIES]["bytes"].clip(0).sum()) if len(trace[Table.COPIES]) else 0
    results = [] if isinstance(use, NotMeasured) else [say("peak {size}", size=bytes_text(int(use.most_bytes.max())))]
    results += [say("{size} copied", size=bytes_text(copied))] if copied else []
    return doc.Section(
        "memory", say("Memory and copies"), tuple(blocks), result=joined("; ", results) if results else ""
    )


def ranges_section(report: ReportAnswer) -> doc.Section:
    """The program's ranges and what else was named, of the main GPU: trees of time to zoom into, and a table."""
    tree, trees = report.ranges, report.flame_trees
    if tree is not None and tree.nodes:
        blocks = (*_tree_blocks(tree, trees), _ranges_table(tree, report.run.main_device.gpu))
    else:
        missing = report.run.trace.missing(Table.RANGES, Table.CALLS)
        reason = say("no launch call is in the profile") if tree is None else say("no range was recorded")
        blocks = (
            doc.not_measured(reason if missing is None else missing.reason),
            *((doc.FlameBlock(trees, None),) if trees else ()),
        )
    return doc.Section("ranges", say("Flame graph"), blocks, result=_most_of(trees))


def _most_of(trees: Sequence[FlameTree]) -> Message | str:
    """The outermost frames with the most GPU time, of the tree that is shown first."""
    tree = next((tree for tree in trees if tree.gpu_ns.any()), None)
    if tree is None:
        return ""
    outermost = np.flatnonzero(tree.parent < 0)
    largest = outermost[np.argsort(-tree.gpu_ns[outermost], kind="stable")[:3]].tolist()
    whole = int(tree.gpu_ns[outermost].sum())
    named = (
        say("{name} {share}", name=tree.names[node] or OUTSIDE, share=share_text(int(tree.gpu_ns[node]) / whole))
        for node in largest
    )
    return say("GPU time: {parts}", parts=joined(say(", "), named))


def _tree_blocks(tree: RangeTree, trees: tuple[FlameTree, ...]) -> list[doc.Block]:
    said = say(
        "GPU time by the range that launched it, nested, largest first. Work belongs to the range "
        "around its launch call."
    )
    rows = (*tree.nodes, tree.outside)
    outermost = [(row.range or OUTSIDE, row.gpu_ns) for row in rows if row.depth == 0]
    whole_ns = sum(gpu_ns for _, gpu_ns in outermost)
    still = None
    if whole_ns:
        largest = sorted(outermost, key=lambda node: -node[1])[:_MOST_DESCRIBED]
        described = "; ".join(f"{cut_label(name)}: {time_text(gpu_ns)}" for name, gpu_ns in largest)
        draw = partial(icicle, say("GPU time by range"), described, _icicle_nodes(tree, whole_ns))
        still = doc.Chart(draw, name="range-chart")
    if any(flame.kind is TreeKind.IDLE_STACKS for flame in trees):
        idle = say(
            "By host stack: time in which the GPU was idle, by where the thread was that launched what came next."
        )
        said = joined(" ", (said, idle))
    return [doc.Paragraph(said, "lead"), *([doc.FlameBlock(trees, still)] if trees else [])]


def _icicle_nodes(tree: RangeTree, whole_ns: int) -> list[Node]:
    """Each range begins where its parent begins, or where its elder sibling ends; those too thin are left out."""
    nodes: list[Node] = []
    free = [0.0]  # by depth: where the next range begins

    def add(depth: int, left: float, name: str, gpu_ns: int, *, outside: bool = False) -> None:
        width = gpu_ns / whole_ns
        if width >= THINNEST:
            nodes.append(Node(depth, left, width, name, f"{share_text(width)}, {time_text(gpu_ns)}", outside))

    for node in tree.nodes:
        left = free[node.depth]
        free[node.depth :] = [left + node.gpu_ns / whole_ns, left]
        add(node.depth, left, cut_label(node.range or ""), node.gpu_ns)
    add(0, free[0], OUTSIDE, tree.outside.gpu_ns, outside=True)
    return nodes


def _ranges_table(tree: RangeTree, gpu: int) -> doc.SheetBlock:
    kept = _most_time((*tree.nodes, tree.outside))
    count = len(tree.nodes) + 1
    title = say("Ranges of the whole window, GPU {gpu}", gpu=gpu)
    if len(kept) < count:
        title = say(
            "Ranges of the whole window, GPU {gpu} (the {shown} with the most GPU time, of {count})",
            gpu=gpu,
            shown=count_text(len(kept)),
            count=count_text(count),
        )
    return doc.SheetBlock(replace(row_sheet("ranges", title, RangeRow, kept), title=title), is_tree=True)


def _most_time(rows: Sequence[RangeRow]) -> Sequence[RangeRow]:
    """Rows with the most GPU time, in their order.

    A parent has at least as much as its children, so none is torn off.
    """
    if len(rows) <= MOST_ROWS:
        return rows
    ranked = sorted(range(len(rows)), key=lambda position: (-rows[position].gpu_ns, rows[position].depth, position))
    return [rows[position] for position in sorted(ranked[:MOST_ROWS])]
