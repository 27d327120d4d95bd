"""A memory snapshot for people: what to know and do first, then who holds the peak, leaks, fragmentation, churn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.memory.allocations import Holder, NoPlace
from gpuledger.analyse.memory.snapshot_figures import MemoryCurve, SnapshotFigures
from gpuledger.answers.memory_snapshot import SnapshotAnswer
from gpuledger.findings.memory import holder_words, moment_words, place_words
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.messages import Message, capitalised, say
from gpuledger.present import document as doc
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit, share_column
from gpuledger.present.views.tables import answer_blocks, tables_document, tables_page
from gpuledger.regex import regex
from gpuledger.trace.model import Severity
from gpuledger.trace.spans import Span
from gpuledger.units import bytes_text, count_text, instant_text, share_text, time_text

_SHOWN: Final = 2
"""Functions of a path that a table has room for."""

_MOST_HOLDERS: Final = 10
_MOST_LEAKS: Final = 10

_WHERE: Final = Column("where", say("Allocated by"), Unit.TEXT, lambda held: _path_cell(held.path))
_SIZE: Final = Column("bytes", "MB", Unit.MB, "size_bytes", page_name=say("Size"))
_COUNT: Final = Column("allocations", say("Allocations"), Unit.COUNT)
_MOMENTS: Final = (
    Column("moment", say("Moment"), Unit.TEXT),
    Column("since_start_ns", say("After"), Unit.NS),
    Column("reserved_bytes", say("Reserved, MB"), Unit.MB, page_name=say("Reserved")),
    Column("allocated_bytes", say("Allocated, MB"), Unit.MB, page_name=say("Allocated")),
    Column("awaiting_bytes", say("Awaiting free, MB"), Unit.MB, detail=2, page_name=say("Awaiting free")),
    Column("stranded_bytes", say("Fragmented, MB"), Unit.MB, page_name=say("Fragmented")),
    Column("releasable_bytes", say("Can be given back, MB"), Unit.MB, page_name=say("Can be given back")),
    Column("largest_free_bytes", say("Largest fragment, MB"), Unit.MB, detail=1, page_name=say("Largest fragment")),
)
_SEGMENTS: Final = (
    Column("address", say("Segment"), Unit.TEXT, lambda segment: f"0x{segment.address:x}"),
    Column("total_bytes", "MB", Unit.MB, "size_bytes", page_name=say("Size")),
    Column("used_bytes", say("In use, MB"), Unit.MB, "active_bytes", page_name=say("In use")),
    Column("free_bytes", say("Free, MB"), Unit.MB, page_name=say("Free")),
    Column("largest_free_bytes", say("Largest free, MB"), Unit.MB, page_name=say("Largest free")),
    Column("blocks", say("Blocks"), Unit.COUNT),
)
_LEAKS: Final = (_WHERE, _SIZE, _COUNT, Column("steps", say("In steps"), Unit.COUNT))
_CHURN: Final = (_WHERE, _SIZE, _COUNT, Column("median_life_ns", say("Lives (median)"), Unit.NS))
_FINDINGS: Final = (
    Column("code", say("Finding"), Unit.TEXT),
    Column("gpu", "GPU", Unit.ID),
    Column("claim", say("Claim"), Unit.TEXT, lambda finding: capitalised(finding.claim)),
    Column("fix", say("Fix"), Unit.TEXT, lambda finding: finding.fix or ""),
    Column("confidence", say("Confidence"), Unit.TEXT),
)


def snapshot_document(analysed: SnapshotAnswer, *, is_brief: bool = False) -> doc.Document:
    """The whole answer, also for `report`; JSON is the document gpuledger.memory/1."""
    snapshot, answers = analysed.snapshot, _answers(analysed)
    findings, *sheets = sheets_with_findings(analysed)
    notes = [
        say("Note: {sentence}.", sentence=note.sentence)
        for note in snapshot.health
        if note.severity in (Severity.LOSS, Severity.WARNING)
    ]
    notes += [
        say(
            "GPU {gpu}: {count} events of the allocator fit to no other; sums may be off by their bytes.",
            gpu=figures.gpu,
            count=count_text(figures.lives.unmatched),
        )
        for figures in analysed.figures
        if figures.lives.unmatched
    ]
    shown = [] if is_brief else [sheet for sheet in sheets if sheet.rows]
    tables = tables_document("memory", snapshot.name, [findings, *sheets], snapshot.health, analysed.start_ns)
    return replace(
        tables,
        blocks=lambda: (
            *answer_blocks(answers),
            snapshot_findings(analysed),
            *(doc.SheetBlock(sheet, doc.SheetTitle.BARE, tells_hidden=True) for sheet in shown),
            *([doc.Remarks(tuple(notes))] if notes else []),
        ),
        remarks=tuple(notes),
        page=lambda: tables_page(
            snapshot.name,
            [doc.Paragraph(answer) for answer in answers],
            [],
            more=[
                *picture_blocks(analysed),
                doc.Heading(say("What to do")),
                *([snapshot_findings(analysed)] if analysed.findings else []),
                *sheet_blocks(sheets),
            ],
        ),
    )


class TimelineClock(Struct, frozen=True):
    """A report's own time against the wall clock, which a snapshot has."""

    wall_zero_ns: int
    """The wall clock at the trace's instant 0."""
    zero_ns: int
    """The trace's instant that the report tells times from."""
    window: Span

    @classmethod
    def of(cls, report: ProfiledRun) -> TimelineClock | None:
        """The clock of a report; None where its profile does not say when it was on the wall clock."""
        wall_zero_ns = report.trace.origin.wall_zero_ns
        return None if wall_zero_ns is None else cls(wall_zero_ns, report.zero_ns, report.window)

    def told_ns(self, wall_ns: int) -> int:
        """An instant of the snapshot as the report tells it."""
        return wall_ns - self.wall_zero_ns - self.zero_ns

    @property
    def wall_window(self) -> Span:
        """What the report looks at, on the wall clock."""
        return Span(self.window.start_ns + self.wall_zero_ns, self.window.end_ns + self.wall_zero_ns)


