"""Nsight Compute beside a timeline: which kernels to profile, and what their profiles say of a step.

A plan has the kernels worth it, the commands to paste, what they cost, and what to know. The integrated report has the
kernels of a step in order, each in depth, and their bottlenecks by severity: times and shares are the timeline's,
verdicts are Nsight Compute's figures against the device's roofs.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from gpuledger.analyse.kernels.ncu_plan import HARDLY, LITTLE, NcuPlan, PlannedKernel
from gpuledger.analyse.kernels.step_kernels import LEVELS, KernelMatch, MatchedTimeline
from gpuledger.answers.kernels import MatchedAnswer
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import joined, say
from gpuledger.present import document as doc
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Column, Sheet, Unit, share_column
from gpuledger.present.views.kernels import (
    SEVERITY_WORDS,
    bound_text,
    counts_points,
    depth_lines,
    figure_share,
    kernel_sheet,
    severity_cell,
)
from gpuledger.trace.model import Note, NotMeasured, Severity
from gpuledger.units import count_text, share_text, time_text


class Proposal(Struct, frozen=True):
    """All that there is to show of a plan."""

    profile: str
    """As the user called it."""
    name: str
    headline: str
    plan: NcuPlan
    commands: tuple[tuple[str, ...], ...]
    reports: tuple[str, ...]
    """What each command writes."""
    passes: int
    """How often each launch is run."""
    seconds: float
    notes: tuple[Note, ...]

    @property
    def launches(self) -> int:
        return sum(run.launches for run in self.plan.runs)


def plan_document(proposal: Proposal) -> doc.Document:
    """The plan; JSON is the document gpuledger.ncu-plan/1."""
    plan, remarks = proposal.plan, tuple(_remarks(proposal))
    reports = [f"--ncu={report}" for report in proposal.reports]
    last = f"next: {shlex.join(['gpuledger', 'report', proposal.profile, *reports])}"
    worth = _plan_sheet(plan, plan.covered, f"Worth profiling, per step, GPU {plan.gpu}")
    why = Column("reason", "Left out", Unit.TEXT, "left_out")
    every = _plan_sheet(plan, plan.kernels, f"Kernels per step, GPU {plan.gpu}", why)
    return doc.Document(
        blocks=lambda: (
            doc.Opening(proposal.name, visible(proposal.headline)),
            doc.Conclusion(_plan_verdict(plan)),
            *((doc.SheetBlock(worth, doc.SheetTitle.NAMED, tells_hidden=True),) if plan.covered else ()),
            doc.ShellCommands(proposal.commands),
            doc.Only(doc.Medium.TEXT, (doc.Remarks(remarks), doc.Remarks((last,)))),
            doc.Only(doc.Medium.MARKDOWN, (doc.Remarks((*remarks, last)),)),
        ),
        data=doc.json_by("kernels.plan_json", proposal),
        sheets=lambda: (every,),
    )


def _plan_sheet(plan: NcuPlan, kernels: Sequence[PlannedKernel], title: str, *more: Column) -> Sheet:
    columns = (
        share_column("share_of_gpu_percent", "Kernels", "ns", plan.kernel_ns),
        share_column("share_of_step_percent", "Step", "ns", plan.steady_ns, detail=2),
        Column("count_per_step", "Launches", Unit.MEAN, lambda kernel: kernel.count / plan.steps, detail=1),
        Column("ns_per_step", "Time", Unit.NS, lambda kernel: kernel.ns // plan.steps),
        Column("grid", "Grid", Unit.TEXT, lambda kernel: "x".join(map(str, kernel.grid)), detail=3),
        Column("block", "Block", Unit.TEXT, lambda kernel: "x".join(map(str, kernel.block)), detail=4),
        Column("name", "Name", Unit.TEXT, shorten=label),
        *more,
    )
    return Sheet.of("ncu_plan", title, columns, kernels)


def _plan_verdict(plan: NcuPlan) -> str:
    if not plan.replayable:
        return "No kernel here can be profiled by replay."
    if plan.covered:
        share, many = share_text(plan.coverage_share), count_text(len(plan.kernels))
        runs = "one run of ncu" if len(plan.runs) == 1 else f"{len(plan.runs)} runs of ncu"
        hold = "holds" if len(plan.covered) == 1 else "hold"
        return f"{len(plan.covered)} of {many} kernels {hold} {share} of the kernel time; {runs} will do."
    largest = plan.replayable[0]
    share, step = share_text(plan.replayable_share), time_text(plan.steady_ns // plan.steps)
    time = time_text(sum(kernel.ns for kernel in plan.replayable) // plan.steps)
    name, most = visible(cut_label(label(largest.name))), share_text(largest.ns / plan.steady_ns)
    many = count_text(len(plan.replayable))
    what = f"all {many} kernels are {share} of the step ({time} of {step}), the largest {most}: {name}"
    if len(plan.replayable) == 1:
        what = f"the one kernel, {name}, is {share} of the step ({time} of {step})"
    return f"Profiling kernels is not worth it here: {what}. The report says where the rest goes."


def _remarks(made: Proposal) -> list[str]:
    """Cost, what is left out, why the options are what they are, and what is not known."""
    plan = made.plan
    lines = _cost(made) if plan.covered else []
    if not plan.covered and plan.replayable:
        lines.append("--anyway plans for them all the same.")
    for reason in dict.fromkeys(kernel.left_out for kernel in plan.kernels if kernel.left_out not in (None, HARDLY)):
        lines.append(_left_out(plan, [kernel for kernel in plan.kernels if kernel.left_out == reason], reason))
    if plan.whole_graphs_ns:
        share = share_text(plan.whole_graphs_ns / plan.steady_ns)
        lines.append(f"left out: graphs traced whole, {share} of the time: their kernels are not in the profile.")
    if plan.covered:
        lines += [
            "--clock-control=none keeps the clocks of the timeline; by default ncu locks them to base, and its times "
            "cannot be compared with these.",
            "--launch-skip leaves out the warm-up, counted from the start of the profile. If the program had been "
            "running by then (a capture range, a profiler's schedule), make it larger, or let ncu begin at the same "
            "place: --profile-from-start=no with cudaProfilerStart in the program.",
        ]
    if plan.covered and plan.in_graphs:
        lines.append("kernels in CUDA graphs are profiled node by node (ncu's --graph-profiling=node, the default).")
    return [*lines, *(f"note: {note.sentence}." for note in made.notes if note.severity is Severity.LOSS)]


def _cost(made: Proposal) -> list[str]:
    plan, stands = made.plan, "stands" if made.launches == 1 else "stand"
    alike = count_text(sum(kernel.count for kernel in plan.covered))
    steps = "" if plan.steps == 1 else f" in {count_text(plan.steps)} steps"
    launches = f"{count_text(made.launches)} launch{'' if made.launches == 1 else 'es'}"
    launches += f", which {stands} for {alike}{steps}"
    about = time_text(round(made.seconds * 1e9))
    runs = "the program's own time" if len(made.commands) == 1 else f"{len(made.commands)} times the program's own"
    return [
        f"expected cost: {launches}, {made.passes} passes each, about {about} on top of {runs}.",
        "between passes ncu saves and restores the GPU memory that a kernel writes; large models make it slower.",
    ]


def _left_out(plan: NcuPlan, kernels: Sequence[PlannedKernel], reason: str) -> str:
    time = sum(kernel.ns for kernel in kernels)
    share = share_text(time / plan.kernel_ns if plan.kernel_ns else 0.0)
    what = f"left out: {count_text(len(kernels))} kernel{'' if len(kernels) == 1 else 's'}, {share} of the kernel time"
    most = share_text(max(kernel.ns for kernel in kernels) / plan.kernel_ns) if plan.kernel_ns else ""
    return f"{what}, none more than {most}." if reason == LITTLE and most else f"{what}: {reason}."


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
        blocks += [doc.Heading(say("Profiled, but not in these steps")), doc.SheetBlock(kernel_sheet(answer.not_here))]
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
        yield doc.Paragraph(say("No kernel here was profiled; `gpuledger ncu-plan PROFILE` shows which are worth it."))
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
