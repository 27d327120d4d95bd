"""The kernels of a profile's steady steps: which take the time, what they use of the GPU, and each launch of a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import numpy as np
from msgspec.structs import replace

from gpuledger.analyse.kernels.step_kernels import StepKernel, StepOverview
from gpuledger.analyse.light.books import SOURCES
from gpuledger.analyse.utilization.against_counters import CounterComparison
from gpuledger.analyse.utilization.kernel_use import KernelUse, UseClass, UseFigure
from gpuledger.analyse.utilization.stretches import SampledRoofline, SampledUse, sampled_roofline
from gpuledger.answers.kernels import TimelineUse, agreements
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present import document as doc
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.answer import Answer, health_rows, note_sentences
from gpuledger.present.views.words import largest_line_sentence, none_sentence, step_count_text, step_time_text
from gpuledger.present.views.work.utilization import CLASS_LIMITS, NAMES, RESOURCES, against_sentence, use_answer
from gpuledger.rows import Gpu, Label, Row, ShareInterval, Unit, share
from gpuledger.trace.model import Note, NotMeasured
from gpuledger.trace.spans import furthest
from gpuledger.units import share_text

_HALF_OF_STEP: Final = 0.5
_SHOWN: Final = 25
"""Rows about samples that people are shown, the most time first."""
Shape = tuple[int, int, int]


class KernelRow(Row, frozen=True):
    """Kernels of one name in the steady steps, of all launch shapes. Their times sum to compute."""

    gpu: Gpu
    name: Annotated[str, Label(say("Kernel"), shorten=label)]
    family: Annotated[str, Label(say("Family"), detail=5)]
    launches: Annotated[int | None, Label(say("Launches"), Unit.COUNT, detail=1, is_summed=True)]
    shapes: Annotated[
        int | None, Label(say("Shapes"), Unit.COUNT, detail=6, meaning="how many grids and blocks it is launched with")
    ]
    per_step_ns: Annotated[
        int | None, Label(say("Per step"), Unit.NS, meaning="null: there are no steps", is_summed=True)
    ]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, detail=2, meaning="in all steady steps", is_summed=True)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of compute", is_summed=True)]
    average_ns: Annotated[float | None, Label(say("Avg"), Unit.MEAN_NS, detail=3, meaning="of one launch")]
    light_share: Annotated[
        float | None, Label(say("Light"), Unit.SHARE, meaning="of its time, what the GPU's roofs allow")
    ]
    beyond_light_ns: Annotated[
        int | None, Label(say("Beyond light"), Unit.NS, detail=4, meaning="how much longer, in all steady steps")
    ]
    light_source: Annotated[str | None, Label(say("Light known from"), detail=4, meaning="most of it")]


class KernelLaunchRow(Row, frozen=True):
    """A launch of the steady step with the usual number of kernels."""

    gpu: Gpu
    number: Annotated[int, Label("#", Unit.ID)]
    name: Annotated[str, Label(say("Kernel"), shorten=label)]
    start_ns: Annotated[int, Label(say("Start"), Unit.INSTANT_NS)]
    duration_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    gap_ns: Annotated[
        int | None, Label(say("Gap before"), Unit.NS, detail=1, meaning="since all kernels before it had ended")
    ]
    range: Annotated[tuple[str, ...], Label(say("Range"), detail=3, meaning="around the launch, or place in a layer")]
    family: Annotated[str, Label(say("Family"), detail=4)]
    stream: Annotated[int, Label(say("Stream"), Unit.ID, detail=5)]
    grid: Annotated[Shape, Label(say("Grid"), Unit.TRIPLE, detail=6)]
    block: Annotated[Shape, Label(say("Block"), Unit.TRIPLE, detail=7)]


class KernelUseRow(Row, frozen=True):
    """What kernels of one name and launch shape use of the GPU while they run, from samples; null: not sampled."""

    gpu: Gpu
    name: Annotated[str, Label(say("Kernel"), shorten=label)]
    launches: Annotated[int, Label(say("Launches"), Unit.COUNT, detail=1)]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of kernel time")]
    sm_active: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.SM_ACTIVE], Unit.SHARE)]
    sm_issue: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.SM_ISSUE], Unit.SHARE, detail=4)]
    tensor: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.TENSOR], Unit.SHARE)]
    warps: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.WARPS], Unit.SHARE, detail=3)]
    dram_read: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.DRAM_READ], Unit.SHARE)]
    dram_write: Annotated[ShareInterval | None, Label(NAMES[GpuMetric.DRAM_WRITE], Unit.SHARE)]
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


class GpuUseRow(Row, frozen=True):
    """Means of a GPU's samples over some of the time; null: not sampled."""

    gpu: Gpu
    over: Annotated[str, Label(say("Over"), meaning="idle time included, but over kernels")]
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
    clock_hz: Annotated[int | None, Label(say("Clock (Hz)"), Unit.COUNT, detail=4)]


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


class KernelsAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.kernels/1"):
    """The kernels of the steady steps, the most time first; where the GPU was sampled, what they use of it."""

    has_steps: bool
    not_sampled: dict[str, str]
    """By GPU, why nothing is known of its counters."""
    kernels: Annotated[tuple[KernelRow, ...], Label(say("Kernels"))]
    launches: Annotated[tuple[KernelLaunchRow, ...], Label(say("Every launch of one step in execution order"))]
    """Only with --by-launch."""
    agreement: Annotated[tuple[AgreementRow, ...], Label(say("Samples vs Nsight Compute"))]
    """Only with --ncu."""
    compared: Annotated[tuple[ComparedRow, ...], Label(say("Samples vs Nsight Compute, by kernel"))]
    use: Annotated[tuple[KernelUseRow, ...], Label(say("GPU utilization by kernel and launch shape"))]
    gpu_use: Annotated[tuple[GpuUseRow, ...], Label(say("GPU utilization on average"))]
    sampling: tuple[SamplingRow, ...]
    roofline: tuple[SampledRoofline, ...] = ()
    """Kernels of each sampled GPU under its roofs, where its peaks are known."""

    def title(self, table: str) -> str:
        title = super().title(table)
        return say("{title}, steady steps", title=title) if self.has_steps and table == "kernels" else title

    def sheet(self, table: str, *, is_exact: bool = False) -> Sheet:
        sheet = super().sheet(table, is_exact=is_exact)
        if is_exact or table not in ("use", "compared") or len(sheet.rows) <= _SHOWN:
            return sheet
        title = say("{title}: the first {count} of {all}", title=sheet.title, count=_SHOWN, all=len(sheet.rows))
        return replace(sheet, title=title, rows=sheet.rows[:_SHOWN])

    def blocks(self) -> Iterator[doc.Block]:
        yield from super().blocks()
        if self.roofline:
            from gpuledger.present.views.page.rooflines import sampled_roofline_chart

            yield doc.Only(doc.Medium.PAGE, tuple(filter(None, map(sampled_roofline_chart, self.roofline))))


