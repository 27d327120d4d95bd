"""What a report says, for programs: gpuledger.report/1."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from gpuledger.analyse.light.books import BusyTime, FamilyTime, LightBooks, StepAtLight
from gpuledger.analyse.recorded.inventory import Missing
from gpuledger.analyse.utilization.kernel_use import UseClass
from gpuledger.analyse.utilization.stretches import compute_split
from gpuledger.answers.report import ReportAnswer
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Outlier, Variation
from gpuledger.ledger.steps import PHASES
from gpuledger.present.terms import made_at
from gpuledger.present.views.answer import Answer, health_rows
from gpuledger.present.views.info import ProfileOrigin, profile_origin
from gpuledger.present.views.memory_snapshot import MemorySnapshotAnswer
from gpuledger.present.views.report_parts import closing, verdict
from gpuledger.present.views.work.light import LitKernel, lit_kernels
from gpuledger.present.views.work.ncu import StepKernels, step_kernels
from gpuledger.present.views.work.utilization import SampledGpu, sampled_gpu


class LineTime(Struct, frozen=True):
    """A line of the ledger."""

    line: str
    """compute.FAMILY, comm, copy or idle.CAUSE."""
    ns: int
    share: float
    use_ns: dict[str, int] | None
    """Of a line of compute by how it uses the GPU (docs/concepts/use.md), all unknown without samples; sums to ns."""


class SteadyTime(Struct, frozen=True, kw_only=True):
    """What text and pages show per step: the steps without warm-up together, the whole window where there are none.

    A figure per step is ns divided by steps, rounded down. Idle time is here by where the host was; `triggers` has the
    same time by what set it off, as text and pages show it.
    """

    steady_ns: int
    start_ns: int
    end_ns: int
    steps: int
    """How many; 1 where none were found."""
    ledger: tuple[LineTime, ...]
    """Sums to steady_ns."""
    busy: BusyTime | None
    """What compute was good for (docs/concepts/light.md); sums to the lines of compute; null where nothing ran."""
    busy_families: tuple[FamilyTime, ...]
    """The same by family; sums to `busy`."""
    light: tuple[LitKernel, ...]
    """The kernels that take the most time, and their light."""
    at_light: StepAtLight | None
    """What a step could take on this GPU; null where over a tenth of compute is unknown."""


class TriggerTime(Struct, frozen=True):
    """Idle time of the steady steps by what set it off."""

    trigger: str
    call: str | None
    """The call that emptied the queue; null: none did."""
    ns: int
    gaps: int


class DeviceReport(Struct, frozen=True, kw_only=True):
    """Where the time of one GPU went."""

    device: int
    gpu_name: str | None
    """null where the profile does not name it."""
    window_ns: int
    start_ns: int
    """Where the window begins, from zero_ns, as --time takes it."""
    end_ns: int
    ledger: tuple[LineTime, ...]
    """The whole window by line; sums to window_ns."""
    steady: SteadyTime
    hidden_comm_ns: int
    hidden_copy_ns: int
    triggers: tuple[TriggerTime, ...]
    use: SampledGpu | None
    """null where it was not sampled."""


class StepReport(Struct, frozen=True, kw_only=True):
    """The steps of the GPU that the report is about."""

    device: int
    source: str
    coverage: float
    """The share of the window that the steady steps hold."""
    count: int
    """All steps found; the statistics leave warm-up out."""
    warm_up: int
    median_ns: int
    p10_ns: int
    p90_ns: int
    drift_share: float | None
    phases: dict[str, int]
    """How many steady steps are prefill, decode and mixed."""
    outliers: tuple[Outlier, ...]


class RepeatedLevel(Struct, frozen=True):
    """One thing that repeats."""

    name: str
    source: str
    count: int
    median_ns: int
    coverage: float
    """Of the window, idle time included, in its instances."""


class SavingTime(Struct, frozen=True):
    """Per step: in the run as profiled, and without the profiler; null where that is not known."""

    profiled_ns: int
    plain_ns: int | None
    plain_low_ns: int | None
    plain_high_ns: int | None


class EvidenceDetail(Struct, frozen=True, kw_only=True):
    """What a sentence of the evidence was made from. null or empty: not known, or of no matter."""

    t0_ns: int | None
    t1_ns: int | None
    process: int | None
    thread: int | None
    ranges: tuple[str, ...]
    call: str | None
    kernel: str | None
    copy: str | None
    """The direction of copies, in NVIDIA's words."""
    bytes: int | None
    """What they moved in the steady steps."""
    correlations: tuple[int, ...]
    """Of up to 20 launches, the costliest first."""
    count: int | None
    share: float | None
    of: str | None
    place: str | None
    """`file:line` of the program, where stacks of Python were recorded: `function` has it."""
    place_is_exact: bool | None
    """Whether `place` is the very line; else where the function begins."""
    function: str | None
    calls_into: str | None
    """The function of a library that most of the time there is in."""
    frames: tuple[str, ...]
    """The program's own frames down to it, the outermost first."""


