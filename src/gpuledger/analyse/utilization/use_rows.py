"""Use of the GPU from samples as rows: kernels of one name and shape, and means over stretches and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from gpuledger.analyse.utilization.kernel_use import KernelUse, UseClass, UseFigure
from gpuledger.analyse.utilization.stretches import UseOfStretches
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, Row, ShareInterval, Unit, share

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
CLASS_LIMITS: Final = {
    UseClass.COMPUTE_ROOF: say("compute"),
    UseClass.MEMORY_ROOF: say("memory"),
    UseClass.UNDER_FILLED: say("SMs idle"),
    UseClass.STALLED: say("stalled"),
    UseClass.UNKNOWN: say("unknown"),
}
"""What limits a kernel of a class, where there is little room."""
RESOURCES: Final = {
    "registers": say("registers"),
    "shared memory": say("shared memory"),
    "warps": say("block size"),
    "blocks": say("blocks per SM"),
}
"""What limits how many warps of a kernel a multiprocessor holds."""
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


def interval(figure: UseFigure) -> ShareInterval:
    """Shares of percents."""
    return ShareInterval(*(round(percent / 100, 4) for percent in (figure.percent, figure.low, figure.high)))


def kernel_uses(device: Device, kernels: Sequence[KernelUse]) -> tuple[KernelUseRow, ...]:
    """Of the steady steps, in the order given."""
    whole_ns = sum(kernel.time_ns for kernel in kernels)
    return tuple(_kernel_use(device, kernel, whole_ns) for kernel in kernels)


def _kernel_use(device: Device, kernel: KernelUse, whole_ns: int) -> KernelUseRow:
    figures: dict[str, ShareInterval | None] = dict.fromkeys(map(str, OF_KERNELS))
    figures |= {str(metric): interval(figure) for metric, figure in kernel.figures.items()}
    figures["dram"] = None if kernel.dram is None else interval(kernel.dram)
    limit = kernel.occupancy_limit
    return KernelUseRow(
        gpu=device.gpu,
        name=kernel.full_name,
        launches=kernel.launches,
        time_ns=kernel.time_ns,
        per_step_ns=None if device.steps is None else kernel.time_ns // device.step_count,
        share=share(kernel.time_ns, whole_ns),
        bound=kernel.use_class,
        occupancy=kernel.occupancy,
        occupancy_limit=None if limit is None else limit.share,
        limited_by=None if limit is None else limit.limited_by,
        grid=kernel.grid,
        block=kernel.block,
        **figures,
    )


def step_uses(device: Device, stretches: UseOfStretches) -> tuple[MeanUseRow, ...]:
    """Means of each step, warm-up included."""
    return tuple(
        mean_use(device.gpu, means, None, number, (span.start_ns - device.zero_ns, span.end_ns - device.zero_ns))
        for number, (span, means) in enumerate(stretches.steps)
    )


def mean_use(
    gpu: int,
    means: Mapping[GpuMetric, float],
    over: str | None = None,
    step: int | None = None,
    span: tuple[int | None, int | None] = (None, None),
) -> MeanUseRow:
    """Means over a stretch, or one step."""
    shares: dict[str, Any] = {
        metric.value: round(means[metric] / 100, 4) if metric in means else None
        for metric in GpuMetric
        if metric is not GpuMetric.SM_CLOCK
    }
    clock = means.get(GpuMetric.SM_CLOCK)
    clock_mhz = None if clock is None else round(clock / 1e6)
    return MeanUseRow(gpu, over, step, *span, clock_mhz=clock_mhz, **shares)
