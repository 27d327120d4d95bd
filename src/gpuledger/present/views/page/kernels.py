"""The kernels on a report's page: all of them by name with their family, and in depth where they were profiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.answers.report import ReportAnswer
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.messages import say
from gpuledger.present.document import Block, Chart, Paragraph, Section, SheetBlock, not_measured
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.present.terms import family_line
from gpuledger.present.views.page.rooflines import NOT_COLLECTED, drawn_launch, launch_roofline, sampled_roofline_chart
from gpuledger.present.views.report_parts import kernel_blocks, use_blocks_of
from gpuledger.present.views.work.ncu_kernels import bound_text
from gpuledger.trace.keys import take
from gpuledger.trace.statistics import shares
from gpuledger.units import count_text, share_text

_KERNELS: Final = (
    Column("name", say("Name"), Unit.TEXT, shorten=label),
    Column("family", say("Family"), Unit.TEXT),
    Column("time_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("total_ns", say("Time"), Unit.NS),
    Column("instances", say("Instances"), Unit.COUNT),
    Column("avg_ns", say("Avg"), Unit.MEAN_NS),
    Column("med_ns", say("Med"), Unit.MEAN_NS),
    Column("max_ns", say("Max"), Unit.NS),
)
"""NVIDIA's columns but two, which `gpuledger stats` has, after name and family."""

_LIGHT: Final = Column("light_percent", say("Light"), Unit.SHARE_PERCENT)
_WITH_LIGHT: Final = tuple(_LIGHT if column.key == "med_ns" else column for column in _KERNELS)
"""Where light is known of the longest kernels, that says more than the median."""


def kernels_section(report: ReportAnswer) -> Section:
    """Every kernel of the profile, the longest first; of very many, the rest in one row, so that the table adds up."""
    kernels, title = report.kernel_times, say("Kernels")
    if not kernels:
        return Section("kernels", title, ())
    said = say(
        "The whole profile, all GPUs and processes together, as `gpuledger stats` prints it. Times overlap where "
        "kernels do."
    )
    families, books = _families(report.run), report.run.light
    light = books.by_kernel if books is not None and books.is_telling else {}
    of_kernels = [families.get(kernel.name) or family(kernel.name) for kernel in kernels]
    of_time = shares([kernel.times.total for kernel in kernels])
    rows = tuple(
        (
            kernel.name,
            Term(of_kernel, of_kernel, tone=line_tone(family_line(of_kernel))),
            share,
            kernel.times.total,
            kernel.times.count,
            kernel.times.average,
            light.get(kernel.name) if light else kernel.times.median,
            kernel.times.most,
        )
        for kernel, of_kernel, share in zip(kernels, of_kernels, of_time, strict=True)
    )
    table = SheetBlock(
        Sheet("cuda_gpu_kern_sum", say("Kernels by name, most time first"), _WITH_LIGHT if light else _KERNELS, rows),
        anchor="kernel-table",
        families_in="family",
        rest=_other_kernels,
    )
    result = say(
        "{count} by name; {share} of their time in {name}",
        count=count_text(len(kernels)),
        share=share_text(kernels[0].times.total / max(sum(kernel.times.total for kernel in kernels), 1)),
        name=cut_label(label(kernels[0].name)),
    )
    return Section("kernels", title, (Paragraph(said, "lead"), table), result=result)


def _other_kernels(rows: Sequence[Sequence[Cell]]) -> tuple[Cell, ...]:
    """The kernels that the table has no room for, in one row: share, time, number and average."""
    shares_of, times_ns, counts = (
        [cell for cell in column if isinstance(cell, int | float)] for column in list(zip(*rows, strict=True))[2:5]
    )
    words = say("{count} other kernels", count=count_text(len(rows)))
    total_ns, count = int(sum(times_ns)), int(sum(counts))
    return Term("other", words), None, sum(shares_of, 0.0), total_ns, count, total_ns / count, None, None


def _families(run: ProfiledRun) -> dict[str, str]:
    """The family of every kernel name, the user's own families included."""
    activities, strings = run.main_device.work, run.trace.strings
    is_kernel = activities.family >= 0
    family_of = np.full(len(strings) + 1, -1, np.int16)  # the last is for graphs, which have no name
    family_of[take(activities.name, is_kernel)] = take(activities.family, is_kernel)
    codes = np.flatnonzero(family_of[:-1] >= 0)
    return {
        strings.text(code) or "": activities.families[number]
        for code, number in zip(codes.tolist(), family_of[codes].tolist(), strict=True)
    }


def report_roofline(run: ProfiledRun) -> Chart | None:
    """Every launch that Nsight Compute profiled, under its roofs; None where nothing is known."""
    matched = run.kernels.get(run.main_device.gpu)
    if matched is None:
        return None
    launches = [
        drawn_launch(match.launch, match.entry.time_ns, bound_text(match.launch))
        for match in matched.matches
        if match.launch and match.covered
    ]
    launches += [
        drawn_launch(launch, launch.duration_ns, bound_text(launch), is_inside=False) for launch in matched.unused
    ]
    said = say(
        "Each dot is a profiled launch, sized by its share of the time; the further below the roof, "
        "the more to gain. Hollow dots are kernels outside the steady steps."
    )
    return launch_roofline(launches, said)


def roofline_section(report: ReportAnswer) -> Section:
    """What Nsight Compute says, where it was asked, and samples, where there are any."""
    short, chart = say("Kernels in depth"), sampled_roofline_chart(report.roofline)
    sampled: list[Block] = [*([] if chart is None else [chart]), *use_blocks_of(report.run)]
    counted = kernel_blocks(report.run)
    if counted:
        counted.insert(0, report_roofline(report.run) or not_measured(NOT_COLLECTED))
    elif sampled:
        return Section(
            "roofline", say("Kernels in depth (samples)"), tuple(sampled), short, say("by the GPU's own counters")
        )
    else:
        return Section("roofline", short, ())
    result = say("by what Nsight Compute measured")
    return Section("roofline", say("Kernels in depth (Nsight Compute)"), (*counted, *sampled), short, result)
