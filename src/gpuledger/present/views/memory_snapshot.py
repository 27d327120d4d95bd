"""A memory snapshot for people: what to know and do first, then who holds the peak, leaks, fragmentation, churn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gpuledger.analyse.memory.allocations import Holder, MemoryMoment, NoPlace, with_rest
from gpuledger.analyse.memory.snapshot_figures import MemoryCurve, SnapshotFigures, memory_curve, memory_curve_by_event
from gpuledger.findings.finding import Finding
from gpuledger.findings.memory import holder_words, place_words
from gpuledger.messages import Message, capitalised, say
from gpuledger.present.document import (
    Block,
    Conclusion,
    Document,
    Heading,
    Paragraph,
    Picture,
    Points,
    Remarks,
    SheetBlock,
    SheetTitle,
    Tell,
)
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.present.views.tables_page import tables_page
from gpuledger.present.writers.json import health_json, tables_json
from gpuledger.trace.measured import MemorySnapshot
from gpuledger.trace.model import Severity
from gpuledger.trace.spans import Span
from gpuledger.units import bytes_text, count_text, instant_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.present.charts.svg import Picture as Drawing

_VERB: Final = "memory"
"""Whose document it is, also where `report` shows it."""

_SHOWN: Final = 2
"""Functions of a path that a table has room for."""

_SIZE: Final = Column("bytes", "MB", Unit.MB, page_name=say("Size"))
_WHERE: Final = Column("where", say("Allocated by"), Unit.TEXT)
_HELD: Final = (
    _WHERE,
    _SIZE,
    Column("share", say("Share"), Unit.SHARE_PERCENT),
    Column("allocations", say("Allocations"), Unit.COUNT),
)
_MOMENTS: Final = (
    Column("moment", say("Moment"), Unit.TEXT),
    Column("since_start_ns", say("After"), Unit.NS),
    Column("reserved_bytes", say("Reserved, MB"), Unit.MB, page_name=say("Reserved")),
    Column("allocated_bytes", say("Allocated, MB"), Unit.MB, page_name=say("Allocated")),
    Column("awaiting_bytes", say("Awaiting free, MB"), Unit.MB, detail=2, page_name=say("Awaiting free")),
    Column("stranded_bytes", say("Stranded, MB"), Unit.MB, page_name=say("Stranded")),
    Column("releasable_bytes", say("Can be given back, MB"), Unit.MB, page_name=say("Can be given back")),
    Column("largest_free_bytes", say("Largest stranded, MB"), Unit.MB, detail=1, page_name=say("Largest stranded")),
)
_SEGMENTS: Final = (
    Column("address", say("Segment"), Unit.TEXT),
    Column("total_bytes", "MB", Unit.MB, page_name=say("Size")),
    Column("used_bytes", say("In use, MB"), Unit.MB, page_name=say("In use")),
    Column("free_bytes", say("Free, MB"), Unit.MB, page_name=say("Free")),
    Column("largest_free_bytes", say("Largest free, MB"), Unit.MB, page_name=say("Largest free")),
    Column("blocks", say("Blocks"), Unit.COUNT),
)
_LEAKS: Final = (
    _WHERE,
    _SIZE,
    Column("allocations", say("Allocations"), Unit.COUNT),
    Column("steps", say("In steps"), Unit.COUNT),
)
_CHURN: Final = (
    _WHERE,
    _SIZE,
    Column("allocations", say("Allocations"), Unit.COUNT),
    Column("median_life_ns", say("Lives (median)"), Unit.NS),
)
_FINDINGS: Final = (
    Column("code", say("Finding"), Unit.TEXT),
    Column("gpu", "GPU", Unit.ID),
    Column("claim", say("Claim"), Unit.TEXT),
    Column("fix", say("Fix"), Unit.TEXT),
    Column("confidence", say("Confidence"), Unit.TEXT),
)


@dataclass(frozen=True, slots=True)
class AnalysedSnapshot:
    """A snapshot with all that is said of it."""

    snapshot: MemorySnapshot
    figures: tuple[SnapshotFigures, ...]
    findings: tuple[Finding, ...]

    @property
    def start_ns(self) -> int:
        """When the history begins; 0 where no times were noted."""
        return next((of_gpu.start_ns for of_gpu in self.figures if of_gpu.start_ns is not None), 0)


def snapshot_document(made: AnalysedSnapshot, *, is_brief: bool = False) -> Document:
    """The whole answer, also for `report`; JSON is the document gpuledger.memory/1."""
    snapshot, figures, findings = made.snapshot, made.figures, made.findings
    answers = [message for of_gpu in figures for message in snapshot_answer(of_gpu)] or [_nothing(snapshot)]
    sheets = [sheet for of_gpu in figures for sheet in snapshot_sheets(of_gpu)]
    whole = [findings_sheet(findings), *sheets]
    points = [finding_points(found) for found in findings]
    notes = [
        say("Note: {sentence}.", sentence=note.sentence)
        for note in snapshot.health
        if note.severity in (Severity.LOSS, Severity.WARNING)
    ] + [_unmatched(of_gpu) for of_gpu in figures if of_gpu.unmatched_events]
    shown = (
        [] if is_brief else [SheetBlock(sheet, SheetTitle.BARE, tells_hidden=True) for sheet in sheets if sheet.rows]
    )
    return Document(
        blocks=lambda: (
            Conclusion(answers[0]),
            *([Remarks(tuple(answers[1:]))] if answers[1:] else []),
            *points,
            *shown,
            *([Remarks(tuple(notes))] if notes else []),
        ),
        data=lambda: {"schema": f"gpuledger.{_VERB}/1", **snapshot_data(made)},
        sheets=lambda: tuple(whole),
        remarks=tuple(notes),
        page=lambda reader: tables_page(
            snapshot.name,
            [Paragraph(answer) for answer in answers],
            [],
            reader,
            more=[*picture_blocks(figures), Heading(say("What to do")), *points, *sheet_blocks(sheets)],
        ),
    )


def snapshot_data(made: AnalysedSnapshot) -> Mapping[str, Any]:
    """For programs: the findings and all tables."""
    sheets = [sheet for of_gpu in made.figures for sheet in snapshot_sheets(of_gpu)]
    return {
        "profile": made.snapshot.name,
        "zero_ns": made.start_ns,
        "tables": tables_json([findings_sheet(made.findings), *sheets]),
        "health": health_json(made.snapshot.health),
    }


@dataclass(frozen=True, slots=True)
class TimelineClock:
    """A report's own time against the wall clock, which a snapshot has."""

    wall_zero_ns: int
    """The wall clock at the trace's instant 0."""
    zero_ns: int
    """The trace's instant that the report tells times from."""
    window: Span

    def told_ns(self, wall_ns: int) -> int:
        """An instant of the snapshot as the report tells it."""
        return wall_ns - self.wall_zero_ns - self.zero_ns

    @property
    def wall_window(self) -> Span:
        """What the report looks at, on the wall clock."""
        return Span(self.window.start_ns + self.wall_zero_ns, self.window.end_ns + self.wall_zero_ns)


