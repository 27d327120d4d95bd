"""What samples of a GPU's counters say of its kernels and of stretches of time, for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from gpuledger.analyse.utilization.against_counters import CounterComparison
from gpuledger.analyse.utilization.kernel_use import KernelUse, UseFigure, UseOfKernels
from gpuledger.analyse.utilization.stretches import Clock, SampledUse
from gpuledger.answers.kernels import agreements
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.json_types import Json, Ns, Share
from gpuledger.present.json.types import fill

Shape: TypeAlias = Annotated[list[int], Meta(min_length=3, max_length=3)]
Percent: TypeAlias = Annotated[float, Meta(ge=0, le=100)]
ClockHz: TypeAlias = Annotated[
    int | None, Meta(description="The mean clock of the multiprocessors, idle time included; null: not sampled.")
]


class FigureJson(Json):
    """Percent of what the GPU could do, with both ends of its interval."""

    percent: Percent
    low: Percent
    high: Percent


class OccupancyJson(Json):
    """Resident warps in percent of those that the active multiprocessors have room for, what the launch allows, and
    what limits it; null: not known.
    """

    percent: float | None
    limit_percent: float | None
    limited_by: Literal["registers", "shared memory", "warps", "blocks"] | None


class KernelFiguresJson(Json):
    """Percent of what the GPU could do in the time that Nsight Compute would give the kernel; null: not sampled."""

    sm_active: FigureJson | None
    sm_issue: FigureJson | None
    tensor: FigureJson | None
    warps: FigureJson | None
    dram_read: FigureJson | None
    dram_write: FigureJson | None


class KernelUseJson(Json):
    gpu: int
    name: str
    grid: Shape
    block: Shape
    launches: Annotated[int, Meta(ge=1)]
    ns: Annotated[int, Meta(ge=0, description="All launches together.")]
    source: Literal["samples"]
    use_class: Annotated[
        Literal["compute_roof", "memory_roof", "under_filled", "stalled", "unknown"],
        Meta(description="How it uses the GPU: docs/concepts/use.md."),
    ] = field(name="class")
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


class StepUseJson(Json):
    start_ns: int
    end_ns: int
    percent: MeansJson
    clock_hz: ClockHz


class ClockJson(Json):
    """Of the multiprocessors, while kernels ran. lowest_hz: one sample in a hundred is lower; most_hz: one is higher;
    highest_hz: what the GPU can have.
    """

    mean_hz: int
    lowest_hz: int
    most_hz: int
    highest_hz: int | None


class GpuUseJson(Json):
    """A GPU that was sampled, or why it was not."""


class NotSampledJson(GpuUseJson):
    gpu: int
    source: None
    not_measured: str


class SampledGpuJson(GpuUseJson, kw_only=True):
    gpu: int
    source: Literal["samples"]
    samples: Annotated[int, Meta(description="Samples that the levels of kernels come from.")]
    period_ns: int
    lag_ns: Annotated[
        int,
        Meta(
            description="How long after its stamp the period of a sample ends, as the file's kernels explain its "
            "samples best."
        ),
    ]
    window_percent: MeansJson
    window_clock_hz: ClockHz
    steady_percent: MeansJson
    steady_clock_hz: ClockHz
    kernels_percent: MeansJson
    steps: Annotated[list[StepUseJson], Meta(description="Each step, warm-up included, told from zero_ns.")]
    clock: ClockJson | None


class AgreementJson(Json):
    kernels: Annotated[int, Meta(ge=1)]
    mean_error_points: Annotated[float, Meta(ge=0, description="By time, without sign.")]
    held_share: Annotated[Share, Meta(description="Of the kernels, those whose interval holds what was counted.")]
    near_share: Annotated[
        float | None, Meta(description="Of kernels over 10 us, those within 5 points; null: there are none.")
    ]


class HeldFigureJson(Json):
    name: str
    grid: Shape
    block: Shape
    ns: Ns
    counter: str
    percent: float
    low: float
    high: float
    ncu_percent: float
    held: bool


class AgainstJson(Json):
    """Every counter of every kernel that samples and Nsight Compute have; percent, and points where they differ."""

    counters: dict[str, AgreementJson]
    kernels: list[HeldFigureJson]


class DeviceUseJson(SampledGpuJson, kw_only=True):
    """What samples of the GPU's counters say of it, and of its kernels in the steady stretch."""

    kernels: list[KernelUseJson]
    against_ncu: AgainstJson | UnsetType = UNSET


def figure_json(figure: UseFigure) -> FigureJson:
    """A number in percent with both ends of its interval."""
    return FigureJson(percent=round(figure.percent, 2), low=round(figure.low, 2), high=round(figure.high, 2))


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


def _occupancy(kernel: KernelUse) -> OccupancyJson:
    limit = kernel.occupancy_limit
    percent = None if kernel.occupancy is None else round(100 * kernel.occupancy, 2)
    if limit is None:
        return OccupancyJson(percent=percent, limit_percent=None, limited_by=None)
    return fill(OccupancyJson, limit, percent=percent, limit_percent=round(100 * limit.share, 2))


def sampled_gpu_json(use: SampledUse, zero_ns: int) -> SampledGpuJson:
    """One GPU as a whole: means over the window, over the time of kernels, and over each step."""
    kernels, stretches = use
    return fill(
        SampledGpuJson,
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
        clock=None if stretches.clock is None else _clock(stretches.clock),
    )


def _means(means: Mapping[GpuMetric, float]) -> MeansJson:
    return MeansJson(
        **{
            metric.value: round(means[metric], 2) if metric in means else None
            for metric in GpuMetric
            if metric is not GpuMetric.SM_CLOCK
        }
    )


def _clock_hz(means: Mapping[GpuMetric, float]) -> int | None:
    return round(means[GpuMetric.SM_CLOCK]) if GpuMetric.SM_CLOCK in means else None


def _clock(clock: Clock) -> ClockJson:
    return ClockJson(
        mean_hz=round(clock.mean_hz),
        lowest_hz=round(clock.lowest_hz),
        most_hz=round(clock.most_hz),
        highest_hz=clock.highest_hz,
    )


def against_json(held: tuple[CounterComparison, ...]) -> AgainstJson:
    """The samples of one GPU against what Nsight Compute counted."""
    return AgainstJson(
        counters={
            metric.value: fill(AgreementJson, agreed, mean_error_points=round(agreed.mean_error, 3))
            for metric, agreed in agreements(held).items()
        },
        kernels=[
            fill(
                HeldFigureJson,
                figure_json(figure.sampled),
                name=figure.kernel.name,
                grid=list(figure.kernel.grid),
                block=list(figure.kernel.block),
                ns=figure.kernel.time_ns,
                counter=figure.metric.value,
                ncu_percent=round(figure.counted, 2),
                held=figure.is_held,
            )
            for figure in held
        ],
    )


def device_use_json(use: SampledUse, zero_ns: int, against: tuple[CounterComparison, ...] = ()) -> DeviceUseJson:
    """One GPU as a whole, its kernels in the steady stretch, and these against what Nsight Compute counted."""
    return fill(
        DeviceUseJson,
        sampled_gpu_json(use, zero_ns),
        kernels=kernels_use_json(use[0]),
        against_ncu=against_json(against) if against else UNSET,
    )
