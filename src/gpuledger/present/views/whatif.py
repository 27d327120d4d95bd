"""What changes would buy: each alone, one after the other, the new step by its parts, and what is left to fix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpuledger.findings.finding import PlainSaving
from gpuledger.ledger.books import EXPOSED, LineKind
from gpuledger.messages import Message, capitalised, joined, say, uncapitalised
from gpuledger.present.digits import percent
from gpuledger.present.document import Block, Conclusion, Document, Paragraph, Remarks, SheetBlock, SheetTitle
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.terms import TOTAL
from gpuledger.present.views.critical import part_term
from gpuledger.present.views.tables_page import tables_page
from gpuledger.present.writers.json import health_json, tables_json
from gpuledger.trace.model import Note
from gpuledger.units import share_text, time_text
from gpuledger.whatif.answer import WORTH_TELLING, Answer, Effect, FasterPart, ReplayedStretch

_SAVES: Final = (
    Column("saving_ns", say("Saves"), Unit.NS),
    Column("saving_percent", say("Share"), Unit.SHARE_PERCENT),
)
_SPEED_UP: Final = Column("speed_up", say("Speed-up"), Unit.RATIO)
_NEW_STEP: Final = Column("new_step_ns", say("New step"), Unit.NS)

_ALONE: Final = (
    Column("change", say("If"), Unit.TEXT),
    Column("step_ns", say("Step"), Unit.NS, detail=1),
    _NEW_STEP,
    *_SAVES,
    _SPEED_UP,
    Column("limit", say("Limit"), Unit.RATIO, detail=2),
)
_FOR_PROGRAMS: Final = (
    Column("line_ns", say("Now"), Unit.NS),
    Column("line_percent", say("Now, share"), Unit.SHARE_PERCENT),
    Column("plain_ns", say("Saves unprofiled"), Unit.NS),
    Column("plain_low_ns", say("Unprofiled, low"), Unit.NS),
    Column("plain_high_ns", say("Unprofiled, high"), Unit.NS),
    Column("bound", say("Bound"), Unit.TEXT),
    Column("assumption", say("Assumes"), Unit.TEXT),
    Column("note", say("Note"), Unit.TEXT),
)
"""What people read under the table."""

_IN_ORDER: Final = (
    Column("change", say("In order"), Unit.TEXT),
    Column("saving_ns", say("Saves extra"), Unit.NS),
    Column("saving_percent", say("Share of step"), Unit.SHARE_PERCENT),
    _NEW_STEP,
    _SPEED_UP,
)
_PARTS: Final = (
    Column("part", say("Part"), Unit.TEXT),
    Column("now_ns", say("Now"), Unit.NS),
    Column("now_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("then_ns", say("Then"), Unit.NS),
    Column("then_percent", say("Share"), Unit.SHARE_PERCENT),
)
_LEFT: Final = (
    Column("code", say("Finding"), Unit.TEXT),
    Column("saving_ns", say("Saves"), Unit.NS),
    Column("saving_percent", say("Of the new step"), Unit.SHARE_PERCENT),
    _NEW_STEP,
    Column("bound", say("Bound"), Unit.TEXT),
)


def whatif_document(answer: Answer, profile: str, notes: Iterable[Note], zero_ns: int) -> Document:
    """The answer for every format; JSON is the document gpuledger.whatif/1."""
    sheets = _sheets(answer)
    return Document(
        blocks=lambda: _blocks(answer, sheets),
        data=lambda: {
            "schema": "gpuledger.whatif/1",
            "profile": profile,
            "zero_ns": zero_ns,
            "tables": tables_json(sheets),
            "health": health_json(notes),
        },
        sheets=lambda: sheets,
        page=lambda reader: tables_page(
            profile,
            [Paragraph(_conclusion(answer)), *map(Paragraph, _remarks(answer))],
            (_alone(answer, for_programs=False), *sheets[1:]),
            reader,
            more=[Paragraph(remark) for remark in _closing(answer)],
        ),
    )


def _conclusion(answer: Answer) -> Message:
    """The new step, in a sentence."""
    what = answer.alone[0].change.words if len(answer.alone) == 1 else capitalised(say("all together"))
    step, new = (answer.step_ns(stretch.steady_ns) for stretch in (answer.now, answer.then))
    if new > step:
        return say("{what}: {step} per step becomes {new}.", what=what, step=time_text(step), new=time_text(new))
    saves, share = time_text(step - new), share_text((step - new) / step if step else 0.0)
    told = say("saves {saves} ({share})", saves=saves, share=share)
    if any(effect.change.is_bound for effect in answer.alone):
        told = say("saves at most {saves} ({share})", saves=saves, share=share)
    return say(
        "{what}: {step} per step becomes {new}, which {told}.",
        what=what,
        step=time_text(step),
        new=time_text(new),
        told=told,
    )


def _sheets(answer: Answer) -> tuple[Sheet, ...]:
    """As programs read them; one after the other only where there are several."""
    return (
        _alone(answer, for_programs=True),
        *((_in_order(answer),) if len(answer.alone) > 1 else ()),
        _parts(answer),
        _chain(answer),
        *((_left(answer),) if answer.left else ()),
    )


def _blocks(answer: Answer, sheets: Sequence[Sheet]) -> tuple[Block, ...]:
    first, *others = (_alone(answer, for_programs=False), *sheets[1:])
    blocks: list[Block] = [Conclusion(_conclusion(answer)), SheetBlock(first, SheetTitle.NAMED, tells_hidden=True)]
    if remarks := tuple(_remarks(answer)):
        blocks.append(Remarks(remarks))
    blocks += [SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in others]
    if closing := tuple(_closing(answer)):
        blocks.append(Remarks(closing))
    return tuple(blocks)


def _closing(answer: Answer) -> Iterable[Message]:
    """What the tables do not say."""
    if together := _together(answer):
        yield together
    if answer.plain_ns is not None and answer.plain is not None:
        yield _without_profiler(answer, answer.plain_ns, answer.plain)
    if not answer.left:
        yield say("No other fix would save {least} of the new step.", least=share_text(WORTH_TELLING))


def _remarks(answer: Answer) -> Iterable[Message]:
    """What each change takes for granted, and why it saves less than one may think."""
    for effect in answer.alone:
        bound = say("an upper bound that no program reaches") if effect.change.is_bound else ""
        if told := [text for text in (bound, effect.change.assumption, effect.note) if text]:
            yield say("{change}: {assumption}", change=effect.change.words, assumption=joined(say("; "), told))


def _alone(answer: Answer, *, for_programs: bool) -> Sheet:
    title = say("What if, per step, GPU {gpu}: each change alone", gpu=answer.gpu)
    if len(answer.alone) == 1:
        title = say("What if, per step, GPU {gpu}", gpu=answer.gpu)
    rows = tuple(_alone_row(answer, effect) for effect in answer.alone)
    if for_programs:
        others = (_programs_row(answer, effect) for effect in answer.alone)
        every = tuple((*row, *more) for row, more in zip(rows, others, strict=True))
        return Sheet("whatif", title, (*_ALONE, *_FOR_PROGRAMS), every, rounded=True)
    if all(row[-1] is None for row in rows):  # nothing became faster, so there is no limit
        return Sheet("whatif", title, _ALONE[:-1], tuple(row[:-1] for row in rows), rounded=True)
    return Sheet("whatif", title, _ALONE, rows, rounded=True)


def _alone_row(answer: Answer, effect: Effect) -> tuple[Cell, ...]:
    step, new = answer.step_ns(answer.now.steady_ns), answer.step_ns(effect.then.steady_ns)
    limit = None if effect.utmost is None else _ratio(answer.now, effect.utmost)
    return effect.change.words, step, new, step - new, percent(step - new, step), _ratio(answer.now, effect.then), limit


def _programs_row(answer: Answer, effect: Effect) -> tuple[Cell, ...]:
    change, about = effect.change, effect.change.about_ns
    return (
        None if about is None else answer.step_ns(about),
        None if about is None else percent(about, answer.now.steady_ns),
        *(None if ns is None else answer.step_ns(ns) for ns in _plain(effect.plain)),
        _bound(is_bound=change.is_bound),
        change.assumption,
        effect.note,
    )


def _plain(saving: PlainSaving | None) -> tuple[int | None, int | None, int | None]:
    return (None, None, None) if saving is None else (saving.ns, saving.low_ns, saving.high_ns)


def _bound(*, is_bound: bool) -> str:
    return say("upper bound") if is_bound else ""


def _ratio(now: ReplayedStretch, then: ReplayedStretch) -> float | None:
    """The speed-up; None if nothing is left."""
    return now.steady_ns / then.steady_ns if then.steady_ns else None


def _in_order(answer: Answer) -> Sheet:
    """Savings sum to that of all together."""
    step = answer.step_ns(answer.now.steady_ns)
    rows: list[tuple[Cell, ...]] = []
    before = step
    for effect, then in zip(answer.alone, answer.in_order, strict=True):
        new = answer.step_ns(then.steady_ns)
        rows.append((effect.change.words, before - new, percent(before - new, step), new, _ratio(answer.now, then)))
        before = new
    whole = (say("all together"), step - before, percent(step - before, step), before, _ratio(answer.now, answer.then))
    title = say("One after the other, in the order given")
    return Sheet("in_order", title, _IN_ORDER, tuple(rows), foot=(whole,), rounded=True)


def _together(answer: Answer) -> Message | None:
    """Why single savings do not add up, where they do not."""
    now = answer.now.steady_ns
    single = sum(now - effect.then.steady_ns for effect in answer.alone)
    shared = single - (now - answer.then.steady_ns)
    time = time_text(answer.step_ns(abs(shared)))
    if shared >= WORTH_TELLING * now:
        return say("Separately they would add up to {time} per step more: their savings overlap.", time=time)
    if -shared >= WORTH_TELLING * now:
        return say(
            "Together they save {time} per step more than separately: some time goes away only with several.", time=time
        )
    return None


def _without_profiler(answer: Answer, plain_ns: int, saving: PlainSaving) -> Message:
    step, low, high = (time_text(answer.step_ns(ns)) for ns in (plain_ns, saving.low_ns, saving.high_ns))
    return say(
        "Without the profiler a step takes {step}; there it saves {low} to {high}.", step=step, low=low, high=high
    )


def _parts(answer: Answer) -> Sheet:
    """The ledger's kinds of time; they sum to the step."""
    now, then = answer.now, answer.then
    kinds = (
        (say("compute"), now.compute_ns, then.compute_ns),
        (EXPOSED[LineKind.COMM], now.comm_ns, then.comm_ns),
        (EXPOSED[LineKind.COPY], now.copy_ns, then.copy_ns),
        (say("idle"), now.idle_ns, then.idle_ns),
    )
    rows = tuple(
        _part_row(answer, words, first, last) for words, first, last in kinds if first or last or words == "idle"
    )
    title = say("The step and its parts, before and after")
    return Sheet(
        "parts", title, _PARTS, rows, foot=(_part_row(answer, TOTAL, now.steady_ns, then.steady_ns),), rounded=True
    )