def memory_blocks(made: AnalysedSnapshot, clock: TimelineClock | None) -> list[Block]:
    """What stands in a report beside the time: the answer, and the findings."""
    answers = answer_on_timeline(made, clock)
    return [Heading(say("Who holds the memory")), Remarks(tuple(answers)), *map(finding_points, made.findings)]


def answer_on_timeline(made: AnalysedSnapshot, clock: TimelineClock | None) -> list[Message]:
    """The answer, and where on the report's timeline the peak is."""
    answers = [message for of_gpu in made.figures for message in snapshot_answer(of_gpu)] or [_nothing(made.snapshot)]
    for figures in made.figures:
        instant = figures.instant_ns(figures.peak.moment)
        if clock is None or instant is None:
            answers.append(
                say("The profile does not say when it was on the wall clock, so the two are not on one time.")
            )
            break
        inside = clock.wall_window.start_ns <= instant <= clock.wall_window.end_ns
        told = instant_text(clock.told_ns(instant))
        answers.append(
            say("GPU {gpu}: the peak is at {time} of this timeline.", gpu=figures.gpu, time=told)
            if inside
            else say("GPU {gpu}: the peak is at {time}, outside of what is shown here.", gpu=figures.gpu, time=told)
        )
    return answers


def timeline_chart(figures: SnapshotFigures, clock: TimelineClock, ends: tuple[str, str]) -> Callable[[Tell], Drawing]:
    """The curve over the report's window."""
    window = clock.wall_window
    return lambda tell: _chart(figures, tell, window.start_ns, window.end_ns, ends)


def sheet_blocks(sheets: Sequence[Sheet]) -> list[Block]:
    """Tables with rows, each under its title."""
    return [block for sheet in sheets if sheet.rows for block in (Heading(sheet.title), SheetBlock(sheet))]


def _nothing(snapshot: MemorySnapshot) -> Message:
    return say("{name}: the allocator held nothing, and no event was recorded.", name=snapshot.name)


def _unmatched(figures: SnapshotFigures) -> Message:
    return say(
        "GPU {gpu}: {count} events of the allocator fit to no other; sums may be off by their bytes.",
        gpu=figures.gpu,
        count=count_text(figures.unmatched_events),
    )


