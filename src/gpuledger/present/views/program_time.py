"""What the program does with one GPU: its launches, copies and allocations, ranges and operators.

Answers in, a `TableAnswer` out: the first sentence answers the question, the others say what to change or where to
look, and the tables under them have the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from gpuledger.analyse.launch_costs import CallTimes, LaunchCosts, LaunchQueue
from gpuledger.analyse.memory.figures import MemoryFigures
from gpuledger.analyse.operators.costs import OperatorCosts
from gpuledger.analyse.operators.graph_places import MODULE
from gpuledger.analyse.range_tree import RangeNode, RangeRole, RangeShares, RangeTree
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.activity import shortened
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.present.digits import percent, tenths
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit, share_column
from gpuledger.present.views.gpu_time import WORTH_DOING, Sentences, step_count_text, step_time_text
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import NotMeasured
from gpuledger.units import bytes_text, count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.diff.run_side import RunSide
    from gpuledger.analyse.operators.arithmetic import Inputs, OperatorWork
    from gpuledger.analyse.operators.costs import HostCost
    from gpuledger.answers.one_gpu import LaunchesAnswer, MemoryAnswer, OperatorsAnswer

_NAMED: Final = 3
"""So many of the largest parts are named in a sentence."""

_HALF: Final = 0.5
"""Of the GPU work: from here on the host is ahead, or kernels are mostly tiny."""


def _sums(functions: Sequence[CallTimes]) -> tuple[int, int]:
    """Calls and their time."""
    return sum(function.times.count for function in functions), sum(function.times.total for function in functions)


def _call_columns(steps: int) -> tuple[Column, ...]:
    """Calls by function, and how many there are in each of the steady steps."""
    return (
        Column("name", say("Call"), Unit.TEXT, lambda function: shortened(function.name)),
        Column("calls", say("Calls"), Unit.COUNT, "times.count"),
        Column("per_step", say("Per step"), Unit.MEAN, lambda function: function.times.count / steps),
        Column("total_ns", say("Time"), Unit.NS, "times.total"),
    )


def launches_tables(answer: LaunchesAnswer) -> TableAnswer:
    """What launches cost, and how far the host runs ahead."""
    costs = answer.costs
    queue, shown = queue_sheet(costs), queue_with_units_sheet(costs)
    calls, by_range = (launch_calls_sheet(costs), waiting_calls_sheet(costs)), launches_by_range_sheet(costs)
    return TableAnswer(_launch_sentences(answer), (*calls, queue, by_range), (*calls, shown, by_range))


def _launch_sentences(answer: LaunchesAnswer) -> Sentences:
    """What launching costs the CPU, whether it keeps ahead of the GPU, and what to do where it does not."""
    costs, device = answer.costs, answer.device
    count, time_ns = _sums(costs.launch_calls)
    if not count:
        return (say("GPU {gpu}: no launch call was recorded in the steady steps.", gpu=costs.gpu),)
    is_ahead = costs.queue.delays is not None and costs.queue.delays.ahead_share >= _HALF
    sentences = [
        say(
            "GPU {gpu}: launch calls take {time} on the CPU ({share} of the time): {count}; {ahead}.",
            gpu=costs.gpu,
            time=step_time_text(device, time_ns),
            share=share_text(time_ns / costs.steady_ns),
            count=step_count_text(device, count, say("launch"), say("launches")),
            ahead=_ahead_words(costs.queue, is_ahead=is_ahead),
        )
    ]
    waits, waited_ns = _sums(costs.waiting_calls)
    if waits:
        sentences.append(
            say(
                "The CPU waits {time} for the GPU: {count}.",
                count=step_count_text(device, waits, say("call"), say("calls")),
                time=step_time_text(device, waited_ns),
            )
        )
    if not is_ahead and (costs.queue.tiny_share or 0) >= _HALF:
        sentences.append(
            say(
                "Fix: {share} of the GPU work takes under 5 us, less than launching it: fuse it, or capture "
                "the step in a CUDA graph (`gpuledger explain TINY-KERNELS`).",
                share=share_text(costs.queue.tiny_share or 0),
            )
        )
    return tuple(sentences)


def _ahead_words(queue: LaunchQueue, *, is_ahead: bool) -> Message:
    if queue.delays is None:
        return say("how far the CPU runs ahead was not recorded")
    figures = {"median": time_text(round(queue.delays.median_ns)), "share": share_text(queue.delays.ahead_share)}
    if is_ahead:
        return say(
            "the CPU runs ahead: work waits {median} in the queue (median), {share} of it for over 10 us", **figures
        )
    return say(
        "the CPU does not run ahead: work waits {median} in the queue (median), {share} of it for over 10 us", **figures
    )


def launch_calls_sheet(costs: LaunchCosts) -> Sheet:
    """The calls that launch, by function."""
    return _calls_sheet(costs, costs.launch_calls, "launch_calls", say("Launch calls"))


def waiting_calls_sheet(costs: LaunchCosts) -> Sheet:
    """The calls that wait for the device, by function."""
    return _calls_sheet(costs, costs.waiting_calls, "waiting_calls", say("Calls that wait for the GPU"))


def _calls_sheet(costs: LaunchCosts, functions: Sequence[CallTimes], name: str, title: str) -> Sheet:
    return Sheet.of(
        f"{name}_gpu{costs.gpu}",
        say("{title}, steady steps, GPU {gpu}", title=title, gpu=costs.gpu),
        (
            *_call_columns(costs.steps),
            Column("avg_ns", say("Avg"), Unit.MEAN_NS, "times.average", detail=1),
            Column("med_ns", say("Med"), Unit.MEAN_NS, "times.median", detail=2),
            share_column("step_percent", say("Share of step"), "times.total", costs.steady_ns),
        ),
        functions,
    )


def queue_sheet(costs: LaunchCosts) -> Sheet:
    """How far the host runs ahead, the unit of each figure beside it."""
    return Sheet.of(
        f"launch_queue_gpu{costs.gpu}",
        say("How far the host runs ahead, steady steps, GPU {gpu}", gpu=costs.gpu),
        (
            Column("figure", say("Figure"), Unit.TEXT, lambda row: row[0]),
            Column("value", say("Value"), Unit.MEAN, lambda row: row[1]),
            Column("unit", say("Unit"), Unit.TEXT, lambda row: row[2]),
        ),
        _queue_figures(costs.queue),
    )


def queue_with_units_sheet(costs: LaunchCosts) -> Sheet:
    """The same for people: each figure with its unit."""

    def with_unit(row: tuple[Message, float, str]) -> str:
        _, value, unit = row
        return time_text(round(value)) if unit == "ns" else f"{tenths(value)} {unit}".rstrip()

    exact = queue_sheet(costs)
    columns = exact.columns[0], Column("value", say("Value"), Unit.FIGURE, with_unit)
    return Sheet.of(exact.name, exact.title, columns, _queue_figures(costs.queue))


def _queue_figures(queue: LaunchQueue) -> list[tuple[Message, float, str]]:
    """Name, value and unit."""
    figures: list[tuple[Message, float, str]] = [(say("GPU activities per step"), queue.activities_per_step, "")]
    if queue.tiny_share is not None:
        figures += [
            (say("of them under 5 us"), 100 * queue.tiny_share, "%"),
            (say("launched by a recorded call"), 100 * queue.launched / queue.activities, "%"),
        ]
    if queue.delays is not None:
        figures += [
            (say("queued, median"), queue.delays.median_ns, "ns"),
            (say("queued, 10th percentile"), queue.delays.p10_ns, "ns"),
            (say("queued, 90th percentile"), queue.delays.p90_ns, "ns"),
            (say("queued over 10 us (host ahead)"), 100 * queue.delays.ahead_share, "%"),
        ]
    return figures


def launches_by_range_sheet(costs: LaunchCosts) -> Sheet:
    """Launches by the ranges that they lie in."""
    return Sheet.of(
        f"launches_by_range_gpu{costs.gpu}",
        say("Launches by range, steady steps, GPU {gpu}", gpu=costs.gpu),
        (
            Column("range", say("Range"), Unit.TEXT, "name"),
            Column("instances", say("Instances"), Unit.COUNT),
            Column("launches", say("Launches"), Unit.COUNT),
            Column("per_instance", say("Per instance"), Unit.MEAN, lambda entry: entry.launches / entry.instances),
            Column("total_ns", say("Time"), Unit.NS),
        ),
        costs.by_range,
    )


def memory_tables(answer: MemoryAnswer) -> TableAnswer:
    """What is copied and allocated."""
    sheets = memory_sheets(answer.device, answer.figures)
    return TableAnswer(_memory_sentences(answer.device, answer.figures), sheets)


def _memory_sentences(device: Device, figures: MemoryFigures) -> Sentences:
    """What is copied and allocated, and what of it to change."""
    copies, count = figures.copies, sum(copied.count for copied in figures.copies)
    sentences = [say("GPU {gpu}: no copies in the steady steps.", gpu=device.gpu)]
    if count:
        time_ns = sum(copied.total_ns for copied in copies)
        sentences = [
            say(
                "GPU {gpu}: copies and memsets take {time} ({share} of the time) and move {size}: {count}.",
                gpu=device.gpu,
                time=step_time_text(device, time_ns),
                share=share_text(time_ns / device.steady_ns),
                size=bytes_text(sum(copied.total_bytes for copied in copies) // device.step_count),
                count=step_count_text(device, count, say("transfer"), say("transfers")),
            )
        ]
    if not isinstance(figures.in_use, NotMeasured):
        sentences.append(say("Peak device memory: {size}.", size=bytes_text(figures.in_use.peak_bytes)))
    if pageable := [copied for copied in copies if "Pageable" in (copied.source, copied.target)]:
        counts = {"count": count_text(sum(copied.count for copied in pageable)), "whole": count_text(count)}
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
                "Fix: allocating and freeing device memory takes {time}: {count}; allocate once, before the steps "
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
        say("Copies, steady steps, GPU {gpu}", gpu=device.gpu),
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
    title = say("Allocation calls, steady steps, GPU {gpu}", gpu=device.gpu)
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
            say("Fix: mark the program with NVTX, e.g. `with torch.cuda.nvtx.range('decode'):`, and record again."),
        )
    if not whole_ns:
        return (say("GPU {gpu}: no GPU work in the window.", gpu=tree.gpu),)
    if not sum(own.values()):
        return (say("GPU {gpu}: no GPU work was launched in a range.", gpu=tree.gpu),)
    largest = [(cut_label(name), time_ns) for name, time_ns in own.most_common(_NAMED) if time_ns]
    return (
        say(
            "GPU {gpu}: {share} of {time} of GPU time was launched inside ranges, most of it in "
            "{largest} (excluding nested ranges).",
            gpu=tree.gpu,
            share=share_text(1 - tree.outside_gpu_ns / whole_ns),
            time=time_text(whole_ns),
            largest=_with_shares(largest, whole_ns),
        ),
    )


def _with_shares(named: Iterable[tuple[str, int]], whole_ns: int) -> Message:
    """Names, each with its share of a time."""
    shares = [say("{name} {share}", name=name, share=share_text(time_ns / whole_ns)) for name, time_ns in named]
    return joined(say(", "), shares)


def ranges_sheet(tree: RangeTree) -> Sheet:
    """The ranges of the whole window by their path in the tree, and what was launched in none."""
    return sheet_of_nodes(tree, tree.nodes, with_outside=True)


def sheet_of_nodes(tree: RangeTree, nodes: Iterable[RangeNode], *, with_outside: bool) -> Sheet:
    """Some nodes of the tree."""
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
    return Sheet.of(
        f"ranges_gpu{tree.gpu}",
        title,
        (
            Column("range", say("Range"), Unit.TEXT, _indented),
            Column("instances", say("Instances"), Unit.COUNT),
            Column("host_ns", say("Host"), Unit.NS),
            Column("share_percent", say("Share"), Unit.SHARE_PERCENT, lambda node: _percent(node.steady_share)),
            Column("gpu_ns", "GPU", Unit.NS, page_name=say("GPU time")),
            Column("gpu_own_ns", say("GPU, own"), Unit.NS, "own_gpu_ns", detail=2),
            Column("launches", say("Launches"), Unit.COUNT, detail=1),
            Column("syncs", say("Waits"), Unit.COUNT, "waits", detail=3),
            *(_use_column(metric) for metric in used),
        ),
        (*nodes, *((outside,) if with_outside else ())),
    )


def _use_column(metric: GpuMetric) -> Column:
    return Column(
        f"{metric}_percent", _USED[metric], Unit.SHARE_PERCENT, lambda node: node.use_percent.get(metric), detail=1
    )


def _indented(node: RangeNode) -> Term:
    depth = min(node.depth, _DEEPEST)
    return Term("  " * depth + node.name, node.name, depth=depth)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def printed_ranges_sheet(side: RunSide, shares: RangeShares) -> Sheet:
    """The ranges of tables that `nsys stats` printed, with their shares of the program's own, set-up left out."""
    whole: dict[str, Cell] = {
        "range": say("whole"),
        "host_ns": shares.whole_ns,
        "share_percent": 100.0 if shares.whole_ns else None,
        "role": "",
    }
    return Sheet.of(
        "ranges",
        say("Ranges, as `nsys stats` printed them (shares of the program's own, setup left out)"),
        (
            Column("range", say("Range"), Unit.TEXT, "name"),
            Column("instances", say("Instances"), Unit.COUNT),
            Column("host_ns", say("Host"), Unit.NS),
            Column("share_percent", say("Share"), Unit.SHARE_PERCENT, lambda printed: _percent(shares.share(printed))),
            Column("role", say("Role"), Unit.TEXT, lambda printed: _ROLES[shares.roles[printed.name]], detail=1),
        ),
        side.ranges or (),
        foot=(whole,),
    )


