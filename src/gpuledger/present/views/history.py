"""A history of runs: the runs, a figure over them with its changes, and what moved at each change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from operator import attrgetter
from typing import Final

from gpuledger.analyse.run_history import (
    CODE,
    HARDWARE,
    METHOD,
    NOISE,
    BlamedChange,
    LevelChange,
    RunFigure,
    StoredRun,
    Trend,
)
from gpuledger.answers.several_profiles import Compared
from gpuledger.ledger.books import Line
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Block, Conclusion, Document, Heading, Remarks, SheetBlock
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.present.views.diff.comment import mark, where_to_look
from gpuledger.present.views.diff.tables import kernels_sheet, signed_share, signed_time
from gpuledger.present.views.tables import tables_document
from gpuledger.trace.model import Note, Severity
from gpuledger.units import bytes_text, count_text, share_text, three_figures, time_text

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDEST: Final = 60
_MOST_MOVED: Final = 12

_WORDS: Final = {CODE: say("code"), METHOD: say("method"), HARDWARE: say("hardware"), NOISE: say("noise")}
_BADGES: Final = {CODE: "bad", METHOD: "warn", HARDWARE: "warn", NOISE: "good"}


_ONLY_PEOPLE: Final = ("figure", "interval", "before", "after")
_ONLY_PROGRAMS: Final = ("value", "unit", "low", "high", "before_value", "after_value")


def figure_text(value: float | None, unit: str) -> str:
    """A figure with its unit."""
    if value is None:
        return "-"
    if unit == "ns":
        return time_text(round(value))
    return bytes_text(round(value)) if unit == "bytes" else three_figures(value)


def figure_name(figure: str) -> str:
    """What people call a figure: lines have the words of a report."""
    kind, _, name = figure.partition(":")
    return Line(name).label if kind == "line" else figure


def _document(store: str, sheets: Sequence[Sheet], sentences: Sequence[str], damaged: Sequence[str]) -> Document:
    """Exact numbers for programs, numbers with their units for people."""
    exact, shown = ([_without(sheet, keys) for sheet in sheets] for keys in (_ONLY_PEOPLE, _ONLY_PROGRAMS))
    notes = [Note(Severity.LOSS, "run-unreadable", sentence) for sentence in damaged]
    left = [say("Left out, as it cannot be read: {sentence}.", sentence=sentence) for sentence in damaged]
    return tables_document("history", store, exact, notes, 0, sentences=[[*sentences, *left]], shown=shown)


def _without(sheet: Sheet, keys: Sequence[str]) -> Sheet:
    kept = [place for place, column in enumerate(sheet.columns) if column.key not in keys]
    rows = tuple(tuple(row[place] for place in kept) for row in sheet.rows)
    return replace(sheet, columns=tuple(sheet.columns[place] for place in kept), rows=rows)


def runs_document(store: str, runs: Sequence[StoredRun], damaged: Sequence[str]) -> Document:
    """Every run of a store."""
    said = say("{count} runs in {store}.", count=count_text(len(runs)), store=store)
    return _document(store, [_runs_sheet(runs)], [said], damaged)


def _runs_sheet(runs: Sequence[StoredRun], figure: str = "") -> Sheet:
    """Runs with one figure each: the one that is named, else the first that the run has, its whole."""

    def of(run: StoredRun) -> RunFigure:
        return run.figures[figure or next(iter(run.figures))]

    def ends(run: StoredRun) -> str:
        shown = of(run)
        both = [figure_text(end, shown.unit) for end in (shown.low, shown.high) if end is not None]
        return say("{low} to {high}", low=both[0], high=both[1]) if both else ""

    return Sheet.of(
        "runs",
        say("Runs, the oldest commit first"),
        (
            Column("commit", say("Commit"), Unit.TEXT, "short"),
            Column("date_utc", say("Recorded (UTC)"), Unit.TEXT, lambda run: run.date_utc[:19], detail=2),
            Column("subject", say("Subject"), Unit.TEXT, detail=4),
            Column("gpu", "GPU", Unit.TEXT, detail=2),
            Column("clock_mhz", say("SM clock (MHz)"), Unit.COUNT, _clock_mhz, 3),
            *(
                Column(key, name, Unit.TEXT, detail=5)
                for key, name in (
                    ("machine", say("Machine")),
                    ("driver", say("Driver")),
                    ("tool", say("Tool")),
                    ("method", say("Method")),
                )
            ),
            Column("steps", say("Steps"), Unit.COUNT, detail=3),
            *(_exact(key, of) for key in ("value", "unit", "low", "high")),
            Column("figure", figure or say("Step"), Unit.FIGURE, lambda run: figure_text(of(run).value, of(run).unit)),
            Column("interval", say("95 % interval"), Unit.FIGURE, ends, detail=1),
        ),
        runs,
    )


def _exact(key: str, of: Callable[[StoredRun], RunFigure]) -> Column:
    part = attrgetter(key)
    return Column(key, key, Unit.TEXT, lambda run: part(of(run)))


def _clock_mhz(run: StoredRun) -> int | None:
    return None if run.clock_hz is None else round(run.clock_hz / 1e6)


def sparkline(values: Sequence[float]) -> str:
    """The values as bars from the least to the most, at most so wide that a terminal shows it."""
    if len(values) > _WIDEST:
        ends = [round(place * len(values) / _WIDEST) for place in range(_WIDEST + 1)]
        values = [sorted(values[a:b])[(b - a) // 2] for a, b in pairwise(ends)]
    low, high = min(values), max(values)
    return "".join(
        _BARS[round((len(_BARS) - 1) * (value - low) / (high - low))] if high > low else "▄" for value in values
    )


def _trend_sentences(found: Trend) -> list[str]:
    values = [run.figures[found.figure].value for run in found.runs]
    real = [change for change in found.changes if change.verdict != NOISE]
    drawn = say(
        "{figure}: {line} {low} to {high}",
        figure=figure_name(found.figure),
        line=sparkline(values),
        low=figure_text(min(values), found.unit),
        high=figure_text(max(values), found.unit),
    )
    counted = say(
        "Changes beyond noise: {changes} in {runs} runs; from run to run it varies by {noise}",
        changes=len(real),
        runs=count_text(len(values)),
        noise=share_text(found.noise_share),
    )
    said: list[str] = [say("{one}.", one=drawn), say("{one}.", one=counted), *map(change_sentence, real)]
    if found.drift_share:
        said.append(
            say(
                "It drifts by {share} from the first run to the last, in no single step: no commit is blamed for that.",
                share=signed_share(found.drift_share),
            )
        )
    if found.missing:
        said.append(say("{count} runs do not have this figure.", count=count_text(found.missing)))
    return said


def change_sentence(change: LevelChange) -> Message:
    """What changed, by how much, at which commit, and why that is said."""
    share = signed_share(change.share)
    if change.verdict == CODE:
        if change.first_after == change.after[0] and change.last_before == change.before[-1]:
            named = f"{change.first_after.short} {change.first_after.subject}".strip()
            return say("Code: {share} at {commit}.", share=share, commit=named)
        return say(
            "Code: {share} after {before}, by {commit} at the latest.",
            share=share,
            before=change.last_before.short,
            commit=change.first_after.short,
        )
    if change.verdict == NOISE:
        return say("Noise: {share} at {commit}.", share=share, commit=change.first_after.short)
    of = {HARDWARE: say("Hardware"), METHOD: say("Method")}[change.verdict]
    return say(
        "{verdict}: {share} from {commit} on ({what}); a change of the code at the same run would not show.",
        verdict=of,
        share=share,
        commit=change.first_after.short,
        what=change.what,
    )


def _changes_sheet(found: Trend) -> Sheet:
    def level(key: str, name: str, side: str) -> Column:
        return Column(key, name, Unit.FIGURE, lambda change: figure_text(getattr(change, side), found.unit))

    return Sheet.of(
        "changes",
        say("Changes of {figure}", figure=found.figure),
        (
            Column("verdict", say("Verdict"), Unit.TEXT, _verdict),
            Column("last_before", say("Last before"), Unit.TEXT, "last_before.short", detail=1),
            Column("first_after", say("First after"), Unit.TEXT, "first_after.short"),
            *(Column(key, key, Unit.TEXT) for key in ("before_value", "after_value")),
            level("before", say("Before"), "before_value"),
            level("after", say("After"), "after_value"),
            Column("change_percent", say("Change"), Unit.CHANGE_PERCENT, lambda change: 100 * change.share),
            Column("by_chance_percent", say("By chance"), Unit.SHARE_PERCENT, _chance_percent, detail=2),
            Column("what", say("What"), Unit.TEXT, lambda change: change.what or change.first_after.subject, detail=1),
        ),
        found.changes,
    )


def _verdict(change: LevelChange) -> Term:
    return Term(change.verdict, _WORDS[change.verdict], badge=_BADGES[change.verdict])


def _chance_percent(change: LevelChange) -> float | None:
    return None if change.chance is None else 100 * change.chance


def trend_document(store: str, found: Trend, damaged: Sequence[str]) -> Document:
    """One figure over the runs, and its changes."""
    sheets = [_changes_sheet(found), _runs_sheet(found.runs, found.figure)]
    return _document(store, sheets, _trend_sentences(found), damaged)


def _moved_sheet(change: LevelChange, number: int) -> Sheet:
    moved = change.moved
    return Sheet.of(
        f"moved_{number}",
        say("What moved at {commit}, per step", commit=change.first_after.short),
        (
            Column("what", say("Figure"), Unit.TEXT, lambda row: Term(row.figure, figure_name(row.figure))),
            Column("before_ns", say("Before"), Unit.NS, lambda row: row.before and round(row.before)),
            Column("after_ns", say("After"), Unit.NS, lambda row: row.after and round(row.after)),
            Column("delta_ns", say("Change"), Unit.NS, lambda row: round(row.delta)),
        ),
        [figure for figure in moved if abs(figure.delta) >= abs(moved[0].delta) / 100][:_MOST_MOVED],
    )


def _where(blamed: BlamedChange) -> list[str]:
    """The part, range and kernel that moved most, as `diff` has them, the phase, and the commits between."""
    change = blamed.change
    said = where_to_look(Compared(blamed.diff))
    phases = (part for part in change.moved if part.figure.startswith("phase:") and part.delta * change.share > 0)
    said += [say("{part}: {change}", part=part.figure, change=signed_time(part.delta)) for part in islice(phases, 1)]
    if len(blamed.commits) > 1 and change.verdict == CODE:
        said.append(say("Commits in between: {commits}.", commits=joined("; ", blamed.commits)))
    return said


def blame_document(store: str, found: Trend, blamed: Sequence[BlamedChange], damaged: Sequence[str]) -> Document:
    """Each change with the commits that may have made it, and what moved."""
    said: list[str] = [] if blamed else [say("Nothing changed {figure} beyond noise.", figure=found.figure)]
    for part in blamed:
        said += [change_sentence(part.change), *_where(part)]
    moved = [_moved_sheet(part.change, number) for number, part in enumerate(blamed, 1)]
    kernels = [kernels_sheet(part.diff) for part in blamed[-1:]]
    return _document(store, [_changes_sheet(found), *moved, *kernels], said, damaged)


def history_comment(found: Trend, blamed: Sequence[BlamedChange], damaged: Sequence[str]) -> Document:
    """For a pull request: the trend, its changes, and what moved at the last one."""
    title, *more = _trend_sentences(found)
    inner = blame_document(found.figure, found, blamed, damaged)
    blocks: list[Block] = [
        mark(),
        Heading(say("gpuledger: {figure} over {runs} runs", figure=found.figure, runs=len(found.runs)), 3),
        Conclusion(title),
        Remarks((*more, *damaged)),
    ]
    if found.changes:
        blocks.append(SheetBlock(_without(_changes_sheet(found), _ONLY_PROGRAMS)))
    for part in blamed[-1:]:
        blocks += [Remarks(tuple(_where(part))), SheetBlock(_moved_sheet(part.change, len(blamed)))]
    return Document(lambda: tuple(blocks), inner.data, inner.sheets)