def snapshot_answer(figures: SnapshotFigures) -> list[Message]:
    """One GPU's answer: why memory ran out, or the peak; then what was there before the history."""
    named = figures.peak_named
    since = figures.since_start_ns(figures.peak.moment)
    if not figures.has_history:
        told = say(
            "GPU {gpu}: {size} allocated of {reserved} reserved when the snapshot was taken; no history was recorded.",
            gpu=figures.gpu,
            size=bytes_text(figures.end.allocated_bytes),
            reserved=bytes_text(figures.end.reserved_bytes),
        )
        return [told, say("Fix: record one with `gpuledger capture torch --memory`, to see the peak and who held it.")]
    answer = [
        say(
            "GPU {gpu}: peak {peak} allocated, {when}; {reserved} reserved at most.",
            gpu=figures.gpu,
            peak=bytes_text(figures.peak_bytes),
            when=say("time not recorded") if since is None else say("{time} into the history", time=time_text(since)),
            reserved=bytes_text(figures.reserved_peak_bytes),
        )
    ]
    if named is not None:
        held = {
            "size": bytes_text(named.size_bytes),
            "share": share_text(named.size_bytes / max(figures.peak_bytes, 1)),
            "place": holder_words(named),
        }
        is_most = named is figures.peak_stacks[0]
        answer.append(
            say("Most of the peak: {size} ({share}), {place}.", **held)
            if is_most
            else say("Most of the peak, of what has a stack: {size} ({share}), {place}.", **held)
        )
    if figures.early_bytes:
        answer.append(
            say(
                "{size} was allocated before the history began; record from the start to see by whom.",
                size=bytes_text(figures.early_bytes),
            )
        )
    if figures.out_of_memories:
        failed = figures.out_of_memories[-1]
        answer.insert(
            0,
            say(
                "GPU {gpu}: out of memory: {request} did not fit, asked for by {place}.",
                gpu=figures.gpu,
                request=bytes_text(failed.request_bytes),
                place=place_words(failed.path),
            ),
        )
    return answer


def finding_points(found: Finding) -> Points:
    """A finding: its code and claim, what to do, and the evidence."""
    fix = [say("fix: {what}", what=found.fix)] if found.fix else []
    more = say("next: {command}", command=found.next)
    title = say("{code}: {claim}", code=found.code, claim=found.claim)
    return Points(title, (*fix, *(piece.sentence for piece in found.evidence), more))


def findings_sheet(findings: Sequence[Finding]) -> Sheet:
    """Findings for programs."""
    rows = tuple(
        (found.code, found.gpu, capitalised(found.claim), found.fix or "", found.confidence) for found in findings
    )
    return Sheet("findings", say("What to do"), _FINDINGS, rows)


def snapshot_sheets(figures: SnapshotFigures) -> list[Sheet]:
    """The tables of one GPU."""
    gpu = figures.gpu
    sheets = [
        moments_sheet(figures),
        _held_sheet(
            f"peak_lines_gpu{gpu}", say("Peak by line, GPU {gpu}", gpu=gpu), figures.peak_lines, figures.peak_bytes
        ),
        _held_sheet(
            f"peak_stacks_gpu{gpu}", say("Peak by stack, GPU {gpu}", gpu=gpu), figures.peak_stacks, figures.peak_bytes
        ),
    ]
    for failed in figures.out_of_memories[-1:]:
        title = say("Held when memory ran out, GPU {gpu}", gpu=gpu)
        sheets.append(_held_sheet(f"oom_held_gpu{gpu}", title, failed.held, failed.layout.allocated_bytes))
    return [*sheets, _leak_sheet(figures), _segment_sheet(figures), _churn_sheet(figures)]


def _held_sheet(name: str, title: str, held: Sequence[Holder], whole: int) -> Sheet:
    def row(holder: Holder) -> tuple[Cell, ...]:
        return _holder_cell(holder), holder.size_bytes, 100 * holder.size_bytes / max(whole, 1), holder.allocations

    shown = with_rest(held)
    total: tuple[Cell, ...] = (say("total"), whole, 100.0, sum(holder.allocations for holder in held))
    return Sheet(name, title, _HELD, tuple(map(row, shown)), (total,) if shown else ())


def _holder_cell(holder: Holder) -> Cell:
    if isinstance(holder.place, NoPlace):
        return Term(holder.place.name.lower(), holder_words(holder))
    return _path_cell(holder.path) if holder.path else holder.place


def _path_cell(path: Sequence[str]) -> Cell:
    """A path, the innermost function first: its beginning for people, all of it for programs."""
    if not path:
        return Term("no_stack", say("no recorded stack"))
    whole = " < ".join(path)
    return Term(whole, " < ".join((*path[:_SHOWN], "…"))) if len(path) > _SHOWN else whole


