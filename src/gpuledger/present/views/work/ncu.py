"""Nsight Compute beside a timeline: which kernels to profile, and what their profiles say of a step.

A plan has the kernels worth it, the commands to paste, what they cost, and what to know. The integrated report has the
kernels of a step in order, each in depth, and their bottlenecks by severity: times and shares are the timeline's,
verdicts are Nsight Compute's figures against the device's roofs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Final

from msgspec import Struct

from gpuledger.analyse.kernels.ncu_plan import LITTLE, NcuPlan, PlannedKernel
from gpuledger.analyse.kernels.step_kernels import LEVELS, KernelMatch, KernelTally, MatchedTimeline, timeline_tally
from gpuledger.analyse.roofline.judgement import kernels
from gpuledger.answers.kernels import JudgedKernels
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import joined, say
from gpuledger.present import document as doc
from gpuledger.present.row_sheets import row_from, row_sheet
from gpuledger.present.terms import BOUNDS
from gpuledger.present.views.answer import Answer, health_rows
from gpuledger.present.views.work.ncu_kernels import (
    LIMITERS,
    KernelSeverity,
    bound_text,
    counts_points,
    depth_lines,
    ncu_kernel_row,
    ncu_kernels_sheet,
)
from gpuledger.rows import Gpu, Label, LabelledCode, Row, Unit, share
from gpuledger.trace.model import Note, NotMeasured, Severity
from gpuledger.units import count_text, share_text, time_text


class PlannedRow(Row, frozen=True):
    """Launches that are alike: one kernel, one grid, one block, one place. Times and counts are those of a step."""

    gpu: Gpu
    name: Annotated[str, Label(say("Kernel"), shorten=label, meaning="with template arguments, without parameters")]
    launches: Annotated[float, Label(say("Launches"), Unit.MEAN, detail=1)]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of the GPU's kernel time")]
    step_share: Annotated[
        float, Label(say("Of the step"), Unit.SHARE, detail=2, meaning="above 1 where kernels overlap for long")
    ]
    left_out: Annotated[str | None, Label(say("Left out"), detail=5, is_prose=True, meaning="null: it is profiled")]
    grid: Annotated[tuple[int, int, int], Label(say("Grid"), Unit.TRIPLE, detail=3)]
    block: Annotated[tuple[int, int, int], Label(say("Block"), Unit.TRIPLE, detail=4)]
    function: str
    """The bare name, by which ncu selects."""
    range: tuple[str, ...]
    """NVTX ranges around the launch, numbers left out; or where in a layer."""


class NcuPlanAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.ncuplan/1"):
    """Which kernels are worth Nsight Compute, and the commands that profile one launch of each; nothing is run."""

    gpu: int
    steps: int
    """Steady steps; 1 where there are none, and the step is the whole window."""
    step_ns: int
    coverage_share: float
    """Of the time of kernels that can be replayed, in those to profile."""
    kernels_share: float
    """How much of the step the kernels that can be replayed are; above 1 where they overlap for long."""
    is_worthwhile: bool
    """Whether that is enough for faster kernels to matter."""
    commands: tuple[tuple[str, ...], ...]
    """Argument lists, to be run without a shell, or quoted for one."""
    reports: tuple[str, ...]
    """What each command writes."""
    launches: int
    """That the commands profile, with those that merely have the same name."""
    passes: int
    """How often each launch is run."""
    expected_seconds: float
    """Beside the time of the program itself; an estimate."""
    next: str
    """The command that reads the reports."""
    kernels: Annotated[tuple[PlannedRow, ...], Label(say("Kernels worth profiling, per step"))]

    def blocks(self) -> Iterator[doc.Block]:
        covered = tuple(row for row in self.kernels if row.left_out is None)
        yield doc.Conclusion(self.sentences[0])
        if covered:
            sheet = row_sheet("kernels", self.title("kernels"), PlannedRow, covered)
            yield doc.SheetBlock(sheet, doc.SheetTitle.NAMED, tells_hidden=True)
        yield doc.ShellCommands(self.commands)
        yield doc.Remarks((*self.sentences[1:], f"next: {self.next}"))


def plan_answer(
    name: str, profile: str, plan: NcuPlan, commands: Sequence[tuple[str, ...]], reports: Sequence[str], cost: PlanCost,
    notes: Sequence[Note],
) -> NcuPlanAnswer:  # fmt: skip
    """The plan in words; `profile` as the user called it."""
    return row_from(
        NcuPlanAnswer,
        *(cost, plan),
        profile=name,
        sentences=(_plan_verdict(plan), *_plan_remarks(plan, cost, len(commands), notes)),
        health=health_rows(notes),
        step_ns=plan.steady_ns // plan.steps,
        kernels_share=plan.replayable_share,
        commands=tuple(commands),
        reports=tuple(reports),
        expected_seconds=round(cost.seconds, 3),
        next=shlex.join(["gpuledger", "report", profile, *(f"--ncu={report}" for report in reports)]),
        kernels=tuple(
            row_from(
                PlannedRow,
                kernel,
                gpu=plan.gpu,
                launches=kernel.count / plan.steps,
                time_ns=kernel.ns // plan.steps,
                share=share(kernel.ns, plan.kernel_ns),
                step_share=kernel.ns / plan.steady_ns,
                range=kernel.place,
            )
            for kernel in plan.kernels
        ),
    )


class PlanCost(Struct, frozen=True):
    """What the runs of ncu cost beside the program's own time."""

    launches: int
    passes: int
    seconds: float


