"""Nsight Compute for programs: gpuledger.kernels/1, gpuledger.ncu-plan/1, and the kernels of a report's steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta

from gpuledger.analyse.kernels.judgement import JudgedKernel, JudgedLaunch
from gpuledger.analyse.kernels.ncu_plan import NcuPlan, PlannedKernel
from gpuledger.analyse.kernels.roofs import Roof
from gpuledger.analyse.kernels.step_kernels import HALF, LEVELS, KernelMatch, KernelTally, MatchedTimeline
from gpuledger.analyse.kernels.verdict import FIGURE_NAMES
from gpuledger.answers.kernels import KernelsAnswer, MatchedAnswer
from gpuledger.json_types import Count, Json, Ns, Share
from gpuledger.ledger.device import Device
from gpuledger.present.json.types import HealthJson, Shape, fill, health_json
from gpuledger.present.sheet import plain
from gpuledger.present.terms import made_at
from gpuledger.trace.model import NotMeasured

if TYPE_CHECKING:
    from gpuledger.present.views.ncu import Proposal

Bound: TypeAlias = Literal["memory", "compute", "latency", "unknown"]
KernelSeverity: TypeAlias = Literal["high", "medium", "low", "none", "unknown"]


class SeveritiesJson(Json):
    high: Count
    medium: Count
    low: Count
    none: Count
    unknown: Count


class LowJson(Json):
    count: Count
    of: Count


class TallyJson(Json):
    """Kernels counted, each once; of those that a figure was measured of."""

    kernels: Count
    bottlenecks: dict[str, dict[str, Annotated[int, Meta(ge=1)]]]
    """By bound, and within it by limiter."""
    severities: SeveritiesJson
    low: Annotated[dict[str, LowJson], Meta(description="Per figure, how many kernels are below low_below.")]
    low_below: float


class RooflinePointJson(Json):
    level: Literal["DRAM", "L2", "L1"]
    kind: str
    operations_per_byte: float
    operations_per_s: float
    roof_per_s: float
    share: float


class LaunchJson(Json):
    order: Annotated[int, Meta(description="Position among the launches of its file.")]
    file: str
    name: str
    grid: Shape | None
    block: Shape | None
    device: int | None
    context: int | None
    stream: int | None
    nvtx: list[str]
    duration_ns: Annotated[int | None, Meta(description="Nsight Compute's, under its clocks and with its caches.")]
    time_share: Annotated[float, Meta(description="Of the time of all launches.")]
    dram_bytes_per_s: float | None
    sm_share: Annotated[float | None, Meta(description="Of the multiprocessors' peak.")]
    sm_busy_share: float | None
    """SM efficiency: instruction throughput where it was collected."""
    memory_share: Annotated[float | None, Meta(description="Of the memory system's peak.")]
    dram_share: Annotated[float | None, Meta(description="Of DRAM's peak.")]
    l2_share: Annotated[float | None, Meta(description="Of the L2 cache's peak.")]
    l1_share: Annotated[float | None, Meta(description="Of L1's peak.")]
    l2_hit_share: Annotated[float | None, Meta(description="L2 hit rate.")]
    l1_hit_share: Annotated[float | None, Meta(description="L1 hit rate.")]
    occupancy_share: Annotated[float | None, Meta(description="Achieved occupancy.")]
    occupancy_limit_share: Annotated[float | None, Meta(description="What the launch's resources allow.")]
    occupancy_efficiency: Annotated[float | None, Meta(description="Achieved over possible.")]
    waves: float | None
    pipes: dict[str, float]
    bound: Bound
    limiter: str
    roof_share: float | None
    headroom: Share | None
    wasted_share: Share | None
    """Of the sectors that global accesses move, those that coalesced ones would not need, where memory limits the
    kernel and that is much."""
    because: list[str]
    severity: KernelSeverity
    unreliable: list[str]
    advice: Annotated[list[str], Meta(min_length=1)]
    roofline: list[RooflinePointJson]


class SpreadJson(Json):
    mean: float
    min: float
    max: float


class KernelGroupJson(Json):
    name: str
    label: str
    grid: Shape | None
    block: Shape | None
    launches: list[int]
    duration_ns: int
    time_share: float
    bound: Bound
    limiter: str
    headroom: float | None
    saving_ns: int | None
    severity: KernelSeverity
    figures: dict[str, SpreadJson | None]


class RoofJson(Json):
    per_s: float
    source: str


class DeviceRoofsJson(Json):
    device: int | None
    name: str | None
    memory: dict[str, RoofJson]
    compute: dict[str, RoofJson]


class KernelsJson(Json):
    """What limits the kernels of one or more reports of Nsight Compute. Shares are 0 to 1; null stands for what was not
    collected."""

    schema: Literal["gpuledger.kernels/1"]
    made_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    """When the document was made, UTC; SOURCE_DATE_EPOCH where that is set."""
    files: list[str]
    duration_ns: int
    counts: TallyJson
    kernels: Annotated[list[LaunchJson], Meta(description="Every launch, in the order of the files.")]
    groups: list[KernelGroupJson]
    """Launches of one name, shape and size of problem together, the longest first; figures are weighted by time."""
    roofs: Annotated[list[DeviceRoofsJson], Meta(description="Bytes and operations per second at most, by device.")]
    health: list[HealthJson]


class PlannedKernelJson(Json):
    name: Annotated[str, Meta(description="With template arguments, without parameters.")]
    short_name: Annotated[str, Meta(description="The bare name, by which ncu selects.")]
    grid: Shape
    block: Shape
    place: list[str]
    """NVTX ranges around the launch, numbers left out; or where in a layer."""
    count_per_step: Annotated[float, Meta(ge=0)]
    ns_per_step: Ns
    share_of_gpu: Annotated[Share, Meta(description="Of the GPU's kernel time.")]
    share_of_step: Annotated[float, Meta(ge=0, description="Of the step; above 1 where kernels overlap for long.")]
    covered: Annotated[bool, Meta(description="Whether the commands profile it.")]
    reason: Annotated[str | None, Meta(description="Why it is left out; null if it is covered.")]


class NcuPlanJson(Json):
    """Which kernels of one profile are worth Nsight Compute, and the commands that profile one launch of each. Shares
    are 0 to 1, times and counts those of a steady step."""

    schema: Literal["gpuledger.ncu-plan/1"]
    profile: str
    device: Annotated[int, Meta(ge=0)]
    steps: Annotated[int, Meta(ge=1)]
    """Steady steps; 1 where no steps were found, and the step is the whole window."""
    step_ns: Ns
    kernels: list[PlannedKernelJson]
    """All kernels of the steady steps, told apart by name, grid and block, the one with the most time first."""
    coverage_share: Annotated[Share, Meta(description="Of the time of kernels that can be replayed.")]
    kernel_share_of_step: Annotated[float, Meta(ge=0)]
    """How much of the step the kernels that can be replayed are; above 1 where they overlap for long."""
    worthwhile: bool
    """Whether that is enough for faster kernels to matter. If not, and it was not asked for anyway, none is covered and
    there are no commands."""
    commands: list[Annotated[list[str], Meta(min_length=2)]]
    """Argument lists, to be run without a shell, or quoted for one."""
    reports: Annotated[list[str], Meta(description="What each command writes.")]
    launches: Count
    """How many launches the commands profile, with those that merely have the same name."""
    passes: Annotated[int, Meta(ge=1, description="How often each of them is run.")]
    expected_seconds: Annotated[float, Meta(ge=0, description="Beside the time of the program itself; an estimate.")]
    health: list[HealthJson]


class MatchLevelsJson(Json):
    """The share of compute time matched at each level."""

    order: float
    range: float
    shape: float
    size: float
    name: float
    function: float
    none: float


class MatchedLaunchJson(Json):
    file: str
    order: int


class MatchJson(Json):
    name: str
    grid: Shape
    block: Shape
    place: list[str]
    in_layer: bool
    calls: int
    time_ns: int
    time_ns_per_step: int
    share: float
    match: Literal["order", "range", "shape", "size", "name", "function", "none"]
    launch: MatchedLaunchJson | None
    bound: Bound | None
    limiter: str | None
    roof_share: float | None
    saving_ns: Annotated[Ns, Meta(description="In all steady steps, if it reached 90 % of its nearest roof.")]
    severity: KernelSeverity


class MatchedKernelsJson(Json):
    """The kernels of one GPU's steady steps."""

    device: int
    coverage_share: Annotated[Share, Meta(description="Of compute time, in kernels matched by order, range or shape.")]
    levels: MatchLevelsJson
    unused_launches: Count
    layers: Count
    counts: TallyJson
    kernels: list[MatchJson]


