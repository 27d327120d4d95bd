"""A report for programs: gpuledger.report/1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuledger.analyse.light.books import LightRow
from gpuledger.analyse.light.kernel_light import LightSource
from gpuledger.analyse.phase_costs import PhaseTimes
from gpuledger.analyse.utilization.against_counters import CounterComparison
from gpuledger.analyse.utilization.kernel_use import UseClass
from gpuledger.analyse.utilization.stretches import SampledUse
from gpuledger.answers.kernels import UseAnswer
from gpuledger.answers.report import ReportAnswer
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.rule import OneGpu
from gpuledger.json_types import Count, Json, Ns, Share
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation
from gpuledger.ledger.steps import PHASES
from gpuledger.present.json.kernels import MatchedKernelsJson, matched_json
from gpuledger.present.json.types import HealthJson, MissingJson, fill, health_json
from gpuledger.present.json.utilization import DeviceUseJson, device_use_json
from gpuledger.present.terms import made_at
from gpuledger.trace.model import GraphPlaces


class OriginJson(Json):
    tool: str
    tool_version: str | None
    schema_version: str | None
    gpus: list[str]


class UseNsJson(Json):
    """Time by how it uses the GPU, from samples of its counters. docs/concepts/use.md defines the classes."""

    compute_roof: Ns
    memory_roof: Ns
    under_filled: Ns
    stalled: Ns
    unknown: Ns


class LineJson(Json):
    """A line of the ledger."""

    line: Annotated[str, Meta(pattern=r"^(compute\..+|comm|copy|idle\..+)$")]
    ns: Annotated[int, Meta(ge=1)]
    share: Share
    use_ns: UseNsJson | UnsetType = UNSET
    """Of a line of compute; sums to ns. All unknown without samples."""


class SteadyJson(Json):
    """What text and pages show per step: the steps without warm-up together, the whole window where there are none.

    A figure per step is ns divided by steps, rounded down. Idle time is here by where the host was; `triggers` has the
    same time by what set it off, as text and pages show it.
    """

    steady_ns: Ns
    start_ns: int
    end_ns: int
    steps: Annotated[int, Meta(ge=1, description="How many; 1 where none were found.")]
    ledger: Annotated[list[LineJson], Meta(description="Sums to steady_ns.")]


class TriggerJson(Json):
    trigger: str
    call: str
    ns: int
    gaps: int


class BusyJson(Json):
    """Compute of the steady stretch by what it was good for. docs/concepts/light.md defines the four."""

    light_ns: Ns
    lost_ns: Ns
    avoidable_ns: Ns
    unknown_ns: Ns


class FamilyBusyJson(BusyJson):
    family: str


class LightJson(Json):
    """The kernels of one name that one kind of operator launched, per step."""

    kernel: str
    operator: str | None
    count: Annotated[int, Meta(ge=1, description="In the steady stretch.")]
    ns: Ns
    light_ns: Annotated[Ns | None, Meta(description="Null where it is not known.")]
    light_low_ns: int | None
    light_high_ns: int | None
    source: Literal["shapes", "samples", "ncu", "launch", "unknown"]
    roof: Literal["compute", "memory", "unknown"]


class AtLightJson(Json):
    """A step with compute at the GPU's roofs, nothing avoidable and never idle; what is unknown takes what it took."""

    now_ns: Annotated[Ns, Meta(description="The mean steady step.")]
    step_ns: Ns
    mfu_share: float
    """Of now_ns: arithmetic at the peak of its type, of kernels that it limits. Avoidable work and kernels that memory
    limits, or that are unknown, are left out."""
    bandwidth_share: float
    """Of now_ns: bytes at the memory's bandwidth, of kernels that they limit."""
    unknown_share: Annotated[float, Meta(description="Of compute.")]
    tokens: int | UnsetType | None = UNSET
    """Rows of the vocabulary that one step looks up on this GPU; null where that is not known."""