def _plan_verdict(plan: NcuPlan) -> str:
    if not plan.replayable:
        return "No kernel here can be profiled by replay."
    share, many = share_text(plan.coverage_share), count_text(len(plan.kernels))
    runs = "one run of ncu" if len(plan.runs) == 1 else f"{len(plan.runs)} runs of ncu"
    hold = "holds" if len(plan.covered) == 1 else "hold"
    told = f"{len(plan.covered)} of {many} kernels {hold} {share} of the kernel time; {runs} will do."
    if plan.is_worthwhile:
        return told
    share, step = share_text(plan.replayable_share), time_text(plan.steady_ns // plan.steps)
    time = time_text(sum(kernel.ns for kernel in plan.replayable) // plan.steps)
    return f"Profiling kernels is hardly worth it here: all are {share} of the step ({time} of {step}). {told}"


def _plan_remarks(plan: NcuPlan, cost: PlanCost, runs: int, notes: Sequence[Note]) -> Iterator[str]:
    """Cost, what is left out, why the options are what they are, and what is not known."""
    if plan.covered:
        yield from _cost(plan, cost, runs)
    for reason in dict.fromkeys(kernel.left_out for kernel in plan.kernels if kernel.left_out is not None):
        yield _left_out(plan, [kernel for kernel in plan.kernels if kernel.left_out == reason], reason)
    if plan.whole_graphs_ns:
        of_time = share_text(plan.whole_graphs_ns / plan.steady_ns)
        yield f"left out: graphs traced whole, {of_time} of the time: their kernels are not in the profile."
    if plan.covered:
        yield (
            "--clock-control=none keeps the clocks of the timeline; by default ncu locks them to base, and its times "
            "cannot be compared with these."
        )
        yield (
            "--launch-skip leaves out the warm-up, counted from the start of the profile. If the program had been "
            "running by then (a capture range, a profiler's schedule), make it larger, or let ncu begin at the same "
            "place: --profile-from-start=no with cudaProfilerStart in the program."
        )
    if plan.covered and plan.in_graphs:
        yield "kernels in CUDA graphs are profiled node by node (ncu's --graph-profiling=node, the default)."
    yield from (f"note: {note.sentence}." for note in notes if note.severity is Severity.LOSS)


def _cost(plan: NcuPlan, cost: PlanCost, runs: int) -> Iterator[str]:
    stands = "stands" if cost.launches == 1 else "stand"
    alike = count_text(sum(kernel.count for kernel in plan.covered))
    steps = "" if plan.steps == 1 else f" in {count_text(plan.steps)} steps"
    launches = f"{count_text(cost.launches)} launch{'' if cost.launches == 1 else 'es'}"
    about, own = time_text(round(cost.seconds * 1e9)), "the program's own time"
    own = own if runs == 1 else f"{runs} times the program's own"
    yield (
        f"expected cost: {launches}, which {stands} for {alike}{steps}, {cost.passes} passes each, about {about} on "
        f"top of {own}."
    )
    yield "between passes ncu saves and restores the GPU memory that a kernel writes; large models make it slower."


def _left_out(plan: NcuPlan, kernels: Sequence[PlannedKernel], reason: str) -> str:
    of_time = share_text(share(sum(kernel.ns for kernel in kernels), plan.kernel_ns) or 0.0)
    what = (
        f"left out: {count_text(len(kernels))} kernel{'' if len(kernels) == 1 else 's'}, {of_time} of the kernel time"
    )
    if reason == LITTLE and plan.kernel_ns:
        return f"{what}, none more than {share_text(max(kernel.ns for kernel in kernels) / plan.kernel_ns)}."
    return f"{what}: {reason}."


class MatchLevel(LabelledCode):
    """How well a profiled launch matches, the best first."""

    ORDER = "order", say("order")
    RANGE = "range", say("range")
    SHAPE = "shape", say("shape")
    SIZE = "size", say("other size")
    NAME = "name", say("other shape")
    FUNCTION = "function", say("other variant")
    NONE = "none", say("none")


MEANS: Final = {
    "order": say("name, shape and place in the sequence"),
    "range": say("name, shape and NVTX range"),
    "shape": say("name and shape"),
    "size": say("name and shape, but a problem of another size"),
    "name": say("name, in another shape"),
    "function": say("the function with other template arguments"),
    "none": say("nothing like it"),
}

CLOCKS: Final = say(
    "Times come from the timeline. Nsight Compute replays each kernel in isolation, with caches "
    "flushed and, by default, clocks locked, so only its percentages of peak are used, not its "
    "times."
)


class ProfiledLaunch(Struct, frozen=True):
    """A launch in a report of Nsight Compute."""

    file: str
    order: int
    """Position among the launches of its file."""


class StepKernelRow(Row, frozen=True, kw_only=True):
    """Like kernels of a GPU's steady steps, and what the profiled launch that speaks for them says."""

    number: Annotated[int, Label("#", Unit.ID, meaning="by the order of execution")]
    severity: Annotated[KernelSeverity, Label(say("Severity"))]
    name: Annotated[str, Label(say("Kernel"), words=label)]
    calls: Annotated[float, Label(say("Calls"), Unit.MEAN, meaning="per step")]
    per_step_ns: Annotated[int, Label(say("Time"), Unit.NS, meaning="per step")]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, meaning="in all steady steps")]
    share: Annotated[float, Label(say("Share"), Unit.SHARE, meaning="of compute")]
    match: Annotated[MatchLevel, Label(say("Match"))]
    bound: Annotated[str | None, Label(say("Bound by"), words=BOUNDS.__getitem__)] = None
    limiter: Annotated[str | None, Label(say("Limiter"), words=LIMITERS.__getitem__)] = None
    roof_share: Annotated[float | None, Label(say("Of roof"), Unit.SHARE, unknown="-")] = None
    saving_per_step_ns: Annotated[int, Label(say("Saves per step"), Unit.NS, meaning="at 90 % of its nearest roof")]
    saving_ns: Annotated[int, Label(say("Saves"), Unit.NS, meaning="in all steady steps")]
    saving_share: Annotated[float, Label(say("Share of step"), Unit.SHARE, detail=2, meaning="that it would save")]
    range: Annotated[tuple[str, ...], Label(say("Range"), detail=1)]
    grid: Annotated[tuple[int, int, int], Label(say("Grid"), Unit.TRIPLE)]
    block: Annotated[tuple[int, int, int], Label(say("Block"), Unit.TRIPLE)]
    in_layer: bool
    is_too_short: bool
    """Whether a call takes no longer than starting and ending a kernel does."""
    launch: ProfiledLaunch | None


