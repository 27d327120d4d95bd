"""What changes would buy: each alone, one after the other, the new step by its parts, and what is left to fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from gpuledger.changes.answer import WORTH_TELLING, Effect, FasterPart, Left, ReplayedChanges, ReplayedStretch
from gpuledger.findings.finding import Finding, PlainSaving
from gpuledger.findings.rules import RULE_OF
from gpuledger.ledger.books import EXPOSED, LineKind
from gpuledger.ledger.causes import idle_label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, capitalised, joined, say, uncapitalised
from gpuledger.present.document import Block, Conclusion, Document, Paragraph, Remarks, SheetBlock, SheetTitle, json_by
from gpuledger.present.finding_words import unsure_words
from gpuledger.present.sheet import Cell, Column, Sheet, Unit, share_column
from gpuledger.present.terms import TOTAL
from gpuledger.present.views.critical import part_term
from gpuledger.present.views.tables import stretch_sheet, tables_page
from gpuledger.trace.model import Note
from gpuledger.units import share_text, time_text


def whatif_document(answer: ReplayedChanges, profile: str, notes: Iterable[Note], zero_ns: int) -> Document:
    """The answer for every format; JSON is the document gpuledger.whatif/1."""
    sheets = _sheets(answer)

    def shown() -> list[Sheet]:
        people = (_alone(answer, for_programs=False), *sheets[1:])
        return [stretch_sheet(sheet, has_steps=answer.has_steps) for sheet in people]

    return Document(
        blocks=lambda: _blocks(answer, shown()),
        data=json_by("tables.whatif_json", profile, zero_ns, sheets, notes),
        sheets=lambda: sheets,
        page=lambda: tables_page(
            profile,
            [Paragraph(_conclusion(answer)), *map(Paragraph, _remarks(answer))],
            shown(),
            more=[Paragraph(remark) for remark in _closing(answer)],
        ),
    )


def _conclusion(answer: ReplayedChanges) -> Message:
    """The new step, in a sentence."""
    what = answer.alone[0].change.words if len(answer.alone) == 1 else capitalised(say("all together"))
    step, new = (answer.step_ns(stretch.steady_ns) for stretch in (answer.now, answer.then))
    if new > step:
        return say("{what}: {whole} becomes {new}.", what=what, whole=_whole_text(answer, step), new=time_text(new))
    saves, share = time_text(step - new), share_text((step - new) / step if step else 0.0)
    told = say("saves {saves} ({share})", saves=saves, share=share)
    if any(effect.change.is_bound for effect in answer.alone):
        told = say("saves at most {saves} ({share})", saves=saves, share=share)
    return say(
        "{what}: {whole} becomes {new}, which {told}.",
        what=what,
        whole=_whole_text(answer, step),
        new=time_text(new),
        told=told,
    )


def _whole_text(answer: ReplayedChanges, time_ns: int) -> Message | str:
    """A time, and that it is of a step where there are steps."""
    return say("{time} per step", time=time_text(time_ns)) if answer.has_steps else time_text(time_ns)


def _sheets(answer: ReplayedChanges) -> tuple[Sheet, ...]:
    """As programs read them; one after the other only where there are several."""
    return (
        _alone(answer, for_programs=True),
        *((_in_order(answer),) if len(answer.alone) > 1 else ()),
        _parts(answer),
        _chain(answer),
        *((_left(answer),) if answer.left else ()),
    )


def _blocks(answer: ReplayedChanges, sheets: Sequence[Sheet]) -> tuple[Block, ...]:
    first, *others = sheets
    blocks: list[Block] = [Conclusion(_conclusion(answer)), SheetBlock(first, SheetTitle.NAMED, tells_hidden=True)]
    if remarks := tuple(_remarks(answer)):
        blocks.append(Remarks(remarks))
    blocks += [SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in others]
    if closing := tuple(_closing(answer)):
        blocks.append(Remarks(closing))
    return tuple(blocks)


def _closing(answer: ReplayedChanges) -> Iterable[Message]:
    """What the tables do not say."""
    if together := _together(answer):
        yield together
    if answer.plain_ns is not None and answer.plain is not None:
        yield _without_profiler(answer, answer.plain_ns, answer.plain)
    if not answer.left:
        yield say("No other fix would save {least} of the new step.", least=share_text(WORTH_TELLING))


def _remarks(answer: ReplayedChanges) -> Iterable[Message]:
    """What each change takes for granted, and why it saves less than one may think."""
    for effect in answer.alone:
        bound = say("an upper bound that no program reaches") if effect.change.is_bound else ""
        unsure = None if effect.change.finding is None else unsure_words(effect.change.finding)
        if told := [text for text in (bound, effect.change.assumption, effect.note, unsure) if text]:
            yield say("{change}: {assumption}", change=effect.change.words, assumption=joined(say("; "), told))


def _alone(answer: ReplayedChanges, *, for_programs: bool) -> Sheet:
    """Each change alone; programs have in columns what people read under the table."""
    step = answer.step_ns(answer.now.steady_ns)
    title = say("What if, per step, GPU {gpu}", gpu=answer.gpu)
    if not answer.has_steps:
        title = say("What if, GPU {gpu}", gpu=answer.gpu)
    if len(answer.alone) > 1:
        title = say("{title}: each change alone", title=title)

    def new_step(effect: Effect) -> int:
        return answer.step_ns(effect.then.steady_ns)

    def limit(effect: Effect) -> float | None:
        return None if effect.utmost is None else _ratio(answer.now, effect.utmost)

    columns = [
        Column("change", say("If"), Unit.TEXT, "change.words"),
        Column("step_ns", say("Step"), Unit.NS, lambda _: step, detail=1),
        Column("new_step_ns", say("New step"), Unit.NS, new_step),
        Column("saving_ns", say("Saves"), Unit.NS, lambda effect: step - new_step(effect)),
        share_column("saving_percent", say("Share"), lambda effect: step - new_step(effect), step),
        Column("speed_up", say("Speed-up"), Unit.RATIO, lambda effect: _ratio(answer.now, effect.then)),
    ]
    if for_programs or any(limit(effect) is not None for effect in answer.alone):  # else nothing became faster
        columns.append(Column("limit", say("Limit"), Unit.RATIO, limit, detail=2))
    if for_programs:
        columns += _columns_for_programs(answer)
    return Sheet.of("whatif", title, columns, answer.alone)


def _columns_for_programs(answer: ReplayedChanges) -> list[Column]:
    def line_ns(effect: Effect) -> int | None:
        about = effect.change.about_ns
        return None if about is None else answer.step_ns(about)

    def plain_ns(field: str) -> Callable[[Effect], int | None]:
        def cell(effect: Effect) -> int | None:
            time_ns = None if effect.plain is None else getattr(effect.plain, field)
            return None if time_ns is None else answer.step_ns(time_ns)

        return cell

    return [
        Column("line_ns", say("Now"), Unit.NS, line_ns),
        share_column("line_percent", say("Now, share"), "change.about_ns", answer.now.steady_ns),
        Column("plain_ns", say("Saves unprofiled"), Unit.NS, plain_ns("ns")),
        Column("plain_low_ns", say("Unprofiled, low"), Unit.NS, plain_ns("low_ns")),
        Column("plain_high_ns", say("Unprofiled, high"), Unit.NS, plain_ns("high_ns")),
        Column("bound", say("Bound"), Unit.TEXT, lambda effect: _bound(is_bound=effect.change.is_bound)),
        Column("assumption", say("Assumes"), Unit.TEXT, "change.assumption"),
        Column("note", say("Note"), Unit.TEXT),
    ]


def _bound(*, is_bound: bool) -> str:
    return say("upper bound") if is_bound else ""


def _ratio(now: ReplayedStretch, then: ReplayedStretch) -> float | None:
    """The speed-up; None if nothing is left."""
    return now.steady_ns / then.steady_ns if then.steady_ns else None


def _in_order(answer: ReplayedChanges) -> Sheet:
    """One after the other: savings sum to that of all together."""
    step = answer.step_ns(answer.now.steady_ns)
    words = [effect.change.words for effect in answer.alone]
    stretches = pairwise((answer.now, *answer.in_order))

    def saving(row: tuple[str, tuple[ReplayedStretch, ReplayedStretch]]) -> int:
        before, then = row[1]
        return answer.step_ns(before.steady_ns) - answer.step_ns(then.steady_ns)

    return Sheet.of(
        "in_order",
        say("One after the other, in the order given"),
        (
            Column("change", say("In order"), Unit.TEXT, lambda row: row[0]),
            Column("saving_ns", say("Saves extra"), Unit.NS, saving),
            share_column("saving_percent", say("Share of step"), saving, step),
            Column("new_step_ns", say("New step"), Unit.NS, lambda row: answer.step_ns(row[1][1].steady_ns)),
            Column("speed_up", say("Speed-up"), Unit.RATIO, lambda row: _ratio(answer.now, row[1][1])),
        ),
        zip(words, stretches, strict=True),
        foot=((say("all together"), (answer.now, answer.then)),),
    )


def _together(answer: ReplayedChanges) -> Message | None:
    """Why single savings do not add up, where they do not."""
    now = answer.now.steady_ns
    single = sum(now - effect.then.steady_ns for effect in answer.alone)
    shared = single - (now - answer.then.steady_ns)
    time = _whole_text(answer, answer.step_ns(abs(shared)))
    if shared >= WORTH_TELLING * now:
        return say("Separately they would add up to {time} more: their savings overlap.", time=time)
    if -shared >= WORTH_TELLING * now:
        return say("Together they save {time} more than separately: some time goes away only with several.", time=time)
    return None


def _without_profiler(answer: ReplayedChanges, plain_ns: int, saving: PlainSaving) -> Message:
    step, low, high = (time_text(answer.step_ns(ns)) for ns in (plain_ns, saving.low_ns, saving.high_ns))
    if not answer.has_steps:
        return say(
            "Without the profiler it takes {time}; there it saves {low} to {high}.", time=step, low=low, high=high
        )
    return say(
        "Without the profiler a step takes {step}; there it saves {low} to {high}.", step=step, low=low, high=high
    )


_Part = tuple[Cell, int, int]
"""What a part of the step is called, and its time before and after."""


def _parts_sheet(answer: ReplayedChanges, name: str, title: Message, parts: Iterable[_Part], total: _Part) -> Sheet:
    now, then = answer.now.steady_ns, answer.then.steady_ns
    columns = (
        Column("part", say("Part"), Unit.TEXT, lambda part: part[0]),
        Column("now_ns", say("Now"), Unit.NS, lambda part: answer.step_ns(part[1])),
        share_column("now_percent", say("Share"), lambda part: part[1], now),
        Column("then_ns", say("Then"), Unit.NS, lambda part: answer.step_ns(part[2])),
        share_column("then_percent", say("Share"), lambda part: part[2], then),
    )
    return Sheet.of(name, title, columns, parts, foot=(total,))


def _parts(answer: ReplayedChanges) -> Sheet:
    """The ledger's kinds of time; they sum to the step."""
    now, then = answer.now, answer.then
    kinds = (
        (say("compute"), now.compute_ns, then.compute_ns),
        (EXPOSED[LineKind.COMM], now.comm_ns, then.comm_ns),
        (EXPOSED[LineKind.COPY], now.copy_ns, then.copy_ns),
        (say("idle"), now.idle_ns, then.idle_ns),
    )
    shown = [kind for kind in kinds if kind[1] or kind[2] or kind[0] == "idle"]
    title = say("The step and its parts, before and after")
    title = title if answer.has_steps else say("The window and its parts, before and after")
    return _parts_sheet(answer, "parts", title, shown, (TOTAL, now.steady_ns, then.steady_ns))