def memory_blocks(analysed: SnapshotAnswer, clock: TimelineClock | None) -> list[doc.Block]:
    """What stands in a report beside the time: the answer, and the findings."""
    answers = answer_on_timeline(analysed, clock)
    return [doc.Heading(say("Who holds the memory")), doc.Remarks(tuple(answers)), snapshot_findings(analysed)]


def answer_on_timeline(analysed: SnapshotAnswer, clock: TimelineClock | None) -> list[Message]:
    """The answer, and where on the report's timeline the peak is."""
    answers = _answers(analysed)
    for figures in analysed.figures:
        instant = figures.instant_ns(figures.peak.moment)
        if clock is None or instant is None:
            answers.append(
                say("The profile does not say when it was on the wall clock, so the two are not on one time.")
            )
            break
        inside = clock.wall_window.start_ns <= instant <= clock.wall_window.end_ns
        time = instant_text(clock.told_ns(instant))
        answers.append(
            say("GPU {gpu}: the peak is at {time} of this timeline.", gpu=figures.gpu, time=time)
            if inside
            else say("GPU {gpu}: the peak is at {time}, outside of what is shown here.", gpu=figures.gpu, time=time)
        )
    return answers


def sheet_blocks(sheets: Sequence[Sheet]) -> list[doc.Block]:
    """Tables with rows, each under its title."""
    return [block for sheet in sheets if sheet.rows for block in (doc.Heading(sheet.title), doc.SheetBlock(sheet))]


def _answers(analysed: SnapshotAnswer) -> list[Message]:
    nothing = say("{name}: the allocator held nothing, and no event was recorded.", name=analysed.snapshot.name)
    leaks = {finding.gpu: finding.claim for finding in analysed.findings if finding.code == "MEM-LEAK"}
    answers = (_gpu_answer(figures, leaks.get(figures.gpu)) for figures in analysed.worst_first)
    return [message for answer in answers for message in answer] or [nothing]


