"""Use of the GPU from samples: by kernel, by step, the split of compute, and against Nsight Compute's counters.

Percent is of what the GPU could do in the time; a number that is hardly known is an interval. Only where samples were
read; titles tell the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Struct

from gpuledger.analyse.roofline.verdict import LOW_OCCUPANCY
from gpuledger.analyse.utilization.against_counters import CounterComparison, agreement
from gpuledger.analyse.utilization.kernel_use import (
    AT_A_ROOF,
    CLASSES,
    KernelUse,
    UseClass,
    UseFigure,
    UseOfKernels,
)
from gpuledger.analyse.utilization.stretches import (
    Clock,
    ComputeSplit,
    SampledUse,
    TimeByClass,
    UseOfStretches,
    compute_split,
)
from gpuledger.catalog.gpu_metrics import MEMORY, OF_KERNELS, GpuMetric
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Block, Heading, Paragraph, SheetBlock
from gpuledger.present.row_sheets import row_from, row_sheet
from gpuledger.present.sheet import Sheet
from gpuledger.rows import Gpu, Label, Row, ShareInterval, Unit, share
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


Shape = tuple[int, int, int]


class KernelUseRow(Row, frozen=True):
    """What kernels of one name and launch shape use of the GPU while they run, from samples; null: not sampled."""

    gpu: Gpu
    name: Annotated[str, Label(say("Kernel"), shorten=label)]
    launches: Annotated[int, Label(say("Launches"), Unit.COUNT, detail=1)]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    per_step_ns: Annotated[int | None, Label(say("Per step"), Unit.NS, detail=5, meaning="null: there are no steps")]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, detail=1, meaning="of kernel time")]
    sm_active: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.SM_ACTIVE], Unit.SHARE)]
    sm_issue: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.SM_ISSUE], Unit.SHARE, detail=4)]
    tensor: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.TENSOR], Unit.SHARE)]
    warps: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.WARPS], Unit.SHARE, detail=3)]
    dram_read: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.DRAM_READ], Unit.SHARE)]
    dram_write: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.DRAM_WRITE], Unit.SHARE)]
    dram: Annotated[ShareInterval | None, Label("DRAM", Unit.SHARE, detail=8, meaning="read and written together")]
    bound: Annotated[UseClass, Label(say("Bound by"), detail=2, words=CLASS_LIMITS.__getitem__)]
    occupancy: Annotated[
        float | None,
        Label(say("Occupancy"), Unit.SHARE, detail=5, meaning="of the warps that active multiprocessors have room for"),
    ]
    occupancy_limit: Annotated[
        float | None, Label(say("Occupancy limit"), Unit.SHARE, detail=5, meaning="what the launch allows")
    ]
    limited_by: Annotated[str | None, Label(say("Limited by"), detail=5, words=RESOURCES.__getitem__)]
    grid: Annotated[Shape, Label(say("Grid"), Unit.TRIPLE, detail=6)]
    block: Annotated[Shape, Label(say("Block"), Unit.TRIPLE, detail=7)]


class MeanUseRow(Row, frozen=True):
    """Means of a GPU's samples over some of the time, or over a step, idle time included; null: not sampled."""

    gpu: Gpu
    over: Annotated[str | None, Label(say("Over"), meaning="null: one step")]
    step: Annotated[int | None, Label(say("Step"), Unit.ID)]
    start_ns: Annotated[int | None, Label(say("Start"), Unit.INSTANT_NS, detail=3)]
    end_ns: Annotated[int | None, Label(say("End"), Unit.INSTANT_NS, detail=3)]
    sm_active: Annotated[float | None, Label(NAMES[GpuMetric.SM_ACTIVE], Unit.SHARE)]
    sm_issue: Annotated[float | None, Label(NAMES[GpuMetric.SM_ISSUE], Unit.SHARE, detail=2)]
    tensor: Annotated[float | None, Label(NAMES[GpuMetric.TENSOR], Unit.SHARE)]
    warps: Annotated[float | None, Label(NAMES[GpuMetric.WARPS], Unit.SHARE, detail=2)]
    dram_read: Annotated[float | None, Label(NAMES[GpuMetric.DRAM_READ], Unit.SHARE)]
    dram_write: Annotated[float | None, Label(NAMES[GpuMetric.DRAM_WRITE], Unit.SHARE)]
    dram: Annotated[float | None, Label("DRAM", Unit.SHARE, meaning="where reads and writes were not sampled apart")]
    pcie_in: Annotated[float | None, Label(NAMES[GpuMetric.PCIE_IN], Unit.SHARE, detail=1)]
    pcie_out: Annotated[float | None, Label(NAMES[GpuMetric.PCIE_OUT], Unit.SHARE, detail=1)]
    gpu_active: Annotated[float | None, Label(say("GPU active"), Unit.SHARE, detail=3)]
    clock_mhz: Annotated[int | None, Label(say("Clock (MHz)"), Unit.COUNT, detail=2)]


