"""Judged kernels for people: the table, and each kernel in depth. The same words serve `kernels` and `report --ncu`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gpuledger.analyse.kernels.judgement import FigureSpread, JudgedKernel, JudgedLaunch, severity
from gpuledger.analyse.kernels.roofs import device_of
from gpuledger.analyse.kernels.step_kernels import kernels_tally
from gpuledger.analyse.kernels.verdict import FIGURE_NAMES, Figure
from gpuledger.catalog.kernel_names import label
from gpuledger.messages import joined, say
from gpuledger.present.document import Block, Document, Group, Heading, Paragraph, Points, SheetBlock
from gpuledger.present.made_at import made_line
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.views.kernel_counts import counts_points
from gpuledger.present.views.kernel_figures import figures_sheet
from gpuledger.present.views.kernel_words import BOUNDS, LIMITERS, SEVERITY_WORDS, severity_cell, shape_text
from gpuledger.present.views.kernels_json import kernels_data
from gpuledger.trace.model import Gpu, Note, NotMeasured, Severity
from gpuledger.units import bytes_text, count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Page, Reader

CLOCKS: Final = say(
    "Times here are Nsight Compute's: it replays each kernel in isolation, with caches flushed "
    "and, by default, clocks locked. Times on a timeline differ; rank by those (`gpuledger "
    "report PROFILE --ncu=FILE`)."
)


def kernels_document(files: Sequence[str], made: Sequence[JudgedKernel], notes: Sequence[Note]) -> Document:
    """The whole answer of `gpuledger kernels`; JSON is the document gpuledger.kernels/1."""
    return Document(
        blocks=lambda: (Group(tuple(_blocks(files, made, notes))),),
        data=lambda: kernels_data(files, made, notes),
        sheets=lambda: (figures_sheet(made),),
        page=lambda reader: _page(files, made, notes, reader),
    )


def _page(files: Sequence[str], made: Sequence[JudgedKernel], notes: Sequence[Note], reader: Reader) -> Page:
    from gpuledger.present.views.page.ncu_page import ncu_page

    total = sum(kernel.duration_ns for kernel in made)
    verdict = Paragraph(_verdict(made, total))
    blocks = [block for block in _blocks(files, made, notes) if block != verdict]
    return ncu_page(", ".join(files), verdict.text, made, blocks, reader)


def _blocks(files: Sequence[str], made: Sequence[JudgedKernel], notes: Sequence[Note]) -> list[Block]:
    total = sum(each.duration_ns for each in made)
    count = sum(len(each.launches) for each in made)
    first = made[0].typical.launch
    gpu = device_of(first)
    what = say("{launches} launches of {kernels} kernels", launches=count_text(count), kernels=count_text(len(made)))
    title = say(
        "{files}: {gpu}, {what}, {time}",
        files=", ".join(files),
        gpu=gpu.name if isinstance(gpu, Gpu) else say("GPU not named"),
        what=say("one launch") if count == 1 else what,
        time=time_text(total),
    )
    blocks: list[Block] = [Heading(title, 1), Paragraph(_verdict(made, total)), SheetBlock(kernel_sheet(made, total))]
    blocks.append(counts_points(kernels_tally(made)))
    blocks.append(Heading(say("In depth, largest saving first")))
    blocks += [in_depth(each, total) for each in sorted(made, key=lambda each: -_gain(each))]
    blocks += [Paragraph(CLOCKS), Paragraph(made_line())]
    blocks += notes_blocks(notes)
    return blocks


def notes_blocks(notes: Sequence[Note]) -> list[Block]:
    """What was lost on reading."""
    return [
        Paragraph(say("Note: {sentence}.", sentence=note.sentence))
        for note in notes
        if note.severity in (Severity.LOSS, Severity.WARNING)
    ]


def _gain(kernel: JudgedKernel) -> int:
    return 0 if isinstance(kernel.saving_ns, NotMeasured) else kernel.saving_ns


def _verdict(made: Sequence[JudgedKernel], total: int) -> str:
    best = max(made, key=_gain)
    if all(isinstance(each.saving_ns, NotMeasured) for each in made):
        return say("The metrics that compare these kernels with the GPU's peaks were not collected.")
    if not _gain(best):
        return say("All these kernels are at the roof; only less work would make them faster.")
    typical = best.typical.verdict
    if typical.wasted is not None and typical.is_by_waste:
        return say(
            "Largest saving: {kernel}, {share} of the time, is bound by {bound} ({limiter}), and "
            "{wasted} of the sectors it moves are excessive; coalesced accesses would save {gain} of the "
            "time.",
            kernel=best.label,
            share=share_text(best.duration_ns / total),
            bound=BOUNDS[typical.bound],
            limiter=LIMITERS[typical.limiter],
            wasted=share_text(typical.wasted.share),
            gain=share_text(_gain(best) / total),
        )
    return say(
        "Largest saving: {kernel}, {share} of the time, is bound by {bound} ({limiter}); at its "
        "nearest roof it would save {gain} of the time.",
        kernel=best.label,
        share=share_text(best.duration_ns / total),
        bound=BOUNDS[best.typical.verdict.bound],
        limiter=LIMITERS[best.typical.verdict.limiter],
        gain=share_text(_gain(best) / total),
    )


def kernel_sheet(made: Sequence[JudgedKernel], total: int) -> Sheet:
    """One line per kernel, the longest first."""
    columns = (
        Column("kernel", say("Kernel"), Unit.TEXT),
        Column("launches", say("x"), Unit.FIGURE),
        Column("time", say("Time"), Unit.FIGURE),
        Column("share", say("Share"), Unit.FIGURE),
        Column("bound", say("Bound by"), Unit.TEXT),
        Column("roof", say("Of roof"), Unit.FIGURE),
        Column("severity", say("Severity"), Unit.TEXT, detail=1),
        Column("dram", say("DRAM"), Unit.FIGURE, detail=2),
        Column("occupancy", say("Occupancy"), Unit.FIGURE, detail=3),
        Column("grid", say("Grid"), Unit.TEXT, detail=4),
        Column("block", say("Block"), Unit.TEXT, detail=5),
    )
    rows = []
    for each in made:
        share = each.duration_ns / total if total else 0.0
        found = each.typical
        rows.append(
            (
                label(each.name),
                count_text(len(each.launches)),
                time_text(each.duration_ns),
                share_text(share),
                bound_text(found),
                figure_share(found.verdict.roof_share),
                severity_cell(severity(each.saving_ns, total)),
                rate_text(found.figures.dram_bytes_per_s),
                figure_share(found.figures.share("occupancy_share")),
                shape_text(each.grid),
                shape_text(each.block),
            )
        )
    return Sheet("kernels", say("Kernels"), columns, tuple(rows))


def bound_text(found: JudgedLaunch) -> str:
    """What limits it, in two words."""
    return say("{bound}: {limiter}", bound=BOUNDS[found.verdict.bound], limiter=LIMITERS[found.verdict.limiter])


def in_depth(kernel: JudgedKernel, total: int) -> Points:
    """One kernel: why it is bound as it is, its figures over all launches, and what to try."""
    found = kernel.typical
    heading = say(
        "{kernel}: {bound}, severity {severity}",
        kernel=kernel.label,
        bound=bound_text(found),
        severity=SEVERITY_WORDS[severity(kernel.saving_ns, total)],
    )
    items = [*found.verdict.because, *figure_lines(kernel), *found.figures.unreliable, *_tried(found)]
    return Points(heading, tuple(items))


def _tried(found: JudgedLaunch) -> list[str]:
    first, *rest = found.advice
    return [say("try: {advice}", advice=first), *rest]


def figure_lines(kernel: JudgedKernel) -> list[str]:
    """The figures of a kernel in one line; with several launches, means weighted by time, and the extremes."""
    shown = ("sm_busy_share", "dram_bytes_per_s", "l2_hit_share", "l1_hit_share", "occupancy_efficiency")
    texts = [_figure(kernel, key) for key in shown if isinstance(kernel.spread(key), FigureSpread)]
    return [joined(say(", "), texts)] if texts else []


def _figure(kernel: JudgedKernel, key: str) -> str:
    spread, peak = kernel.spread(key), kernel.spread("dram_share")
    if isinstance(spread, NotMeasured):
        return say("{figure} not measured", figure=FIGURE_NAMES[key])
    text = rate_text if key == "dram_bytes_per_s" else share_text
    parts = {"figure": FIGURE_NAMES[key], "value": text(spread.mean)}
    if key == "dram_bytes_per_s" and isinstance(peak, FigureSpread):
        parts["value"] = say("{rate}, {share} of the peak", rate=text(spread.mean), share=share_text(peak.mean))
    if text(spread.least) == text(spread.most):
        return say("{figure} {value}", **parts)
    return say("{figure} {value} ({least} to {most})", **parts, least=text(spread.least), most=text(spread.most))


def figure_share(value: Figure) -> str:
    """A share, or that it is not known."""
    return "-" if isinstance(value, NotMeasured) else share_text(value)


def rate_text(value: Figure) -> str:
    """Bytes per second, or that it is not known."""
    return "-" if isinstance(value, NotMeasured) else f"{bytes_text(round(value))}/s"