class FindingReport(Struct, frozen=True, kw_only=True):
    """What is wrong, how we know, and what fixing it would save."""

    code: str
    claim: str
    saving_ns_per_step: int | None
    saving_low_ns_per_step: int | None
    """The low end of what is saved without the profiler; of what was not replayed, its own low end."""
    saving_ns: int
    saving: SavingTime
    saving_is_bound: bool
    """Whether it is the most that can be had."""
    then_saving_ns_per_step: int | None
    """After the findings before it are fixed."""
    fix: str | None
    """What to change first; null where the claim says it."""
    assumption: str
    confidence: str
    """high, medium or low."""
    device: int | None
    """null where it is about no single one."""
    evidence: tuple[str, ...]
    evidence_data: tuple[EvidenceDetail, ...]
    """In the order of `evidence`; instants from the run's zero_ns."""
    next: str


class PhaseTotal(Struct, frozen=True):
    """The time of one phase."""

    phase: str
    ns: int


class StepPhases(Struct, frozen=True, kw_only=True):
    """What phases of layers take in some steady steps, all together: with idle_ns and other_ns they sum to whole_ns."""

    device: int
    steps: int | None
    """How many steps, from the middle; null: the window, without steps."""
    whole_ns: int
    phases: tuple[PhaseTotal, ...]
    """In the order of a layer."""
    idle_ns: int
    other_ns: int
    """Work that is of no phase."""


class NamedGraphWork(Struct, frozen=True, kw_only=True):
    """How much of the work inside CUDA graphs the file of --names-from names."""

    file: str
    count: int
    named: int
    gpu_ns: int
    named_ns: int
    in_part: int
    """Named ones with only the names that several places agree on."""


class ReportDocument(Answer, frozen=True, kw_only=True, tag="gpuledger.report/1"):
    """Where the time of one profile went. A device's ledger lines sum to its window_ns; times are nanoseconds."""

    origin: ProfileOrigin
    not_measured: tuple[Missing, ...]  # type: ignore[assignment]  # of the profile, where tables have theirs
    """What the profile does not hold, why, and what that leaves open."""
    window_ns: int
    devices: tuple[DeviceReport, ...]
    steps: StepReport | None
    levels: tuple[RepeatedLevel, ...]
    """All that repeats on the GPU that the report is about, ranges from the outside in; --level makes one of them the
    step."""
    findings: tuple[FindingReport, ...]
    layer_phases: StepPhases | None
    """Of the main GPU; null where most of its work is of no phase."""
    graph_names: NamedGraphWork | None
    """Only with --names-from."""
    made_at: str | None
    """Only with --ncu: when the document was made, UTC; SOURCE_DATE_EPOCH where that is set."""
    kernels: tuple[StepKernels, ...] | None
    """Only with --ncu: the kernels of the steady steps of each GPU in the order of execution, each with the profiled
    launch that speaks for it."""
    memory: MemorySnapshotAnswer | None
    """Only with --memory: the document gpuledger.memorysnapshot/1 of the same run."""


def report_json(report: ReportAnswer, memory: MemorySnapshotAnswer | None = None) -> ReportDocument:
    """The report; `memory` is of the same run."""
    run, main = report.run, report.run.main_device
    by_gpu = {device.gpu: device for device in run.devices}
    names = run.trace.places
    return ReportDocument(
        profile=run.name,
        zero_ns=run.zero_ns,
        sentences=(verdict(run), *closing(report)),
        health=health_rows(run.health),
        origin=profile_origin(run.trace.origin),
        not_measured=report.missing,
        window_ns=run.devices[0].ledger.window_ns,
        devices=tuple(_device(run, device) for device in run.devices),
        steps=None if report.variation is None else _steps(main, report.variation),
        levels=tuple(
            RepeatedLevel(str(level.name), str(level.kind), level.count, level.median_ns, level.coverage)
            for level in main.levels
        ),
        findings=tuple(finding_report(finding, run.zero_ns) for finding in run.findings),
        layer_phases=None
        if (phases := report.step_phases) is None
        else StepPhases(
            device=phases.gpu,
            steps=phases.steps,
            whole_ns=phases.whole_ns,
            phases=tuple(PhaseTotal(phase, ns) for phase, ns in phases.phases_ns.items()),
            idle_ns=phases.idle_ns,
            other_ns=phases.other_ns,
        ),
        graph_names=None
        if names is None or names.coverage is None
        else NamedGraphWork(file=names.file, **asdict(names.coverage)),
        made_at=made_at() if run.kernels else None,
        kernels=tuple(step_kernels(matched, by_gpu[gpu]) for gpu, matched in run.kernels.items()) or None,
        memory=memory,
    )