class SamplingRow(Row, frozen=True):
    """How a GPU was sampled, and its clock while kernels ran."""

    gpu: int
    samples: int
    period_ns: int
    lag_ns: int
    """How long after its stamp the period of a sample ends."""
    lowest_hz: int | None
    """One sample in a hundred is lower."""
    most_hz: int | None
    """One sample in a hundred is higher."""
    highest_hz: int | None
    """What the GPU can have."""


class AgreementRow(Row, frozen=True):
    """How far samples of a counter agree with what Nsight Compute counted of the same kernels."""

    gpu: Gpu
    counter: Annotated[GpuMetric, Label(say("Counter"), words=NAMES.__getitem__)]
    kernels: Annotated[int, Label(say("Kernels"), Unit.COUNT)]
    error: Annotated[float, Label(say("Mean error by time"), Unit.SHARE, meaning="without sign, as a part of the peak")]
    held_share: Annotated[
        float, Label(say("In interval"), Unit.SHARE, meaning="kernels whose interval holds what was counted")
    ]
    near_share: Annotated[
        float | None,
        Label(say("Within 5 points"), Unit.SHARE, detail=1, meaning="of kernels over 10 us; null: there are none"),
    ]


class ComparedRow(Row, frozen=True):
    """A counter of kernels of one name and shape: from samples, and as Nsight Compute counted it."""

    gpu: Gpu
    name: Annotated[str, Label(say("Kernel"), shorten=label)]
    counter: Annotated[GpuMetric, Label(say("Counter"), words=NAMES.__getitem__)]
    sampled: Annotated[ShareInterval, Label(say("Samples"), Unit.SHARE)]
    counted: Annotated[float, Label("ncu", Unit.SHARE)]
    is_held: Annotated[bool, Label(say("In interval"))]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, detail=1)]
    grid: Annotated[Shape, Label(say("Grid"), Unit.TRIPLE, detail=2)]
    block: Annotated[Shape, Label(say("Block"), Unit.TRIPLE, detail=3)]


class UseClassRow(Row, frozen=True):
    """Compute that uses the GPU in one way."""

    use: Annotated[UseClass, Label(say("Utilization"), words=CLASS_WORDS.__getitem__)]
    share: Annotated[float | None, Label(say("of compute"), Unit.SHARE, is_summed=True)]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, meaning="per step", is_summed=True)]
    families: Annotated[tuple[str, ...], Label(say("mostly"), detail=1, separator=", ")]


class SampledGpu(Struct, frozen=True):
    """What samples of one GPU's counters say of it."""

    sampling: SamplingRow
    means: tuple[MeanUseRow, ...]
    steps: tuple[MeanUseRow, ...]
    """Each step, warm-up included."""
    kernels: tuple[KernelUseRow, ...]
    """Of the steady steps, the most time first."""
    agreement: tuple[AgreementRow, ...]
    """Only with --ncu."""
    compared: tuple[ComparedRow, ...]
    """Only with --ncu."""


def _whole_ns(kernels: Sequence[KernelUse]) -> int:
    return sum(kernel.time_ns for kernel in kernels)


def sampled_gpu(device: Device, use: SampledUse, held: tuple[CounterComparison, ...] = ()) -> SampledGpu:
    """All rows about one GPU; `held` is what Nsight Compute counted of the same kernels."""
    kernels, stretches = use
    clock, gpu = stretches.clock, device.gpu
    return SampledGpu(
        row_from(
            SamplingRow,
            kernels,
            lowest_hz=None if clock is None else round(clock.lowest_hz),
            most_hz=None if clock is None else round(clock.most_hz),
            highest_hz=None if clock is None else clock.highest_hz,
        ),
        means=(
            _means(gpu, stretches.window, say("the window")),
            _means(gpu, stretches.steady, say("the steady steps")),
            _means(gpu, stretches.busy, say("kernels")),
        ),
        steps=step_uses(device, stretches),
        kernels=tuple(_kernel_use(device, kernel, _whole_ns(kernels.kernels)) for kernel in kernels.kernels),
        agreement=agreement_rows(gpu, held),
        compared=tuple(
            row_from(
                ComparedRow,
                *(figure, figure.kernel),
                gpu=gpu,
                name=figure.kernel.full_name,
                counter=figure.metric,
                sampled=_interval(figure.sampled),
                counted=round(figure.counted / 100, 4),
            )
            for figure in held
        ),
    )