def _gpu_answer(figures: SnapshotFigures, leak: Message | str | None) -> list[Message]:
    """One GPU's answer: why memory ran out, what leaks, or the peak; then what was there before the history."""
    named = figures.peak_named
    since = figures.since_start_ns(figures.peak.moment)
    if not figures.has_history:
        state = say(
            "GPU {gpu}: {size} allocated of {reserved} reserved when the snapshot was taken; no history was recorded.",
            gpu=figures.gpu,
            size=bytes_text(figures.end.allocated_bytes),
            reserved=bytes_text(figures.end.reserved_bytes),
        )
        return [state, say("Fix: record one with `gpuledger capture torch --memory`, to see the peak and who held it.")]
    when = moment_words(figures, figures.peak)
    if figures.peak.moment >= 0 and since is not None:
        when = say("{time} into the history", time=time_text(since))
    answer = [
        say(
            "GPU {gpu}: peak {peak} allocated, {when}; {reserved} reserved at most.",
            gpu=figures.gpu,
            peak=bytes_text(figures.peak_bytes),
            when=when,
            reserved=bytes_text(figures.reserved_peak_bytes),
        )
    ]
    if named is not None:
        most = {
            "size": bytes_text(named.size_bytes),
            "share": share_text(named.size_bytes / max(figures.peak_bytes, 1)),
            "place": holder_words(named),
        }
        is_most = named is figures.peak_stacks[0]
        answer.append(
            say("Most of the peak: {size} ({share}), {place}.", **most)
            if is_most
            else say("Most of the peak, of what has a stack: {size} ({share}), {place}.", **most)
        )
    if figures.early_bytes:
        answer.append(
            say(
                "{size} was allocated before the history began; record from the start to see by whom.",
                size=bytes_text(figures.early_bytes),
            )
        )
    if leak is not None:
        answer.insert(0, say("GPU {gpu}: {claim}.", gpu=figures.gpu, claim=leak))
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


def snapshot_findings(analysed: SnapshotAnswer) -> doc.Findings:
    """What to do about memory; of several GPUs, each finding says of which."""
    findings = analysed.findings
    if len(analysed.figures) > 1:
        findings = tuple(
            found
            if found.code == "MEM-OOM"
            else replace(found, claim=say("GPU {gpu}: {claim}", gpu=found.gpu, claim=found.claim))
            for found in findings
        )
    return doc.Findings(
        tuple(doc.ShownFinding(finding, fix=finding.fix) for finding in findings), form=doc.FindingsForm.POINTS
    )


def sheets_with_findings(analysed: SnapshotAnswer) -> list[Sheet]:
    """For programs: the findings, then the tables of all GPUs."""
    return [Sheet.of("findings", say("What to do"), _FINDINGS, analysed.findings), *snapshot_sheets(analysed)]


def snapshot_sheets(analysed: SnapshotAnswer) -> list[Sheet]:
    """The tables of all GPUs."""
    return [sheet for figures in analysed.figures for sheet in _gpu_sheets(figures)]


def _gpu_sheets(figures: SnapshotFigures) -> Iterator[Sheet]:
    """What was reserved at which moment, who held the peak, and what leaks, is stranded, or is allocated too often."""
    gpu, failures = figures.gpu, figures.out_of_memories
    moments = [
        (say("peak"), figures.peak),
        *((say("out of memory"), failed.layout) for failed in failures),
        (say("end"), figures.end),
    ]
    sizes = [column.key for column in _MOMENTS[2:]]
    reserved = [
        {"moment": name, "since_start_ns": figures.since_start_ns(layout.moment)}
        | {size: getattr(layout, size) for size in sizes}
        for name, layout in moments
    ]
    yield Sheet.of(f"reserved_gpu{gpu}", say("Reserved memory and its parts, GPU {gpu}", gpu=gpu), _MOMENTS, reserved)
    by_line, by_stack = say("Peak by line, GPU {gpu}", gpu=gpu), say("Peak by stack, GPU {gpu}", gpu=gpu)
    yield _held_sheet(f"peak_lines_gpu{gpu}", by_line, figures.peak_lines, figures.peak_bytes)
    yield _held_sheet(f"peak_stacks_gpu{gpu}", by_stack, figures.peak_stacks, figures.peak_bytes)
    for failed in failures[-1:]:
        title = say("Held when memory ran out, GPU {gpu}", gpu=gpu)
        yield _held_sheet(f"oom_held_gpu{gpu}", title, failed.held, failed.layout.allocated_bytes)
    leaks, layout = figures.leaks.leaks[:_MOST_LEAKS], failures[-1].layout if failures else figures.end
    yield Sheet.of(f"leaks_gpu{gpu}", say("Never freed, step after step, GPU {gpu}", gpu=gpu), _LEAKS, leaks)
    title = say("Segments with fragmented memory, GPU {gpu}", gpu=gpu)
    yield Sheet.of(f"segments_gpu{gpu}", title, _SEGMENTS, layout.partly_used)
    title = say("Allocated and freed again, GPU {gpu}", gpu=gpu)
    yield Sheet.of(f"short_lived_gpu{gpu}", title, _CHURN, figures.short_lived)


