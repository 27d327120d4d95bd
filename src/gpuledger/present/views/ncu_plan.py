"""A plan for Nsight Compute: the kernels worth it, the commands to paste, what they cost, and what to know."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from gpuledger.analyse.kernels.ncu_plan import HARDLY, LITTLE, NcuPlan, PlannedKernel
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.present.document import (
    Conclusion,
    Document,
    Medium,
    Only,
    Opening,
    Remarks,
    SheetBlock,
    SheetTitle,
    ShellCommands,
)
from gpuledger.present.safe_text import visible
from gpuledger.present.views.ncu_plan_tables import covered_sheet, every_kernel_sheet
from gpuledger.present.writers.json import health_json
from gpuledger.trace.model import Note, Severity
from gpuledger.units import count_text, share_text, time_text


@dataclass(frozen=True, slots=True)
class Proposal:
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


def plan_document(proposal: Proposal) -> Document:
    """The plan; JSON is the document gpuledger.ncu-plan/1."""
    plan, last = proposal.plan, _next(proposal)
    remarks = tuple(_remarks(proposal))
    kernels = [SheetBlock(covered_sheet(plan), SheetTitle.NAMED, tells_hidden=True)] if plan.covered else []
    return Document(
        blocks=lambda: (
            Opening(proposal.name, visible(proposal.headline)),
            Conclusion(verdict(proposal)),
            *kernels,
            ShellCommands(proposal.commands),
            Only(Medium.TEXT, (Remarks(remarks), Remarks((last,)))),
            Only(Medium.MARKDOWN, (Remarks((*remarks, last)),)),
        ),
        data=lambda: {
            "schema": "gpuledger.ncu-plan/1",
            "profile": proposal.name,
            "device": plan.gpu,
            "steps": plan.steps,
            "step_ns": plan.steady_ns // plan.steps,
            "kernels": [_kernel(plan, kernel) for kernel in plan.kernels],
            "coverage_share": plan.coverage_share,
            "kernel_share_of_step": plan.replayable_share,
            "worthwhile": plan.is_worthwhile,
            "commands": [list(command) for command in proposal.commands],
            "reports": list(proposal.reports),
            "launches": proposal.launches,
            "passes": proposal.passes,
            "expected_seconds": round(proposal.seconds, 3),
            "health": health_json(proposal.notes),
        },
        sheets=lambda: (every_kernel_sheet(plan),),
    )


def _kernel(plan: NcuPlan, kernel: PlannedKernel) -> dict[str, object]:
    return {
        "name": kernel.name,
        "short_name": kernel.function,
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "place": list(kernel.place),
        "count_per_step": kernel.count / plan.steps,
        "ns_per_step": kernel.ns // plan.steps,
        "share_of_gpu": kernel.ns / plan.kernel_ns if plan.kernel_ns else 0.0,
        "share_of_step": kernel.ns / plan.steady_ns,
        "covered": kernel.left_out is None,
        "reason": kernel.left_out,
    }


def verdict(made: Proposal) -> str:
    """One sentence."""
    plan = made.plan
    if not plan.replayable:
        return "No kernel here can be profiled by replay."
    if not plan.covered:
        return _not_worth_it(plan)
    share, many = share_text(plan.coverage_share), count_text(len(plan.kernels))
    runs = "one run of ncu" if len(plan.runs) == 1 else f"{len(plan.runs)} runs of ncu"
    hold = "holds" if len(plan.covered) == 1 else "hold"
    return f"{len(plan.covered)} of {many} kernels {hold} {share} of the kernel time; {runs} will do."


def _not_worth_it(plan: NcuPlan) -> str:
    """Kernels are hardly any of the step: how much, and the largest."""
    total, largest = sum(kernel.ns for kernel in plan.replayable), plan.replayable[0]
    share, step = share_text(plan.replayable_share), time_text(plan.steady_ns // plan.steps)
    each = time_text(total // plan.steps)
    if len(plan.replayable) == 1:
        what = f"the one kernel, {visible(cut_label(label(largest.name)))}, is {share} of the step ({each} of {step})"
    else:
        name, most = visible(cut_label(label(largest.name))), share_text(largest.ns / plan.steady_ns)
        many = count_text(len(plan.replayable))
        what = f"all {many} kernels are {share} of the step ({each} of {step}), the largest {most}: {name}"
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
        lines += _options(plan)
    lines += [f"note: {note.sentence}." for note in made.notes if note.severity is Severity.LOSS]
    return lines


def _cost(made: Proposal) -> list[str]:
    launches = f"{count_text(made.launches)} launch{'' if made.launches == 1 else 'es'}"
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


def _options(plan: NcuPlan) -> list[str]:
    lines = [
        "--clock-control=none keeps the clocks of the timeline; by default ncu locks them to base, and its times "
        "cannot be compared with these.",
        "--launch-skip leaves out the warm-up, counted from the start of the profile. If the program had been running "
        "by then (a capture range, a profiler's schedule), make it larger, or let ncu begin at the same place: "
        "--profile-from-start=no with cudaProfilerStart in the program.",
    ]
    if plan.in_graphs:
        lines.append("kernels in CUDA graphs are profiled node by node (ncu's --graph-profiling=node, the default).")
    return lines


def _next(made: Proposal) -> str:
    files = [f"--ncu={report}" for report in made.reports]
    return f"next: {shlex.join(['gpuledger', 'report', made.profile, *files])}"