def _chain(answer: Answer) -> Sheet:
    """What the critical path consists of, the most first; it sums to the step, small lines together."""
    now, then = answer.chain_now, answer.chain_then
    least = {WORTH_TELLING * answer.now.steady_ns: now, WORTH_TELLING * answer.then.steady_ns: then}
    told = {line for least_ns, chain in least.items() for line, ns in chain.items() if ns >= least_ns}
    order = sorted(told, key=lambda line: (-then.get(line, 0), -now.get(line, 0)))
    rows = [_part_row(answer, part_term(line), now.get(line, 0), then.get(line, 0)) for line in order]
    rest = [sum(ns for line, ns in chain.items() if line not in told) for chain in (now, then)]
    if any(rest):
        rows.append(_part_row(answer, say("others"), *rest))
    foot = (_part_row(answer, TOTAL, sum(now.values()), sum(then.values())),)
    return Sheet("critical", say("The critical path, before and after"), _PARTS, tuple(rows), foot=foot, rounded=True)


def _part_row(answer: Answer, words: Cell, now_ns: int, then_ns: int) -> tuple[Cell, ...]:
    return (
        words,
        answer.step_ns(now_ns),
        percent(now_ns, answer.now.steady_ns),
        answer.step_ns(then_ns),
        percent(then_ns, answer.then.steady_ns),
    )