def kernels_json(answer: KernelsAnswer) -> KernelsJson:
    """All launches, in the order of the files, and all kernels."""
    severities = {id(kernel): answer.severity(kernel) for kernel in answer.kernels}
    return KernelsJson(
        schema="gpuledger.kernels/1",
        made_at=made_at(),
        files=list(answer.files),
        duration_ns=answer.total_ns,
        counts=_tally(answer.tally),
        kernels=[_launch(answer, launch, severities[id(kernel)]) for kernel, launch in answer.launches],
        groups=[_group(answer, kernel) for kernel in answer.kernels],
        roofs=[
            DeviceRoofsJson(
                device=device,
                name=name or None,
                memory=_roofs(longest.roofs.memory),
                compute=_roofs(longest.roofs.compute),
            )
            for (device, name), longest in answer.longest_by_gpu.items()
        ],
        health=health_json(answer.notes),
    )


def _tally(tally: KernelTally) -> TallyJson:
    return fill(
        TallyJson,
        tally,
        bottlenecks=plain(tally.limits),
        severities=SeveritiesJson(**{name: tally.severities.get(name, 0) for name in SeveritiesJson.__struct_fields__}),
        low={key: LowJson(count=low.low, of=low.of) for key, low in tally.low.items()},
        low_below=HALF,
    )


