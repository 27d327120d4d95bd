"""Judged kernels: what limits each in reports of Nsight Compute, in words, as a table, and in depth.

The same words serve `kernels` and `report --ncu`. A kernel that was launched several times has means weighted by time,
with the least and the most beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

from gpuledger.analyse.kernels.step_kernels import HALF, HITS, PEAKS, ROOF, KernelTally
from gpuledger.analyse.roofline.judgement import JudgedKernel, JudgedLaunch
from gpuledger.analyse.roofline.roofs import Roof, RooflinePoint, Roofs
from gpuledger.analyse.roofline.verdict import FIGURE_NAMES
from gpuledger.answers.kernels import JudgedKernels
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.row_sheets import known, row_from, row_sheet
from gpuledger.present.sheet import Sheet
from gpuledger.present.terms import BOUNDS, made_at, made_line
from gpuledger.present.views.answer import Answer, health_rows
from gpuledger.rows import Label, LabelledCode, Row, Spread, Unit, share
from gpuledger.trace.model import NotMeasured, Severity
from gpuledger.units import bytes_text, count_text, share_text, time_text

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


class KernelSeverity(LabelledCode):
    """How much of the time a kernel would save, the most first."""

    HIGH = "high", say("high"), "bad"
    MEDIUM = "medium", say("medium"), "warn"
    LOW = "low", say("low")
    NONE = "none", say("none")
    UNKNOWN = "unknown", say("unknown")


CLOCKS: Final = say(
    "Times here are Nsight Compute's: it replays each kernel in isolation, with caches flushed "
    "and, by default, clocks locked. Times on a timeline differ; rank by those (`gpuledger "
    "report PROFILE --ncu=FILE`)."
)
_RATE: Final = "dram_bytes_per_s"
_FOR_PEOPLE: Final = (
    *("name", "launches", "time_ns", "share", "bound", "limiter", "roof_share", "saving_ns", "severity"),
    *("dram_bytes_per_s", "occupancy_share", "grid", "block"),
)


def bound_text(judged: JudgedLaunch) -> str:
    """What limits it, in two words."""
    return say("{bound}: {limiter}", bound=BOUNDS[judged.verdict.bound], limiter=LIMITERS[judged.verdict.limiter])


Shape = tuple[int, int, int]


class NcuKernelRow(Row, frozen=True):
    """Launches of one name, shape and size of problem. Figures are means weighted by time; null: not collected."""

    name: Annotated[str, Label(say("Kernel"), shorten=label)]
    launches: Annotated[int, Label(say("Launches"), Unit.COUNT, detail=1, is_summed=True)]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, is_summed=True)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, is_summed=True)]
    bound: Annotated[str, Label(say("Bound by"), words=BOUNDS.__getitem__)]
    limiter: Annotated[str, Label(say("Limiter"), words=LIMITERS.__getitem__)]
    roof_share: Annotated[float | None, Label(say("Of roof"), Unit.SHARE, meaning="how much of the nearest it reaches")]
    saving_ns: Annotated[int | None, Label(say("Saves"), Unit.NS, detail=2, meaning="at 90 % of its nearest roof")]
    severity: Annotated[KernelSeverity, Label(say("Severity"), detail=1)]
    dram_bytes_per_s: Annotated[Spread | None, Label(say("DRAM bandwidth"), Unit.BYTES_PER_S, detail=3)]
    occupancy_share: Annotated[Spread | None, Label(say("Occupancy"), Unit.SHARE, detail=4)]
    grid: Annotated[Shape | None, Label(say("Grid"), Unit.TRIPLE, detail=5)]
    block: Annotated[Shape | None, Label(say("Block"), Unit.TRIPLE, detail=6)]
    waves: Annotated[float | None, Label(say("Waves"), Unit.RATIO, detail=7)]
    wasted_share: Annotated[
        float | None, Label(say("Excessive sectors"), Unit.SHARE, detail=8, meaning="where that is much of the traffic")
    ]
    sm_share: Annotated[Spread | None, Label(say("SM throughput"), Unit.SHARE, detail=9)]
    sm_busy_share: Annotated[Spread | None, Label(say("SM efficiency"), Unit.SHARE, detail=9)]
    memory_share: Annotated[Spread | None, Label(say("memory throughput"), Unit.SHARE, detail=9)]
    dram_share: Annotated[Spread | None, Label(say("DRAM throughput"), Unit.SHARE, detail=9)]
    l2_share: Annotated[Spread | None, Label(say("L2 throughput"), Unit.SHARE, detail=9)]
    l1_share: Annotated[Spread | None, Label(say("L1 throughput"), Unit.SHARE, detail=9)]
    l2_hit_share: Annotated[Spread | None, Label(say("L2 hit rate"), Unit.SHARE, detail=9)]
    l1_hit_share: Annotated[Spread | None, Label(say("L1 hit rate"), Unit.SHARE, detail=9)]
    occupancy_limit_share: Annotated[Spread | None, Label(say("theoretical occupancy"), Unit.SHARE, detail=9)]
    occupancy_efficiency: Annotated[Spread | None, Label(say("occupancy efficiency"), Unit.SHARE, detail=9)]
    headroom: float | None
    """What share of its time would go at 90 % of its nearest roof."""
    pipes: dict[str, float]
    """How busy each pipeline of the multiprocessors was."""
    stalls: dict[str, float]
    """Warps that stood still per issued instruction, by reason."""
    orders: tuple[int, ...]
    """Its launches, by their position in their file."""
    because: tuple[str, ...]
    """Why it is bound as it is."""
    depth: tuple[str, ...]
    """The same with its figures, what is unreliable, and what to try."""


class NcuLaunchRow(Row, frozen=True):
    """A profiled launch."""

    file: str
    order: int
    """Position among the launches of its file."""
    name: str
    grid: Shape | None
    block: Shape | None
    device: int | None
    context: int | None
    stream: int | None
    nvtx: tuple[str, ...]
    time_ns: int | None
    """Nsight Compute's, under its clocks and with its caches."""
    share: float | None
    """Of the time of all launches."""
    dram_bytes_per_s: float | None
    figures: dict[str, float | None]
    """Shares of peaks, hit rates and occupancy, by name."""
    waves: float | None
    pipes: dict[str, float]
    bound: str
    limiter: str
    roof_share: float | None
    headroom: float | None
    wasted_share: float | None
    because: tuple[str, ...]
    severity: str
    unreliable: tuple[str, ...]
    advice: tuple[str, ...]
    roofline: tuple[RooflinePoint, ...]