def moments_sheet(figures: SnapshotFigures) -> Sheet:
    """The parts of what was reserved, when the most was allocated, when memory ran out, and at the end."""
    moments = [(say("peak"), figures.peak)]
    moments += [(say("out of memory"), failed.layout) for failed in figures.out_of_memories]
    moments.append((say("end"), figures.end))
    rows = tuple(_moment_row(figures, name, moment) for name, moment in moments)
    title = say("Reserved memory and its parts, GPU {gpu}", gpu=figures.gpu)
    return Sheet(f"reserved_gpu{figures.gpu}", title, _MOMENTS, rows)


def _moment_row(figures: SnapshotFigures, name: str, moment: MemoryMoment) -> tuple[Cell, ...]:
    return (
        name,
        figures.since_start_ns(moment.moment),
        moment.reserved_bytes,
        moment.allocated_bytes,
        moment.awaiting_bytes,
        moment.stranded_bytes,
        moment.releasable_bytes,
        moment.largest_free_bytes,
    )


def _leak_sheet(figures: SnapshotFigures) -> Sheet:
    rows = tuple(
        (_path_cell(leak.path), leak.size_bytes, leak.allocations, leak.steps) for leak in figures.leaks.leaks[:10]
    )
    title = say("Never freed, step after step, GPU {gpu}", gpu=figures.gpu)
    return Sheet(f"leaks_gpu{figures.gpu}", title, _LEAKS, rows)


def _segment_sheet(figures: SnapshotFigures) -> Sheet:
    """Of the end, or of when memory ran out: segments that cannot be given back."""
    moment = figures.out_of_memories[-1].layout if figures.out_of_memories else figures.end
    rows = tuple(
        (
            f"0x{segment.address:x}",
            segment.size_bytes,
            segment.active_bytes,
            segment.free_bytes,
            segment.largest_free_bytes,
            segment.blocks,
        )
        for segment in moment.partly_used
    )
    title = say("Segments with stranded memory, GPU {gpu}", gpu=figures.gpu)
    return Sheet(f"segments_gpu{figures.gpu}", title, _SEGMENTS, rows)


def _churn_sheet(figures: SnapshotFigures) -> Sheet:
    rows = tuple(
        (_path_cell(churned.path), churned.size_bytes, churned.allocations, churned.median_life_ns)
        for churned in figures.short_lived
    )
    title = say("Allocated and freed again, GPU {gpu}", gpu=figures.gpu)
    return Sheet(f"short_lived_gpu{figures.gpu}", title, _CHURN, rows)


def picture_blocks(figures: Sequence[SnapshotFigures]) -> list[Block]:
    """Memory over time and over events, on a page."""
    blocks: list[Block] = []
    for of_gpu in figures:
        if of_gpu.start_ns is not None:
            title = say("Memory over time, GPU {gpu}", gpu=of_gpu.gpu)
            blocks += [Heading(title), Picture(f"memory-time-gpu{of_gpu.gpu}", partial(snapshot_chart, of_gpu))]
        if of_gpu.has_history:
            title = say("Memory event by event, GPU {gpu}", gpu=of_gpu.gpu)
            blocks += [Heading(title), Picture(f"memory-events-gpu{of_gpu.gpu}", partial(_events_chart, of_gpu))]
    return blocks


def snapshot_chart(figures: SnapshotFigures, tell: Tell) -> Drawing:
    """Allocated as an area, reserved as a line over it, from the first event to the last."""
    start, end = figures.start_ns or 0, figures.instant_ns(figures.end.moment) or 1
    return _chart(figures, tell, start, end, ("0", time_text(end - start)))


def _events_chart(figures: SnapshotFigures, tell: Tell) -> Drawing:
    ends = "0", tell(say("{count} events", count=count_text(len(figures.memory.history))))
    return _drawn(figures, memory_curve_by_event(figures), tell, ends)


def _chart(figures: SnapshotFigures, tell: Tell, start_ns: int, end_ns: int, ends: tuple[str, str]) -> Drawing:
    return _drawn(figures, memory_curve(figures, start_ns, end_ns), tell, ends)


def _drawn(figures: SnapshotFigures, curve: MemoryCurve, tell: Tell, ends: tuple[str, str]) -> Drawing:
    from gpuledger.present.charts.over_time import memory_area

    said = tell(
        say(
            "Peak {peak} allocated, {reserved} reserved",
            peak=bytes_text(figures.peak_bytes),
            reserved=bytes_text(figures.reserved_peak_bytes),
        )
    )
    title = tell(say("Device memory: allocated (area) and reserved (line)"))
    names = tell(say("Allocated")), tell(say("Reserved"))
    return memory_area(title, said, curve.allocated_bytes, ends, curve.reserved_bytes, names)