def _chain(answer: ReplayedChanges) -> Sheet:
    """What the critical path consists of, the most first; it sums to the step, small lines together."""
    now, then = answer.chain_now, answer.chain_then
    least = {WORTH_TELLING * answer.now.steady_ns: now, WORTH_TELLING * answer.then.steady_ns: then}
    large = {line for least_ns, chain in least.items() for line, ns in chain.items() if ns >= least_ns}
    order = sorted(large, key=lambda line: (-then.get(line, 0), -now.get(line, 0)))
    parts: list[_Part] = [(part_term(line), now.get(line, 0), then.get(line, 0)) for line in order]
    before, after = (sum(ns for line, ns in chain.items() if line not in large) for chain in (now, then))
    if before or after:
        parts.append((say("others"), before, after))
    total = TOTAL, sum(now.values()), sum(then.values())
    return _parts_sheet(answer, "critical", say("The critical path, before and after"), parts, total)


def _left(answer: ReplayedChanges) -> Sheet:
    """What findings would still save."""
    step = answer.step_ns(answer.then.steady_ns)

    def new_step(left: Left) -> int:
        return answer.step_ns(left.then.steady_ns)

    columns = (
        Column("code", say("Finding"), Unit.TEXT),
        Column("saving_ns", say("Saves"), Unit.NS, lambda left: step - new_step(left)),
        share_column("saving_percent", say("Of the new step"), lambda left: step - new_step(left), step),
        Column("new_step_ns", say("New step"), Unit.NS, new_step),
        Column("bound", say("Bound"), Unit.TEXT, lambda left: _bound(is_bound=left.is_bound)),
    )
    return Sheet.of("left", say("Left to fix afterwards, each alone"), columns, answer.left)


