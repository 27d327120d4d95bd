"""Use of the GPU from samples: by kernel, by step, the split of compute, and against Nsight Compute's counters.

Percent is of what the GPU could do in the time; a number that is hardly known is an interval. Only where samples were
read; titles tell the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gpuledger.analyse.roofline.verdict import LOW_OCCUPANCY
from gpuledger.analyse.utilization.against_counters import CounterComparison
from gpuledger.analyse.utilization.kernel_use import (
    AT_A_ROOF,
    CLASSES,
    KernelUse,
    UseClass,
    UseFigure,
    UseOfKernels,
)
from gpuledger.analyse.utilization.stretches import Clock, ComputeSplit, SampledUse, TimeByClass, UseOfStretches
from gpuledger.answers.kernels import UseAnswer, agreements
from gpuledger.catalog.gpu_metrics import MEMORY, OF_KERNELS, VAGUE, GpuMetric
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Block, Heading, Paragraph, SheetBlock
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import TOTAL
from gpuledger.units import count_text, share_text, time_text

NAMES: Final = {
    GpuMetric.SM_ACTIVE: say("SMs active"),
    GpuMetric.SM_ISSUE: say("Issue"),
    GpuMetric.TENSOR: say("Tensor"),
    GpuMetric.WARPS: say("Warps"),
    GpuMetric.DRAM_READ: say("DRAM read"),
    GpuMetric.DRAM_WRITE: say("DRAM write"),
    GpuMetric.PCIE_IN: say("PCIe in"),
    GpuMetric.PCIE_OUT: say("PCIe out"),
}
"""What a counter is called over a column."""
METRIC_WORDS: Final = NAMES | {
    GpuMetric.DRAM: say("DRAM"),
    GpuMetric.SM_ISSUE: say("issue slots"),
    GpuMetric.TENSOR: say("tensor cores"),
    GpuMetric.WARPS: say("warps"),
}
"""What a counter is called in a sentence."""
CLASS_WORDS: Final = {
    UseClass.COMPUTE_ROOF: say("at the compute roof"),
    UseClass.MEMORY_ROOF: say("at the memory roof"),
    UseClass.UNDER_FILLED: say("under-filled: SMs idle"),
    UseClass.STALLED: say("stalled: SMs waiting"),
    UseClass.UNKNOWN: say("unknown"),
}
CLASS_LIMITS: Final = {
    UseClass.COMPUTE_ROOF: say("compute"),
    UseClass.MEMORY_ROOF: say("memory"),
    UseClass.UNDER_FILLED: say("SMs idle"),
    UseClass.STALLED: say("stalled"),
    UseClass.UNKNOWN: say("unknown"),
}
"""What limits a kernel of a class, where there is little room."""
CLASS_BOUNDS: Final = {
    UseClass.COMPUTE_ROOF: "compute",
    UseClass.MEMORY_ROOF: "memory",
    UseClass.UNDER_FILLED: "latency",
    UseClass.STALLED: "latency",
    UseClass.UNKNOWN: "unknown",
}
"""What a verdict on Nsight Compute's numbers calls it: pictures have one colour for both."""
RESOURCES: Final = {
    "registers": say("registers"),
    "shared memory": say("shared memory"),
    "warps": say("block size"),
    "blocks": say("blocks per SM"),
}
"""What limits how many warps of a kernel a multiprocessor holds."""
_DETAIL: Final = {GpuMetric.SM_ISSUE: 4, GpuMetric.WARPS: 3}
_TOP: Final = 5
"""Kernels that a report shows; `gpuledger kernels` has all."""
_MOST_FAMILIES: Final = 2
_WORTH_A_SENTENCE: Final = 0.05
"""Of kernel time."""
_HELD_DOWN: Final = 0.97
"""Of the highest clock: below it, the clock is worth a sentence."""
_IN_A_REPORT: Final = (
    GpuMetric.SM_ACTIVE,
    GpuMetric.TENSOR,
    GpuMetric.DRAM_READ,
    GpuMetric.DRAM_WRITE,
    GpuMetric.DRAM,
    GpuMetric.PCIE_IN,
    GpuMetric.PCIE_OUT,
)