def _launch(answer: KernelsAnswer, judged: JudgedLaunch, severity: str) -> LaunchJson:
    verdict, figures = judged.verdict, judged.figures
    return fill(
        LaunchJson,
        judged.launch,
        duration_ns=plain(figures.duration_ns),
        time_share=answer.share(judged),
        dram_bytes_per_s=plain(figures.dram_bytes_per_s),
        **plain(figures.shares),
        waves=plain(figures.waves),
        pipes=plain(figures.pipes),
        bound=verdict.bound,
        limiter=verdict.limiter,
        roof_share=plain(verdict.roof_share),
        headroom=plain(verdict.headroom),
        wasted_share=None if verdict.wasted is None else verdict.wasted.share,
        because=list(verdict.because),
        severity=severity,
        unreliable=list(figures.unreliable),
        advice=list(judged.advice),
        roofline=[fill(RooflinePointJson, point) for point in judged.points],
    )


def _group(answer: KernelsAnswer, kernel: JudgedKernel) -> KernelGroupJson:
    spreads = {key: kernel.spread(key) for key in FIGURE_NAMES}
    return fill(
        KernelGroupJson,
        kernel,
        launches=[judged.launch.order for judged in kernel.launches],
        time_share=answer.share(kernel),
        bound=kernel.typical.verdict.bound,
        limiter=kernel.typical.verdict.limiter,
        severity=answer.severity(kernel),
        figures={
            key: None
            if isinstance(spread, NotMeasured)
            else SpreadJson(mean=spread.mean, min=spread.least, max=spread.most)
            for key, spread in spreads.items()
        },
    )


def _roofs(roofs: Mapping[str, Roof]) -> dict[str, RoofJson]:
    return {name: fill(RoofJson, roof) for name, roof in roofs.items()}


def plan_json(proposal: Proposal) -> NcuPlanJson:
    """The kernels worth profiling, and the commands."""
    plan = proposal.plan
    return fill(
        NcuPlanJson,
        proposal,
        schema="gpuledger.ncu-plan/1",
        profile=proposal.name,
        device=plan.gpu,
        steps=plan.steps,
        step_ns=plan.steady_ns // plan.steps,
        kernels=[_planned(plan, kernel) for kernel in plan.kernels],
        coverage_share=plan.coverage_share,
        kernel_share_of_step=plan.replayable_share,
        worthwhile=plan.is_worthwhile,
        expected_seconds=round(proposal.seconds, 3),
        health=health_json(proposal.notes),
    )


def _planned(plan: NcuPlan, kernel: PlannedKernel) -> PlannedKernelJson:
    return fill(
        PlannedKernelJson,
        kernel,
        short_name=kernel.function,
        count_per_step=kernel.count / plan.steps,
        ns_per_step=kernel.ns // plan.steps,
        share_of_gpu=kernel.ns / plan.kernel_ns if plan.kernel_ns else 0.0,
        share_of_step=kernel.ns / plan.steady_ns,
        covered=kernel.left_out is None,
        reason=kernel.left_out,
    )


def matched_json(matched: MatchedTimeline, device: Device) -> MatchedKernelsJson:
    """Every kernel of the step with its match, in the order of execution."""
    return MatchedKernelsJson(
        device=device.gpu,
        coverage_share=matched.coverage,
        levels=MatchLevelsJson(**{level: matched.share_at(level) for level in LEVELS}),
        unused_launches=len(matched.unused),
        layers=matched.overview.layers,
        counts=_tally(MatchedAnswer(matched, device).tally),
        kernels=[_match(match, device) for match in matched.matches],
    )


def _match(match: KernelMatch, device: Device) -> MatchJson:
    launch = match.launch
    verdict = launch.verdict if launch is not None and match.covered else None
    return fill(
        MatchJson,
        match.entry,
        time_ns_per_step=match.entry.time_ns // device.step_count,
        share=match.share,
        match=match.level,
        launch=None if launch is None else fill(MatchedLaunchJson, launch.launch),
        bound=None if verdict is None else verdict.bound,
        limiter=None if verdict is None else verdict.limiter,
        roof_share=None if verdict is None else plain(verdict.roof_share),
        saving_ns=match.saving_ns,
        severity=match.severity,
    )