def step_uses(device: Device, stretches: UseOfStretches) -> tuple[MeanUseRow, ...]:
    """Means of each step, warm-up included."""
    return tuple(
        _means(device.gpu, means, None, number, (span.start_ns - device.zero_ns, span.end_ns - device.zero_ns))
        for number, (span, means) in enumerate(stretches.steps)
    )


def agreement_rows(gpu: int, held: tuple[CounterComparison, ...]) -> tuple[AgreementRow, ...]:
    """A row for each counter that was sampled and counted."""
    of_metrics = ((metric, agreement(held, metric)) for metric in OF_KERNELS)
    return tuple(
        AgreementRow(gpu, metric, found.kernels, found.mean_error / 100, found.held_share, found.near_share)
        for metric, found in of_metrics
        if found is not None
    )


def _means(
    gpu: int,
    means: Mapping[GpuMetric, float],
    over: str | None = None,
    step: int | None = None,
    span: tuple[int | None, int | None] = (None, None),
) -> MeanUseRow:
    shares: dict[str, Any] = {
        metric.value: round(means[metric] / 100, 4) if metric in means else None
        for metric in GpuMetric
        if metric is not GpuMetric.SM_CLOCK
    }
    clock = means.get(GpuMetric.SM_CLOCK)
    clock_mhz = None if clock is None else round(clock / 1e6)
    return MeanUseRow(gpu, over, step, *span, clock_mhz=clock_mhz, **shares)


def _interval(figure: UseFigure) -> ShareInterval:
    return ShareInterval(*(round(percent / 100, 4) for percent in (figure.percent, figure.low, figure.high)))


def _kernel_use(device: Device, kernel: KernelUse, whole_ns: int) -> KernelUseRow:
    figures = dict.fromkeys(map(str, OF_KERNELS)) | {
        str(of): _interval(figure) for of, figure in kernel.figures.items()
    }
    figures["dram"] = None if kernel.dram is None else _interval(kernel.dram)
    limit = kernel.occupancy_limit
    return row_from(
        KernelUseRow,
        kernel,
        gpu=device.gpu,
        name=kernel.full_name,
        per_step_ns=None if device.steps is None else kernel.time_ns // device.step_count,
        share=share(kernel.time_ns, whole_ns),
        **figures,
        bound=kernel.use_class,
        occupancy_limit=None if limit is None else limit.share,
        limited_by=None if limit is None else limit.limited_by,
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
    split = compute_split(device, kernels.class_of_row)
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
    """A row per class, per step; they sum to compute."""
    times, by_family = split.steady_total, {line.family: times for line, times in split.steady.items()}
    rows = [
        UseClassRow(
            use=name,
            share=share(times[name], sum(times.values())),
            time_ns=times[name] // device.step_count,
            families=tuple(
                sorted((each for each in by_family if by_family[each][name]), key=lambda each: -by_family[each][name])
            )[:_MOST_FAMILIES],
        )
        for name in CLASSES
        if times[name]
    ]
    return row_sheet("use_split", say("GPU utilization during compute"), UseClassRow, rows)


def _top_sheet(device: Device, use: UseOfKernels) -> Sheet:
    """A few kernels; `gpuledger kernels` has all of them, and all of their counters."""
    whole_ns, time = _whole_ns(use.kernels), "time_ns" if device.steps is None else "per_step_ns"
    rows = [_kernel_use(device, kernel, whole_ns) for kernel in use.kernels[:_TOP]]
    fields = ("name", time, "share", "bound", "sm_active", "tensor", "dram")
    return row_sheet("use", say("Kernels with the most time"), KernelUseRow, rows, fields=fields)


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


def summary_blocks(gpu: int, held: tuple[CounterComparison, ...]) -> list[Block]:
    """What agrees with Nsight Compute and what does not, by counter; nothing where no kernel is in both."""
    if not held:
        return []
    title, rows = say("Samples vs Nsight Compute"), agreement_rows(gpu, held)
    sheet = row_sheet("agreement", title, AgreementRow, rows, fields=("counter", "kernels", "error", "held_share"))
    return [Heading(title), Paragraph(against_sentence(held)), SheetBlock(sheet)]