def kernels_answer(
    name: str,
    steps: Sequence[tuple[StepOverview, Device]],
    sampled: TimelineUse,
    notes: Sequence[Note],
    families: tuple[tuple[str, str], ...],
    *,
    by_launch: bool = False,
) -> KernelsAnswer:
    """All GPUs; with `by_launch` every launch of one step of each."""
    used, compared = sampled.sampled, sampled.against or []
    sentences = [told for use, stretches in used.values() for told in use_answer(use, stretches)]
    sentences = sentences or [told for overview, device in steps for told in kernel_sentences(overview, device)]
    against = dict(zip(used, compared, strict=False))
    return KernelsAnswer(
        profile=name,
        zero_ns=steps[0][1].zero_ns,
        sentences=(*sentences, *(against_sentence(held) for held in against.values() if held), *note_sentences(notes)),
        health=health_rows(notes),
        has_steps=any(device.steps is not None for _, device in steps),
        not_sampled={str(gpu): use.reason for gpu, use in sampled.use.items() if isinstance(use, NotMeasured)},
        kernels=tuple(row for of_gpu in steps for row in _by_name(*of_gpu, families)),
        launches=tuple(row for of_gpu in steps for row in _launches(*of_gpu, families)) if by_launch else (),
        agreement=tuple(
            AgreementRow(gpu, metric, found.kernels, found.mean_error / 100, found.held_share, found.near_share)
            for gpu, held in against.items()
            for metric, found in agreements(held).items()
        ),
        compared=tuple(_compared(gpu, figure) for gpu, held in against.items() for figure in held),
        use=tuple(_use_row(gpu, kernel, use) for gpu, use in used.items() for kernel in use[0].kernels),
        gpu_use=tuple(row for gpu, use in used.items() for row in _gpu_use(gpu, use)),
        sampling=tuple(_sampling(gpu, use) for gpu, use in used.items()),
        roofline=tuple(
            roofline
            for gpu, use in used.items()
            if isinstance(roofline := sampled_roofline(use, sampled.origin.gpu(gpu)), SampledRoofline)
        ),
    )


def kernel_sentences(overview: StepOverview, device: Device) -> tuple[Message, ...]:
    """How much of a step its kernels are, and which takes the most."""
    if not overview.entries or not overview.time_ns:
        return (none_sentence(device, "kernels"),)
    first = max(overview.entries, key=lambda kernel: kernel.time_ns)
    of_time = overview.time_ns / device.steady_ns
    calls = sum(kernel.calls for kernel in overview.entries)
    answer = say(
        "GPU {gpu}: kernels take {time} ({share} of the time): {count}; {part} of that in {kernel}.",
        gpu=device.gpu,
        time=step_time_text(device, overview.time_ns),
        share=share_text(of_time),
        count=step_count_text(device, calls, say("launch"), say("launches")),
        kernel=cut_label(label(first.name)),
        part=share_text(first.time_ns / overview.time_ns),
    )
    return (answer,) if of_time >= _HALF_OF_STEP else (answer, largest_line_sentence(device))


def _by_name(overview: StepOverview, device: Device, families: tuple[tuple[str, str], ...]) -> Iterator[KernelRow]:
    """One row per name, the most time first; graphs whose kernels were not recorded come last."""
    named = defaultdict[str, list[StepKernel]](list)
    for kernel in overview.entries:
        named[kernel.name].append(kernel)

    def row(name: str, kind: str, kernels: Sequence[StepKernel], time_ns: int) -> KernelRow:
        calls, lit = sum(kernel.calls for kernel in kernels), [kernel.lit for kernel in kernels if kernel.lit]
        known_ns, light_ns = sum(known.known_ns for known in lit), sum(known.light_ns for known in lit)
        return KernelRow(
            gpu=device.gpu,
            name=name,
            family=kind,
            launches=calls or None,
            shapes=len({(kernel.grid, kernel.block) for kernel in kernels}) or None,
            per_step_ns=None if device.steps is None else time_ns // device.step_count,
            time_ns=time_ns,
            share=share(time_ns, overview.time_ns),
            average_ns=share(sum(kernel.ran_ns for kernel in kernels), calls),
            light_share=share(light_ns, known_ns),
            beyond_light_ns=known_ns - light_ns if lit else None,
            light_source=SOURCES[max(lit, key=lambda known: known.known_ns).source] if lit else None,
        )

    rows = [
        row(name, family(name, families), kernels, sum(kernel.time_ns for kernel in kernels))
        for name, kernels in named.items()
    ]
    yield from sorted(rows, key=lambda row: -row.time_ns)
    if overview.other_ns:
        yield row(say("(graphs whose kernels were not recorded)"), "graph", (), overview.other_ns)


