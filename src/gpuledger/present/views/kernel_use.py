"""Use of the GPU by its kernels: an answer, a table and JSON. Percent is of what the GPU could do in the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpuledger.analyse.kernels.verdict import LOW_OCCUPANCY
from gpuledger.analyse.utilization.kernel_use import VAGUE, KernelUse, UseClass, UseFigure, UseOfKernels
from gpuledger.analyse.utilization.stretches import Clock, UseOfStretches
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.messages import Message, joined, say
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.views.kernel_words import shape_text
from gpuledger.trace.model import NotMeasured
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
LIMITERS: Final = {
    "registers": say("registers"),
    "shared memory": say("shared memory"),
    "warps": say("block size"),
    "blocks": say("blocks per SM"),
}
"""What limits how many warps of a kernel a multiprocessor holds."""
_DETAIL: Final = {GpuMetric.SM_ISSUE: 4, GpuMetric.WARPS: 3}
_SOURCE: Final = "samples"
_SHOWN: Final = 25
"""Kernels that people are shown; the rest is one line."""

_COLUMNS: Final = (
    Column("kernel", say("Kernel"), Unit.TEXT, shorten=label),
    Column("launches", say("Calls"), Unit.COUNT, detail=1),
    Column("ns", say("Time"), Unit.NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
)
_BOUND: Final = Column("class", say("Bound by"), Unit.TEXT, detail=2)
_OCCUPANCY: Final = (
    Column("occupancy_percent", say("Occupancy"), Unit.SHARE_PERCENT, detail=5),
    Column("occupancy_limit", say("Occupancy limit"), Unit.TEXT, detail=5),
)
_SHAPES: Final = (
    Column("grid", say("Grid"), Unit.TEXT, detail=5),
    Column("block", say("Block"), Unit.TEXT, detail=6),
)
_SIDES: Final = ("percent", "low", "high")


def _title(use: UseOfKernels) -> Message:
    return say(
        "GPU {gpu} utilization by kernel, from {count} samples every {period} (shares of kernel "
        "time; percent of peak while the kernel ran)",
        gpu=use.gpu,
        count=count_text(use.samples),
        period=time_text(use.period_ns),
    )


def shown_sheet(use: UseOfKernels) -> Sheet:
    """For people: one row per kernel, the most time first. A number that is hardly known is an interval."""
    columns = (Column(metric, NAMES[metric], Unit.FIGURE, detail=_DETAIL.get(metric, 0)) for metric in OF_KERNELS)
    whole_ns = sum(kernel.time_ns for kernel in use.kernels)
    rows = [
        (
            *_time(kernel, whole_ns),
            *map(figure_text, map(kernel.figures.get, OF_KERNELS)),
            CLASS_LIMITS[kernel.use_class],
            *_occupancy(kernel),
            *_shape(kernel),
        )
        for kernel in use.kernels[:_SHOWN]
    ]
    rest = use.kernels[_SHOWN:]
    blank = (None,) * (len(OF_KERNELS) + 1 + len(_OCCUPANCY) + len(_SHAPES))
    more = say("({count} more kernels)", count=count_text(len(rest)))
    calls, rest_ns = sum(kernel.launches for kernel in rest), sum(kernel.time_ns for kernel in rest)
    foot = ((more, calls, rest_ns, 100 * rest_ns / whole_ns, *blank),) if rest else ()
    return Sheet(
        f"use_gpu{use.gpu}",
        _title(use),
        (*_COLUMNS, *columns, _BOUND, *_OCCUPANCY, *_SHAPES),
        tuple(rows),
        foot,
        rounded=True,
    )


def use_sheet(use: UseOfKernels) -> Sheet:
    """For programs: every kernel, every number with both ends of its interval."""
    columns = (
        Column(f"{metric}_{side}", f"{metric} {side}", Unit.SHARE_PERCENT) for metric in OF_KERNELS for side in _SIDES
    )
    whole_ns = sum(kernel.time_ns for kernel in use.kernels)
    rows = tuple(
        (
            *_time(kernel, whole_ns),
            *(
                None if figure is None else getattr(figure, side)
                for figure in map(kernel.figures.get, OF_KERNELS)
                for side in _SIDES
            ),
            kernel.use_class.value,
            *_occupancy(kernel),
            *_shape(kernel),
        )
        for kernel in use.kernels
    )
    return Sheet(f"use_gpu{use.gpu}", _title(use), (*_COLUMNS, *columns, _BOUND, *_OCCUPANCY, *_SHAPES), rows)


def _time(kernel: KernelUse, whole_ns: int) -> tuple[Cell, ...]:
    share = 100 * kernel.time_ns / whole_ns if whole_ns else None
    return kernel.full_name, kernel.launches, kernel.time_ns, share


def _occupancy(kernel: KernelUse) -> tuple[Cell, ...]:
    """Warps on the active multiprocessors, and what the launch allows."""
    achieved, limit = kernel.occupancy, kernel.occupancy_limit
    return (
        None if achieved is None else 100 * achieved,
        None
        if limit is None
        else say("{share} by {resource}", share=share_text(limit.share), resource=LIMITERS[limit.limited_by]),
    )


def _shape(kernel: KernelUse) -> tuple[Cell, ...]:
    return shape_text(kernel.grid), shape_text(kernel.block)


def figure_text(figure: UseFigure | None) -> Message | None:
    """A number in percent, or its interval where that is wide; None where it was not sampled."""
    if figure is None:
        return None
    if figure.high - figure.low > VAGUE:
        return say("{low} to {high} %", low=round(figure.low), high=round(figure.high))
    return say("{percent} %", percent=round(figure.percent))


def use_answer(use: UseOfKernels, stretches: UseOfStretches) -> list[Message]:
    """How the GPU was used while kernels ran, which kernel has the most room, and its clock."""
    told = [
        say("{counter} {share}", counter=METRIC_WORDS[metric], share=share_text(stretches.busy[metric] / 100))
        for metric in OF_KERNELS
        if metric in stretches.busy
    ]
    sentences = [
        say(
            "GPU {gpu}, percent of peak while kernels ran: {figures}.",
            gpu=use.gpu,
            figures=joined(say(", "), told),
        )
    ]
    if use.kernels:
        sentences += [_first_kernel(use), *_low_occupancy(use), *_reading_weights(use)]
    if stretches.clock is not None and (sentence := _clock_sentence(stretches.clock)):
        sentences.append(sentence)
    return sentences


METRIC_WORDS: Final = {
    GpuMetric.SM_ACTIVE: say("SMs active"),
    GpuMetric.SM_ISSUE: say("issue slots"),
    GpuMetric.TENSOR: say("tensor cores"),
    GpuMetric.WARPS: say("warps"),
    GpuMetric.DRAM_READ: say("DRAM read"),
    GpuMetric.DRAM_WRITE: say("DRAM write"),
    GpuMetric.PCIE_IN: say("PCIe in"),
    GpuMetric.PCIE_OUT: say("PCIe out"),
}
"""What a counter is called in a sentence."""


def _first_kernel(use: UseOfKernels) -> Message:
    """The kernel with the most time, and how far each of its counters is known."""
    first = use.kernels[0]
    whole_ns = sum(kernel.time_ns for kernel in use.kernels)
    told = [
        say(
            "{counter} {share} ({low} to {high})",
            counter=METRIC_WORDS[metric],
            share=share_text(figure.percent / 100),
            low=share_text(figure.low / 100),
            high=share_text(figure.high / 100),
        )
        for metric in (GpuMetric.TENSOR, GpuMetric.DRAM_READ, GpuMetric.DRAM_WRITE)
        if (figure := first.figures.get(metric)) is not None
    ]
    return say(
        "Most time: {kernel}, {share} of kernel time: {figures}.",
        kernel=cut_label(label(first.full_name)),
        share=share_text(first.time_ns / whole_ns),
        figures=joined(say(", "), told),
    )


_WORTH_A_SENTENCE: Final = 0.05
"""Of kernel time."""


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
                    resource=LIMITERS[limit.limited_by],
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


_HELD_DOWN: Final = 0.97
"""Of the highest clock: below it, the clock is worth a sentence."""


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


def kernels_use_json(use: UseOfKernels) -> list[dict[str, Any]]:
    """Every kernel; a counter that was not sampled is null."""
    return [
        {
            "gpu": use.gpu,
            "name": kernel.name,
            "grid": list(kernel.grid),
            "block": list(kernel.block),
            "launches": kernel.launches,
            "ns": kernel.time_ns,
            "source": _SOURCE,
            "class": kernel.use_class.value,
            "occupancy": _occupancy_json(kernel),
            "use": {metric.value: figure_json(kernel.figures.get(metric)) for metric in OF_KERNELS},
        }
        for kernel in use.kernels
    ]


def _occupancy_json(kernel: KernelUse) -> dict[str, Any]:
    limit = kernel.occupancy_limit
    return {
        "percent": None if kernel.occupancy is None else round(100 * kernel.occupancy, 2),
        "limit_percent": None if limit is None else round(100 * limit.share, 2),
        "limited_by": None if limit is None else limit.limited_by,
    }


def figure_json(figure: UseFigure | None) -> dict[str, float] | None:
    """A number in percent with both ends of its interval; None where it was not sampled."""
    if figure is None:
        return None
    return {"percent": round(figure.percent, 2), "low": round(figure.low, 2), "high": round(figure.high, 2)}


def gpu_use_json(use: UseOfKernels, stretches: UseOfStretches, zero_ns: int) -> dict[str, Any]:
    """One GPU as a whole: means over the window, over the time of kernels, and over each step."""
    clock = stretches.clock
    return {
        "gpu": use.gpu,
        "source": _SOURCE,
        "samples": use.samples,
        "period_ns": use.period_ns,
        "lag_ns": use.lag_ns,
        "window_percent": _means_json(stretches.window),
        "window_clock_hz": _clock_json(stretches.window),
        "steady_percent": _means_json(stretches.steady),
        "steady_clock_hz": _clock_json(stretches.steady),
        "kernels_percent": _means_json(stretches.busy),
        "steps": [
            {
                "start_ns": step.start_ns - zero_ns,
                "end_ns": step.end_ns - zero_ns,
                "percent": _means_json(means),
                "clock_hz": _clock_json(means),
            }
            for step, means in stretches.steps
        ],
        "clock": None
        if clock is None
        else {
            "mean_hz": round(clock.mean_hz),
            "lowest_hz": round(clock.lowest_hz),
            "most_hz": round(clock.most_hz),
            "highest_hz": clock.highest_hz,
        },
    }


def _means_json(means: Mapping[GpuMetric, float]) -> dict[str, float | None]:
    return {
        metric.value: round(means[metric], 2) if metric in means else None
        for metric in GpuMetric
        if metric is not GpuMetric.SM_CLOCK
    }


def _clock_json(means: Mapping[GpuMetric, float]) -> int | None:
    return round(means[GpuMetric.SM_CLOCK]) if GpuMetric.SM_CLOCK in means else None


def not_sampled(gpu: int, reason: NotMeasured) -> dict[str, Any]:
    """Why a GPU's use is not told."""
    return {"gpu": gpu, "source": None, "not_measured": reason.reason}
