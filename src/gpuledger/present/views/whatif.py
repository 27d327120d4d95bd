"""What the step waits for, and what changes would buy: each alone, one after the other, and what is left to fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Final

from msgspec import Struct

from gpuledger.changes.answer import WORTH_TELLING, Effect, FasterPart, ReplayedChanges, ReplayedStretch
from gpuledger.errors import NothingRecorded
from gpuledger.findings.finding import Finding, PlainSaving
from gpuledger.findings.rules import RULE_OF
from gpuledger.ledger.books import EXPOSED, LineKind
from gpuledger.ledger.causes import idle_label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, capitalised, joined, say
from gpuledger.present.finding_words import unsure_words
from gpuledger.present.row_sheets import row_from
from gpuledger.present.views.answer import Answer, health_rows, note_sentences
from gpuledger.present.views.critical import path_remarks, path_sentences
from gpuledger.replay.path_summary import (
    OffPathRow,
    PathCallRow,
    PathOperationRow,
    PathPartRow,
    PathRangeRow,
    PathSummary,
    path_part,
)
from gpuledger.rows import Label, Row, Unit, share
from gpuledger.trace.model import Note
from gpuledger.units import share_text, time_text


class WhatIfRow(Row, frozen=True):
    """A change alone. Times are per step; of the whole window, or of the program's ranges, where there are no steps."""

    change: Annotated[str, Label(say("If"))]
    now_ns: Annotated[int, Label(say("Now"), Unit.NS, detail=1)]
    then_ns: Annotated[int, Label(say("Then"), Unit.NS)]
    saving_ns: Annotated[int, Label(say("Saves"), Unit.NS)]
    saving_share: Annotated[float | None, Label(say("Share"), Unit.SHARE)]
    speed_up: Annotated[float | None, Label(say("Speed-up"), Unit.RATIO, meaning="null: nothing is left")]
    limit: Annotated[
        float | None,
        Label(say("Limit"), Unit.RATIO, detail=2, meaning="the speed-up if what becomes faster took no time at all"),
    ]
    part_ns: int | None
    """What the change is about takes now; null: reports print no such line."""
    is_bound: bool
    """Whether no program will save as much: an upper bound."""
    assumption: str
    note: str = ""
    """Why it saves less than one may think."""
    plain_saving_ns: int | None = None
    """Without the profiler; null: the program was not run without it."""
    plain_low_ns: int | None = None
    plain_high_ns: int | None = None


class NextChangeRow(Row, frozen=True):
    """A change after those before it; savings sum to that of all together."""

    change: Annotated[str, Label(say("In order"))]
    saving_ns: Annotated[int, Label(say("Saves extra"), Unit.NS, is_summed=True)]
    saving_share: Annotated[float | None, Label(say("Share"), Unit.SHARE, is_summed=True)]
    then_ns: Annotated[int, Label(say("Then"), Unit.NS)]
    speed_up: Annotated[float | None, Label(say("Speed-up"), Unit.RATIO)]


class SplitRow(Row, frozen=True):
    """A kind of time, or a part of the critical path, before and after; they sum to the step."""

    part: Annotated[str, Label(say("Part"))]
    now_ns: Annotated[int, Label(say("Now"), Unit.NS, is_summed=True)]
    now_share: Annotated[float | None, Label(say("Share"), Unit.SHARE, is_summed=True)]
    then_ns: Annotated[int, Label(say("Then"), Unit.NS, is_summed=True)]
    then_share: Annotated[float | None, Label(say("Share"), Unit.SHARE, is_summed=True)]


class LeftRow(Row, frozen=True):
    """What a finding's fix would still save after the changes."""

    code: Annotated[str, Label(say("Finding"))]
    saving_ns: Annotated[int, Label(say("Saves"), Unit.NS)]
    saving_share: Annotated[float | None, Label(say("Share"), Unit.SHARE)]
    then_ns: Annotated[int, Label(say("Then"), Unit.NS)]
    is_bound: Annotated[bool, Label(say("Upper bound"))]


class QuestionRow(Row, frozen=True):
    """A change that can be asked about, as it is typed."""

    option: Annotated[str, Label(say("Ask"), is_prose=True)]
    about: Annotated[str, Label(say("About"), is_prose=True)]
    time_ns: Annotated[int | None, Label(say("Time"), Unit.NS)]


class Refusal(Struct, frozen=True):
    """Why a change could not be made: the profile has nothing of that name, or several things."""

    claim: str
    found: str
    hint: str


class WhatIfAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.whatif/1"):
    """What changes would save, by replay; without changes the critical path, and what can be asked.

    Times are per step, where there are steps: the mean over those that are looked at.
    """

    has_steps: bool
    gpu: int | None = None
    """That changes are replayed on; null: none are."""
    now_ns: int | None = None
    then_ns: int | None = None
    """With all changes."""
    plain_now_ns: int | None = None
    """Without the profiler; null: that is not known."""
    plain_saving_ns: int | None = None
    plain_low_ns: int | None = None
    plain_high_ns: int | None = None
    refused: tuple[Refusal, ...] = ()
    changes: Annotated[tuple[WhatIfRow, ...], Label(say("What if"))] = ()
    in_order: Annotated[tuple[NextChangeRow, ...], Label(say("One after the other, in the order given"))] = ()
    parts: Annotated[tuple[SplitRow, ...], Label(say("Before and after, by kind of time"))] = ()
    path_change: Annotated[tuple[SplitRow, ...], Label(say("The critical path, before and after"))] = ()
    left: Annotated[tuple[LeftRow, ...], Label(say("Left to fix afterwards, each alone"))] = ()
    path: Annotated[tuple[PathPartRow, ...], Label(say("The critical path"))] = ()
    path_operations: Annotated[
        tuple[PathOperationRow, ...], Label(say("Kernels and copies with the most time on it"))
    ] = ()
    path_calls: Annotated[tuple[PathCallRow, ...], Label(say("Calls on it, with the host code before them"))] = ()
    path_ranges: Annotated[tuple[PathRangeRow, ...], Label(say("Innermost ranges with the most time on it"))] = ()
    off_path: Annotated[tuple[OffPathRow, ...], Label(say("Not on it: kernels with the most GPU time"))] = ()
    questions: Annotated[tuple[QuestionRow, ...], Label(say("What could be asked; several can be given"))] = ()

    def title(self, table: str) -> str:
        title = super().title(table)
        if table == "changes" and self.gpu is None:
            return say("What if, of the time in the program's ranges, setup left out")
        if table == "changes":
            title = say("{title}, GPU {gpu}", title=title, gpu=self.gpu)
        return say("{title}, per step", title=title) if self.has_steps and table != "questions" else title


def path_answer(
    name: str,
    paths: Sequence[PathSummary],
    device: Device,
    findings: Sequence[Finding],
    health: Sequence[Note],
    zero_ns: int,
) -> WhatIfAnswer:
    """The critical path of each GPU, and what can be asked of one."""
    return WhatIfAnswer(
        profile=name,
        zero_ns=zero_ns,
        sentences=(
            *(sentence for path in paths for sentence in path_sentences(path)),
            *(remark for path in paths for remark in path_remarks(path)),
            *note_sentences(health),
        ),
        health=health_rows(health),
        has_steps=device.steps is not None,
        path=tuple(row for path in paths for row in path.parts),
        path_operations=tuple(row for path in paths for row in path.operations),
        path_calls=tuple(row for path in paths for row in path.calls),
        path_ranges=tuple(row for path in paths for row in path.ranges),
        off_path=tuple(row for path in paths for row in path.off_path),
        questions=tuple(_questions(device, findings)),
    )


_MOST_LINES_ASKED: Final = 4


