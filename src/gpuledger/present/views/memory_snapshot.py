"""Who holds a GPU's memory, from a memory snapshot of PyTorch: the peak, leaks, fragmentation, out-of-memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.memory.allocations import Holder, MemoryMoment, NoPlace
from gpuledger.analyse.memory.snapshot_figures import (
    MemoryCurve,
    SnapshotFigures,
    memory_curve,
    memory_curve_by_event,
    snapshot_figures,
)
from gpuledger.findings.finding import Finding
from gpuledger.findings.memory.snapshot_findings import snapshot_findings as findings_of
from gpuledger.findings.memory.snapshot_words import holder_words, moment_words, place_words
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.messages import Message, capitalised, say
from gpuledger.present import document as doc
from gpuledger.present.row_sheets import row_from
from gpuledger.present.views.answer import Answer, health_rows
from gpuledger.regex import regex
from gpuledger.rows import Gpu, Label, Row, Unit
from gpuledger.trace.measured import MemorySnapshot
from gpuledger.trace.model import Severity
from gpuledger.trace.spans import Span
from gpuledger.units import bytes_text, count_text, instant_text, share_text, time_text

_SHOWN: Final = 2
"""Functions of a path that a table has room for."""

_MOST_HOLDERS: Final = 10
_MOST_LEAKS: Final = 10

_FOLDERS: Final = regex(r"\((?:[^()/]+/){2,}(?=[^()/]+/[^()/]+\)$)")
"""Those of a package before its last, where there are several more: a table has no room for them."""


def _stack_words(stack: tuple[str, ...] | NoPlace) -> str:
    """The innermost functions."""
    if isinstance(stack, NoPlace):
        return stack.label
    shown = [_FOLDERS.sub("(…/", frame) for frame in stack[: -_SHOWN - 1 : -1]]
    return " < ".join((*shown, "…") if len(stack) > _SHOWN else shown)


Stack = Annotated[
    tuple[str, ...] | NoPlace,
    Label(
        say("Allocated by"),
        words=_stack_words,
        meaning="functions of the program as `name (file.py:12)`, outermost first; where none is known, why",
    ),
]


class MemoryFindingRow(Row, frozen=True):
    """What to do about memory."""

    code: Annotated[str, Label(say("Finding"))]
    gpu: Gpu
    claim: Annotated[str, Label(say("Claim"), is_prose=True)]
    fix: Annotated[str | None, Label(say("Fix"), is_prose=True)]
    confidence: Annotated[str, Label(say("Confidence"))]


class ReservedRow(Row, frozen=True):
    """What was reserved at one moment; the four parts after it sum to it."""

    gpu: Gpu
    moment: Annotated[str, Label(say("Moment"))]
    since_start_ns: Annotated[int | None, Label(say("After"), Unit.NS, meaning="the beginning of the history")]
    reserved_bytes: Annotated[int, Label(say("Reserved"), Unit.BYTES)]
    allocated_bytes: Annotated[int, Label(say("Allocated"), Unit.BYTES)]
    awaiting_bytes: Annotated[int, Label(say("Awaiting free"), Unit.BYTES, detail=2)]
    stranded_bytes: Annotated[int, Label(say("Fragmented"), Unit.BYTES, meaning="free in segments that hold something")]
    releasable_bytes: Annotated[int, Label(say("Can be given back"), Unit.BYTES)]
    largest_free_bytes: Annotated[
        int, Label(say("Largest fragment"), Unit.BYTES, detail=1, meaning="the largest piece of what is fragmented")
    ]


class HolderRow(Row, frozen=True):
    """What allocations of one place hold at one moment."""

    gpu: Gpu
    stack: Stack
    size_bytes: Annotated[int, Label(say("Size"), Unit.BYTES, is_summed=True)]
    share: Annotated[float, Label(say("Share"), Unit.SHARE, meaning="of what is allocated", is_summed=True)]
    allocations: Annotated[int, Label(say("Allocations"), Unit.COUNT, is_summed=True)]


class LeakRow(Row, frozen=True):
    """Allocations of one stack that are never freed, step after step."""

    gpu: Gpu
    stack: Stack
    size_bytes: Annotated[int, Label(say("Size"), Unit.BYTES)]
    allocations: Annotated[int, Label(say("Allocations"), Unit.COUNT)]
    steps: Annotated[int, Label(say("In steps"), Unit.COUNT, meaning="that leave something behind")]


class SegmentRow(Row, frozen=True):
    """A segment of the allocator that holds something and has free memory."""

    gpu: Gpu
    address: Annotated[int, Label(say("Segment"), Unit.ID, words=hex)]
    size_bytes: Annotated[int, Label(say("Size"), Unit.BYTES)]
    used_bytes: Annotated[int, Label(say("In use"), Unit.BYTES)]
    free_bytes: Annotated[int, Label(say("Free"), Unit.BYTES)]
    largest_free_bytes: Annotated[int, Label(say("Largest free"), Unit.BYTES)]
    blocks: Annotated[int, Label(say("Blocks"), Unit.COUNT)]


class ShortLivedRow(Row, frozen=True):
    """Allocations of one stack that were freed again within the history."""

    gpu: Gpu
    stack: Stack
    size_bytes: Annotated[int, Label(say("Size"), Unit.BYTES)]
    allocations: Annotated[int, Label(say("Allocations"), Unit.COUNT)]
    median_life_ns: Annotated[int | None, Label(say("Lives (median)"), Unit.NS)]


class AnalysedSnapshot(Struct, frozen=True):
    """A snapshot with its figures of each GPU and its findings."""

    snapshot: MemorySnapshot
    figures: tuple[SnapshotFigures, ...]
    findings: tuple[Finding, ...]

    @property
    def worst_first(self) -> list[SnapshotFigures]:
        """GPUs that ran out of memory, then those that leak, then the others."""
        leaking = {finding.gpu for finding in self.findings if finding.code == "MEM-LEAK"}
        return sorted(self.figures, key=lambda of_gpu: (not of_gpu.out_of_memories, of_gpu.gpu not in leaking))

    @property
    def start_ns(self) -> int:
        """When the history begins; 0 where no times were noted."""
        return next((of_gpu.start_ns for of_gpu in self.figures if of_gpu.start_ns is not None), 0)

    def over_time(self, window: Span | None = None) -> dict[int, MemoryCurve]:
        """Memory of each GPU over a stretch of the wall clock; by default over its history, where that has times."""
        return {
            of_gpu.gpu: memory_curve(self.snapshot, of_gpu, *span)
            for of_gpu in self.figures
            if (span := window or of_gpu.history_span) is not None
        }

    @property
    def by_event(self) -> dict[int, MemoryCurve]:
        """Memory of each GPU with a history, event by event."""
        of_gpus = [of_gpu for of_gpu in self.figures if of_gpu.has_history]
        return {of_gpu.gpu: memory_curve_by_event(self.snapshot, of_gpu) for of_gpu in of_gpus}


class MemorySnapshotAnswer(Answer, frozen=True, kw_only=True, dict=True, tag="gpuledger.memorysnapshot/1"):
    """Who holds each GPU's memory. `zero_ns` is the wall clock, in ns since 1970, when the history begins."""

    findings: Annotated[tuple[MemoryFindingRow, ...], Label(say("What to do"))]
    reserved: Annotated[tuple[ReservedRow, ...], Label(say("Reserved memory and its parts"))]
    peak_by_line: Annotated[tuple[HolderRow, ...], Label(say("Peak by line"))]
    peak_by_stack: Annotated[tuple[HolderRow, ...], Label(say("Peak by stack"))]
    held_at_oom: Annotated[tuple[HolderRow, ...], Label(say("Allocations live when memory ran out"))]
    leaks: Annotated[tuple[LeakRow, ...], Label(say("Grows every step"))]
    segments: Annotated[tuple[SegmentRow, ...], Label(say("Segments with fragmented memory"))]
    short_lived: Annotated[tuple[ShortLivedRow, ...], Label(say("Allocated and freed again"))]

    analysed: ClassVar[AnalysedSnapshot]
    """Of an answer: what charts are drawn from. JSON does not have it."""

    def opening(self) -> tuple[doc.Block, ...]:
        """The answer, and what to do."""
        first, *others = self.sentences
        remarks = [doc.Remarks(tuple(others))] if others else []
        return doc.Conclusion(first), *remarks, shown_findings(self.analysed)

    def shown(self) -> list[str]:
        return [name for name in super().shown() if name != "findings"]

    def blocks(self) -> Iterator[doc.Block]:
        yield from self.opening()
        yield from self.table_blocks()

    def table_blocks(self) -> Iterator[doc.SheetBlock]:
        """Tables with rows."""
        for name in self.shown():
            if getattr(self, name):
                yield doc.SheetBlock(self.sheet(name), doc.SheetTitle.NAMED, tells_hidden=True)

    def page(self) -> doc.Page:
        *answer, findings = self.opening()
        pictures = picture_blocks(self.analysed)
        return doc.page_of(
            self.profile, (*answer, *pictures, doc.Heading(say("What to do")), findings, *self.table_blocks())
        )