_OVERVIEW: Final = ("number", "name", "calls", "per_step_ns", "share", "match", "roof_share", "range")
_BOTTLENECKS: Final = ("number", "severity", "name", "bound", "limiter", "saving_per_step_ns", "saving_share")


class StepKernels(Struct, frozen=True):
    """The kernels of one GPU's steady steps."""

    gpu: int
    coverage_share: float
    """Of compute time, in kernels matched by order, range or shape."""
    levels: dict[str, float]
    """The share of compute time matched at each level."""
    unused_launches: int
    layers: int
    counts: KernelTally
    kernels: tuple[StepKernelRow, ...]


def step_kernels(matched: MatchedTimeline, device: Device) -> StepKernels:
    """Every kernel of the step with its match, in the order of execution."""
    return StepKernels(
        gpu=device.gpu,
        coverage_share=matched.coverage,
        levels={level: matched.share_at(level) for level in LEVELS},
        unused_launches=len(matched.unused),
        layers=matched.overview.layers,
        counts=timeline_tally(matched),
        kernels=_rows(matched, device),
    )


def _rows(matched: MatchedTimeline, device: Device) -> tuple[StepKernelRow, ...]:
    return tuple(_row(number, match, device) for number, match in enumerate(matched.matches, 1))


def _row(number: int, match: KernelMatch, device: Device) -> StepKernelRow:
    kernel, launch, steps = match.entry, match.launch, device.step_count
    verdict = launch.verdict if launch is not None and match.covered else None
    return row_from(
        StepKernelRow,
        *(kernel, match, *(() if verdict is None else (verdict,))),
        number=number,
        severity=KernelSeverity(match.severity),
        calls=kernel.calls / steps,
        per_step_ns=kernel.time_ns // steps,
        match=MatchLevel(match.level),
        saving_per_step_ns=match.saving_ns // steps,
        saving_share=match.saving_ns / max(device.steady_ns, 1),
        range=kernel.place,
        launch=None if launch is None else ProfiledLaunch(launch.launch.file, launch.launch.order),
    )