def _held_sheet(name: str, title: str, holders: Sequence[Holder], whole: int) -> Sheet:
    columns = replace(_WHERE, get=_holder_cell), _SIZE, share_column("share", say("Share"), "size_bytes", whole), _COUNT
    count = sum(holder.allocations for holder in holders)
    total = {"where": say("total"), "bytes": whole, "share": 100.0, "allocations": count}
    return Sheet.of(name, title, columns, with_rest(holders), [total] if holders else [])


def with_rest(held: Sequence[Holder]) -> tuple[Holder, ...]:
    """The first ones, and the others as one line: the sum stays."""
    others = held[_MOST_HOLDERS:]
    if len(others) < 2:  # one line for one other saves none
        return tuple(held)
    rest = Holder(NoPlace.REST, (), sum(one.size_bytes for one in others), sum(one.allocations for one in others))
    return (*held[:_MOST_HOLDERS], rest)


def _holder_cell(holder: Holder) -> Cell:
    if isinstance(holder.place, NoPlace):
        return Term(holder.place.name.lower(), holder_words(holder))
    return _path_cell(holder.path) if holder.path else holder.place


def _path_cell(path: Sequence[str]) -> Cell:
    """A path, the innermost function first: its beginning for people, all of it for programs."""
    if not path:
        return Term("no_stack", say("no recorded stack"))
    whole = " < ".join(path)
    shown = [_FOLDERS.sub("(…/", frame) for frame in path[:_SHOWN]]
    words = " < ".join((*shown, "…")) if len(path) > _SHOWN else " < ".join(shown)
    return Term(whole, words) if words != whole else whole


_FOLDERS: Final = regex(r"\((?:[^()/]+/){2,}(?=[^()/]+/[^()/]+\)$)")
"""Those of a package before its last, where there are several more: a table has no room for them."""


def picture_blocks(analysed: SnapshotAnswer) -> list[doc.Block]:
    """Memory over time and over events, on a page."""
    blocks: list[doc.Block] = []
    over_time, by_event = analysed.over_time(), analysed.by_event
    for figures in analysed.worst_first:
        gpu, span = figures.gpu, figures.history_span
        if span is not None:
            ends = ("0", time_text(span.end_ns - span.start_ns))
            title = say("Memory over time, GPU {gpu}", gpu=gpu)
            blocks += [doc.Heading(title), memory_chart(figures, f"memory-time-gpu{gpu}", over_time[gpu], ends)]
        if figures.has_history:
            ends = ("0", say("{count} events", count=count_text(len(figures.memory.history))))
            title = say("Memory event by event, GPU {gpu}", gpu=gpu)
            blocks += [doc.Heading(title), memory_chart(figures, f"memory-events-gpu{gpu}", by_event[gpu], ends)]
    return blocks


def _line_words(holder: Holder) -> str:
    return holder_words(holder) if isinstance(holder.place, NoPlace) else _FOLDERS.sub("(…/", holder.place)


def memory_chart(figures: SnapshotFigures, name: str, curve: MemoryCurve, ends: tuple[str, str]) -> doc.Chart:
    """Allocated as an area, in bands by who holds it, which a click names; reserved as a line over it."""
    from gpuledger.present.charts.over_time import Band, memory_area  # text has no charts

    def hint(held: Holder) -> str:
        return say(
            "{size} at most, {count} allocations: {place}",
            size=bytes_text(held.size_bytes),
            count=count_text(held.allocations),
            place=" < ".join(held.path) or holder_words(held),
        )

    said = say(
        "Peak {peak} allocated, {reserved} reserved",
        peak=bytes_text(figures.peak_bytes),
        reserved=bytes_text(figures.reserved_peak_bytes),
    )
    title = say("Device memory: allocated (area) and reserved (line)")
    bands = [Band(band.held_bytes, _line_words(band.holder), hint(band.holder)) for band in curve.bands]
    draw = partial(memory_area, title, said, bands, ends, curve.reserved_bytes, say("Reserved"))
    return doc.Chart(draw, name)