class DeviceJson(Json):
    device: int
    window_ns: Ns
    start_ns: Annotated[int, Meta(description="Where the window begins, from zero_ns, as --time takes it.")]
    end_ns: int
    ledger: Annotated[list[LineJson], Meta(description="The whole window by line; sums to window_ns.")]
    steady: SteadyJson
    hidden_comm_ns: Ns
    hidden_copy_ns: Ns
    triggers: list[TriggerJson]
    use: DeviceUseJson | None
    """What samples of the GPU's counters say of it, as `gpus` of gpuledger.stepkernels/1 has it, and of its kernels in
    the steady stretch, as `kernels` there; with --ncu also `against_ncu`, as an item of `against_ncu` there; null where
    it was not sampled."""
    busy: BusyJson | UnsetType | None = UNSET
    """Sums to the compute of `steady`; null where nothing ran."""
    busy_families: list[FamilyBusyJson] | UnsetType = UNSET
    """The same by family; sums to `busy`."""
    light: list[LightJson] | UnsetType = UNSET
    """The kernels that take the most time, and their light."""
    at_light: AtLightJson | UnsetType | None = UNSET
    """What a step could take on this GPU; null where over a tenth of compute is unknown."""


class PhasesJson(Json):
    """How many steady steps are of each phase."""

    prefill: Count
    decode: Count
    mixed: Count


class OutlierJson(Json):
    step: int
    length_ns: int
    line: str
    excess_ns: int


class StepsJson(Json):
    device: int
    source: str
    coverage: Annotated[Share, Meta(description="The share of the window that the steady steps hold.")]
    count: Annotated[int, Meta(description="All steps found; the statistics leave warm-up out.")]
    warm_up: int
    median_ns: int
    p10_ns: int
    p90_ns: int
    drift_share: float | None
    phases: PhasesJson
    outliers: list[OutlierJson]


class PhaseNsJson(Json):
    phase: str
    ns: Ns


class StepPhasesJson(Json):
    """What phases of layers take in some steady steps, all together: with idle_ns and other_ns they sum to whole_ns."""

    device: int
    steps: Annotated[int | None, Meta(description="How many steps, from the middle; null: the window, without steps.")]
    whole_ns: Ns
    phases: Annotated[list[PhaseNsJson], Meta(description="In the order of a layer.")]
    idle_ns: Ns
    other_ns: Annotated[Ns, Meta(description="Work that is of no phase.")]


class LevelJson(Json):
    name: str
    source: str
    count: Annotated[int, Meta(ge=1)]
    median_ns: Ns
    coverage: Annotated[Share, Meta(description="Of the window, idle time included, in its instances.")]


class SavingJson(Json):
    """Per step: in the run as profiled, and without the profiler; null where that is not known."""

    profiled_ns: Ns
    plain_ns: int | None
    plain_low_ns: int | None
    plain_high_ns: int | None


class EvidenceJson(Json):
    """What a sentence of the evidence was made from. null or empty: not known, or of no matter."""

    t0_ns: int | None
    t1_ns: int | None
    process: int | None
    thread: int | None
    ranges: list[str]
    call: str | None
    kernel: str | None
    copy: Annotated[str | None, Meta(description="The direction of copies, in NVIDIA's words.")]
    bytes: Annotated[Count | None, Meta(description="What they moved in the steady stretch.")]
    correlations: Annotated[list[int], Meta(max_length=20, description="Of launches, the costliest first.")]
    count: Count | None
    share: Share | None
    of: str | None
    place: str | UnsetType | None = UNSET
    """`file:line` of the program, where stacks of Python were recorded: `function` has it."""
    place_is_exact: bool | UnsetType | None = UNSET
    """Whether `place` is the very line; else where the function begins."""
    function: str | UnsetType | None = UNSET
    calls_into: str | UnsetType | None = UNSET
    """The function of a library that most of the time there is in."""
    frames: list[str] | UnsetType = UNSET
    """The program's own frames down to it, the outermost first."""


class FindingJson(Json):
    code: Annotated[str, Meta(pattern="^[A-Z]+(-[A-Z]+)*$")]
    claim: str
    saving_ns_per_step: int | None
    saving_low_ns_per_step: int | None
    """The low end of what is saved without the profiler; of what was not replayed, its own low end."""
    saving_ns: Ns
    saving: SavingJson
    saving_is_bound: Annotated[bool, Meta(description="Whether it is the most that can be had.")]
    then_saves_ns_per_step: Annotated[int | None, Meta(description="After the findings before it are fixed.")]
    fix: Annotated[str | None, Meta(description="What to change first; null where the claim says it.")]
    assumption: str
    confidence: Literal["high", "medium", "low"]
    device: Annotated[int | None, Meta(description="null where it is about no single one.")]
    evidence: list[str]
    evidence_data: list[EvidenceJson]
    """In the order of `evidence`; instants from the run's zero_ns."""
    next: str