def _questions(device: Device, findings: Sequence[Finding]) -> Iterator[QuestionRow]:
    """The findings of a profile, its largest lines, and the host; each as it is typed."""
    steps = device.step_count
    fixable = [found for found in findings if found.edit is not None and found.saving_ns and found.gpu == device.gpu]
    fixed = {idle_label(trigger) for found in fixable for trigger in RULE_OF[found.code].triggers}
    by_size = sorted(device.shown_ns.items(), key=lambda item: -item[1])
    worked = [(line, time) for line, time in by_size if line.kind is LineKind.COMPUTE]
    idle = [(line, time) for line, time in by_size if line.is_idle and line.label not in fixed]
    for found in fixable:
        yield QuestionRow(f"--fix={found.code}", found.claim, found.saving_ns // steps)
    for line, time in worked[:_MOST_LINES_ASKED]:
        yield QuestionRow(f"--speedup=line:{line.family}=2", say("{line} 2x faster", line=line.label), time // steps)
    for line, time in idle[:_MOST_LINES_ASKED]:
        yield QuestionRow(f'--remove="{line.label}"', say("without {line}", line=line.label), time // steps)
    for kind, words in EXPOSED.items():
        if exposed := sum(amount for line, amount in by_size if line.kind is kind):
            yield QuestionRow(f"--hide={kind}", say("{line} behind compute", line=words), exposed // steps)
    yield QuestionRow("--host=1.5", say("a host 1.5x faster"), None)
    yield QuestionRow("--launch-cost=2us", say("launch calls of 2 us each"), None)


def changes_answer(
    name: str,
    replayed: ReplayedChanges | None,
    refused: Sequence[NothingRecorded],
    health: Sequence[Note],
    zero_ns: int,
) -> WhatIfAnswer:
    """What the changes would do; `replayed` is None where none could be made."""
    refusals = tuple(Refusal(refusal.claim, refusal.found, refusal.hint) for refusal in refused)
    if replayed is None:
        return WhatIfAnswer(
            profile=name, zero_ns=zero_ns, health=health_rows(health), has_steps=False, refused=refusals
        )
    now, then, step_ns = replayed.now, replayed.then, replayed.step_ns
    plain = _plain_saving(replayed, replayed.plain)
    return WhatIfAnswer(
        profile=name,
        zero_ns=zero_ns,
        sentences=(_conclusion(replayed), *_remarks(replayed), *note_sentences(health)),
        health=health_rows(health),
        has_steps=replayed.has_steps,
        gpu=replayed.gpu,
        now_ns=step_ns(now.steady_ns),
        then_ns=step_ns(then.steady_ns),
        plain_now_ns=None if replayed.plain_ns is None else step_ns(replayed.plain_ns),
        plain_saving_ns=plain[0],
        plain_low_ns=plain[1],
        plain_high_ns=plain[2],
        refused=refusals,
        changes=tuple(_alone(replayed, effect) for effect in replayed.alone),
        in_order=tuple(_in_order(replayed)) if len(replayed.alone) > 1 else (),
        parts=tuple(_parts(replayed)),
        path_change=tuple(_path_change(replayed)),
        left=tuple(
            LeftRow(
                code=left.code,
                saving_ns=(saving := step_ns(then.steady_ns) - step_ns(left.then.steady_ns)),
                saving_share=share(saving, step_ns(then.steady_ns)),
                then_ns=step_ns(left.then.steady_ns),
                is_bound=left.is_bound,
            )
            for left in replayed.left
        ),
    )


def tables_answer(name: str, faster: Sequence[FasterPart], health: Sequence[Note]) -> WhatIfAnswer:
    """Where sums are all there is, each alone: the whole is the time of the program's ranges."""
    return WhatIfAnswer(
        profile=name,
        zero_ns=0,
        sentences=(
            *(_becomes(part.change, time_text(part.whole_ns), part.whole_ns, part.new_whole_ns) for part in faster),
            *(say("{change}: {assumption}", change=part.change, assumption=part.assumption) for part in faster),
            *note_sentences(health),
        ),
        health=health_rows(health),
        has_steps=False,
        changes=tuple(
            row_from(
                WhatIfRow,
                part,
                now_ns=part.whole_ns,
                then_ns=part.new_whole_ns,
                saving_share=share(part.saving_ns, part.whole_ns),
                is_bound=False,
            )
            for part in faster
        ),
    )


def _alone(replayed: ReplayedChanges, effect: Effect) -> WhatIfRow:
    step_ns, change = replayed.step_ns, effect.change
    now_ns, then_ns = step_ns(replayed.now.steady_ns), step_ns(effect.then.steady_ns)
    return WhatIfRow(
        change.words,
        now_ns,
        then_ns,
        now_ns - then_ns,
        share(now_ns - then_ns, now_ns),
        _ratio(replayed.now, effect.then),
        None if effect.utmost is None else _ratio(replayed.now, effect.utmost),
        None if change.about_ns is None else step_ns(change.about_ns),
        change.is_bound,
        change.assumption,
        effect.note,
        *_plain_saving(replayed, effect.plain),
    )


def _plain_saving(replayed: ReplayedChanges, plain: PlainSaving | None) -> tuple[int | None, int | None, int | None]:
    """Without the profiler: what is saved, at least and at most."""
    if plain is None:
        return None, None, None
    saving, low, high = (None if ns is None else replayed.step_ns(ns) for ns in (plain.ns, plain.low_ns, plain.high_ns))
    return saving, low, high


def _ratio(now: ReplayedStretch, then: ReplayedStretch) -> float | None:
    """The speed-up; None if nothing is left."""
    return share(now.steady_ns, then.steady_ns)


def _in_order(replayed: ReplayedChanges) -> Iterator[NextChangeRow]:
    step = replayed.step_ns(replayed.now.steady_ns)
    for effect, (before, then) in zip(replayed.alone, pairwise((replayed.now, *replayed.in_order)), strict=True):
        then_ns = replayed.step_ns(then.steady_ns)
        saving = replayed.step_ns(before.steady_ns) - then_ns
        yield NextChangeRow(effect.change.words, saving, share(saving, step), then_ns, _ratio(replayed.now, then))


def _part(replayed: ReplayedChanges, words: str, now_ns: int, then_ns: int) -> SplitRow:
    step_ns = replayed.step_ns
    now_share, then_share = share(now_ns, replayed.now.steady_ns), share(then_ns, replayed.then.steady_ns)
    return SplitRow(words, step_ns(now_ns), now_share, step_ns(then_ns), then_share)


def _parts(replayed: ReplayedChanges) -> Iterator[SplitRow]:
    now, then = replayed.now, replayed.then
    for words, now_ns, then_ns in (
        (say("compute"), now.compute_ns, then.compute_ns),
        (EXPOSED[LineKind.COMM], now.comm_ns, then.comm_ns),
        (EXPOSED[LineKind.COPY], now.copy_ns, then.copy_ns),
        (say("idle"), now.idle_ns, then.idle_ns),
    ):
        if now_ns or then_ns or words == "idle":
            yield _part(replayed, words, now_ns, then_ns)


def _path_change(replayed: ReplayedChanges) -> Iterator[SplitRow]:
    """What the critical path consists of, the most first; small lines together."""
    now, then = replayed.chain_now, replayed.chain_then
    least = {WORTH_TELLING * replayed.now.steady_ns: now, WORTH_TELLING * replayed.then.steady_ns: then}
    large = {line for least_ns, chain in least.items() for line, ns in chain.items() if ns >= least_ns}
    for line in sorted(large, key=lambda line: (-then.get(line, 0), -now.get(line, 0))):
        yield _part(replayed, path_part(line), now.get(line, 0), then.get(line, 0))
    before, after = (sum(ns for line, ns in chain.items() if line not in large) for chain in (now, then))
    if before or after:
        yield _part(replayed, say("others"), before, after)


def _conclusion(replayed: ReplayedChanges) -> Message:
    """The new step, in a sentence."""
    what = replayed.alone[0].change.words if len(replayed.alone) == 1 else capitalised(say("all together"))
    step, new = (replayed.step_ns(stretch.steady_ns) for stretch in (replayed.now, replayed.then))
    is_bound = any(effect.change.is_bound for effect in replayed.alone)
    return _becomes(what, _whole_text(replayed, step), step, new, is_bound=is_bound)


def _becomes(what: str, whole: str, now_ns: int, then_ns: int, *, is_bound: bool = False) -> Message:
    """The new time, and what that saves, if it does; `whole` is the time now in words."""
    if then_ns > now_ns:
        return say("{what}: {whole} becomes {new}.", what=what, whole=whole, new=time_text(then_ns))
    saves, of_now = time_text(now_ns - then_ns), share_text((now_ns - then_ns) / now_ns if now_ns else 0.0)
    told = say("saves {saves} ({share})", saves=saves, share=of_now)
    if is_bound:
        told = say("saves at most {saves} ({share})", saves=saves, share=of_now)
    return say(
        "{what}: {whole} becomes {new}, which {told}.", what=what, whole=whole, new=time_text(then_ns), told=told
    )


def _whole_text(replayed: ReplayedChanges, time_ns: int) -> Message | str:
    """A time, and that it is of a step where there are steps."""
    return say("{time} per step", time=time_text(time_ns)) if replayed.has_steps else time_text(time_ns)


def _remarks(replayed: ReplayedChanges) -> Iterator[Message]:
    """What each change takes for granted, why it saves less than one may think, and what the tables do not say."""
    for effect in replayed.alone:
        bound = say("an upper bound that no program reaches") if effect.change.is_bound else ""
        unsure = None if effect.change.finding is None else unsure_words(effect.change.finding)
        if told := [text for text in (bound, effect.change.assumption, effect.note, unsure) if text]:
            yield say("{change}: {assumption}", change=effect.change.words, assumption=joined(say("; "), told))
    if together := _together(replayed):
        yield together
    if replayed.plain_ns is not None and replayed.plain is not None:
        yield _without_profiler(replayed, replayed.plain_ns, replayed.plain)
    if not replayed.left:
        yield say("No other fix would save {least} of the new step.", least=share_text(WORTH_TELLING))


def _together(replayed: ReplayedChanges) -> Message | None:
    """Why single savings do not add up, where they do not."""
    now = replayed.now.steady_ns
    single = sum(now - effect.then.steady_ns for effect in replayed.alone)
    shared = single - (now - replayed.then.steady_ns)
    time = _whole_text(replayed, replayed.step_ns(abs(shared)))
    if shared >= WORTH_TELLING * now:
        return say("Separately they would add up to {time} more: their savings overlap.", time=time)
    if -shared >= WORTH_TELLING * now:
        return say("Together they save {time} more than separately: some time goes away only with several.", time=time)
    return None


def _without_profiler(replayed: ReplayedChanges, plain_ns: int, saving: PlainSaving) -> Message:
    step, low, high = (time_text(replayed.step_ns(ns)) for ns in (plain_ns, saving.low_ns, saving.high_ns))
    if not replayed.has_steps:
        return say(
            "Without the profiler it takes {time}; there it saves {low} to {high}.", time=step, low=low, high=high
        )
    return say(
        "Without the profiler a step takes {step}; there it saves {low} to {high}.", step=step, low=low, high=high
    )