class RoofsRow(Row, frozen=True):
    """Bytes and operations per second at most, of one device."""

    device: int | None
    name: str | None
    memory: dict[str, Roof]
    compute: dict[str, Roof]


class NcuKernelsAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.ncukernels/1"):
    """What limits the kernels in reports of Nsight Compute."""

    files: tuple[str, ...]
    made_at: str
    """UTC; SOURCE_DATE_EPOCH where that is set."""
    gpu_name: str | None
    total_ns: int
    counts: KernelTally
    kernels: Annotated[tuple[NcuKernelRow, ...], Label(say("Kernels"))]
    launches: tuple[NcuLaunchRow, ...]
    """Every launch, in the order of the files."""
    roofs: tuple[RoofsRow, ...]

    def blocks(self) -> Iterator[doc.Block]:
        count = len(self.launches)
        what = say(
            "{launches} launches of {kernels} kernels",
            launches=count_text(count),
            kernels=count_text(len(self.kernels)),
        )
        title = say(
            "{files}: {gpu}, {what}, {time}",
            files=", ".join(self.files),
            gpu=self.gpu_name or say("GPU not named"),
            what=say("one launch") if count == 1 else what,
            time=time_text(self.total_ns),
        )
        yield doc.Heading(title, 1)
        yield doc.Conclusion(self.sentences[0])
        yield doc.Only(doc.Medium.PAGE, (doc.Heading(say("Roofline")), self._roofline()))
        yield doc.SheetBlock(ncu_kernels_sheet(self.kernels), doc.SheetTitle.NAMED, tells_hidden=True)
        yield counts_points(self.counts)
        yield doc.Heading(say("In depth, largest saving first"))
        for kernel in sorted(self.kernels, key=lambda kernel: -(kernel.saving_ns or 0)):
            heading = say(
                "{kernel}: {bound}, severity {severity}",
                kernel=cut_label(label(kernel.name)),
                bound=say("{bound}: {limiter}", bound=BOUNDS[kernel.bound], limiter=LIMITERS[kernel.limiter]),
                severity=kernel.severity.label,
            )
            yield doc.Points(heading, kernel.depth)
        for sentence in (*self.sentences[1:], made_line()):
            yield doc.Paragraph(sentence)

    def _roofline(self) -> doc.Block:
        """Every launch under the roofs of the GPU."""
        from gpuledger.present.views.page.rooflines import NOT_COLLECTED, DrawnLaunch, launch_roofline

        of_device = {roofs.device: Roofs(roofs.memory, roofs.compute) for roofs in self.roofs}
        launches = [
            DrawnLaunch(
                name=launch.name,
                time_ns=launch.time_ns or 0,
                bound=launch.bound,
                limit=say("{bound}: {limiter}", bound=BOUNDS[launch.bound], limiter=LIMITERS[launch.limiter]),
                points=launch.roofline,
                roofs=of_device[launch.device],
            )
            for launch in self.launches
        ]
        said = say(
            "Each dot is a profiled launch, sized by its share of the time; the further below the roof, the more to "
            "gain."
        )
        return launch_roofline(launches, said) or doc.not_measured(NOT_COLLECTED)