class GraphNamesJson(Json):
    """Only with --names-from: how much of the work inside CUDA graphs the second file names."""

    file: str
    count: Count
    named: Count
    gpu_ns: Ns
    named_ns: Ns
    in_part: Annotated[int, Meta(ge=0, description="Named ones with only the names that several places agree on.")]


class ReportJson(Json):
    """Where the time of one profile went. A device's ledger lines sum to its window_ns; times are nanoseconds."""

    schema: Literal["gpuledger.report/1"]
    profile: str
    origin: OriginJson
    health: list[HealthJson]
    not_measured: list[MissingJson]
    zero_ns: Annotated[int, Meta(description="The profile's own clock at 0; instants count from it, as for --time.")]
    window_ns: Ns
    devices: list[DeviceJson]
    steps: StepsJson | None
    levels: list[LevelJson]
    """All that repeats on the GPU that the report is about, ranges from the outside in; --level makes one of them the
    step."""
    findings: list[FindingJson]
    graph_names: GraphNamesJson | UnsetType = UNSET
    made_at: str | UnsetType = UNSET
    """Only with --ncu: when the document was made, UTC; SOURCE_DATE_EPOCH where that is set."""
    kernels: list[MatchedKernelsJson] | UnsetType = UNSET
    """Only with --ncu: the kernels of the steady steps of each GPU in the order of execution, each with the profiled
    launch that speaks for it."""
    memory: dict[str, Any] | UnsetType = UNSET
    """Only with --memory: the document gpuledger.memorysnapshot/1 of the same run."""
    layer_phases: StepPhasesJson | UnsetType | None = UNSET
    """Of the main GPU; null where most of its work is of no phase."""


def report_json(report: ReportAnswer, memory: dict[str, Any] | None = None) -> ReportJson:
    """The report; `memory` is of the same run."""
    run = report.run
    by_gpu = {device.gpu: device for device in run.devices}
    return ReportJson(
        schema="gpuledger.report/1",
        profile=run.name,
        origin=fill(OriginJson, run.trace.origin, gpus=[gpu.name for gpu in run.trace.origin.gpus]),
        health=health_json(run.health),
        not_measured=[fill(MissingJson, lack) for lack in report.missing],
        zero_ns=run.zero_ns,
        window_ns=run.devices[0].ledger.window_ns,
        devices=[
            _device(device, run.use.get(device.gpu), run.against.get(device.gpu, ()), run.subjects.get(device.gpu))
            for device in run.devices
        ],
        steps=None if report.variation is None else _steps(run.main_device, report.variation),
        levels=[
            fill(LevelJson, level, name=str(level.name), source=str(level.kind)) for level in run.main_device.levels
        ],
        findings=[finding_json(finding, run.zero_ns) for finding in run.findings],
        graph_names=_graph_names(run.trace.places),
        made_at=made_at() if run.kernels else UNSET,
        kernels=[matched_json(matched, by_gpu[gpu]) for gpu, matched in run.kernels.items()] or UNSET,
        memory=UNSET if memory is None else memory,
        layer_phases=_layer_phases(report.step_phases),
    )


def _layer_phases(times: PhaseTimes | None) -> StepPhasesJson | None:
    if times is None:
        return None
    phases = [PhaseNsJson(phase=phase, ns=ns) for phase, ns in times.phases_ns.items()]
    return fill(StepPhasesJson, times, device=times.gpu, phases=phases)


def _graph_names(places: GraphPlaces | None) -> GraphNamesJson | UnsetType:
    if places is None or places.coverage is None:
        return UNSET
    return fill(GraphNamesJson, places.coverage, file=places.file)