def whatif_of_tables_sheet(changes: Sequence[FasterPart]) -> Sheet:
    """Where sums are all there is, each alone: the whole is the time of the program's ranges."""
    whole = say("Whole")

    columns = (
        Column("change", say("If"), Unit.TEXT),
        Column("line_ns", say("Now"), Unit.NS, "part_ns", detail=2),
        share_column("line_percent", say("Share"), "part_ns", "whole_ns", detail=2),
        Column("whole_ns", whole, Unit.NS),
        Column("new_whole_ns", say("New {whole}", whole=uncapitalised(whole)), Unit.NS),
        share_column("saving_percent", say("Saves"), "saving_ns", "whole_ns"),
        Column("speed_up", say("Speed-up"), Unit.RATIO),
        Column("limit", say("Limit"), Unit.RATIO, detail=1),
        Column("assumption", say("Assumes"), Unit.TEXT, detail=3),
    )
    return Sheet.of("whatif", say("What if, of the time in the program's ranges, setup left out"), columns, changes)


_QUESTIONS: Final = (
    Column("ask", say("Ask"), Unit.TEXT, is_prose=True),
    Column("about", say("About"), Unit.TEXT, is_prose=True),
    Column("time_ns", say("Per step"), Unit.NS),
)
_MOST_LINES_ASKED: Final = 4