def ncu_kernels_answer(judged: JudgedKernels) -> NcuKernelsAnswer:
    """Like launches together, the longest first, and every launch."""
    severities = {id(kernel): judged.severity(kernel) for kernel in judged.kernels}
    lost = [note for note in judged.notes if note.severity in (Severity.LOSS, Severity.WARNING)]
    return NcuKernelsAnswer(
        profile=", ".join(judged.files),
        sentences=(_verdict(judged), CLOCKS, *(say("Note: {sentence}.", sentence=note.sentence) for note in lost)),
        health=health_rows(judged.notes),
        files=tuple(judged.files),
        made_at=made_at(),
        gpu_name=judged.gpu_name,
        total_ns=judged.total_ns,
        counts=judged.tally,
        kernels=tuple(ncu_kernel_row(judged, kernel) for kernel in judged.kernels),
        launches=tuple(_launch_row(judged, launch, severities[id(kernel)]) for kernel, launch in judged.launches),
        roofs=tuple(
            RoofsRow(device, name or None, dict(longest.roofs.memory), dict(longest.roofs.compute))
            for (device, name), longest in judged.longest_by_gpu.items()
        ),
    )


def ncu_kernels_sheet(rows: Sequence[NcuKernelRow]) -> Sheet:
    """For people, without the figures that only programs want."""
    return row_sheet("kernels", say("Kernels"), NcuKernelRow, rows, fields=_FOR_PEOPLE)


def ncu_kernel_row(judged: JudgedKernels, kernel: JudgedKernel) -> NcuKernelRow:
    """A kernel as its typical launch has it, with its figures over all."""
    typical = kernel.typical
    verdict, figures = typical.verdict, typical.figures
    return row_from(
        NcuKernelRow,
        *(kernel, verdict, figures),
        launches=len(kernel.launches),
        time_ns=kernel.duration_ns,
        share=share(kernel.duration_ns, judged.total_ns),
        severity=KernelSeverity(judged.severity(kernel)),
        wasted_share=None if verdict.wasted is None else verdict.wasted.share,
        orders=tuple(launch.launch.order for launch in kernel.launches),
        depth=tuple(depth_lines(typical, kernel)),
        **{key: known(kernel.spread(key)) for key in FIGURE_NAMES},
    )


def _launch_row(judged: JudgedKernels, launch: JudgedLaunch, severity: str) -> NcuLaunchRow:
    verdict, figures = launch.verdict, launch.figures
    return row_from(
        NcuLaunchRow,
        *(launch, launch.launch, verdict, figures),
        time_ns=known(figures.duration_ns),
        share=share(launch.duration_ns, judged.total_ns),
        figures={name: known(figure) for name, figure in figures.shares.items()},
        wasted_share=None if verdict.wasted is None else verdict.wasted.share,
        severity=severity,
        roofline=launch.points,
    )


def _gain(kernel: JudgedKernel) -> int:
    return 0 if isinstance(kernel.saving_ns, NotMeasured) else kernel.saving_ns


def _verdict(judged: JudgedKernels) -> str:
    best = max(judged.kernels, key=_gain)
    if all(isinstance(kernel.saving_ns, NotMeasured) for kernel in judged.kernels):
        return say("The metrics that compare these kernels with the GPU's peaks were not collected.")
    if not _gain(best):
        return say("All these kernels are at the roof; only less work would make them faster.")
    verdict = best.typical.verdict
    figures = {
        "kernel": best.label,
        "share": share_text(best.duration_ns / judged.total_ns),
        "bound": BOUNDS[verdict.bound],
        "limiter": LIMITERS[verdict.limiter],
        "gain": share_text(_gain(best) / judged.total_ns),
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
        text = _rate_text if key == _RATE else share_text
        parts = {"figure": FIGURE_NAMES[key], "value": text(spread.mean)}
        if key == _RATE and isinstance(peak, Spread):
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
    severe = ((level.label, counts.severities[level]) for level in KernelSeverity if level in counts.severities)
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


def _rate_text(bytes_per_s: float) -> str:
    return f"{bytes_text(round(bytes_per_s))}/s"


def _counted(counts: Iterable[tuple[str, int]]) -> Message:
    return joined(say(", "), [say("{what} {count}", what=what, count=count_text(count)) for what, count in counts])


def _low(counts: KernelTally, keys: Iterable[str]) -> Message | None:
    """Some figures in a line, without those that were measured of no kernel; None where that is all."""
    texts = [
        say("{figure} {count} of {kernels}", figure=FIGURE_NAMES[key], count=count_text(low.low), kernels=low.of)
        for key in keys
        if (low := counts.low[key]).of
    ]
    return joined(say(", "), texts) if texts else None