def _device(run: ProfiledRun, device: Device) -> DeviceReport:
    use, books, zero_ns = run.use.get(device.gpu), device.ledger, device.zero_ns
    gpu = run.trace.origin.gpu(device.gpu)
    by_use = compute_split(device, None if use is None else use[0].class_of_row)
    return DeviceReport(
        device=device.gpu,
        gpu_name=None if gpu is None else gpu.known_name,
        window_ns=books.window_ns,
        start_ns=books.window.start_ns - zero_ns,
        end_ns=books.window.end_ns - zero_ns,
        ledger=_ledger(books.total(), books.window_ns, by_use.window),
        steady=_steady(
            device,
            _ledger(device.line_ns, device.steady_ns, by_use.steady),
            None if device.gpu not in run.subjects else run.subjects[device.gpu].light,
        ),
        hidden_comm_ns=books.busy.hidden_comm_ns,
        hidden_copy_ns=books.busy.hidden_copy_ns,
        triggers=tuple(
            TriggerTime(trigger, call or None, time_ns, count)
            for (trigger, call), (time_ns, count) in device.triggers.items()
        ),
        use=None if use is None else sampled_gpu(device, use, run.against.get(device.gpu, ())),
    )


def _steady(device: Device, ledger: tuple[LineTime, ...], light: LightBooks | None) -> SteadyTime:
    return SteadyTime(
        steady_ns=device.steady_ns,
        start_ns=device.steady.start_ns - device.zero_ns,
        end_ns=device.steady.end_ns - device.zero_ns,
        steps=device.step_count,
        ledger=ledger,
        busy=None if light is None else light.whole,
        busy_families=() if light is None else light.families,
        light=() if light is None else lit_kernels(light, device.step_count),
        at_light=None if light is None else light.at_light(device),
    )


def _ledger(
    lines: Mapping[Line, int], whole_ns: int, by_use: Mapping[Line, Mapping[UseClass, int]]
) -> tuple[LineTime, ...]:
    """Lines that sum to the whole; those of compute have parts by use that sum to the line."""
    return tuple(
        LineTime(
            line,
            amount,
            amount / whole_ns if whole_ns else 0.0,
            {use.value: ns for use, ns in by_use[line].items()} if line in by_use else None,
        )
        for line, amount in lines.items()
    )


def _steps(device: Device, varied: Variation) -> StepReport:
    steps = varied.steps
    phases = device.phases.of_step[steps.warm_up :]
    return StepReport(
        device=device.gpu,
        source=steps.source,
        coverage=device.coverage,
        count=len(steps),
        warm_up=steps.warm_up,
        median_ns=varied.median_ns,
        p10_ns=varied.p10_ns,
        p90_ns=varied.p90_ns,
        drift_share=varied.drift_share,
        phases={name: phases.count(at) for at, name in enumerate(PHASES) if name},
        outliers=varied.outliers,
    )


def finding_report(finding: Finding, zero_ns: int | None) -> FindingReport:
    """A finding as every document holds it. Instants count from `zero_ns`; None where the trace has no one clock."""
    plain, steps = finding.plain, finding.steps
    return FindingReport(
        code=finding.code,
        claim=finding.claim,
        saving_ns_per_step=finding.saving_ns_per_step,
        saving_low_ns_per_step=finding.saving_low_ns_per_step,
        saving_ns=finding.saving_ns,
        saving=SavingTime(
            finding.saving_ns // steps,
            None if plain is None or plain.ns is None else plain.ns // steps,
            None if plain is None else plain.low_ns // steps,
            None if plain is None else plain.high_ns // steps,
        ),
        saving_is_bound=finding.is_bound,
        then_saving_ns_per_step=None if finding.then_ns is None else finding.then_ns // steps,
        fix=finding.fix,
        assumption=finding.assumption,
        confidence=finding.confidence,
        device=None if finding.gpu < 0 else finding.gpu,
        evidence=finding.sentences,
        evidence_data=tuple(_evidence(piece, zero_ns) for piece in finding.evidence),
        next=finding.next,
    )


def _evidence(piece: Evidence, zero_ns: int | None) -> EvidenceDetail:
    span = None if zero_ns is None else piece.span
    line = piece.line
    return EvidenceDetail(
        t0_ns=None if span is None else span.start_ns - (zero_ns or 0),
        t1_ns=None if span is None else span.end_ns - (zero_ns or 0),
        process=piece.pid,
        thread=piece.tid,
        ranges=piece.ranges,
        call=piece.call or None,
        kernel=piece.kernel or None,
        copy=piece.copy or None,
        bytes=piece.moved_bytes,
        correlations=piece.correlations,
        count=piece.count,
        share=piece.share,
        of=piece.of or None,
        place=None if line is None else line.at,
        place_is_exact=None if line is None else line.is_exact,
        function=None if line is None else line.function,
        calls_into=None if line is None else line.into or None,
        frames=() if line is None else line.frames,
    )
