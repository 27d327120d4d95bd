"""A comparison for programs: gpuledger.diff/1."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from gpuledger.analyse.diff.compare import BusyChange, TimeChange, UseChange
from gpuledger.analyse.diff.gate import GateOutcome
from gpuledger.analyse.diff.noise import Controls, Interval
from gpuledger.analyse.diff.run_side import KERNEL_TIME, RunKernel, RunRange, RunSide
from gpuledger.answers.several_profiles import Compared, PerStep, RangeChange, change_share
from gpuledger.json_types import Json
from gpuledger.present.json.types import Shape, fill
from gpuledger.present.json.utilization import FigureJson, figure_json
from gpuledger.trace.model import NotMeasured

IntervalNs: TypeAlias = Annotated[list[int], Meta(min_length=2, max_length=2)]


class DiffWholeJson(Json):
    what: Literal["step", "window", "kernel time"]
    before_ns: int
    after_ns: int
    delta_ns: int
    delta_share: Annotated[float | None, Meta(description="null where there was nothing before")]


class GpuStepJson(Json):
    device: int
    step_ns: int


class DiffSideJson(Json):
    name: str
    tool: str
    gpu: Annotated[str | None, Meta(description="null: not recorded")]
    device: int
    clock_hz: int | None
    busy_clock_hz: int | None
    """The mean clock of the multiprocessors while kernels ran, from samples."""
    ranks: int | None
    gpus: list[GpuStepJson]
    steps_by: Annotated[str | None, Meta(description="what steps were found by; null where there are none")]
    runs: Annotated[list[int], Meta(description="steps of each run")]
    steps: int
    step_ns: Annotated[int | None, Meta(description="median; null for tables")]
    mean_ns: int | None
    losses: list[str]


class OverlapJson(Json):
    """kernel time in kernels that found a partner"""

    before_share: float
    after_share: float


class PartJson(Json):
    part: str
    ns: int


class LineChangeJson(Json):
    line: str
    before_ns: int
    after_ns: int
    delta_ns: int
    delta_share: Annotated[float | None, Meta(description="null where there was nothing before")]


class BusyChangeJson(Json):
    part: Literal["light", "lost", "avoidable", "unknown"]
    before_ns: int
    after_ns: int
    delta_ns: int


class PhaseChangeJson(Json):
    phase: str
    before_ns: int
    after_ns: int
    delta_ns: int


class FamilyChangeJson(Json):
    family: str
    before_ns: int
    after_ns: int
    delta_ns: int
    delta_share: Annotated[float | None, Meta(description="null where there was nothing before")]


class PairedKernelJson(Json):
    name: str
    grid: Shape
    block: Shape
    place: list[str]
    calls: Annotated[int, Meta(description="in all steps")]
    ns: Annotated[int, Meta(description="in all steps")]


class KernelChangeJson(Json):
    match: Literal["place", "shape", "name", "function", "operator", "family", "new", "vanished"]
    family: str
    before: list[PairedKernelJson]
    after: list[PairedKernelJson]
    calls_before: Annotated[float, Meta(description="a step")]
    calls_after: float
    each_before_ns: Annotated[int, Meta(description="one call")]
    each_after_ns: int
    before_ns: int
    after_ns: int
    delta_ns: int
    delta_share: Annotated[float | None, Meta(description="null where there was nothing before")]
    by_calls_ns: int
    by_time_per_call_ns: int
    by_mix_ns: int


class CallsJson(Json):
    calls: float
    ns: int
    each_ns: int | None


class LaunchesChangeJson(Json):
    before: CallsJson
    after: CallsJson
    by_number_ns: int
    by_cost_ns: int


class CallChangeJson(Json):
    name: str
    before: CallsJson
    after: CallsJson
    delta_ns: int


class PairedRangeJson(Json):
    name: str
    instances: float
    host_ns: int
    gpu_ns: int | None
    wait_ns: int | None


class RangeChangeJson(Json):
    match: Literal["name", "numbers", "renamed", "new", "vanished"]
    unchanged: bool
    before: PairedRangeJson | None
    after: PairedRangeJson | None
    host_delta_ns: int
    host_delta_share: float | None
    corrected_share: Annotated[float | None, Meta(description="by the controls")]
    before_of_whole: float | None
    """Host time over the step's, or in tables over that of the program's own ranges; null where it is no part of it."""
    after_of_whole: float | None


class MemoryAmountJson(Json):
    count: float | None
    bytes: int | None
    ns: int | None


class MemoryChangeJson(Json):
    what: str
    before: MemoryAmountJson
    after: MemoryAmountJson


class ControlsJson(Json):
    ranges: list[str]
    before_ns: int
    after_ns: int
    change_share: float
    interval_ns: IntervalNs | None
    may_be_noise: bool
    calls_seen: Annotated[bool, Meta(description="false: the names alone are the same")]
    corrected_step_delta_ns: int | None


class GateJson(Json):
    gate: str
    measures: Literal["time", "count", "size"]
    before: float
    after: float
    change_share: float | None
    interval: Annotated[list[float], Meta(min_length=2, max_length=2)] | None
    tripped: bool
    may_be_noise: bool
    verdict: Literal["PASS", "FAIL", "UNDECIDED"] | UnsetType = UNSET
    """FAIL if the whole interval is beyond the limit, PASS if the whole is within."""
    deciding_steps: int | UnsetType | None = UNSET
    """So many steps a side would decide; null where nothing is open."""


class UseChangeJson(Json):
    name: str
    grid: Shape
    block: Shape
    before_ns: int
    after_ns: int
    counter: str
    before: FigureJson
    after: FigureJson


class DiffJson(Json):
    """What changed from one run to another. Keys ending in _ns are integer nanoseconds, per step unless they say
    otherwise.
    """

    schema: Literal["gpuledger.diff/1"]
    verdict: Literal["faster", "slower", "no change"] | None
    """null for tables of nsys stats, which have no steps"""
    step_delta_ns: int | None
    """after less before, of the median step; of the window where there are no steps; null for tables"""
    interval_ns: IntervalNs | None
    """at least 95 of 100 such intervals hold the true difference; null where noise is not known"""
    no_interval: Annotated[str | None, Meta(description="why there is none")]
    whole: DiffWholeJson
    before: DiffSideJson
    after: DiffSideJson
    overlap: OverlapJson
    parts: Annotated[list[PartJson], Meta(description="sum to whole.delta_ns")]
    lines: Annotated[list[LineChangeJson], Meta(description="of the ledger, means over the steps")]
    families: list[FamilyChangeJson]
    kernels: list[KernelChangeJson]
    launches: LaunchesChangeJson | None
    calls: list[CallChangeJson]
    ranges: list[RangeChangeJson]
    memory: list[MemoryChangeJson]
    controls: ControlsJson | None
    gates: list[GateJson]
    notes: list[str]
    use: list[UseChangeJson] | None
    """What kernels of the same name, grid and block use of the GPU, in percent of what it could do while they ran, from
    samples: only what lies outside both intervals. null where a side was not sampled."""
    busy: list[BusyChangeJson] | UnsetType | None = UNSET
    """Compute by what it was good for: a change in light is one in work, in lost one in pace. delta_ns sum to the
    change in compute, the parts `calls`, `time per call`, `mix` and `other compute`. null where little is known of a
    side."""
    phases: list[PhaseChangeJson] | UnsetType = UNSET
    """Phases of a layer, idle time and other work, per step; empty where a side has no layers."""


class _Moved(Struct, frozen=True):
    """A mean of both sides, in whole nanoseconds."""

    before: float
    after: float

    @property
    def before_ns(self) -> int:
        return round(self.before)

    @property
    def after_ns(self) -> int:
        return round(self.after)

    @property
    def delta_ns(self) -> int:
        return self.after_ns - self.before_ns

    @property
    def delta_share(self) -> float | None:
        return _finite(change_share(self.before, self.after))


def diff_json(compared: Compared) -> DiffJson:
    """The comparison."""
    diff = compared.diff
    before, after = compared.sides
    return fill(
        DiffJson,
        diff,
        schema="gpuledger.diff/1",
        step_delta_ns=diff.delta_ns if before.whole != KERNEL_TIME else None,
        interval_ns=_whole_interval(diff.interval),
        no_interval=diff.interval.reason if isinstance(diff.interval, NotMeasured) else None,
        whole=fill(
            DiffWholeJson,
            diff,
            what=before.whole,
            before_ns=before.median_ns,
            after_ns=after.median_ns,
            delta_share=_finite(diff.share),
        ),
        before=_side(before),
        after=_side(after),
        overlap=fill(OverlapJson, diff.overlap),
        parts=[PartJson(part=part.name, ns=part.ns) for part in diff.parts],
        lines=[
            fill(LineChangeJson, _Moved(before.line_mean_ns(line), after.line_mean_ns(line)), line=line)
            for line in dict.fromkeys((*before.lines, *after.lines))
        ],
        families=_families(before, after),
        kernels=[_kernel(change) for change in (*diff.changes, *diff.comm)],
        launches=_launches(compared),
        calls=[
            CallChangeJson(name=name, before=_calls(old), after=_calls(new), delta_ns=round(new.ns - old.ns))
            for name, (old, new) in compared.calls.items()
        ],
        ranges=[_range(compared, change) for change in compared.ranges],
        memory=_memory(compared),
        controls=None if isinstance(diff.controls, NotMeasured) else _controls(diff.controls),
        gates=[_gate(outcome) for outcome in compared.outcomes],
        use=None if diff.use is None else [_use(change) for change in diff.use],
        busy=None if diff.busy is None else [_busy(change) for change in diff.busy],
        phases=[
            PhaseChangeJson(change.name, round(change.before_ns), round(change.after_ns), change.delta_ns)
            for change in diff.phases
        ],
    )


def _whole_interval(interval: Interval | NotMeasured) -> list[int] | None:
    return None if isinstance(interval, NotMeasured) else [math.floor(interval.low_ns), math.ceil(interval.high_ns)]


def _finite(share: float) -> float | None:
    """None for what was not there before."""
    return share if math.isfinite(share) else None


def _rounded(amount: float | None) -> int | None:
    return None if amount is None else round(amount)


def _side(side: RunSide) -> DiffSideJson:
    has_steps = side.whole != KERNEL_TIME
    return fill(
        DiffSideJson,
        side,
        gpu=side.gpu_name,
        device=side.gpu,
        busy_clock_hz=_rounded(side.busy_clock_hz),
        gpus=[GpuStepJson(device=gpu, step_ns=ns) for gpu, ns in side.gpus.items()],
        steps_by=side.source,
        runs=list(side.run_steps),
        step_ns=side.median_ns if has_steps else None,
        mean_ns=round(side.mean_ns) if has_steps else None,
    )


def _families(*sides: RunSide) -> list[FamilyChangeJson]:
    old, new = defaultdict[str, float](float), defaultdict[str, float](float)
    for side, sums in zip(sides, (old, new), strict=True):
        for kernel in side.kernels:
            sums[kernel.family] += kernel.time_ns / side.steps
    return [fill(FamilyChangeJson, _Moved(old[name], new[name]), family=name) for name in (old | new)]


def _kernel(change: TimeChange) -> KernelChangeJson:
    def launched(kernel: RunKernel) -> PairedKernelJson:
        return fill(PairedKernelJson, kernel, ns=kernel.time_ns)

    return fill(
        KernelChangeJson,
        _Moved(*change.ns),
        match=change.pair.level,
        family=change.pair.first.family,
        before=[launched(kernel) for kernel in change.pair.before],
        after=[launched(kernel) for kernel in change.pair.after],
        calls_before=change.calls[0],
        calls_after=change.calls[1],
        each_before_ns=round(change.each_ns[0]),
        each_after_ns=round(change.each_ns[1]),
        by_calls_ns=round(change.by_calls_ns),
        by_time_per_call_ns=round(change.by_time_ns),
        by_mix_ns=round(change.by_mix_ns),
    )


def _calls(side: PerStep) -> CallsJson:
    return CallsJson(calls=side.count, ns=round(side.ns), each_ns=round(side.ns / side.count) if side.count else None)


def _launches(compared: Compared) -> LaunchesChangeJson | None:
    if compared.launch_split is None or compared.launches is None:
        return None
    (before, after), (number, cost) = compared.launches, compared.launch_split
    return LaunchesChangeJson(
        before=_calls(before), after=_calls(after), by_number_ns=round(number), by_cost_ns=round(cost)
    )


def _range(compared: Compared, change: RangeChange) -> RangeChangeJson:
    def side(of: RunRange | None, steps: int) -> PairedRangeJson | None:
        if of is None:
            return None
        return PairedRangeJson(
            name=of.name,
            instances=of.instances / steps,
            host_ns=round(of.host_ns / steps),
            gpu_ns=None if of.gpu_ns is None else round(of.gpu_ns / steps),
            wait_ns=None if of.wait_ns is None else round(of.wait_ns / steps),
        )

    pair, (before, after) = change.pair, compared.sides
    return fill(
        RangeChangeJson,
        change,
        match=pair.level,
        unchanged=pair.unchanged,
        before=side(pair.before, before.steps),
        after=side(pair.after, after.steps),
        host_delta_ns=round(change.host_ns[1] - change.host_ns[0]),
        host_delta_share=_finite(change.share),
        before_of_whole=change.of_whole[0],
        after_of_whole=change.of_whole[1],
    )


def _memory(compared: Compared) -> list[MemoryChangeJson]:
    def copied(side: PerStep) -> MemoryAmountJson:
        return MemoryAmountJson(count=side.count, bytes=_rounded(side.bytes), ns=round(side.ns))

    rows = [
        MemoryChangeJson(what=kind, before=copied(old), after=copied(new))
        for kind, (old, new) in compared.copies.items()
    ]
    peaks = [side.peak_bytes for side in compared.sides]
    if any(peak is not None for peak in peaks):
        before, after = (MemoryAmountJson(count=None, bytes=peak, ns=None) for peak in peaks)
        rows.append(MemoryChangeJson(what="peak in use", before=before, after=after))
    return rows


def _controls(controls: Controls) -> ControlsJson:
    return fill(
        ControlsJson,
        controls,
        ranges=list(controls.names),
        change_share=controls.ratio - 1,
        interval_ns=_whole_interval(controls.interval),
        may_be_noise=controls.is_noise,
        calls_seen=controls.known,
        corrected_step_delta_ns=controls.corrected_delta_ns,
    )


def _gate(outcome: GateOutcome) -> GateJson:
    interval = outcome.interval
    return fill(
        GateJson,
        outcome,
        gate=outcome.gate.text,
        measures=outcome.gate.measures,
        change_share=_finite(outcome.share),
        interval=None if isinstance(interval, NotMeasured) else [interval.low_ns, interval.high_ns],
        may_be_noise=outcome.in_noise,
    )


def _busy(change: BusyChange) -> BusyChangeJson:
    before_ns, after_ns = round(change.before_ns), round(change.after_ns)
    return BusyChangeJson(part=change.name, before_ns=before_ns, after_ns=after_ns, delta_ns=change.delta_ns)  # type: ignore[arg-type]


def _use(change: UseChange) -> UseChangeJson:
    return fill(
        UseChangeJson,
        change.after_kernel,
        before_ns=change.before_kernel.time_ns,
        after_ns=change.after_kernel.time_ns,
        counter=change.metric.value,
        before=figure_json(change.before),
        after=figure_json(change.after),
    )