def questions_sheet(device: Device, findings: Sequence[Finding]) -> Sheet:
    """What `whatif` can be asked of a profile: its findings, its largest lines, and the host; each as it is typed."""
    steps = device.step_count
    fixable = [found for found in findings if found.edit is not None and found.saving_ns and found.gpu == device.gpu]
    rows: list[tuple[Cell, ...]] = [(f"--fix={found.code}", found.claim, found.saving_ns // steps) for found in fixable]
    fixed = {idle_label(trigger) for found in fixable for trigger in RULE_OF[found.code].triggers}
    by_size = sorted(device.shown_ns.items(), key=lambda item: -item[1])
    worked = [(line, time) for line, time in by_size if line.kind is LineKind.COMPUTE]
    idle = [(line, time) for line, time in by_size if line.is_idle and line.label not in fixed]
    rows += [
        (f"--speedup=line:{line.family}=2", say("{line} 2x faster", line=line.label), time // steps)
        for line, time in worked[:_MOST_LINES_ASKED]
    ]
    rows += [
        (f'--remove="{line.label}"', say("without {line}", line=line.label), time // steps)
        for line, time in idle[:_MOST_LINES_ASKED]
    ]
    exposed = {kind: sum(amount for line, amount in by_size if line.kind is kind) for kind in EXPOSED}
    rows += [
        (f"--hide={kind}", say("{line} behind compute", line=EXPOSED[kind]), time // steps)
        for kind, time in exposed.items()
        if time
    ]
    rows.append(("--host=1.5", say("a host 1.5x faster"), None))
    rows.append(("--launch-cost=2us", say("launch calls of 2 us each"), None))
    sheet = Sheet("questions", say("What could be asked; several can be given"), _QUESTIONS, tuple(rows))
    return stretch_sheet(sheet, has_steps=device.steps is not None)
