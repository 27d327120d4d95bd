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
from gpuledger.analyse.kernels.step_kernels import LEVELS, KernelMatch, MatchedTimeline
from gpuledger.answers.kernels import MatchedAnswer
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import joined, say
from gpuledger.present import document as doc
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.sheet import Column, Sheet
from gpuledger.present.views.answer import Answer, health_rows
from gpuledger.present.views.work.ncu_kernels import (
    SEVERITY_WORDS,
    bound_text,
    counts_points,
    depth_lines,
    figure_share,
    ncu_kernel_row,
    ncu_kernels_sheet,
    severity_cell,
)
from gpuledger.rows import Gpu, Label, Row, Unit, share
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
    return NcuPlanAnswer(
        profile=name,
        sentences=(_plan_verdict(plan), *_plan_remarks(plan, cost, len(commands), notes)),
        health=health_rows(notes),
        gpu=plan.gpu,
        steps=plan.steps,
        step_ns=plan.steady_ns // plan.steps,
        coverage_share=plan.coverage_share,
        kernels_share=plan.replayable_share,
        is_worthwhile=plan.is_worthwhile,
        commands=tuple(commands),
        reports=tuple(reports),
        launches=cost.launches,
        passes=cost.passes,
        expected_seconds=round(cost.seconds, 3),
        next=shlex.join(["gpuledger", "report", profile, *(f"--ncu={report}" for report in reports)]),
        kernels=tuple(
            PlannedRow(
                gpu=plan.gpu,
                name=kernel.name,
                launches=kernel.count / plan.steps,
                time_ns=kernel.ns // plan.steps,
                share=share(kernel.ns, plan.kernel_ns),
                step_share=kernel.ns / plan.steady_ns,
                left_out=kernel.left_out,
                grid=kernel.grid,
                block=kernel.block,
                function=kernel.function,
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


LEVEL_WORDS: Final = {
    "order": say("order"),
    "range": say("range"),
    "shape": say("shape"),
    "size": say("other size"),
    "name": say("other shape"),
    "function": say("other variant"),
    "none": say("none"),
}
"""How well a profiled launch matches, as tables say it."""

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

_Numbered = tuple[int, KernelMatch]
"""A kernel of the step, and its place in the order of execution."""


def integrated_blocks(matched: MatchedTimeline, device: Device) -> list[doc.Block]:
    """Everything between the ledger and what to do."""
    answer = MatchedAnswer(matched, device)
    blocks = list(_overview(answer))
    if answer.tally.kernels:
        blocks.append(counts_points(answer.tally))
    blocks += _in_depth(answer)
    if ranked := [(place, match) for place, match in _ranked(matched) if match.severity not in ("none", "unknown")]:
        blocks += [doc.Heading(say("Bottlenecks by severity")), doc.SheetBlock(_bottlenecks_sheet(ranked, device))]
    if matched.unused:
        judged = answer.not_here
        not_here = [ncu_kernel_row(judged, kernel) for kernel in judged.kernels]
        blocks += [doc.Heading(say("Profiled, but not in these steps")), doc.SheetBlock(ncu_kernels_sheet(not_here))]
    return blocks


def _overview(answer: MatchedAnswer) -> Iterator[doc.Block]:
    matched, device = answer.matched, answer.device
    per = say("Kernels of a step, in execution order")
    yield doc.Heading(per if device.steps is not None else say("Kernels of the window, in execution order"))
    yield doc.Paragraph(_coverage(matched))
    layers = matched.overview.layers
    for inside, group in groupby(enumerate(matched.matches, 1), key=lambda numbered: numbered[1].entry.in_layer):
        if layers and inside:
            yield doc.Heading(say("In each of {layers} layers (times summed over all)", layers=count_text(layers)), 3)
        elif layers:
            yield doc.Heading(say("Outside the layers"), 3)
        yield doc.SheetBlock(_overview_sheet(list(group), device))
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


def _overview_sheet(numbered: Sequence[_Numbered], device: Device) -> Sheet:
    def roof(row: _Numbered) -> str:
        match = row[1]
        return figure_share(match.launch.verdict.roof_share) if match.launch and match.covered else "-"

    columns = (
        Column("number", "#", Unit.FIGURE, lambda row: str(row[0])),
        Column("kernel", say("Kernel"), Unit.TEXT, lambda row: label(row[1].entry.name)),
        Column("calls", say("Calls"), Unit.FIGURE, lambda row: _calls_text(row[1].entry.calls, device)),
        Column("time", say("Time"), Unit.FIGURE, lambda row: time_text(row[1].entry.time_ns // device.step_count)),
        Column("share", say("Share"), Unit.FIGURE, lambda row: share_text(row[1].share)),
        Column("match", say("Match"), Unit.TEXT, lambda row: LEVEL_WORDS[row[1].level]),
        Column("roof", say("Of roof"), Unit.FIGURE, roof),
        Column("place", say("Range"), Unit.TEXT, lambda row: " > ".join(row[1].entry.place), detail=1),
    )
    return Sheet.of("kernels_of_a_step", say("Kernels of a step"), columns, numbered)


def _calls_text(calls: int, device: Device, *, in_words: bool = False) -> str:
    """How many a step; where it is less than one, how many in all: never a fraction."""
    is_often = calls >= device.step_count
    number = round(calls / device.step_count) if is_often else calls
    amount = count_text(number)
    if in_words:
        amount = say("one call") if number == 1 else say("{count} calls", count=amount)
    if is_often:
        return amount
    return say("{amount} in {steps} steps", amount=amount, steps=count_text(device.step_count))


def _ranked(matched: MatchedTimeline) -> list[_Numbered]:
    covered = [(place, match) for place, match in enumerate(matched.matches, 1) if match.covered]
    return sorted(covered, key=lambda numbered: (-numbered[1].saving_ns, -numbered[1].share))


def _in_depth(answer: MatchedAnswer) -> Iterator[doc.Block]:
    device, ranked = answer.device, _ranked(answer.matched)
    yield doc.Heading(say("Kernels in depth, largest saving first"))
    if not ranked:
        yield doc.Paragraph(
            say("No kernel here was profiled; `gpuledger kernels PROFILE -- COMMAND` shows which are worth it.")
        )
    for place, match in ranked:
        if match.launch is None:
            continue
        title = say(
            "{number}. {kernel}: {bound}, severity {severity}",
            number=place,
            kernel=cut_label(label(match.entry.name)),
            bound=bound_text(match.launch),
            severity=SEVERITY_WORDS[match.severity],
        )
        amounts = {
            "time": time_text(match.entry.time_ns // device.step_count),
            "calls": _calls_text(match.entry.calls, device, in_words=True),
            "saving": time_text(match.saving_ns // device.step_count),
        }
        saves = say("{time} per step in {calls}; at its nearest roof it would save {saving}", **amounts)
        if isinstance(match.headroom, NotMeasured):
            saves = say("{time} per step in {calls}; what it would save at a roof is not known", **amounts)
        elif match.is_too_short:
            saves = say(
                "{time} per step in {calls}: each is about as short as a kernel gets, whatever its roof; fused into "
                "another kernel it would save up to {time}",
                **amounts,
            )
        elif match.launch.verdict.is_by_waste:
            saves = say("{time} per step in {calls}; with coalesced accesses it would save {saving}", **amounts)
        yield doc.Points(title, (saves, *depth_lines(match.launch, match.judged)))


def _bottlenecks_sheet(ranked: Sequence[_Numbered], device: Device) -> Sheet:
    whole_ns = device.steady_ns

    def bound(row: _Numbered) -> str:
        return "-" if row[1].launch is None else bound_text(row[1].launch)

    columns = (
        Column("number", "#", Unit.FIGURE, lambda row: str(row[0])),
        Column("severity", say("Severity"), Unit.TEXT, lambda row: severity_cell(row[1].severity)),
        Column("kernel", say("Kernel"), Unit.TEXT, lambda row: label(row[1].entry.name)),
        Column("bound", say("Bound by"), Unit.TEXT, bound),
        Column(
            "saves",
            say("Saves per step"),
            Unit.FIGURE,
            lambda row: say("too short") if row[1].is_too_short else time_text(row[1].saving_ns // device.step_count),
        ),
        Column("of_step", say("Share of step"), Unit.FIGURE, lambda row: share_text(row[1].saving_ns / whole_ns)),
    )
    return Sheet.of("bottlenecks", say("Bottlenecks by severity"), columns, ranked)
