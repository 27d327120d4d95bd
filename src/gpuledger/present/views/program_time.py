"""What the program does with one GPU: its launches, copies and allocations, and ranges.

Answers in, a `TableAnswer` out: the first sentence answers the question, the others say what to change or where to
look, and the tables under them have the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gpuledger.analyse.launch_costs import CallTimes
from gpuledger.analyse.memory.figures import MEMSET, MemoryFigures
from gpuledger.analyse.range_tree import RangeNode, RangeRole, RangeShares, RangeTree
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.kernel_names import cut_label
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit, share_column
from gpuledger.present.views.gpu_time import Sentences
from gpuledger.present.views.tables import TableAnswer
from gpuledger.present.views.words import WORTH_DOING, none_sentence, steady_title, step_count_text, step_time_text
from gpuledger.trace.model import NotMeasured
from gpuledger.units import bytes_text, count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.diff.run_side import RunSide
    from gpuledger.answers.one_gpu import MemoryAnswer

NAMED: Final = 3
"""So many of the largest parts are named in a sentence."""


def _sums(functions: Sequence[CallTimes]) -> tuple[int, int]:
    """Calls and their time."""
    return sum(function.times.count for function in functions), sum(function.times.total for function in functions)


def _call_columns(steps: int) -> tuple[Column, ...]:
    """Calls by function, and how many there are in each of the steady steps."""
    return (
        Column("name", say("Call"), Unit.TEXT, lambda function: short_function_name(function.name)),
        Column("calls", say("Calls"), Unit.COUNT, "times.count"),
        Column("per_step", say("Per step"), Unit.MEAN, lambda function: function.times.count / steps),
        Column("total_ns", say("Time"), Unit.NS, "times.total"),
    )


def memory_tables(answer: MemoryAnswer) -> TableAnswer:
    """What is copied and allocated."""
    sheets = memory_sheets(answer.device, answer.figures)
    return TableAnswer(_memory_sentences(answer.device, answer.figures), sheets)


def _memory_sentences(device: Device, figures: MemoryFigures) -> Sentences:
    """What is copied and allocated, and what of it to change."""
    copies, count = figures.copies, sum(copied.count for copied in figures.copies)
    sentences = [none_sentence(device, say("copies"))]
    if count:
        time_ns = sum(copied.total_ns for copied in copies)
        sizes = [copied.total_bytes for copied in copies if copied.total_bytes is not None]
        size: Message | str = bytes_text(sum(sizes) // device.step_count)
        if len(sizes) < len(copies):
            size = say("at least {size}", size=size) if sizes else say("bytes that were not recorded")
        sentences = [
            say(
                "GPU {gpu}: copies and memsets take {time} ({share} of the time) and move {size}: {count}.",
                gpu=device.gpu,
                time=step_time_text(device, time_ns),
                share=share_text(time_ns / device.steady_ns),
                size=size,
                count=step_count_text(device, count, say("transfer"), say("transfers")),
            )
        ]
    if not isinstance(figures.in_use, NotMeasured):
        sentences.append(say("Peak device memory: {size}.", size=bytes_text(figures.in_use.peak_bytes)))
    if pageable := [copied for copied in copies if copied.is_pageable]:
        whole = sum(copied.count for copied in copies if copied.kind != MEMSET)
        counts = {"count": count_text(sum(copied.count for copied in pageable)), "whole": count_text(whole)}
        sentences.append(
            say(
                "Fix: {count} of {whole} copies use pageable host memory, which blocks the CPU; pin it "
                "(`gpuledger explain COPY-PAGEABLE`).",
                **counts,
            )
            if sum(copied.total_ns for copied in pageable) >= WORTH_DOING * device.steady_ns
            else say("{count} of {whole} copies use pageable host memory, which blocks the CPU.", **counts)
        )
    allocations, allocating_ns = _sums(figures.allocation_calls)
    if allocations:
        sentences.append(
            say(
                "Fix: allocating and freeing memory takes {time}: {count}; allocate once, before the steps "
                "(`gpuledger explain HOST-ALLOC`).",
                time=step_time_text(device, allocating_ns),
                count=step_count_text(device, allocations, say("call"), say("calls")),
            )
        )
    return tuple(sentences)


class MemorySheets(NamedTuple):
    """The tables about one GPU's memory."""

    copies: Sheet
    allocation_calls: Sheet
    in_use: Sheet


def memory_sheets(device: Device, figures: MemoryFigures) -> MemorySheets:
    """Copies and allocation calls over the steady steps; the memory in use over the whole capture."""
    steps, in_use = device.step_count, figures.in_use
    copies = Sheet.of(
        f"copies_gpu{device.gpu}",
        steady_title(device, say("Copies")),
        (
            Column("kind", say("Kind"), Unit.TEXT),
            Column("from", say("From"), Unit.TEXT, "source"),
            Column("to", say("To"), Unit.TEXT, "target"),
            Column("copies", say("Copies"), Unit.COUNT, "count"),
            Column("per_step", say("Per step"), Unit.MEAN, lambda copied: copied.count / steps),
            Column("total_bytes", "MB", Unit.MB, page_name=say("Size")),
            Column("total_ns", say("Time"), Unit.NS),
            Column("bytes_per_s", "MB/s", Unit.MB_PER_S, detail=1, page_name=say("Rate")),
        ),
        figures.copies,
    )
    title = steady_title(device, say("Allocation calls"))
    calls = Sheet.of(f"allocation_calls_gpu{device.gpu}", title, _call_columns(steps), figures.allocation_calls)
    totals: tuple[tuple[Message, int], ...] = ()
    if not isinstance(in_use, NotMeasured):
        totals = (
            (say("peak"), in_use.peak_bytes),
            (say("at the end"), in_use.end_bytes),
            (say("allocated in total"), in_use.allocated_bytes),
        )
    used = Sheet.of(
        f"memory_in_use_gpu{device.gpu}",
        say("Device memory, GPU {gpu}", gpu=device.gpu),
        (
            Column("figure", say("Figure"), Unit.TEXT, lambda total: total[0]),
            Column("bytes", "MB", Unit.MB, lambda total: total[1], page_name=say("Size")),
        ),
        totals,
        why_empty=in_use.reason if isinstance(in_use, NotMeasured) else "",
    )
    return MemorySheets(copies, calls, used)


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