def snapshot_answer(snapshot: MemorySnapshot) -> MemorySnapshotAnswer:
    """All that is said of a snapshot."""
    figures = snapshot_figures(snapshot)
    analysed = AnalysedSnapshot(snapshot, figures, findings_of(snapshot, figures))
    failed = [(of_gpu, of_gpu.out_of_memories[-1]) for of_gpu in figures if of_gpu.out_of_memories]
    answer = MemorySnapshotAnswer(
        profile=snapshot.name,
        zero_ns=analysed.start_ns,
        sentences=(*_answers(analysed), *_notes(analysed)),
        health=health_rows(snapshot.health),
        findings=tuple(
            MemoryFindingRow(found.code, found.gpu, capitalised(found.claim), found.fix, found.confidence)
            for found in analysed.findings
        ),
        reserved=tuple(row for of_gpu in figures for row in _reserved(of_gpu)),
        peak_by_line=tuple(
            row for of_gpu in figures for row in _holders(of_gpu.gpu, of_gpu.peak_lines, of_gpu.peak_bytes)
        ),
        peak_by_stack=tuple(
            row for of_gpu in figures for row in _holders(of_gpu.gpu, of_gpu.peak_stacks, of_gpu.peak_bytes)
        ),
        held_at_oom=tuple(
            row for of_gpu, oom in failed for row in _holders(of_gpu.gpu, oom.held, oom.layout.allocated_bytes)
        ),
        leaks=tuple(
            LeakRow(of_gpu.gpu, _stack(leak.path), leak.size_bytes, leak.allocations, leak.steps)
            for of_gpu in figures
            for leak in of_gpu.leaks.leaks[:_MOST_LEAKS]
        ),
        segments=tuple(row for of_gpu in figures for row in _segments(of_gpu)),
        short_lived=tuple(
            ShortLivedRow(of_gpu.gpu, _stack(churn.path), churn.size_bytes, churn.allocations, churn.median_life_ns)
            for of_gpu in figures
            for churn in of_gpu.short_lived
        ),
    )
    vars(answer)["analysed"] = analysed
    return answer