def _left(answer: Answer) -> Sheet:
    """What findings would still save."""
    new = answer.step_ns(answer.then.steady_ns)
    rows = []
    for left in answer.left:
        last = answer.step_ns(left.then.steady_ns)
        rows.append((left.code, new - last, percent(new - last, new), last, _bound(is_bound=left.is_bound)))
    return Sheet("left", say("Left to fix afterwards, each alone"), _LEFT, tuple(rows), rounded=True)


def whatif_of_tables_sheet(changes: Sequence[FasterPart]) -> Sheet:
    """Where sums are all there is, each alone: the whole is the time of the program's ranges."""
    title, whole = say("What if, of the time in the program's ranges, setup left out"), say("Whole")
    columns = (
        Column("change", say("If"), Unit.TEXT),
        Column("line_ns", say("Now"), Unit.NS, detail=2),
        Column("line_percent", say("Share"), Unit.SHARE_PERCENT, detail=2),
        Column("whole_ns", whole, Unit.NS),
        Column("new_whole_ns", say("New {whole}", whole=uncapitalised(whole)), Unit.NS),
        Column("saving_percent", say("Saves"), Unit.SHARE_PERCENT),
        _SPEED_UP,
        Column("limit", say("Limit"), Unit.RATIO, detail=1),
        Column("assumption", say("Assumes"), Unit.TEXT, detail=3),
    )
    rows = tuple(
        (
            change.change,
            change.part_ns,
            percent(change.part_ns, change.whole_ns),
            change.whole_ns,
            change.new_whole_ns,
            percent(change.saving_ns, change.whole_ns),
            change.speed_up,
            change.limit,
            change.assumption,
        )
        for change in changes
    )
    return Sheet("whatif", title, columns, rows)
