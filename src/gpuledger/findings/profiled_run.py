"""One profile's books, steps and findings together: a trace in, everything that is said of it out.

With the headline, what a report says first of a GPU, and the stretch of time that shows a finding best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, field

from gpuledger.attribution.lost_time import longest
from gpuledger.findings.capture.capture_warmup import GRAPH_CAPTURE
from gpuledger.findings.finding import Finding
from gpuledger.findings.rule import OneGpu
from gpuledger.findings.rules import RULE_OF
from gpuledger.findings.run_rules import MAX_GPUS, asked_about, findings, findings_of, subjects_of
from gpuledger.ledger.books import Line, LineKind, with_triggers
from gpuledger.ledger.causes import Cause, by_trigger
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.ledger.levels import AT_START
from gpuledger.messages import say
from gpuledger.selection import Selection
from gpuledger.stages import BOOKS, FINDINGS, NOBODY, TellStage
from gpuledger.trace.model import Note, NotMeasured, Severity, Trace
from gpuledger.trace.spans import Span
from gpuledger.trace.tables import EVENTS, Table
from gpuledger.units import count_text

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import MatchedTimeline
    from gpuledger.analyse.light.books import LightBooks
    from gpuledger.analyse.utilization.against_counters import CounterComparison
    from gpuledger.analyse.utilization.stretches import SampledUse
    from gpuledger.trace.measured import KernelReport

_NEVER_READ: Final = {
    Table.KERNELS: {"short_name", "mangled_name"},
    Table.CALLS: {"kernel", "blocks"},
}
_SHAPES: Final = {"grid", "block"}


_OF_LAUNCHES: Final = {"block", "registers", "smem_static_bytes", "smem_dynamic_bytes"}


def columns_for(*, launches: bool = True) -> dict[Table, frozenset[str]]:
    """What a report reads of a trace; what `launches` are made of is for rules, and to find them in another file."""
    return {
        table: frozenset(column.name for column in table.schema.columns)
        - _NEVER_READ.get(table, set())
        - (set() if launches else _OF_LAUNCHES)
        for table in EVENTS
    }


WHERE_SAMPLED: Final = {
    Table.METRICS: frozenset(column.name for column in Table.METRICS.schema.columns),
    Table.KERNELS: frozenset(_SHAPES),
}
"""What a report reads besides where a GPU's counters were sampled."""


class ProfiledRun(Struct, frozen=True):
    """What one profile says."""

    name: str
    trace: Trace
    window: Span
    devices: tuple[Device, ...]
    findings: tuple[Finding, ...]
    kernels: Mapping[int, MatchedTimeline] = field(default_factory=dict)
    """What Nsight Compute says of the kernels of each GPU, where reports of it were given."""
    kernel_health: tuple[Note, ...] = ()  # what was lost on reading those reports
    use: Mapping[int, SampledUse] = field(default_factory=dict)
    """What samples say of each GPU that was sampled, and of its kernels in the steady stretch."""
    against: Mapping[int, tuple[CounterComparison, ...]] = field(default_factory=dict)
    """Those samples against what Nsight Compute counted, where there is both."""
    subjects: Mapping[int, OneGpu] = field(default_factory=dict)  # what the rules were asked about, by GPU

    @property
    def zero_ns(self) -> int:
        return self.devices[0].zero_ns

    @property
    def asked(self) -> tuple[Device, ...]:
        """The GPUs that findings are of; of very many, a page shows these."""
        return tuple(subject.device for subject in asked_about(self.subjects.values()))

    @property
    def health(self) -> tuple[Note, ...]:
        """What was lost on reading, and that not all GPUs were looked at."""
        notes, gpus = (*self.trace.health, *self.kernel_health), len(self.subjects)
        if gpus <= MAX_GPUS:
            return notes
        left_out = say(
            "findings and pages are of {count} of {gpus} GPUs, the least and the most busy; `--device=N` shows another",
            count=count_text(len(self.asked)),
            gpus=count_text(gpus),
        )
        return (*notes, Note(Severity.LOSS, "gpus-left-out", left_out, gpus - len(self.asked)))

    @property
    def damage(self) -> Finding | None:
        """What cannot be true of the recording: then it is the first finding."""
        return self.findings[0] if self.trace.damage and self.findings else None

    @property
    def lost(self) -> Finding | None:
        """What the profiler lost, if that is worth a warning: then it is the first finding of what can be true."""
        return self.findings[0] if self.devices[0].lost.is_notable else None

    @property
    def light(self) -> LightBooks | None:
        """What the main GPU's compute time was good for; None where nothing was computed."""
        subject = self.subjects.get(self.main_device.gpu)
        return None if subject is None else subject.light

    @property
    def is_graph_capture(self) -> bool:
        """Whether graphs are captured and hardly anything runs: then a finding says so, and is about nothing else."""
        return any(finding.code == GRAPH_CAPTURE.code and finding.explains_ns for finding in self.findings)

    @property
    def main_device(self) -> Device:
        return _main_device(self.devices, self.findings)


