"""Nsight Compute for programs: the kernels of a report's steps."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gpuledger.analyse.kernels.step_kernels import HALF, LEVELS, KernelMatch, KernelTally, MatchedTimeline
from gpuledger.answers.kernels import MatchedAnswer
from gpuledger.json_types import Count, Json, Ns, Share
from gpuledger.ledger.device import Device
from gpuledger.present.json.types import Shape, fill
from gpuledger.present.sheet import plain

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


def _tally(tally: KernelTally) -> TallyJson:
    return fill(
        TallyJson,
        tally,
        bottlenecks=plain(tally.limits),
        severities=SeveritiesJson(**{name: tally.severities.get(name, 0) for name in SeveritiesJson.__struct_fields__}),
        low={key: LowJson(count=low.low, of=low.of) for key, low in tally.low.items()},
        low_below=HALF,
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
