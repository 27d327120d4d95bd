"""Use of the GPU from samples, for programs: gpuledger.stepkernels/1, and what a report has of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import asdict

from gpuledger.analyse.utilization.against_counters import CounterComparison
from gpuledger.analyse.utilization.kernel_use import KernelUse, UseFigure, UseOfKernels
from gpuledger.analyse.utilization.stretches import SampledUse
from gpuledger.answers.kernels import agreements
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.json_types import Json, Ns, Share
from gpuledger.present.json.types import Shape, fill

Percent: TypeAlias = Annotated[float, Meta(ge=0, le=100)]
MeanClock: TypeAlias = Annotated[
    int | None,
    Meta(description="The mean clock of the multiprocessors, idle time included; null: not sampled."),
]
Samples: TypeAlias = Annotated[int, Meta(description="Samples that the levels of kernels come from.")]
Lag: TypeAlias = Annotated[
    int,
    Meta(
        description="How long after its stamp the period of a sample ends, as the file's kernels explain its samples "
        "best."
    ),
]


class FigureJson(Json):
    """A number with both ends of its interval."""

    percent: Percent
    low: Percent
    high: Percent


class KernelFiguresJson(Json):
    """Percent of what the GPU could do in the time that Nsight Compute would give the kernel; null: not sampled."""

    sm_active: FigureJson | None
    sm_issue: FigureJson | None
    tensor: FigureJson | None
    warps: FigureJson | None
    dram_read: FigureJson | None
    dram_write: FigureJson | None


class OccupancyJson(Json):
    """Resident warps in percent of those that the active multiprocessors have room for, what the launch allows, and
    what limits it; null: not known."""

    percent: float | None
    limit_percent: float | None
    limited_by: Literal["registers", "shared memory", "warps", "blocks"] | None


class KernelUseJson(Json):
    gpu: int
    name: str
    grid: Shape
    block: Shape
    launches: Annotated[int, Meta(ge=1)]
    ns: Annotated[Ns, Meta(description="All launches together.")]
    source: Literal["samples"]
    use_class: Literal["compute_roof", "memory_roof", "under_filled", "stalled", "unknown"] = field(name="class")
    """How it uses the GPU: docs/concepts/use.md."""
    occupancy: OccupancyJson
    use: KernelFiguresJson


class MeansJson(Json):
    """Means over time, of the samples less what they were rounded up by; null: not sampled."""

    sm_active: float | None
    sm_issue: float | None
    tensor: float | None
    warps: float | None
    dram_read: float | None
    dram_write: float | None
    pcie_in: float | None
    pcie_out: float | None
    gpu_active: float | None
    dram: Annotated[float | UnsetType, Meta(description="Only where reads and writes were not sampled apart.")] = UNSET


class StepUseJson(Json):
    start_ns: int
    end_ns: int
    percent: MeansJson
    clock_hz: MeanClock


StepUses: TypeAlias = Annotated[
    list[StepUseJson], Meta(description="Each step, warm-up included, counted from zero_ns.")
]


class ClockJson(Json):
    """Of the multiprocessors, while kernels ran. lowest_hz: one sample in a hundred is lower; most_hz: one is higher;
    highest_hz: what the GPU can have."""

    mean_hz: int
    lowest_hz: int
    most_hz: int
    highest_hz: int | None


class AgreementJson(Json):
    kernels: Annotated[int, Meta(ge=1)]
    mean_error_points: Annotated[float, Meta(ge=0, description="By time, without sign.")]
    held_share: Annotated[Share, Meta(description="Of the kernels, those whose interval holds what was counted.")]
    near_share: float | None
    """Of kernels over 10 us, those within 5 points; null: there are none."""


class ComparedFigureJson(Json):
    """A counter of a kernel, in percent: from samples, with both ends of the interval, and as Nsight Compute counted
    it."""

    name: str
    grid: Shape
    block: Shape
    ns: int
    counter: str
    percent: float
    low: float
    high: float
    ncu_percent: float
    held: bool


class AgainstNcuJson(Json):
    """The samples of a GPU held against what Nsight Compute counted."""

    counters: dict[str, AgreementJson]
    kernels: list[ComparedFigureJson]


class GpuUseJson(Json):
    """One GPU as a whole: means over the window, over the steady steps, over the time of kernels, and each step."""

    gpu: int
    source: Literal["samples"]
    samples: Samples
    period_ns: int
    lag_ns: Lag
    window_percent: MeansJson
    window_clock_hz: MeanClock
    steady_percent: MeansJson
    steady_clock_hz: MeanClock
    kernels_percent: MeansJson
    steps: StepUses
    clock: ClockJson | None


class DeviceUseJson(GpuUseJson):
    """What samples say of one GPU and of its kernels in the steady stretch."""

    kernels: list[KernelUseJson]
    against_ncu: Annotated[AgainstNcuJson | UnsetType, Meta(description="Only with --ncu.")] = UNSET


def device_use_json(use: SampledUse, zero_ns: int, against: tuple[CounterComparison, ...] = ()) -> DeviceUseJson:
    """One GPU as a whole, its kernels in the steady stretch, and these against what Nsight Compute counted."""
    return fill(
        DeviceUseJson,
        _gpu_use(use, zero_ns),
        kernels=kernels_use_json(use[0]),
        against_ncu=_against(against) if against else UNSET,
    )


def kernels_use_json(use: UseOfKernels) -> list[KernelUseJson]:
    """Every kernel; a counter that was not sampled is null."""
    return [
        fill(
            KernelUseJson,
            kernel,
            gpu=use.gpu,
            ns=kernel.time_ns,
            source="samples",
            occupancy=_occupancy(kernel),
            use=KernelFiguresJson(
                **{
                    metric.value: figure_json(kernel.figures[metric]) if metric in kernel.figures else None
                    for metric in OF_KERNELS
                }
            ),
        )
        for kernel in use.kernels
    ]


def figure_json(figure: UseFigure) -> FigureJson:
    """A number in percent with both ends of its interval."""
    return FigureJson(percent=round(figure.percent, 2), low=round(figure.low, 2), high=round(figure.high, 2))


def _occupancy(kernel: KernelUse) -> OccupancyJson:
    limit = kernel.occupancy_limit
    return fill(
        OccupancyJson,
        limit,
        percent=None if kernel.occupancy is None else round(100 * kernel.occupancy, 2),
        limit_percent=None if limit is None else round(100 * limit.share, 2),
        limited_by=None if limit is None else limit.limited_by,
    )


def _gpu_use(use: SampledUse, zero_ns: int) -> GpuUseJson:
    kernels, stretches = use
    clock = stretches.clock
    return fill(
        GpuUseJson,
        kernels,
        source="samples",
        window_percent=_means(stretches.window),
        window_clock_hz=_clock_hz(stretches.window),
        steady_percent=_means(stretches.steady),
        steady_clock_hz=_clock_hz(stretches.steady),
        kernels_percent=_means(stretches.busy),
        steps=[
            StepUseJson(
                start_ns=step.start_ns - zero_ns,
                end_ns=step.end_ns - zero_ns,
                percent=_means(means),
                clock_hz=_clock_hz(means),
            )
            for step, means in stretches.steps
        ],
        clock=None
        if clock is None
        else ClockJson(
            mean_hz=round(clock.mean_hz),
            lowest_hz=round(clock.lowest_hz),
            most_hz=round(clock.most_hz),
            highest_hz=clock.highest_hz,
        ),
    )


def _means(means: Mapping[GpuMetric, float]) -> MeansJson:
    return MeansJson(
        **{
            metric.value: round(means[metric], 2) if metric in means else None
            for metric in GpuMetric
            if metric not in (GpuMetric.SM_CLOCK, GpuMetric.DRAM)
        },
        dram=round(means[GpuMetric.DRAM], 2) if GpuMetric.DRAM in means else UNSET,
    )


def _clock_hz(means: Mapping[GpuMetric, float]) -> int | None:
    return round(means[GpuMetric.SM_CLOCK]) if GpuMetric.SM_CLOCK in means else None


def _against(held: tuple[CounterComparison, ...]) -> AgainstNcuJson:
    """Every counter of every kernel that both have; percent, and points where they differ."""
    return AgainstNcuJson(
        counters={
            metric.value: fill(AgreementJson, agreed, mean_error_points=round(agreed.mean_error, 3))
            for metric, agreed in agreements(held).items()
        },
        kernels=[
            fill(
                ComparedFigureJson,
                compared.kernel,
                ns=compared.kernel.time_ns,
                counter=compared.metric.value,
                **asdict(figure_json(compared.sampled)),
                ncu_percent=round(compared.counted, 2),
                held=compared.is_held,
            )
            for compared in held
        ],
    )