def _main_device(devices: Sequence[Device], found: Sequence[Finding]) -> Device:
    """Where the most would be saved, else the busiest."""
    gpus = [finding.gpu for finding in found if finding.gpu >= 0]
    if gpus:
        return next(device for device in devices if device.gpu == gpus[0])
    return max(devices, key=lambda device: device.device_floor_ns)


def main_device(trace: Trace, name: str, wanted: Selection, *, stage: TellStage = NOBODY.stage) -> Device:
    """The one that a report of the trace shows first; of one GPU alone nothing is looked for."""
    stage(BOOKS)
    devices = analyse_devices(trace, name, wanted)
    if len(devices) == 1:
        return devices[0]
    stage(FINDINGS)
    return _main_device(devices, findings(trace, devices, use=sampled_use(trace, devices)))


def sampled_use(trace: Trace, devices: Sequence[Device]) -> dict[int, SampledUse]:
    """What samples say of each GPU that was sampled; nothing where they, or the shapes of launches, were not read."""
    if Table.METRICS not in trace.tables or not all(shape in trace[Table.KERNELS] for shape in _SHAPES):
        return {}
    from gpuledger.analyse.utilization.stretches import use_of_device

    use = {device.gpu: use_of_device(trace, device, device.steady_stretches) for device in devices}
    return {gpu: measured for gpu, measured in use.items() if not isinstance(measured, NotMeasured)}


def diagnose(
    trace: Trace,
    name: str,
    wanted: Selection,
    profiled: KernelReport | None = None,
    *,
    stage: TellStage = NOBODY.stage,
    shows_levels: bool = False,
) -> ProfiledRun:
    """Analyse a trace together with what Nsight Compute measured of its kernels. It holds what `columns_for` names."""
    stage(BOOKS)
    devices = analyse_devices(trace, name, wanted, shows_levels=shows_levels)
    windows = [device.ledger.window for device in devices]
    window = Span(min(window.start_ns for window in windows), max(window.end_ns for window in windows))
    stage(FINDINGS)
    use = sampled_use(trace, devices)
    if profiled is None:
        subjects = subjects_of(trace, devices, use=use)
        return ProfiledRun(name, trace, window, devices, findings_of(trace, subjects), use=use, subjects=subjects)
    from gpuledger.analyse.kernels.step_kernels import matched_timeline, overview
    from gpuledger.analyse.roofline.judgement import judged
    from gpuledger.analyse.utilization.against_counters import CountedUse, held_against

    launches = [judged(launch) for launch in profiled.launches]
    kernels = {
        device.gpu: matched_timeline(overview(trace, device, wanted.scope_pattern), launches) for device in devices
    }
    against = {gpu: held_against(of_kernels, profiled) for gpu, (of_kernels, _) in use.items()}
    subjects = subjects_of(trace, devices, kernels, use, CountedUse(profiled))
    found = findings_of(trace, subjects)
    return ProfiledRun(name, trace, window, devices, found, kernels, profiled.health, use, against, subjects)


MIN_HEADLINE_SHARE: Final = 0.02  # a finding that neither saves nor explains this share of the time is no headline
NOT_BY_SAVING: Final = ("STEP-PERIODIC", "COLD-START")
"""They save little or nothing, and say where time went that nothing else is about."""