def integrated_blocks(matched: MatchedTimeline, device: Device) -> list[doc.Block]:
    """Everything between the ledger and what to do."""
    rows, tally = _rows(matched, device), timeline_tally(matched)
    ranked = sorted(
        (pair for pair in zip(rows, matched.matches, strict=True) if pair[1].covered),
        key=lambda pair: (-pair[0].saving_ns, -pair[0].share),
    )
    severe = [row for row, _ in ranked if row.severity not in (KernelSeverity.NONE, KernelSeverity.UNKNOWN)]
    blocks = [*_overview(matched, rows, device), *([counts_points(tally)] if tally.kernels else [])]
    blocks += _in_depth(ranked, device)
    if severe:
        title = say("Bottlenecks by severity")
        sheet = row_sheet("bottlenecks", title, StepKernelRow, severe, fields=_BOTTLENECKS)
        blocks += [doc.Heading(title), doc.SheetBlock(sheet)]
    if matched.unused:
        judged = JudgedKernels(kernels(matched.unused))
        not_here = [ncu_kernel_row(judged, kernel) for kernel in judged.kernels]
        blocks += [doc.Heading(say("Profiled, but not in these steps")), doc.SheetBlock(ncu_kernels_sheet(not_here))]
    return blocks


def _overview(matched: MatchedTimeline, rows: Sequence[StepKernelRow], device: Device) -> Iterator[doc.Block]:
    per = say("Kernels of a step, in execution order")
    yield doc.Heading(per if device.steps is not None else say("Kernels of the window, in execution order"))
    yield doc.Paragraph(_coverage(matched))
    layers = matched.overview.layers
    for inside, group in groupby(rows, key=lambda row: row.in_layer):
        if layers and inside:
            yield doc.Heading(say("In each of {layers} layers (times summed over all)", layers=count_text(layers)), 3)
        elif layers:
            yield doc.Heading(say("Outside the layers"), 3)
        title = say("Kernels of a step")
        yield doc.SheetBlock(row_sheet("kernels_of_a_step", title, StepKernelRow, list(group), fields=_OVERVIEW))
    if matched.overview.other_ns:
        rest = share_text(matched.overview.other_ns / matched.overview.time_ns)
        yield doc.Paragraph(say("{share} of compute is in graphs whose kernels were not recorded.", share=rest))
    yield doc.Paragraph(CLOCKS)


def _coverage(matched: MatchedTimeline) -> str:
    levels = [
        say("{share} by {means}", share=share_text(matched.share_at(level)), means=MEANS[level])
        for level in LEVELS
        if matched.share_at(level) > 0
    ]
    covered = say(
        "Nsight Compute covers {share} of the GPU's compute time: {levels}.",
        share=share_text(matched.coverage),
        levels=joined(say(", "), levels),
    )
    if not matched.unused:
        return covered
    left = say("{count} profiled launches match no kernel here.", count=count_text(len(matched.unused)))
    return say("{first} {then}", first=covered, then=left)


def _calls_text(calls: int, device: Device) -> str:
    """How many a step; where it is less than one, how many in all: never a fraction."""
    is_often = calls >= device.step_count
    number = round(calls / device.step_count) if is_often else calls
    amount = say("one call") if number == 1 else say("{count} calls", count=count_text(number))
    if is_often:
        return amount
    return say("{amount} in {steps} steps", amount=amount, steps=count_text(device.step_count))


def _in_depth(ranked: Sequence[tuple[StepKernelRow, KernelMatch]], device: Device) -> Iterator[doc.Block]:
    yield doc.Heading(say("Kernels in depth, largest saving first"))
    if not ranked:
        yield doc.Paragraph(
            say("No kernel here was profiled; `gpuledger kernels PROFILE -- COMMAND` shows which are worth it.")
        )
    for row, match in ranked:
        if match.launch is None:
            continue
        title = say(
            "{number}. {kernel}: {bound}, severity {severity}",
            number=row.number,
            kernel=cut_label(label(match.entry.name)),
            bound=bound_text(match.launch),
            severity=row.severity.label,
        )
        amounts = {
            "time": time_text(row.per_step_ns),
            "calls": _calls_text(match.entry.calls, device),
            "saving": time_text(row.saving_per_step_ns),
        }
        saves = say("{time} per step in {calls}; at its nearest roof it would save {saving}", **amounts)
        if isinstance(match.headroom, NotMeasured):
            saves = say("{time} per step in {calls}; what it would save at a roof is not known", **amounts)
        elif row.is_too_short:
            saves = say(
                "{time} per step in {calls}: each is about as short as a kernel gets, whatever its roof; fused into "
                "another kernel it would save up to {time}",
                **amounts,
            )
        elif match.launch.verdict.is_by_waste:
            saves = say("{time} per step in {calls}; with coalesced accesses it would save {saving}", **amounts)
        yield doc.Points(title, (saves, *depth_lines(match.launch, match.judged)))