MOST_SHAPES: Final = 50
MOST_PLACES: Final = 50

_INSIDE: Final = " > "

_FEW_ROWS: Final = 0.1
"""Of the GPU time: from here on, products of few rows are worth a sentence."""

_FAR: Final = 0.5
"""Of its roof: a product that reaches less is far from it."""

_HIDDEN: Final = 0.5
"""Of the rows at which arithmetic takes as long as the bytes: up to here it hides behind them (H200: 64 rows take a
tenth longer than 16)."""


def operators_tables(answer: OperatorsAnswer) -> TableAnswer:
    """Host and GPU time by operator; for people, each figure has its unit beside it."""
    return TableAnswer(
        operator_sentences(answer), tuple(ops_sheets(answer)), tuple(ops_sheets(answer, with_units=True))
    )


def operator_sentences(answer: OperatorsAnswer) -> Sentences:
    """Which operators take the most GPU time, and how much of its peak the GPU gives."""
    costs, device = answer.costs, answer.device
    operators, graphs, mfu = costs.operators, costs.graphs, costs.work.mfu
    if 2 * graphs.named_ns > operators.device_ns or (not operators.by_name and graphs.named_ns):
        innermost: Counter[str] = Counter()
        for work in graphs.work:
            if work.path:
                innermost[work.path[-1]] += work.device_ns
        largest = sorted(innermost.items(), key=lambda named: (-named[1], named[0]))[:_NAMED]
        return (
            say(
                "GPU {gpu}: inside graphs, operators with the most GPU self time: {largest}, of {time}.",
                gpu=costs.gpu,
                largest=_with_shares(largest, graphs.device_ns),
                time=step_time_text(device, graphs.device_ns),
            ),
        )
    if not operators.by_name:
        return (
            say("GPU {gpu}: no operators were recorded.", gpu=costs.gpu),
            say("Fix: record with `gpuledger capture torch`; `gpuledger ranges` has what NVTX marks."),
        )
    if not operators.device_ns:
        return (say("GPU {gpu}: no GPU work in the steady steps.", gpu=costs.gpu),)
    first = [(group.name, group.device_self_ns) for group in operators.by_name[:_NAMED] if group.device_self_ns]
    sentences = (
        say(
            "GPU {gpu}: operators with the most GPU self time: {largest}, of {time}.",
            gpu=costs.gpu,
            largest=_with_shares(first, operators.device_ns),
            time=step_time_text(device, operators.device_ns),
        ),
        *_few_rows(costs),
    )
    if isinstance(mfu, NotMeasured) or mfu is None:
        return sentences
    peak = {"share": share_text(mfu), "gpu": costs.work.gpu}
    if costs.work.is_bound:
        return *sentences, say("MFU at most {share} of the dense peak of {gpu}.", **peak)
    return *sentences, say("MFU {share} of the dense peak of {gpu}.", **peak)