MIN_LOSS_SHARE: Final = 0.05  # time lost to one line from this share on is never passed over
MAX_MAIN_KERNELS, MIN_BUSY_SHARE, MIN_TIME_SHARE = 3, 0.6, 0.5
"""So few kernels that hold so much of the busy time and so much of all time are the program."""

MAX_SAVED_OF_KERNELS: Final = 0.25
"""Kernels are named before what saves less than this share of their time: they need not get much faster for as much."""

_UNRECORDED: Final = Line.of_cause(Cause.UNRECORDED)
_LOST: Final = Line.of_cause(Cause.LOST)
_UNKNOWN: Final = (Cause.UNRECORDED, Cause.LOST, Cause.TAIL)
"""Idle time that is nobody's loss: what happened in it, if anything, is not in the file."""


class Loss(Struct, frozen=True):
    """Time in which the GPU computes nothing, by what set it off, and its share."""

    label: str
    time_ns: int
    share: float


class Headline(Struct, frozen=True):
    """What is said of one GPU."""

    busy_share: float  # of the window
    steady_busy_share: float  # of the steady stretch, which is what the books under the headline are of
    coverage: float  # the share of the window that the steady stretch holds
    steps: int | None  # how many steady steps there are; None where the window is the unit
    finding: Finding | None  # the first one, where it is about enough to be told
    loss: Loss | None  # the largest loss in the steady stretch, where the finding is about little of it
    outside: Loss | None  # the largest loss outside the steady stretch, where much of the window lies there
    unrecorded: Loss | None
    """Time in which the device worked on what was launched before the recording began, where it is much."""
    lost: Loss | None  # time beside work that the profiler lost, where it is much
    start: Loss | None = None
    """The time before the first step in which hardly anything is computed, where it is much, and the most of it."""
    kernels: tuple[tuple[str, float], ...] = ()
    """The few kernels that are the program, by name, with their shares of the steady stretch."""


def time_before_work(run: ProfiledRun) -> tuple[int, float] | None:
    """How much of the recording is over when the window begins, and its share; None where that is less than half."""
    recorded = run.trace.span
    if isinstance(recorded, NotMeasured) or run.window.start_ns != run.zero_ns:
        return None
    before_ns, whole_ns = run.zero_ns - recorded.start_ns, max(recorded.end_ns - recorded.start_ns, 1)
    return (before_ns, before_ns / whole_ns) if 2 * before_ns > whole_ns else None


def headline(device: Device, findings: Sequence[Finding]) -> Headline:
    """The headline for one GPU, whose findings come with the most profitable first."""
    total, steady = device.ledger.shown_total(), device.shown_ns
    window_ns = max(device.ledger.window_ns, 1)
    told = (finding for rank, finding in enumerate(findings) if rank == 0 or finding.code in NOT_BY_SAVING)
    first = next(
        (
            finding
            for finding in told
            if max(finding.saving_ns, finding.explains_ns) >= MIN_HEADLINE_SHARE * device.steady_ns
        ),
        None,
    )
    lost, of_all = _losses(steady), _losses(total)
    largest = _largest(lost, max(device.steady_ns, 1))
    explained_ns = 0 if first is None else max(first.explains_ns, first.saving_ns)
    outside = {line: ns - lost.get(line, 0) for line, ns in of_all.items()}
    return Headline(
        busy_share=_busy_ns(total) / window_ns,
        steady_busy_share=_busy_ns(steady) / max(device.steady_ns, 1),
        coverage=device.coverage,
        steps=None if device.steps is None else device.step_count,
        finding=first,
        loss=largest if largest is not None and 2 * explained_ns < largest.time_ns else None,
        outside=_largest(outside, window_ns),
        unrecorded=_notable(_UNRECORDED, total, window_ns),
        lost=_notable(_LOST, total, window_ns),
        start=_start(device),
        kernels=main_kernels(device, findings),
    )