def _launches(
    overview: StepOverview, device: Device, families: tuple[tuple[str, str], ...]
) -> Iterator[KernelLaunchRow]:
    """That of the step with the usual number of kernels, in the order of execution."""
    launches = overview.launches
    start, end = device.work.start_ns[launches], device.work.end_ns[launches]
    before = np.maximum(start[1:] - furthest(end)[:-1], 0).tolist() if len(start) else []
    times = start.tolist(), (end - start).tolist(), [None, *before], device.work.stream[launches].tolist()
    kernels = [overview.entries[entry] for entry in overview.sequence]
    for number, (kernel, begun, length, gap, stream) in enumerate(zip(kernels, *times, strict=False), 1):
        yield KernelLaunchRow(
            gpu=device.gpu,
            number=number,
            name=kernel.name,
            start_ns=begun - device.zero_ns,
            duration_ns=length,
            gap_ns=gap,
            range=kernel.place,
            family=family(kernel.name, families),
            stream=stream,
            grid=kernel.grid,
            block=kernel.block,
        )


def _interval(figure: UseFigure) -> ShareInterval:
    return ShareInterval(*(round(percent / 100, 4) for percent in (figure.percent, figure.low, figure.high)))


def _use_row(gpu: int, kernel: KernelUse, use: SampledUse) -> KernelUseRow:
    figures = {metric: _interval(figure) for metric, figure in kernel.figures.items()}
    limit = kernel.occupancy_limit
    return KernelUseRow(
        gpu=gpu,
        name=kernel.full_name,
        launches=kernel.launches,
        time_ns=kernel.time_ns,
        share=share(kernel.time_ns, sum(other.time_ns for other in use[0].kernels)),
        sm_active=figures.get(GpuMetric.SM_ACTIVE),
        sm_issue=figures.get(GpuMetric.SM_ISSUE),
        tensor=figures.get(GpuMetric.TENSOR),
        warps=figures.get(GpuMetric.WARPS),
        dram_read=figures.get(GpuMetric.DRAM_READ),
        dram_write=figures.get(GpuMetric.DRAM_WRITE),
        bound=kernel.use_class,
        occupancy=kernel.occupancy,
        occupancy_limit=None if limit is None else limit.share,
        limited_by=None if limit is None else limit.limited_by,
        grid=kernel.grid,
        block=kernel.block,
    )


def _gpu_use(gpu: int, use: SampledUse) -> Iterator[GpuUseRow]:
    stretches = use[1]
    for over, means in (
        (say("the window"), stretches.window),
        (say("the steady steps"), stretches.steady),
        (say("kernels"), stretches.busy),
    ):
        yield _means(gpu, over, means)


def _means(gpu: int, over: str, means: Mapping[GpuMetric, float]) -> GpuUseRow:
    shares = {
        metric.value: round(means[metric] / 100, 4) if metric in means else None
        for metric in GpuMetric
        if metric is not GpuMetric.SM_CLOCK
    }
    clock = means.get(GpuMetric.SM_CLOCK)
    return GpuUseRow(gpu=gpu, over=over, clock_hz=None if clock is None else round(clock), **shares)


def _sampling(gpu: int, use: SampledUse) -> SamplingRow:
    kernels, clock = use[0], use[1].clock
    return SamplingRow(
        gpu=gpu,
        samples=kernels.samples,
        period_ns=kernels.period_ns,
        lag_ns=kernels.lag_ns,
        lowest_hz=None if clock is None else round(clock.lowest_hz),
        most_hz=None if clock is None else round(clock.most_hz),
        highest_hz=None if clock is None else clock.highest_hz,
    )


def _compared(gpu: int, figure: CounterComparison) -> ComparedRow:
    kernel = figure.kernel
    return ComparedRow(
        gpu=gpu,
        name=kernel.full_name,
        counter=figure.metric,
        sampled=_interval(figure.sampled),
        counted=round(figure.counted / 100, 4),
        is_held=figure.is_held,
        time_ns=kernel.time_ns,
        grid=kernel.grid,
        block=kernel.block,
    )
