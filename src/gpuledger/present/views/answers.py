"""What the verbs that ask one question say first: a sentence that answers it, then what to do about it.

Results of `analyse` in, sentences out: the first is the answer, the others say what to change or where to look. The
tables under them have the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.gap_summary import GapSummary
from gpuledger.analyse.kernels.step_kernels import StepOverview
from gpuledger.analyse.launch_costs import CallTimes, LaunchCosts, LaunchQueue
from gpuledger.analyse.memory.figures import MemoryFigures
from gpuledger.analyse.operators.costs import OperatorCosts
from gpuledger.analyse.overlap import Exposure, StreamOverlap, WorkOverlap
from gpuledger.analyse.range_tree import RangeTree
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings import idle
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.messages import Message, joined, say
from gpuledger.trace.model import NotMeasured
from gpuledger.units import bytes_text, count_text, share_text, time_text

Sentences = tuple[Message, ...]

_NAMED: Final = 3
"""So many of the largest parts are named in a sentence."""

_MUCH: Final = 0.01
"""From this share of the step on, something is worth a sentence about what to do."""

_FEW_ROWS: Final = 0.1
"""Of the GPU time: from here on, products of few rows are worth a sentence."""

_FAR: Final = 0.5
"""Of its roof: a product that reaches less is far from it."""

_HIDDEN: Final = 0.5
"""Of the rows at which arithmetic takes as long as the bytes: up to here it hides behind them (H200: 64 rows take a
tenth longer than 16)."""

_HALF: Final = 0.5


def step_answer(device: Device) -> Sentences:
    """How long a step takes, how steady that is, and what most of it is."""
    steps = variation(device)
    if steps is None:
        missing = say("GPU {gpu}: no steps found in {window}.", gpu=device.gpu, window=time_text(device.steady_ns))
        return missing, say("Fix: define the step with --step-range=REGEX or --step-kernel=REGEX.")
    told = {
        "gpu": device.gpu,
        "median": time_text(steps.median_ns),
        "busy": share_text(_busy_share(device)),
        "source": steps.steps.source,
    }
    answer = say("GPU {gpu}: one step of {median}, GPU busy {busy} ({source}).", **told)
    if device.step_count > 1:
        answer = say(
            "GPU {gpu}: {count} steps of {median} (median; P10 {low}, P90 {high}), GPU busy {busy} ({source}).",
            **told,
            count=count_text(device.step_count),
            low=time_text(steps.p10_ns),
            high=time_text(steps.p90_ns),
        )
    return answer, *_unsteady(steps), _largest_part(device)


def _unsteady(steps: Variation) -> list[Message]:
    """Outliers and drift."""
    told: list[Message] = []
    if steps.outliers:
        worst = max(steps.outliers, key=lambda outlier: outlier.length_ns)
        told.append(
            say(
                "Unusual steps: {count}. The longest, step {step}, takes {length}: {excess} more {line} than usual.",
                count=count_text(len(steps.outliers)),
                step=worst.step,
                length=time_text(worst.length_ns),
                excess=time_text(worst.excess_ns),
                line=worst.line.label,
            )
        )
    if steps.drifts and steps.drift is not None:
        told.append(
            say(
                "Steps drift: {early} in the first third, {late} in the last, most of it {line}.",
                early=time_text(steps.drift.early_ns),
                late=time_text(steps.drift.late_ns),
                line=steps.drift.line.label,
            )
        )
    return told


def _largest_part(device: Device) -> Message:
    """The line with the most time, and the verb that looks into it."""
    line, time_ns = max(device.line_ns.items(), key=lambda entry: entry[1])
    return say(
        "Largest line: {line}, {share}; for details run `gpuledger {verb}`.",
        line=line.label,
        share=share_text(time_ns / max(device.steady_ns, 1)),
        verb=_verb_for(line),
    )


def _verb_for(line: Line) -> str:
    if line.is_idle:
        return "gaps"
    return "kernels" if line.is_compute else "overlap"


def _busy_share(device: Device) -> float:
    return sum(time for line, time in device.line_ns.items() if not line.is_idle) / max(device.steady_ns, 1)


def gap_answer(summary: GapSummary, device: Device) -> Sentences:
    """How much of the window the GPU is idle, why, and what to fix first."""
    window_ns = device.ledger.window_ns
    if not summary.idle_ns:
        return (say("GPU {gpu}: never idle in {window}.", gpu=summary.gpu, window=time_text(window_ns)),)
    largest = summary.by_cause[0]
    answer = say(
        "GPU {gpu}: idle {share} of the window ({idle} of {window}), in {count} gaps; {part} of the idle time is "
        "{cause}.",
        gpu=summary.gpu,
        share=share_text(summary.idle_ns / window_ns),
        idle=time_text(summary.idle_ns),
        window=time_text(window_ns),
        count=count_text(summary.gaps),
        part=share_text(largest.time_ns / summary.idle_ns),
        cause=largest.cause.label,
    )
    if not summary.by_trigger or not summary.steady_idle_ns:
        return (answer,)
    first = max(summary.by_trigger, key=lambda part: part.time_ns)
    told = {
        "trigger": first.trigger.label,
        "share": share_text(first.time_ns / summary.steady_idle_ns),
        "count": count_text(first.gaps),
        "time": _a_step(device, first.time_ns),
    }
    code = code_of(first.trigger)
    if code is None or first.time_ns < _MUCH * device.steady_ns:
        return answer, say("Most of it in the steady steps: {trigger}, {share} ({count} gaps, {time}).", **told)
    return answer, say(
        "Most of it in the steady steps: {trigger}, {share} ({count} gaps, {time}): `gpuledger explain {code}`; "
        "`gpuledger report` ranks fixes by what they save.",
        **told,
        code=code,
    )


def code_of(trigger: Trigger) -> str | None:
    """The finding that is about gaps of a trigger; None where none is."""
    return next((rule.code for rule in idle.RULES if trigger in rule.triggers), None)


def launch_answer(costs: LaunchCosts, device: Device) -> Sentences:
    """What launching costs the CPU, whether it keeps ahead of the GPU, and what to do where it does not."""
    count, time_ns = _sums(costs.launch_calls)
    if not count:
        return (say("GPU {gpu}: no launch call was recorded in the steady steps.", gpu=costs.gpu),)
    answer = say(
        "GPU {gpu}: launch calls take {time} on the CPU ({share} of the time): {count}; {ahead}.",
        gpu=costs.gpu,
        time=_a_step(device, time_ns),
        share=share_text(time_ns / costs.steady_ns),
        count=_count(device, count, say("launch"), say("launches")),
        ahead=_ahead_words(costs.queue),
    )
    waits, waited_ns = _sums(costs.waiting_calls)
    more: list[Message] = []
    if waits:
        more.append(
            say(
                "The CPU waits {time} for the GPU: {count}.",
                count=_count(device, waits, say("call"), say("calls")),
                time=_a_step(device, waited_ns),
            )
        )
    if not _is_ahead(costs.queue) and (costs.queue.tiny_share or 0) >= _HALF:
        more.append(
            say(
                "Fix: {share} of the GPU work takes under 5 us, less than launching it: fuse it, or capture "
                "the step in a CUDA graph (`gpuledger explain TINY-KERNELS`).",
                share=share_text(costs.queue.tiny_share or 0),
            )
        )
    return answer, *more


def _is_ahead(queue: LaunchQueue) -> bool:
    return queue.delays is not None and queue.delays.ahead_share >= _HALF


def _ahead_words(queue: LaunchQueue) -> Message:
    if queue.delays is None:
        return say("how far the CPU runs ahead was not recorded")
    told = {"median": time_text(round(queue.delays.median_ns)), "share": share_text(queue.delays.ahead_share)}
    if _is_ahead(queue):
        return say(
            "the CPU runs ahead: work waits {median} in the queue (median), {share} of it for over 10 us", **told
        )
    return say(
        "the CPU does not run ahead: work waits {median} in the queue (median), {share} of it for over 10 us", **told
    )


def memory_answer(device: Device, figures: MemoryFigures) -> Sentences:
    """What is copied and allocated, and what of it to change."""
    copies, count = figures.copies, sum(copied.count for copied in figures.copies)
    time_ns = sum(copied.total_ns for copied in copies)
    answer = say("GPU {gpu}: no copies in the steady steps.", gpu=device.gpu)
    if count:
        answer = say(
            "GPU {gpu}: copies and memsets take {time} ({share} of the time) and move {size}: {count}.",
            gpu=device.gpu,
            time=_a_step(device, time_ns),
            share=share_text(time_ns / device.steady_ns),
            size=bytes_text(sum(copied.total_bytes for copied in copies) // device.step_count),
            count=_count(device, count, say("transfer"), say("transfers")),
        )
    more: list[Message] = []
    if not isinstance(figures.in_use, NotMeasured):
        more.append(say("Peak device memory: {size}.", size=bytes_text(figures.in_use.peak_bytes)))
    pageable = [copied for copied in copies if "Pageable" in (copied.source, copied.target)]
    if pageable:
        told = {"count": count_text(sum(copied.count for copied in pageable)), "whole": count_text(count)}
        is_much = sum(copied.total_ns for copied in pageable) >= _MUCH * device.steady_ns
        more.append(
            say(
                "Fix: {count} of {whole} copies use pageable host memory, which blocks the CPU; pin it "
                "(`gpuledger explain COPY-PAGEABLE`).",
                **told,
            )
            if is_much
            else say("{count} of {whole} copies use pageable host memory, which blocks the CPU.", **told)
        )
    allocations, allocating_ns = _sums(figures.allocation_calls)
    if allocations:
        more.append(
            say(
                "Fix: allocating and freeing device memory takes {time}: {count}; allocate once, before the steps "
                "(`gpuledger explain HOST-ALLOC`).",
                time=_a_step(device, allocating_ns),
                count=_count(device, allocations, say("call"), say("calls")),
            )
        )
    return answer, *more


def range_answer(tree: RangeTree) -> Sentences:
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
    largest = [
        say("{name} {share}", name=cut_label(name), share=share_text(time_ns / whole_ns))
        for name, time_ns in own.most_common(_NAMED)
        if time_ns
    ]
    return (
        say(
            "GPU {gpu}: {share} of {time} of GPU time was launched inside ranges, most of it in "
            "{largest} (excluding nested ranges).",
            gpu=tree.gpu,
            share=share_text(1 - tree.outside_gpu_ns / whole_ns),
            time=time_text(whole_ns),
            largest=joined(say(", "), largest),
        ),
    )


def overlap_answer(overlap: WorkOverlap) -> Sentences:
    """How busy the GPU is, and what of communication and copies is not overlapped with compute."""
    busy = [overlap.compute, overlap.communication, overlap.copies]
    answer = say(
        "GPU {gpu}: busy {busy} of the window: compute {compute}, exposed communication {communication}, exposed "
        "copies {copies}.",
        gpu=overlap.gpu,
        busy=share_text(sum(work.exposed_ns for work in busy) / overlap.window_ns),
        compute=share_text(overlap.compute.exposed_ns / overlap.window_ns),
        communication=share_text(overlap.communication.exposed_ns / overlap.window_ns),
        copies=share_text(overlap.copies.exposed_ns / overlap.window_ns),
    )
    kinds = (
        (say("communication"), overlap.communication, "COMM-EXPOSED"),
        (say("copies"), overlap.copies, "COPY-EXPOSED"),
    )
    return answer, *(_exposed(what, work, code, overlap.window_ns) for what, work, code in kinds if work.running_ns)


def stream_overlap_answer(overlap: StreamOverlap, device: Device) -> Sentences:
    """That kernels overlap on one stream, why, and what that gains at most; nothing where none do."""
    if not overlap.kernels:
        return ()
    why = say("programmatic dependent launch")
    if overlap.in_graphs:
        why = say("programmatic dependent launch, or branches of a graph on one stream")
    return (
        say(
            "On one stream, {kernels} begin before the one before them ends ({why}): they overlap by {time}, "
            "and one after the other they would take at most that much longer.",
            kernels=_count(device, overlap.kernels, say("kernel"), say("kernels")),
            why=why,
            time=_a_step(device, overlap.overlap_ns),
        ),
    )


def _exposed(what: Message, work: Exposure, code: str, window_ns: int) -> Message:
    told = {
        "what": what,
        "time": time_text(work.running_ns),
        "share": share_text(work.exposed_ns / work.running_ns),
    }
    if work.exposed_ns < _MUCH * window_ns:
        return say("Of {time} of {what}, {share} is not overlapped with compute.", **told)
    return say(
        "Fix: of {time} of {what}, {share} is not overlapped with compute (`gpuledger explain {code}`).",
        **told,
        code=code,
    )


def operator_answer(costs: OperatorCosts, device: Device) -> Sentences:
    """Which operators take the most GPU time, and how much of its peak the GPU gives."""
    operators, mfu = costs.operators, costs.work.mfu
    if 2 * costs.graphs.named_ns > operators.device_ns or (not operators.by_name and costs.graphs.named_ns):
        return (_operators_in_graphs(costs, device),)
    if not operators.by_name:
        return (
            say("GPU {gpu}: no operators were recorded.", gpu=costs.gpu),
            say("Fix: record with `gpuledger capture torch`; `gpuledger ranges` has what NVTX marks."),
        )
    if not operators.device_ns:
        return (say("GPU {gpu}: no GPU work in the steady steps.", gpu=costs.gpu),)
    largest = [
        say("{name} {share}", name=group.name, share=share_text(group.device_self_ns / operators.device_ns))
        for group in operators.by_name[:_NAMED]
        if group.device_self_ns
    ]
    answer = say(
        "GPU {gpu}: operators with the most GPU self time: {largest}, of {time}.",
        gpu=costs.gpu,
        largest=joined(say(", "), largest),
        time=_a_step(device, operators.device_ns),
    )
    few_rows = _few_rows(costs)
    if isinstance(mfu, NotMeasured) or mfu is None:
        return (answer, *few_rows)
    if costs.work.is_bound:
        return (
            answer,
            *few_rows,
            say("MFU at most {share} of the dense peak of {gpu}.", share=share_text(mfu), gpu=costs.work.gpu),
        )
    return answer, *few_rows, say("MFU {share} of the dense peak of {gpu}.", share=share_text(mfu), gpu=costs.work.gpu)


def _operators_in_graphs(costs: OperatorCosts, device: Device) -> Message:
    """Where most of a program runs in graphs, what is innermost there."""
    sums: dict[str, int] = {}
    for work in costs.graphs.work:
        if work.path:
            sums[work.path[-1]] = sums.get(work.path[-1], 0) + work.device_ns
    largest = [
        say("{name} {share}", name=name, share=share_text(time_ns / costs.graphs.device_ns))
        for name, time_ns in sorted(sums.items(), key=lambda named: (-named[1], named[0]))[:_NAMED]
    ]
    return say(
        "GPU {gpu}: inside graphs, operators with the most GPU self time: {largest}, of {time}.",
        gpu=costs.gpu,
        largest=joined(say(", "), largest),
        time=_a_step(device, costs.graphs.device_ns),
    )


def _few_rows(costs: OperatorCosts) -> Sentences:
    """What matrix products with few rows are bound by, where they matter: no saving, but more work in the same time."""
    bound = [work for work in costs.work.work if work.rows and work.is_memory_bound and work.device_ns]
    time_ns = sum(work.device_ns for work in bound)
    if time_ns < _FEW_ROWS * costs.operators.device_ns:
        return ()
    largest = max(bound, key=lambda work: work.device_ns)
    memory_ns, compute_ns = largest.memory_ns or 0.0, largest.compute_ns or 1.0
    free = say(
        "{share} of the GPU time is in matrix products of few rows ({rows} in the largest), bound by reading their "
        "weights: they run at {roof} of the memory bandwidth. Up to about {free} rows take hardly longer, so a larger "
        "batch gives more tokens per second; quantized weights are fewer bytes to read.",
        share=share_text(time_ns / costs.operators.device_ns),
        rows=count_text(largest.rows),
        roof=share_text(min(sum(work.memory_ns or 0.0 for work in bound) / time_ns, 1.0)),
        free=count_text(_rounded(_HIDDEN * largest.rows * memory_ns / compute_ns)),
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


def _rounded(number: float) -> int:
    """To one leading digit: what is known of a roof is no more than that."""
    unit = int("1" + "0" * (len(str(int(number))) - 1))
    return int(number) // unit * unit


def kernel_answer(overview: StepOverview, device: Device) -> Sentences:
    """How much of a step its kernels are, and which takes the most."""
    if not overview.entries or not overview.time_ns:
        return (say("GPU {gpu}: no kernels in the steady steps.", gpu=device.gpu),)
    first = max(overview.entries, key=lambda kernel: kernel.time_ns)
    share = overview.time_ns / device.steady_ns
    answer = say(
        "GPU {gpu}: kernels take {time} ({share} of the time): {count}; {part} of that in {kernel}.",
        gpu=device.gpu,
        time=_a_step(device, overview.time_ns),
        share=share_text(share),
        count=_count(device, sum(kernel.calls for kernel in overview.entries), say("launch"), say("launches")),
        kernel=cut_label(label(first.name)),
        part=share_text(first.time_ns / overview.time_ns),
    )
    return (answer,) if share >= _HALF else (answer, _largest_part(device))


def _sums(functions: Sequence[CallTimes]) -> tuple[int, int]:
    """Calls and their time."""
    return sum(function.times.count for function in functions), sum(function.times.total for function in functions)


def _a_step(device: Device, time_ns: int) -> str:
    """A time of all steady steps, for one of them; in all, where there are no steps."""
    time = time_text(time_ns // device.step_count)
    return time if device.steps is None else say("{time} per step", time=time)


def _count(device: Device, count: int, one: Message, many: Message) -> Message:
    """A count a step where it is the same in all, else over all steps: there is no part of a call."""
    steps = device.step_count
    if device.steps is None or count % steps:
        told = say("{count} {what}", count=count_text(count), what=one if count == 1 else many)
        return told if device.steps is None else say("{told} in {steps} steps", told=told, steps=count_text(steps))
    return say("{count} {what} per step", count=count_text(count // steps), what=one if count == steps else many)