def _start(device: Device) -> Loss | None:
    """The time before the first step, if little of it is compute; called after the largest loss in it."""
    if device.steps is None:
        return None
    books, gaps, first_ns = device.ledger, device.ledger.gaps, int(device.steps.edges_ns[0])
    before_ns = first_ns - books.window.start_ns
    amounts = books.books[books.tiles_ns[:-1] < first_ns].sum(axis=0).tolist()
    lines = {line: ns for line, ns in zip(books.lines, amounts, strict=True) if ns}
    idle = by_trigger(gaps.trigger, np.clip(gaps.end_ns, None, first_ns) - np.clip(gaps.start_ns, None, first_ns))
    computed_ns = sum(ns for line, ns in lines.items() if line.is_compute)
    losses = _losses(with_triggers(lines, idle))
    largest = max(losses, key=lambda line: losses[line], default=None)
    works_ns = computed_ns + lines.get(_UNRECORDED, 0)
    is_much = before_ns > AT_START * books.window_ns
    if largest is None or not is_much or 2 * losses[largest] < before_ns or works_ns > AT_START * before_ns:
        return None
    return Loss(largest.label, before_ns, before_ns / books.window_ns)


def main_kernels(device: Device, findings: Sequence[Finding]) -> tuple[tuple[str, float], ...]:
    """The few kernels that hold most of the time, with their shares; none where a fix saves more than they might."""
    steady_ns = max(device.steady_ns, 1)
    saved_ns = max((finding.saving_ns for finding in findings if finding.gpu == device.gpu), default=0)
    if device.compute_ns < MIN_TIME_SHARE * steady_ns or saved_ns >= MAX_SAVED_OF_KERNELS * device.compute_ns:
        return ()
    took = device.kernel_ns
    codes = np.argsort(-took, kind="stable")[:MAX_MAIN_KERNELS]
    for count in range(1, len(codes) + 1):
        held_ns = int(took[codes[:count]].sum())
        if held_ns >= max(
            MIN_BUSY_SHARE * _busy_ns(device.line_ns), MIN_TIME_SHARE * steady_ns, saved_ns / MAX_SAVED_OF_KERNELS
        ):
            strings = device.host.calls.strings
            return tuple(
                (strings.text(code) or "", min(int(took[code]) / steady_ns, 1.0)) for code in codes[:count].tolist()
            )
    return ()


def _busy_ns(lines: Mapping[Line, int]) -> int:
    return sum(ns for line, ns in lines.items() if not line.is_idle)


def _losses(lines: Mapping[Line, int]) -> dict[Line, int]:
    """Exposed work and idle time, without what is nobody's loss."""
    return {line: ns for line, ns in lines.items() if not line.is_compute and line.cause not in _UNKNOWN}


def _largest(losses: Mapping[Line, int], whole_ns: int) -> Loss | None:
    """The largest of the losses; None where it is small."""
    line = max(losses, key=lambda line: losses[line], default=None)
    return None if line is None else _notable(line, losses, whole_ns)


def _notable(line: Line, lines: Mapping[Line, int], whole_ns: int) -> Loss | None:
    ns = lines.get(line, 0)
    return Loss(line.label, ns, ns / whole_ns) if ns >= MIN_LOSS_SHARE * whole_ns else None


def finding_place(finding: Finding, device: Device) -> Span:
    """The stretch."""
    return finding.example or _first_launch(finding, device) or _about(finding.code, device)


def _first_launch(finding: Finding, device: Device) -> Span | None:
    """The first launch of the evidence, with its work."""
    for piece in finding.evidence:
        for correlation in piece.correlations[:1]:
            there = device.work.with_correlation(correlation)
            for row in there[:1].tolist():
                return Span(int(device.work.start_ns[row]), int(device.work.end_ns[row]))
    return None


def _about(code: str, device: Device) -> Span:
    rule = RULE_OF[code]
    if rule.triggers:
        chosen = np.concatenate([device.gaps_of(trigger) for trigger in rule.triggers])
        gaps = device.ledger.gaps
        if len(chosen):
            gap = int(chosen[gaps.length_ns[chosen].argmax()])
            return Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap]))
    spans = {LineKind.COPY: device.ledger.busy.copy, LineKind.COMM: device.ledger.busy.comm}
    exposed = None if rule.exposed is None else spans[rule.exposed]
    if exposed is not None and len(exposed):
        return longest(exposed)
    return Span(device.steady.start_ns, device.steady.start_ns)