def _notes(analysed: AnalysedSnapshot) -> Iterator[Message]:
    for note in analysed.snapshot.health:
        if note.severity in (Severity.LOSS, Severity.WARNING):
            yield say("Note: {sentence}.", sentence=note.sentence)
    for figures in analysed.figures:
        if figures.lives.unmatched:
            yield say(
                "GPU {gpu}: {count} events of the allocator fit to no other; sums may be off by their bytes.",
                gpu=figures.gpu,
                count=count_text(figures.lives.unmatched),
            )


def _reserved(figures: SnapshotFigures) -> Iterator[ReservedRow]:
    moments: list[tuple[str, MemoryMoment]] = [
        (say("peak"), figures.peak),
        *((say("out of memory"), failed.layout) for failed in figures.out_of_memories),
        (say("end"), figures.end),
    ]
    for moment, layout in moments:
        since_ns = figures.since_start_ns(layout.moment)
        yield row_from(ReservedRow, layout, gpu=figures.gpu, moment=moment, since_start_ns=since_ns)


def _segments(figures: SnapshotFigures) -> Iterator[SegmentRow]:
    layout = figures.out_of_memories[-1].layout if figures.out_of_memories else figures.end
    for segment in layout.partly_used:
        yield row_from(SegmentRow, segment, gpu=figures.gpu, used_bytes=segment.active_bytes)


def _holders(gpu: int, holders: Sequence[Holder], whole_bytes: int) -> Iterator[HolderRow]:
    for holder in with_rest(holders):
        stack = holder.place if isinstance(holder.place, NoPlace) else _stack(holder.path or (holder.place,))
        yield HolderRow(gpu, stack, holder.size_bytes, holder.size_bytes / whole_bytes, holder.allocations)


def _stack(path: tuple[str, ...]) -> tuple[str, ...] | NoPlace:
    return path[::-1] or NoPlace.NO_STACK


def with_rest(held: Sequence[Holder]) -> tuple[Holder, ...]:
    """The first ones, and the others as one line: the sum stays."""
    others = held[_MOST_HOLDERS:]
    if len(others) < 2:  # one line for one other saves none
        return tuple(held)
    rest = Holder(NoPlace.REST, (), sum(one.size_bytes for one in others), sum(one.allocations for one in others))
    return (*held[:_MOST_HOLDERS], rest)


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


def memory_blocks(memory: MemorySnapshotAnswer, clock: TimelineClock | None) -> list[doc.Block]:
    """What stands in a report beside the time: the answer, and the findings."""
    answers = answer_on_timeline(memory, clock)
    return [doc.Heading(say("Who holds the memory")), doc.Remarks(tuple(answers)), shown_findings(memory.analysed)]


def answer_on_timeline(memory: MemorySnapshotAnswer, clock: TimelineClock | None) -> list[str]:
    """The answer, and where on the report's timeline the peak is."""
    answers = list(memory.sentences)
    for figures in memory.analysed.figures:
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


def _answers(analysed: AnalysedSnapshot) -> list[Message]:
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


def shown_findings(analysed: AnalysedSnapshot) -> doc.Findings:
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


def picture_blocks(analysed: AnalysedSnapshot) -> list[doc.Block]:
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
