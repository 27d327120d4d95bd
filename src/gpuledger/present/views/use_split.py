"""How compute time uses the GPU, for people and programs: the split of the books by use, means, and top kernels.

Only where samples were read; the source is told in the titles.
"""

from __future__ import annotations

from typing import Any, Final

from gpuledger.analyse.utilization.against_counters import HeldAgainst
from gpuledger.analyse.utilization.kernel_use import AT_A_ROOF, CLASSES, UseClass, UseOfKernels
from gpuledger.analyse.utilization.stretches import ComputeSplit, SampledUse, TimeByClass, UseOfStretches, compute_split
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Block, Heading, Paragraph, SheetBlock
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import TOTAL
from gpuledger.present.views.held_against import against_json
from gpuledger.present.views.kernel_use import (
    CLASS_LIMITS,
    CLASS_WORDS,
    METRIC_WORDS,
    NAMES,
    figure_text,
    gpu_use_json,
    kernels_use_json,
)
from gpuledger.units import count_text, share_text, time_text

_TOP: Final = 5
"""Kernels that a report shows; `gpuledger kernels` has all."""
_MOST_FAMILIES: Final = 2
_TOLD: Final = (
    GpuMetric.SM_ACTIVE,
    GpuMetric.TENSOR,
    GpuMetric.DRAM_READ,
    GpuMetric.DRAM_WRITE,
    GpuMetric.PCIE_IN,
    GpuMetric.PCIE_OUT,
)

_COLUMNS: Final = (
    Column("use", say("Utilization"), Unit.TEXT),
    Column("share", say("of compute"), Unit.FIGURE),
    Column("time", say("Time"), Unit.FIGURE),
    Column("families", say("mostly"), Unit.TEXT, detail=1),
)


def use_blocks(device: Device, use: SampledUse) -> list[Block]:
    """The answer in a sentence, the split, what it is on average, and the kernels with the most time."""
    kernels, stretches = use
    split = compute_split(device, kernels.class_of_row)
    if not split.steady:
        return []
    title = say("GPU utilization during compute, per step") if device.steps else say("GPU utilization during compute")
    return [
        Heading(title),
        Paragraph(split_sentence(split.steady_total)),
        SheetBlock(split_sheet(device, split)),
        Paragraph(_means_sentence(device, stretches)),
        Paragraph(_source_sentence(kernels)),
        SheetBlock(_top_sheet(device, kernels)),
    ]


def split_sentence(times: TimeByClass) -> Message:
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


def split_sheet(device: Device, split: ComputeSplit) -> Sheet:
    """A row per class, per step; the foot is compute."""
    times, steps = split.steady_total, device.step_count
    whole = sum(times.values())
    rows = tuple(
        (CLASS_WORDS[name], share_text(times[name] / whole), time_text(times[name] // steps), _families(split, name))
        for name in CLASSES
        if times[name]
    )
    return Sheet(
        f"use_split_gpu{device.gpu}",
        say("GPU {gpu} utilization during compute", gpu=device.gpu),
        _COLUMNS,
        rows,
        foot=((TOTAL, share_text(1.0), time_text(whole // steps), None),),
    )


def _families(split: ComputeSplit, name: UseClass) -> Message:
    """The families with the most time of a class."""
    by_family = sorted(((times[name], line.family) for line, times in split.steady.items()), reverse=True)
    whole = sum(time for time, _ in by_family)
    told = [
        say("{family} {percent} %", family=family, percent=round(100 * time / whole))
        for time, family in by_family[:_MOST_FAMILIES]
        if time
    ]
    return joined(say(", "), told)


def _source_sentence(use: UseOfKernels) -> Message:
    return say(
        "The kernels with the most time, from {count} samples every {period}, in percent of peak while they ran:",
        count=count_text(use.samples),
        period=time_text(use.period_ns),
    )


def _top_sheet(device: Device, use: UseOfKernels) -> Sheet:
    """A few kernels; `gpuledger kernels` has all of them, and all of their counters."""
    whole_ns = sum(kernel.time_ns for kernel in use.kernels)
    rows = tuple(
        (
            label(kernel.full_name),
            time_text(kernel.time_ns // device.step_count),
            share_text(kernel.time_ns / whole_ns),
            CLASS_LIMITS[kernel.use_class],
            *(figure_text(kernel.figures.get(metric)) for metric in (GpuMetric.SM_ACTIVE, GpuMetric.TENSOR)),
            figure_text(kernel.dram),
        )
        for kernel in use.kernels[:_TOP]
    )
    columns = (
        Column("kernel", say("Kernel"), Unit.TEXT),
        Column("time", say("Time"), Unit.FIGURE),
        Column("share", say("Share"), Unit.FIGURE, detail=1),
        Column("class", say("Bound by"), Unit.TEXT),
        *(Column(metric, NAMES[metric], Unit.FIGURE) for metric in (GpuMetric.SM_ACTIVE, GpuMetric.TENSOR)),
        Column("dram", say("DRAM"), Unit.FIGURE),
    )
    return Sheet(f"use_gpu{use.gpu}", say("Kernels with the most time"), columns, rows)


def _means_sentence(device: Device, stretches: UseOfStretches) -> Message:
    """What the counters are on average, idle time included."""
    told = [
        say("{counter} {share}", counter=METRIC_WORDS[metric], share=share_text(stretches.steady[metric] / 100))
        for metric in _TOLD
        if metric in stretches.steady
    ]
    if GpuMetric.SM_CLOCK in stretches.steady:
        megahertz = count_text(round(stretches.steady[GpuMetric.SM_CLOCK] / 1e6))
        told.append(say("clock {megahertz} MHz", megahertz=megahertz))
    figures = joined(say(", "), told)
    if device.steps is None:
        return say("On average over the window, idle time included: {figures}.", figures=figures)
    return say("On average over the steady steps, idle time included: {figures}.", figures=figures)


def device_use_json(use: SampledUse, zero_ns: int, against: tuple[HeldAgainst, ...] = ()) -> dict[str, Any]:
    """One GPU as a whole, its kernels in the steady stretch, and these against what Nsight Compute counted."""
    kernels, stretches = use
    return (
        gpu_use_json(kernels, stretches, zero_ns)
        | {"kernels": kernels_use_json(kernels)}
        | ({"against_ncu": against_json(against)} if against else {})
    )