def _few_rows(costs: OperatorCosts) -> Sentences:
    """What matrix products with few rows are bound by, where they matter: no saving, but more work in the same time."""
    bound = [work for work in costs.work.work if work.rows and work.is_memory_bound and work.device_ns]
    time_ns = sum(work.device_ns for work in bound)
    if time_ns < _FEW_ROWS * costs.operators.device_ns:
        return ()
    largest = max(bound, key=lambda work: work.device_ns)
    hidden = int(_HIDDEN * largest.rows * (largest.memory_ns or 0.0) / (largest.compute_ns or 1.0))
    leading = 10 ** (len(str(hidden)) - 1)  # what is known of a roof is no more than one digit
    free = say(
        "{share} of the GPU time is in matrix products of few rows ({rows} in the largest), bound by reading their "
        "weights: they run at {roof} of the memory bandwidth. Up to about {free} rows take hardly longer, so a larger "
        "batch gives more tokens per second; quantized weights are fewer bytes to read.",
        share=share_text(time_ns / costs.operators.device_ns),
        rows=count_text(largest.rows),
        roof=share_text(min(sum(work.memory_ns or 0.0 for work in bound) / time_ns, 1.0)),
        free=count_text(hidden // leading * leading),
    )
    far = [work for work in bound if (work.roof_share or 1.0) < _FAR]
    if sum(work.device_ns for work in far) < _FEW_ROWS * costs.operators.device_ns:
        return (free,)
    farthest = max(far, key=lambda work: work.device_ns)
    return (
        free,
        say(
            "{name} with {rows} rows is far from it, at {share}: split-K, stream-K or a smaller tile keeps more reads "
            "in flight.",
            name=farthest.name,
            rows=count_text(farthest.rows),
            share=share_text(farthest.roof_share or 0.0),
        ),
    )


def ops_sheets(answer: OperatorsAnswer, *, with_units: bool = False) -> list[Sheet]:
    """All tables about operators, over the steady steps. Without operators in the profile, those are without rows.

    For people, `with_units`, each figure has its unit beside it.
    """
    sheets = [
        _figures_sheet(answer.costs, with_units=with_units),
        _operators_sheet(answer.costs),
        _shapes_sheet(answer),
        _host_sheet(answer.costs),
        _graphs_sheet(answer.costs, for_people=with_units),
    ]
    costs, launched = answer.costs, answer.costs.operators.attributed_share
    return [
        replace(
            sheet,
            name=f"{sheet.name}_gpu{costs.gpu}",
            title=say("{title}, steady steps, GPU {gpu}", title=sheet.title, gpu=costs.gpu),
            why_empty=launched.reason if sheet.name.startswith("ops") and isinstance(launched, NotMeasured) else "",
        )
        for sheet in sheets
    ]


def _figures_sheet(costs: OperatorCosts, *, with_units: bool) -> Sheet:
    """How much of the GPU's time operators explain, and how much of its peak they give: name, value, unit and note."""

    def with_unit(row: tuple[Message, float | None, str, str]) -> str:
        _, value, unit, _ = row
        return "" if value is None else f"{value:,.1f} {unit}"

    columns = (
        Column("figure", say("Figure"), Unit.TEXT, lambda row: row[0]),
        *(
            (Column("value", say("Value"), Unit.FIGURE, with_unit),)
            if with_units
            else (
                Column("value", say("Value"), Unit.RATIO, lambda row: row[1]),
                Column("unit", say("Unit"), Unit.TEXT, lambda row: row[2]),
            )
        ),
        Column("note", "", Unit.TEXT, lambda row: row[3]),
    )
    return Sheet.of("ops_figures", say("Coverage and GPU utilization"), columns, _figures(costs))


def _figures(costs: OperatorCosts) -> list[tuple[Message, float | None, str, str]]:
    def share(name: Message, value: float | NotMeasured | None, note: str = "") -> None:
        if isinstance(value, NotMeasured):
            figures.append((name, None, "%", value.reason))
        else:
            figures.append((name, _percent(value), "%", note))

    figures: list[tuple[Message, float | None, str, str]] = []
    operators, work, graphs = costs.operators, costs.work, costs.graphs
    share(say("GPU time launched in an operator"), operators.attributed_share)
    share(say("GPU time launched in an annotation"), operators.annotated_share)
    if graphs.launches:
        inside = graphs.device_ns / operators.device_ns if operators.device_ns else None
        share(say("GPU time inside graphs"), inside)
        share(say("of which with a place in the program"), graphs.named_share)
    if work.work:
        note = say("upper bound: attention counted in full, or a convolution's stride unknown") if work.is_bound else ""
        figures.append((say("FLOPs counted per step"), work.flops / 1e9 / costs.steps, "GFLOP", note))
        share(say("matrix kernels' time in counted operators"), work.coverage)
    peak = (
        say("at most; dense peak of {gpu}", gpu=work.gpu) if work.is_bound else say("dense peak of {gpu}", gpu=work.gpu)
    )
    share(say("MFU: time at peak / time taken"), work.mfu, peak)
    if work.without_peak_share and not isinstance(work.mfu, NotMeasured):
        share(say("work left out, peak unknown"), work.without_peak_share)
    return figures


def _operators_sheet(costs: OperatorCosts) -> Sheet:
    operators = costs.operators
    rest_ns = operators.device_ns - operators.attributed_ns
    rest: dict[str, Cell] = {
        "name": say("(in no operator)"),
        "device_ns": rest_ns,
        "device_self_ns": rest_ns,
        "device_self_percent": percent(rest_ns, operators.device_ns),
    }
    columns = (
        Column("name", say("Operator"), Unit.TEXT),
        Column("count", say("Count"), Unit.COUNT),
        Column("per_step", say("Per step"), Unit.MEAN, lambda group: group.count / costs.steps, detail=2),
        Column("host_ns", say("Host"), Unit.NS, detail=1),
        Column("host_self_ns", say("Host, self"), Unit.NS),
        Column("device_ns", "GPU", Unit.NS, detail=1),
        Column("device_self_ns", say("GPU, self"), Unit.NS),
        share_column("device_self_percent", say("GPU, self"), "device_self_ns", operators.device_ns),
        Column("kernels", say("Kernels"), Unit.COUNT, detail=3),
        Column("launches", say("Launches"), Unit.COUNT, detail=4),
    )
    return Sheet.of("ops", say("Operators"), columns, (*operators.by_name, rest) if operators.by_name else ())


def _shapes_sheet(answer: OperatorsAnswer) -> Sheet:
    whole_ns = answer.costs.operators.device_ns
    rated = [(shape, _rates(shape.work)) for shape in answer.shapes(MOST_SHAPES)]
    return Sheet.of(
        "ops_by_shape",
        say("Operators by inputs, top {count} by GPU time", count=MOST_SHAPES),
        (
            Column("name", say("Operator"), Unit.TEXT, lambda row: row[0].costs.name),
            Column("shapes", say("Inputs"), Unit.TEXT, lambda row: shapes_text(row[0].inputs)),
            Column("types", say("Types"), Unit.TEXT, lambda row: types_text(row[0].inputs), detail=3),
            Column("count", say("Count"), Unit.COUNT, lambda row: row[0].costs.count),
            Column("host_self_ns", say("Host, self"), Unit.NS, lambda row: row[0].costs.host_self_ns, detail=4),
            Column("device_self_ns", say("GPU, self"), Unit.NS, lambda row: row[0].costs.device_self_ns),
            share_column(
                "device_self_percent", say("GPU, self"), lambda row: row[0].costs.device_self_ns, whole_ns, detail=1
            ),
            Column("flops", "FLOPs", Unit.COUNT, lambda row: row[1].get("flops"), detail=5),
            Column("computed_in", say("Computed in"), Unit.TEXT, lambda row: row[1].get("computed_in"), detail=2),
            Column("tflops_per_s", "TFLOP/s", Unit.MEAN, lambda row: row[1].get("tflops_per_s")),
            Column("peak_percent", say("Of peak"), Unit.SHARE_PERCENT, lambda row: row[1].get("peak_percent"), 1),
            Column("roof", say("Roof"), Unit.TEXT, lambda row: row[1].get("roof")),
            Column("roof_percent", say("Of its roof"), Unit.SHARE_PERCENT, lambda row: row[1].get("roof_percent")),
            Column("note", "", Unit.TEXT, lambda row: row[1].get("note"), detail=2),
        ),
        rated,
    )


def _rates(work: OperatorWork | None) -> dict[str, Cell]:
    """How fast counted work was done, by column; nothing where it was not counted."""
    if work is None:
        return {}
    of_roof = work.roof_share
    notes: list[str] = [say("at most")] if work.is_bound else []
    notes += [say("partly from the caches")] if of_roof is not None and of_roof > 1 else []
    notes += [work.peak.reason] if isinstance(work.peak, NotMeasured) else []
    return {
        "flops": work.flops,
        "computed_in": work.kind,
        "tflops_per_s": None if work.flops_per_s is None else work.flops_per_s / 1e12,
        "peak_percent": _percent(work.peak_share),
        "roof": None if of_roof is None else say("memory") if work.is_memory_bound else say("compute"),
        "roof_percent": _percent(of_roof),
        "note": joined(say("; "), notes),
    }


def shapes_text(given: Inputs) -> str:
    """Shapes for people: `512x2048, 2048x3072`; what is no tensor is left out."""
    return ", ".join("x".join(map(str, shape)) for shape in given.shapes if shape)


def types_text(given: Inputs) -> str:
    """The types of the tensors, each once, in order."""
    kinds = [given.kind(position) for position, shape in enumerate(given.shapes) if shape]
    return ", ".join(dict.fromkeys(kind for kind in kinds if kind))


def _host_sheet(costs: OperatorCosts) -> Sheet:
    def device_ns(cost: HostCost) -> float | None:
        return None if cost.device_ns is None else cost.device_ns / costs.steps

    return Sheet.of(
        "host_against_device",
        say("Host vs device"),
        (
            Column("kind", say("Kind"), Unit.TEXT, "kind.value"),
            Column("name", say("Name"), Unit.TEXT, shorten=label),
            Column("where", say("Where"), Unit.TEXT, "place", detail=1),
            Column("count", say("Count"), Unit.COUNT, detail=2),
            Column("per_step", say("Per step"), Unit.MEAN, lambda cost: cost.count / costs.steps, detail=3),
            Column("host_ns_per_step", say("Host per step"), Unit.NS, lambda cost: cost.host_ns / costs.steps),
            Column("device_ns_per_step", say("GPU per step"), Unit.NS, device_ns),
        ),
        costs.host,
    )


def _innermost(place: str) -> str:
    """The inner modules and the operator, of a place too long to show whole: `Mlp_# > Linear_# > aten::mm`."""
    names = place.split(_INSIDE)
    modules = [name.removeprefix(MODULE) for name in names if name.startswith(MODULE)]
    return _INSIDE.join((*modules[-2:], names[-1])) if modules else _INSIDE.join(names[-2:])


def _graphs_sheet(costs: OperatorCosts, *, for_people: bool) -> Sheet:
    """The places inside graphs with the most GPU time, the others in one row.

    For people equal layers together, and without the column of lines of code where none is known.
    """
    work = costs.graphs.layers_together if for_people else costs.graphs.work
    rest = work[MOST_PLACES:]
    count, device_ns = sum(place.count for place in rest), sum(place.device_ns for place in rest)
    more: dict[str, Cell] = {
        "place": say("({count} more)", count=len(rest)),
        "count": count,
        "per_step": count / costs.steps,
        "device_ns": device_ns,
        "device_percent": percent(device_ns, costs.graphs.device_ns),
    }
    columns: tuple[Column, ...] = (
        Column(
            "place",
            say("Place"),
            Unit.TEXT,
            lambda place: joined(_INSIDE, place.path or (say("(unknown)"),)),
            shorten=_innermost,
        ),
        Column("known_by", say("How known"), Unit.TEXT, "source", detail=1),
        Column("where", say("Where"), Unit.TEXT, detail=3),
        Column("count", say("Executions"), Unit.COUNT),
        Column("per_step", say("Per step"), Unit.MEAN, lambda place: place.count / costs.steps, detail=2),
        Column("device_ns", "GPU", Unit.NS, detail=1),
        share_column("device_percent", "GPU", "device_ns", costs.graphs.device_ns),
    )
    if for_people and not any(place.where for place in costs.graphs.work):
        columns = tuple(column for column in columns if column.key != "where")
    return Sheet.of("graph_work", say("Work inside graphs"), columns, (*work[:MOST_PLACES], *((more,) if rest else ())))