def _whole_ns(kernels: Sequence[KernelUse]) -> int:
    return sum(kernel.time_ns for kernel in kernels)


def figure_text(figure: UseFigure | None) -> Message | None:
    """A number in percent, or its interval where that is wide; None where it was not sampled."""
    if figure is None:
        return None
    if figure.high - figure.low > VAGUE:
        return say("{low} to {high} %", low=round(figure.low), high=round(figure.high))
    return say("{percent} %", percent=round(figure.percent))


def _text_column(metric: GpuMetric) -> Column:
    return Column(
        metric,
        NAMES[metric],
        Unit.FIGURE,
        lambda kernel: figure_text(kernel.figures.get(metric)),
        _DETAIL.get(metric, 0),
    )


def _means_text(means: Mapping[GpuMetric, float], metrics: Sequence[GpuMetric]) -> list[Message]:
    return [
        say("{counter} {share}", counter=METRIC_WORDS[metric], share=share_text(means[metric] / 100))
        for metric in metrics
        if metric in means
    ]


def use_answer(use: UseOfKernels, stretches: UseOfStretches) -> list[Message]:
    """How the GPU was used while kernels ran, which kernel has the most room, and its clock."""
    sentences = [
        say(
            "GPU {gpu}, percent of peak while kernels ran: {figures}.",
            gpu=use.gpu,
            figures=joined(say(", "), _means_text(stretches.busy, (*OF_KERNELS, GpuMetric.DRAM))),
        )
    ]
    if use.kernels:
        sentences += [_first_kernel(use), *_low_occupancy(use), *_reading_weights(use)]
    if stretches.clock is not None and (sentence := _clock_sentence(stretches.clock)):
        sentences.append(sentence)
    return sentences


def _first_kernel(use: UseOfKernels) -> Message:
    """The kernel with the most time, and how far each of its counters is known."""
    first = use.kernels[0]
    figures = [
        say(
            "{counter} {share} ({low} to {high})",
            counter=METRIC_WORDS[metric],
            share=share_text(figure.percent / 100),
            low=share_text(figure.low / 100),
            high=share_text(figure.high / 100),
        )
        for metric in (GpuMetric.TENSOR, *MEMORY)
        if (figure := first.figures.get(metric)) is not None
    ]
    return say(
        "Most time: {kernel}, {share} of kernel time: {figures}.",
        kernel=cut_label(label(first.full_name)),
        share=share_text(first.time_ns / _whole_ns(use.kernels)),
        figures=joined(say(", "), figures),
    )


def _low_occupancy(use: UseOfKernels) -> list[Message]:
    """The kernel with the most time that is at no roof with few warps: an observation, as nobody knows what more of
    them would save."""
    whole_ns = sum(kernel.time_ns for kernel in use.kernels)
    for kernel in use.kernels:
        achieved, limit = kernel.occupancy, kernel.occupancy_limit
        if kernel.time_ns < _WORTH_A_SENTENCE * whole_ns:
            break
        if kernel.use_class is UseClass.STALLED and achieved is not None and achieved < LOW_OCCUPANCY:
            told = {
                "kernel": cut_label(label(kernel.full_name)),
                "share": share_text(kernel.time_ns / whole_ns),
                "occupancy": share_text(achieved),
            }
            if limit is None or limit.share >= 2 * achieved:
                return [
                    say(
                        "{kernel} ({share} of kernel time) is at no roof with an occupancy of {occupancy}; what more "
                        "warps would save is not known.",
                        **told,
                    )
                ]
            return [
                say(
                    "{kernel} ({share} of kernel time) is at no roof with an occupancy of {occupancy}, of {limit} "
                    "allowed by {resource}; what more warps would save is not known.",
                    **told,
                    limit=share_text(limit.share),
                    resource=RESOURCES[limit.limited_by],
                )
            ]
    return []