def _device(
    device: Device, use: SampledUse | None, against: tuple[CounterComparison, ...], subject: OneGpu | None
) -> DeviceJson:
    books = None if subject is None else subject.light
    split, window, steady, zero_ns = UseAnswer(device, use).split, device.ledger.window, device.steady, device.zero_ns
    return fill(
        DeviceJson,
        device.ledger.busy,
        device=device.gpu,
        window_ns=device.ledger.window_ns,
        start_ns=window.start_ns - zero_ns,
        end_ns=window.end_ns - zero_ns,
        ledger=_ledger(device.ledger.total(), device.ledger.window_ns, split.window),
        steady=SteadyJson(
            steady_ns=device.steady_ns,
            start_ns=steady.start_ns - zero_ns,
            end_ns=steady.end_ns - zero_ns,
            steps=device.step_count,
            ledger=_ledger(device.line_ns, device.steady_ns, split.steady),
        ),
        triggers=[
            TriggerJson(trigger=trigger, call=call, ns=time, gaps=count)
            for (trigger, call), (time, count) in device.triggers.items()
        ],
        busy=None if books is None else fill(BusyJson, books.whole),
        busy_families=[]
        if books is None
        else [fill(FamilyBusyJson, part, family=name) for name, part in books.families],
        light=[] if books is None else [_light(row, device.step_count) for row in books.rows],
        at_light=None if books is None or (then := books.at_light(device)) is None else fill(AtLightJson, then),
        use=None if use is None else device_use_json(use, zero_ns, against),
    )


_LONGEST_NAME = 4000
"""Letters of a kernel's name: no compiler makes longer ones that are worth a page."""


def _light(row: LightRow, steps: int) -> LightJson:
    is_known = row.source is not LightSource.UNKNOWN
    light, low, high = (amount // steps if is_known else None for amount in (row.light_ns, row.low_ns, row.high_ns))
    return LightJson(
        kernel=row.kernel[:_LONGEST_NAME],
        operator=row.operator,
        count=row.count,
        ns=row.took_ns // steps,
        light_ns=light,
        light_low_ns=low,
        light_high_ns=high,
        source=row.source.name.lower(),  # type: ignore[arg-type]
        roof=row.roof.name.lower(),  # type: ignore[arg-type]
    )


def _ledger(lines: Mapping[Line, int], whole_ns: int, by_use: Mapping[Line, Mapping[UseClass, int]]) -> list[LineJson]:
    """Lines that sum to the whole; those of compute have parts by use that sum to the line."""
    return [
        LineJson(
            line=line,
            ns=amount,
            share=amount / whole_ns if whole_ns else 0.0,
            use_ns=UseNsJson(**{name.value: ns for name, ns in by_use[line].items()}) if line in by_use else UNSET,
        )
        for line, amount in lines.items()
    ]


def _steps(device: Device, varied: Variation) -> StepsJson:
    phases = device.phases.of_step[varied.steps.warm_up :]
    return fill(
        StepsJson,
        varied,
        device=device.gpu,
        source=varied.steps.source,
        coverage=device.coverage,
        count=len(varied.steps),
        warm_up=varied.steps.warm_up,
        phases=PhasesJson(**{name: phases.count(at) for at, name in enumerate(PHASES) if name}),
        outliers=[fill(OutlierJson, outlier) for outlier in varied.outliers],
    )


def finding_json(finding: Finding, zero_ns: int | None) -> FindingJson:
    """A finding as every document holds it. Instants count from `zero_ns`; None where the trace has no one clock."""
    plain, steps = finding.plain, finding.steps
    return fill(
        FindingJson,
        finding,
        saving=SavingJson(
            profiled_ns=finding.saving_ns // steps,
            plain_ns=None if plain is None or plain.ns is None else plain.ns // steps,
            plain_low_ns=None if plain is None else plain.low_ns // steps,
            plain_high_ns=None if plain is None else plain.high_ns // steps,
        ),
        saving_is_bound=finding.is_bound,
        then_saves_ns_per_step=None if finding.then_ns is None else finding.then_ns // steps,
        device=None if finding.gpu < 0 else finding.gpu,
        evidence=list(finding.sentences),
        evidence_data=[_evidence(piece, zero_ns) for piece in finding.evidence],
    )


def _evidence(piece: Evidence, zero_ns: int | None) -> EvidenceJson:
    span = None if zero_ns is None else piece.span
    return fill(
        EvidenceJson,
        piece,
        t0_ns=None if span is None else span.start_ns - (zero_ns or 0),
        t1_ns=None if span is None else span.end_ns - (zero_ns or 0),
        process=piece.pid,
        thread=piece.tid,
        call=piece.call or None,
        kernel=piece.kernel or None,
        copy=piece.copy or None,
        bytes=piece.moved_bytes,
        of=piece.of or None,
        place=None if piece.line is None else piece.line.at,
        place_is_exact=None if piece.line is None else piece.line.is_exact,
        function=None if piece.line is None else piece.line.function,
        calls_into=None if piece.line is None else piece.line.into or None,
        frames=[] if piece.line is None else list(piece.line.frames),
    )
