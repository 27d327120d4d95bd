"""Judged kernels: what verdicts are called, a table, each kernel in depth, counts, a spreadsheet.

The same words serve `kernels` and `report --ncu`. A kernel that was launched several times has means weighted by time,
with the least and the most beside them. What was not measured is an empty cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from gpuledger.analyse.kernels.judgement import SEVERITIES, FigureSpread, JudgedKernel, JudgedLaunch
from gpuledger.analyse.kernels.step_kernels import HALF, HITS, PEAKS, ROOF, KernelTally, StepOverview
from gpuledger.analyse.kernels.verdict import FIGURE_NAMES, Figure
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.digits import shape_text
from gpuledger.present.sheet import Column, Sheet, Term, Unit, plain, share_column
from gpuledger.present.terms import BOUNDS, made_line
from gpuledger.present.views.words import largest_line_sentence, none_sentence, step_count_text, step_time_text
from gpuledger.trace.model import Note, NotMeasured, Severity
from gpuledger.units import bytes_text, count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.answers.kernels import KernelsAnswer

LIMITERS: Final = {
    "DRAM": say("DRAM"),
    "L2": say("L2"),
    "L1": say("L1"),
    "tensor": say("tensor cores"),
    "fp64": say("FP64"),
    "fma": say("FMA"),
    "alu": say("ALU"),
    "fp16": say("FP16"),
    "special functions": say("special functions"),
    "load/store": say("load/store"),
    "uniform": say("uniform"),
    "texture": say("texture"),
    "issue": say("issue slots"),
    "sm": say("a unit of the SM"),
    "too few blocks": say("too few blocks"),
    "tail": say("tail effect"),
    "occupancy": say("occupancy"),
    "uneven": say("load imbalance"),
    "short": say("too short"),
    "stalls": say("stalls"),
    "unexplained": say("cause not collected"),
    "unmeasured": say("not collected"),
}

SEVERITY_WORDS: Final = {
    "high": say("high"),
    "medium": say("medium"),
    "low": say("low"),
    "none": say("none"),
    "unknown": say("unknown"),
}
_SEVERITY_BADGES: Final = {"high": "bad", "medium": "warn"}
_SEVERITY_ORDER: Final = (*(name for name, _ in SEVERITIES), "none", "unknown")

CLOCKS: Final = say(
    "Times here are Nsight Compute's: it replays each kernel in isolation, with caches flushed "
    "and, by default, clocks locked. Times on a timeline differ; rank by those (`gpuledger "
    "report PROFILE --ncu=FILE`)."
)
_RATE: Final = "dram_bytes_per_s"
_HALF_OF_STEP: Final = 0.5


def severity_cell(level: str) -> Term:
    """How much a kernel has to gain, in a table."""
    return Term(SEVERITY_WORDS[level], SEVERITY_WORDS[level], badge=_SEVERITY_BADGES.get(level, ""))


def bound_text(judged: JudgedLaunch) -> str:
    """What limits it, in two words."""
    return say("{bound}: {limiter}", bound=BOUNDS[judged.verdict.bound], limiter=LIMITERS[judged.verdict.limiter])


def figure_share(value: Figure) -> str:
    """A share, or that it is not known."""
    return "-" if isinstance(value, NotMeasured) else share_text(value)


def rate_text(value: Figure) -> str:
    """Bytes per second, or that it is not known."""
    return "-" if isinstance(value, NotMeasured) else f"{bytes_text(round(value))}/s"


def kernel_sentences(overview: StepOverview, device: Device) -> tuple[Message, ...]:
    """How much of a step its kernels are, and which takes the most."""
    if not overview.entries or not overview.time_ns:
        return (none_sentence(device, "kernels"),)
    first = max(overview.entries, key=lambda kernel: kernel.time_ns)
    share = overview.time_ns / device.steady_ns
    calls = sum(kernel.calls for kernel in overview.entries)
    answer = say(
        "GPU {gpu}: kernels take {time} ({share} of the time): {count}; {part} of that in {kernel}.",
        gpu=device.gpu,
        time=step_time_text(device, overview.time_ns),
        share=share_text(share),
        count=step_count_text(device, calls, say("launch"), say("launches")),
        kernel=cut_label(label(first.name)),
        part=share_text(first.time_ns / overview.time_ns),
    )
    return (answer,) if share >= _HALF_OF_STEP else (answer, largest_line_sentence(device))


def kernels_document(answer: KernelsAnswer) -> doc.Document:
    """The whole answer of `gpuledger kernels`; JSON is the document gpuledger.kernels/1."""
    return doc.Document(
        blocks=lambda: (doc.Group(tuple(_blocks(answer))),),
        data=doc.json_by("kernels.kernels_json", answer),
        sheets=lambda: (_figures_sheet(answer),),
        page=lambda: _page(answer),
    )


def _page(answer: KernelsAnswer) -> doc.Page:
    """The verdict, every launch under its roofs, and each kernel in depth."""
    from gpuledger.present.views.page.rooflines import NOT_COLLECTED, DrawnLaunch, launch_roofline

    verdict = doc.Paragraph(_verdict(answer))
    blocks = [block for block in _blocks(answer) if block != verdict]
    launches = [
        DrawnLaunch(launch, launch.duration_ns, bound_text(launch))
        for kernel in answer.kernels
        for launch in kernel.launches
    ]
    said = say(
        "Each dot is a profiled launch, sized by its share of the time; the further below the roof, the more to gain."
    )
    roofs = launch_roofline(launches, said) or doc.not_measured(NOT_COLLECTED)
    sections = (doc.Section("roofline", say("Roofline"), (roofs,)), *doc.chapters(blocks, say("Kernels")), doc.AGAIN)
    return doc.Page(", ".join(answer.files), verdict.text, sections)


def _blocks(answer: KernelsAnswer) -> list[doc.Block]:
    kernels = answer.kernels
    count = sum(len(kernel.launches) for kernel in kernels)
    what = say("{launches} launches of {kernels} kernels", launches=count_text(count), kernels=count_text(len(kernels)))
    title = say(
        "{files}: {gpu}, {what}, {time}",
        files=", ".join(answer.files),
        gpu=answer.gpu_name or say("GPU not named"),
        what=say("one launch") if count == 1 else what,
        time=time_text(answer.total_ns),
    )
    return [
        doc.Heading(title, 1),
        doc.Paragraph(_verdict(answer)),
        doc.SheetBlock(kernel_sheet(answer)),
        counts_points(answer.tally),
        doc.Heading(say("In depth, largest saving first")),
        *(_in_depth(answer, kernel) for kernel in sorted(kernels, key=lambda kernel: -_gain(kernel))),
        doc.Paragraph(CLOCKS),
        doc.Paragraph(made_line()),
        *notes_blocks(answer.notes),
    ]


def notes_blocks(notes: Sequence[Note]) -> list[doc.Block]:
    """What was lost on reading."""
    return [
        doc.Paragraph(say("Note: {sentence}.", sentence=note.sentence))
        for note in notes
        if note.severity in (Severity.LOSS, Severity.WARNING)
    ]


def _gain(kernel: JudgedKernel) -> int:
    return 0 if isinstance(kernel.saving_ns, NotMeasured) else kernel.saving_ns


def _verdict(answer: KernelsAnswer) -> str:
    best = max(answer.kernels, key=_gain)
    if all(isinstance(kernel.saving_ns, NotMeasured) for kernel in answer.kernels):
        return say("The metrics that compare these kernels with the GPU's peaks were not collected.")
    if not _gain(best):
        return say("All these kernels are at the roof; only less work would make them faster.")
    verdict = best.typical.verdict
    figures = {
        "kernel": best.label,
        "share": share_text(best.duration_ns / answer.total_ns),
        "bound": BOUNDS[verdict.bound],
        "limiter": LIMITERS[verdict.limiter],
        "gain": share_text(_gain(best) / answer.total_ns),
    }
    if verdict.wasted is not None and verdict.is_by_waste:
        return say(
            "Largest saving: {kernel}, {share} of the time, is bound by {bound} ({limiter}), and "
            "{wasted} of the sectors it moves are excessive; coalesced accesses would save {gain} of the "
            "time.",
            **figures,
            wasted=share_text(verdict.wasted.share),
        )
    return say(
        "Largest saving: {kernel}, {share} of the time, is bound by {bound} ({limiter}); at its "
        "nearest roof it would save {gain} of the time.",
        **figures,
    )


def kernel_sheet(answer: KernelsAnswer) -> Sheet:
    """For people: one line per kernel, the longest first."""
    columns = (
        Column("kernel", say("Kernel"), Unit.TEXT, lambda kernel: label(kernel.name)),
        Column("launches", say("x"), Unit.FIGURE, lambda kernel: count_text(len(kernel.launches))),
        Column("time", say("Time"), Unit.FIGURE, lambda kernel: time_text(kernel.duration_ns)),
        Column("share", say("Share"), Unit.FIGURE, lambda kernel: share_text(answer.share(kernel))),
        Column("bound", say("Bound by"), Unit.TEXT, lambda kernel: bound_text(kernel.typical)),
        Column("roof", say("Of roof"), Unit.FIGURE, lambda kernel: figure_share(kernel.typical.verdict.roof_share)),
        Column("severity", say("Severity"), Unit.TEXT, lambda kernel: severity_cell(answer.severity(kernel)), 1),
        Column("dram", say("DRAM"), Unit.FIGURE, lambda kernel: rate_text(kernel.typical.figures.dram_bytes_per_s), 2),
        Column(
            "occupancy",
            say("Occupancy"),
            Unit.FIGURE,
            lambda kernel: figure_share(kernel.typical.figures.share("occupancy_share")),
            detail=3,
        ),
        Column("grid", say("Grid"), Unit.TEXT, lambda kernel: shape_text(kernel.grid), detail=4),
        Column("block", say("Block"), Unit.TEXT, lambda kernel: shape_text(kernel.block), detail=5),
    )
    return Sheet.of("kernels", say("Kernels"), columns, answer.kernels)


def _in_depth(answer: KernelsAnswer, kernel: JudgedKernel) -> doc.Points:
    """One kernel: why it is bound as it is, its figures over all launches, and what to try."""
    judged = kernel.typical
    heading = say(
        "{kernel}: {bound}, severity {severity}",
        kernel=kernel.label,
        bound=bound_text(judged),
        severity=SEVERITY_WORDS[answer.severity(kernel)],
    )
    return doc.Points(heading, tuple(depth_lines(judged, kernel)))


def depth_lines(judged: JudgedLaunch, kernel: JudgedKernel) -> list[str]:
    """Why a launch is bound as it is, the figures of its kernel, and what to try."""
    first, *rest = judged.advice
    return [
        *judged.verdict.because,
        *_figure_lines(kernel),
        *judged.figures.unreliable,
        say("try: {advice}", advice=first),
        *rest,
    ]


def _figure_lines(kernel: JudgedKernel) -> list[str]:
    """The figures of a kernel in one line; with several launches, means weighted by time, and the extremes."""
    shown = ("sm_busy_share", _RATE, "l2_hit_share", "l1_hit_share", "occupancy_efficiency")
    peak, texts = kernel.spread("dram_share"), []
    for key in shown:
        if isinstance(spread := kernel.spread(key), NotMeasured):
            continue
        text = rate_text if key == _RATE else share_text
        parts = {"figure": FIGURE_NAMES[key], "value": text(spread.mean)}
        if key == _RATE and isinstance(peak, FigureSpread):
            parts["value"] = say("{rate}, {share} of the peak", rate=text(spread.mean), share=share_text(peak.mean))
        least, most = text(spread.least), text(spread.most)
        texts.append(
            say("{figure} {value}", **parts)
            if least == most
            else say("{figure} {value} ({least} to {most})", **parts, least=least, most=most)
        )
    return [joined(say(", "), texts)] if texts else []


def counts_points(counts: KernelTally) -> doc.Points:
    """What a reader of many kernels asks first: how many of which kind."""
    kinds = [
        say(
            "{bound} {count} ({details})",
            bound=BOUNDS[bound],
            count=sum(limits.values()),
            details=_counted((LIMITERS[limiter], count) for limiter, count in limits.items()),
        )
        for bound, limits in counts.limits.items()
    ]
    severities = counts.severities
    severe = ((SEVERITY_WORDS[name], severities[name]) for name in _SEVERITY_ORDER if name in severities)
    items = [
        say("bottlenecks: {kinds}", kinds=joined(say(", "), kinds)),
        say("severity: {kinds}", kinds=_counted(severe)),
    ]
    half = share_text(HALF)
    if (roof := counts.low[ROOF]).of:
        amounts = {"count": count_text(roof.low), "kernels": count_text(roof.of)}
        items.append(say("below {half} of the nearest roof: {count} of {kernels}", half=half, **amounts))
    if peaks := _low(counts, PEAKS):
        items.append(say("below {half}: {counts}", half=half, counts=peaks))
    if hits := _low(counts, HITS):
        items.append(say("below {half}: {counts} (data that is read once cannot hit)", half=half, counts=hits))
    return doc.Points(say("Kernels in numbers"), tuple(items))


def _counted(counts: Iterable[tuple[Message, int]]) -> Message:
    return joined(say(", "), [say("{what} {count}", what=what, count=count_text(count)) for what, count in counts])


def _low(counts: KernelTally, keys: Iterable[str]) -> Message | None:
    """Some figures in a line, without those that were measured of no kernel; None where that is all."""
    texts = [
        say("{figure} {count} of {kernels}", figure=FIGURE_NAMES[key], count=count_text(low.low), kernels=low.of)
        for key in keys
        if (low := counts.low[key]).of
    ]
    return joined(say(", "), texts) if texts else None


def _figures_sheet(answer: KernelsAnswer) -> Sheet:
    """For a spreadsheet: one row per kernel, the longest first, every figure as a number."""
    pipes = sorted({pipe for kernel in answer.kernels for pipe in kernel.typical.figures.pipes})
    stalls = sorted({why for kernel in answer.kernels for why in kernel.typical.figures.stalls})

    def wasted(kernel: JudgedKernel) -> float | None:
        found = kernel.typical.verdict.wasted
        return None if found is None else found.share

    columns = (
        Column("kernel", "Kernel", Unit.TEXT, "name"),
        Column("grid", "Grid", Unit.TEXT, lambda kernel: shape_text(kernel.grid)),
        Column("block", "Block", Unit.TEXT, lambda kernel: shape_text(kernel.block)),
        Column("launches", "Launches", Unit.COUNT, lambda kernel: len(kernel.launches)),
        Column("time_ns", "Time", Unit.NS, "duration_ns"),
        share_column("share_percent", "Share of the time", "duration_ns", answer.total_ns),
        Column("bound", "Bound by", Unit.TEXT, "typical.verdict.bound"),
        Column("limiter", "Limiter", Unit.TEXT, "typical.verdict.limiter"),
        share_column("roof_percent", "Of the nearest roof", "typical.verdict.roof_share"),
        Column("saving_ns", "Would save", Unit.NS, lambda kernel: plain(kernel.saving_ns)),
        Column("severity", "Severity", Unit.TEXT, answer.severity),
        share_column("wasted_percent", "Excessive sectors", wasted),
        Column("waves", "Waves", Unit.RATIO, lambda kernel: plain(kernel.typical.figures.waves)),
        *(column for key, name in FIGURE_NAMES.items() for column in _spread_columns(key, name)),
        *map(_pipe_column, pipes),
        *map(_stall_column, stalls),
    )
    return Sheet.of("kernels", "Kernels", columns, answer.kernels)


def _pipe_column(pipe: str) -> Column:
    return share_column(
        f"pipe_{pipe}_percent", f"Pipeline {pipe}", lambda kernel: kernel.typical.figures.pipes.get(pipe)
    )


def _stall_column(why: str) -> Column:
    name = f"Stall {why} (warps per issue)"
    return Column(f"stall_{why}", name, Unit.RATIO, lambda kernel: kernel.typical.figures.stalls.get(why))


def _spread_columns(key: str, name: str) -> list[Column]:
    """The mean of a figure, its least and its most."""
    factor, unit = (1e-9, Unit.GB_PER_S) if key == _RATE else (100, Unit.SHARE_PERCENT)
    bare = key.removesuffix("_share").removesuffix("_bytes_per_s")
    capital = name[:1].upper() + name[1:]

    def column(ending: str, words: str, part: str) -> Column:
        def cell(kernel: JudgedKernel) -> float | None:
            spread = kernel.spread(key)
            return None if isinstance(spread, NotMeasured) else factor * getattr(spread, part)

        return Column(f"{bare}_{ending}", f"{capital}{words}", unit, cell)

    return [column("mean", "", "mean"), column("min", ", least", "least"), column("max", ", most", "most")]