def _reading_weights(use: UseOfKernels) -> list[Message]:
    """Matrix kernels that DRAM bounds, which is so where a product has few rows."""
    bound = [
        kernel
        for kernel in use.kernels
        if kernel.use_class is UseClass.MEMORY_ROOF and family(kernel.full_name) == "gemm" and kernel.dram is not None
    ]
    time_ns, whole_ns = (sum(kernel.time_ns for kernel in some) for some in (bound, use.kernels))
    if not bound or time_ns < 2 * _WORTH_A_SENTENCE * whole_ns:
        return []
    dram = sum(kernel.time_ns * kernel.dram.percent for kernel in bound if kernel.dram is not None) / time_ns
    return [
        say(
            "{share} of kernel time is in matrix kernels bound by DRAM, at {dram} of its bandwidth: products of few "
            "rows read all their weights. More rows (a larger batch) take hardly longer and give more tokens per "
            "second; quantized weights are fewer bytes to read.",
            share=share_text(time_ns / whole_ns),
            dram=share_text(dram / 100),
        )
    ]


def _clock_sentence(clock: Clock) -> Message | None:
    if clock.highest_hz is None or clock.mean_hz >= _HELD_DOWN * clock.highest_hz:
        return None
    return say(
        "The clock stayed below its maximum: {mean} MHz on average while kernels ran, {lowest} MHz "
        "at the lowest, of {highest} MHz.",
        mean=count_text(round(clock.mean_hz / 1e6)),
        lowest=count_text(round(clock.lowest_hz / 1e6)),
        highest=count_text(round(clock.highest_hz / 1e6)),
    )


def use_blocks(device: Device, use: SampledUse) -> list[Block]:
    """How compute uses the GPU: a sentence, the split, what it is on average, and the kernels with the most time."""
    kernels, stretches = use
    split = UseAnswer(device, use).split
    if not split.steady:
        return []
    title = say("GPU utilization during compute, per step") if device.steps else say("GPU utilization during compute")
    source = say(
        "The kernels with the most time, from {count} samples every {period}, in percent of peak while they ran:",
        count=count_text(kernels.samples),
        period=time_text(kernels.period_ns),
    )
    return [
        Heading(title),
        Paragraph(_split_sentence(split.steady_total)),
        SheetBlock(_split_sheet(device, split)),
        Paragraph(_means_sentence(device, stretches)),
        Paragraph(source),
        SheetBlock(_top_sheet(device, kernels)),
    ]


def _split_sentence(times: TimeByClass) -> Message:
    """Which share of compute is at a roof, and what the rest is."""
    whole = sum(times.values())
    share = {name: share_text(times[name] / whole) for name in CLASSES}
    return say(
        "{roof} of compute time is at a roof (compute {compute}, memory {memory}); {under_filled} "
        "leaves SMs idle, {stalled} is stalled, {unknown} is unknown.",
        roof=share_text(sum(times[name] for name in AT_A_ROOF) / whole),
        compute=share[UseClass.COMPUTE_ROOF],
        memory=share[UseClass.MEMORY_ROOF],
        under_filled=share[UseClass.UNDER_FILLED],
        stalled=share[UseClass.STALLED],
        unknown=share[UseClass.UNKNOWN],
    )


def _split_sheet(device: Device, split: ComputeSplit) -> Sheet:
    """A row per class, per step; the foot is compute."""
    times, steps = split.steady_total, device.step_count
    whole = sum(times.values())
    return Sheet.of(
        f"use_split_gpu{device.gpu}",
        say("GPU {gpu} utilization during compute", gpu=device.gpu),
        (
            Column("use", say("Utilization"), Unit.TEXT, lambda name: CLASS_WORDS[name]),
            Column("share", say("of compute"), Unit.FIGURE, lambda name: share_text(times[name] / whole)),
            Column("time", say("Time"), Unit.FIGURE, lambda name: time_text(times[name] // steps)),
            Column("families", say("mostly"), Unit.TEXT, lambda name: _families(split, name), detail=1),
        ),
        [name for name in CLASSES if times[name]],
        foot=({"use": TOTAL, "share": share_text(1.0), "time": time_text(whole // steps)},),
    )


def _families(split: ComputeSplit, name: UseClass) -> Message:
    """The families with the most time of a class."""
    by_family = sorted(((times[name], line.family) for line, times in split.steady.items()), reverse=True)
    whole = sum(time for time, _ in by_family)
    largest = [
        say("{family} {percent} %", family=family, percent=round(100 * time / whole))
        for time, family in by_family[:_MOST_FAMILIES]
        if time
    ]
    return joined(say(", "), largest)


def _top_sheet(device: Device, use: UseOfKernels) -> Sheet:
    """A few kernels; `gpuledger kernels` has all of them, and all of their counters."""
    whole_ns, steps = _whole_ns(use.kernels), device.step_count
    columns = (
        Column("kernel", say("Kernel"), Unit.TEXT, lambda kernel: label(kernel.full_name)),
        Column("time", say("Time"), Unit.FIGURE, lambda kernel: time_text(kernel.time_ns // steps)),
        Column("share", say("Share"), Unit.FIGURE, lambda kernel: share_text(kernel.time_ns / whole_ns), detail=1),
        Column("class", say("Bound by"), Unit.TEXT, lambda kernel: CLASS_LIMITS[kernel.use_class]),
        *map(_text_column, (GpuMetric.SM_ACTIVE, GpuMetric.TENSOR)),
        Column("dram", say("DRAM"), Unit.FIGURE, lambda kernel: figure_text(kernel.dram)),
    )
    return Sheet.of(f"use_gpu{use.gpu}", say("Kernels with the most time"), columns, use.kernels[:_TOP])


def _means_sentence(device: Device, stretches: UseOfStretches) -> Message:
    """What the counters are on average, idle time included."""
    means = _means_text(stretches.steady, _IN_A_REPORT)
    if GpuMetric.SM_CLOCK in stretches.steady:
        megahertz = count_text(round(stretches.steady[GpuMetric.SM_CLOCK] / 1e6))
        means.append(say("clock {megahertz} MHz", megahertz=megahertz))
    figures = joined(say(", "), means)
    if device.steps is None:
        return say("On average over the window, idle time included: {figures}.", figures=figures)
    return say("On average over the steady steps, idle time included: {figures}.", figures=figures)


def against_sentence(held: tuple[CounterComparison, ...]) -> Message:
    """How many of the values that Nsight Compute counted lie in the intervals of samples."""
    return say(
        "For the {kernels} kernels in both (by name, grid and block), the intervals from samples "
        "contain {share} of the {count} values that Nsight Compute measured.",
        kernels=count_text(len({id(figure.kernel) for figure in held})),
        share=share_text(sum(figure.is_held for figure in held) / len(held)),
        count=count_text(len(held)),
    )


def summary_blocks(held: tuple[CounterComparison, ...]) -> list[Block]:
    """What agrees with Nsight Compute and what does not, by counter; nothing where no kernel is in both."""
    if not held:
        return []
    sentence = against_sentence(held)
    title = say("Samples vs Nsight Compute")
    columns = (
        Column("counter", say("Counter"), Unit.TEXT, lambda row: NAMES[row[0]]),
        Column("kernels", say("Kernels"), Unit.FIGURE, lambda row: count_text(row[1].kernels)),
        Column(
            "mean_error",
            say("Mean error by time"),
            Unit.FIGURE,
            lambda row: say("{points} points", points=f"{row[1].mean_error:.1f}"),
        ),
        Column("held", say("In interval"), Unit.FIGURE, lambda row: share_text(row[1].held_share)),
    )
    by_counter = Sheet.of("against_ncu", title, columns, agreements(held).items())
    return [Heading(title), Paragraph(sentence), SheetBlock(by_counter)]
