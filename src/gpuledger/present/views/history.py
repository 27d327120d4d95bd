"""A history of runs: the runs, a figure over them with its changes, and what moved at each change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.run_history import CODE, FEWEST, HARDWARE, METHOD, NOISE, LevelChange, StoredRun, Trend
from gpuledger.ledger.books import Line
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Conclusion, Document, Heading, Remarks, SheetBlock
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Column, Sheet, Term, Unit, share_column
from gpuledger.present.views.diff import diff_answer, mark
from gpuledger.present.views.tables import tables_document
from gpuledger.trace.model import Note, Severity
from gpuledger.units import count_text, share_text, signed_share

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDEST: Final = 60
_MOST_MOVED: Final = 12
_UNITS: Final = {"ns": (Unit.NS, "_ns"), "bytes": (Unit.BYTES, "_bytes")}
_WORDS: Final = {CODE: say("code"), METHOD: say("method"), HARDWARE: say("hardware"), NOISE: say("noise")}
_BADGES: Final = {CODE: "bad", METHOD: "warn", HARDWARE: "warn", NOISE: "good"}


class BlamedChange(NamedTuple):
    """A change, the commits that may have made it, the newest first, and the comparison of the runs on both sides."""

    change: LevelChange
    commits: Sequence[str]
    diff: Diff


def figure_name(figure: str) -> str:
    """What people call a figure: lines have the words of a report."""
    kind, _, name = figure.partition(":")
    try:
        return Line(name).label if kind == "line" else visible(figure)
    except ValueError:  # of another version, or nobody's
        return visible(figure)


def _document(store: str, sheets: Sequence[Sheet], sentences: Sequence[str], damaged: Sequence[str]) -> Document:
    notes = [Note(Severity.LOSS, "run-unreadable", sentence) for sentence in damaged]
    left = [say("Left out, as it cannot be read: {sentence}.", sentence=sentence) for sentence in damaged]
    return tables_document("history", store, sheets, notes, 0, sentences=[[*sentences, *left]])


def runs_document(store: str, runs: Sequence[StoredRun], damaged: Sequence[str] = ()) -> Document:
    """Every run of a store, with the first of its figures, the step."""
    said = say("Runs in {store}: {count}.", count=count_text(len(runs)), store=store)
    figure = next(iter(runs[0].figures)) if runs else ""
    return _document(store, [_runs_sheet([run for run in runs if figure in run.figures], figure)], [said], damaged)


def _runs_sheet(runs: Sequence[StoredRun], figure: str) -> Sheet:
    unit, ending = _UNITS.get(runs[0].figures[figure].unit, (Unit.MEAN, "")) if runs else (Unit.MEAN, "")

    def cell(side: str) -> Column:
        name = {"value": figure_name(figure), "low": say("Low"), "high": say("High")}[side]

        def rounded(run: StoredRun) -> float | None:
            value: float | None = getattr(run.figures[figure], side)
            return value if value is None or unit is Unit.MEAN else round(value)

        return Column(f"{side}{ending}", name, unit, rounded, detail=0 if side == "value" else 1)

    texts = (
        *(("subject", say("Subject"), 4), ("gpu", "GPU", 2), ("machine", say("Machine"), 5)),
        *(("driver", say("Driver"), 6), ("tool", say("Tool"), 6), ("method", say("Method"), 6)),
    )
    columns = (
        Column("commit", say("Commit"), Unit.TEXT, "short"),
        Column("date_utc", say("Recorded (UTC)"), Unit.TEXT, lambda run: run.date_utc[:19], detail=2),
        *(Column(key, name, Unit.TEXT, detail=detail) for key, name, detail in texts),
        Column("clock_mhz", "MHz", Unit.COUNT, lambda run: run.clock_hz and round(run.clock_hz / 1e6), 3),
        Column("steps", say("Steps"), Unit.COUNT, detail=3),
        *map(cell, ("value", "low", "high")),
    )
    return Sheet.of("runs", say("Runs, the oldest commit first"), columns, runs)


def sparkline(values: Sequence[float]) -> str:
    """The values as bars from the least to the most, at most so wide that a terminal shows it."""
    if len(values) > _WIDEST:
        ends = [round(place * len(values) / _WIDEST) for place in range(_WIDEST + 1)]
        values = [sorted(values[start:end])[(end - start) // 2] for start, end in pairwise(ends)]
    low, high = min(values), max(values)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round(scale * (value - low))] for value in values)


def _too_few(found: Trend) -> list[str]:
    """What is said instead of a change where there are too few runs to see one."""
    if len(found.runs) >= 2 * FEWEST:
        return []
    return [say("Runs: {runs}, too few to tell a change from noise.", runs=count_text(len(found.runs)))]


def _trend_sentences(found: Trend) -> list[str]:
    real = [change for change in found.changes if change.verdict != NOISE]
    values = [run.figures[found.figure].value for run in found.runs]
    summary = _too_few(found) or [
        say(
            "Runs: {runs}; changes beyond noise: {changes}; from run to run it varies by {noise}.",
            runs=count_text(len(values)),
            changes=count_text(len(real)),
            noise=share_text(found.noise_share),
        )
    ]
    line = say("{figure}: {line}", figure=figure_name(found.figure), line=sparkline(values))
    said: list[str] = [line, *summary, *map(change_sentence, real)]
    if found.drift_share:
        share = signed_share(found.drift_share)
        said.append(say("It drifts by {share} over all runs, in no single step: no commit is blamed.", share=share))
    return said


def change_sentence(change: LevelChange) -> Message:
    """What changed, by how much, at which commit, and why that is said."""
    share, first = signed_share(change.share), change.first_after
    if change.verdict != CODE:
        of = {HARDWARE: say("Hardware"), METHOD: say("Method"), NOISE: say("Noise")}[change.verdict]
        what = f"{first.short}, {change.what}" if change.what else first.short
        return say("{verdict}: {share} from {what}.", verdict=of, share=share, what=what)
    if first == change.after[0] and change.last_before == change.before[-1]:
        return say("Code: {share} at {commit}.", share=share, commit=f"{first.short} {first.subject}".strip())
    between = {"before": change.last_before.short, "commit": first.short}
    return say("Code: {share} after {before}, by {commit} at the latest.", share=share, **between)


def _changes_sheet(found: Trend) -> Sheet:
    unit, ending = _UNITS.get(found.unit, (Unit.MEAN, ""))
    columns = (
        Column("verdict", say("Verdict"), Unit.TEXT, _verdict),
        Column("last_before", say("Last before"), Unit.TEXT, "last_before.short", detail=1),
        Column("first_after", say("First after"), Unit.TEXT, "first_after.short"),
        Column(f"before{ending}", say("Before"), unit, lambda change: round(change.before_value)),
        Column(f"after{ending}", say("After"), unit, lambda change: round(change.after_value)),
        share_column("change_percent", say("Change"), "share", unit=Unit.CHANGE_PERCENT),
        share_column("by_chance_percent", say("By chance"), "chance", detail=2),
        Column("what", say("What"), Unit.TEXT, lambda change: change.what or change.first_after.subject, detail=1),
    )
    return Sheet.of("changes", say("Changes of {figure}", figure=figure_name(found.figure)), columns, found.changes)


def _verdict(change: LevelChange) -> Term:
    return Term(change.verdict, _WORDS[change.verdict], badge=_BADGES[change.verdict])


def trend_document(store: str, found: Trend, damaged: Sequence[str]) -> Document:
    """One figure over the runs, and its changes."""
    sheets = [_changes_sheet(found), _runs_sheet(found.runs, found.figure)]
    return _document(store, sheets, _trend_sentences(found), damaged)


def _moved_sheet(change: LevelChange, number: int) -> Sheet:
    columns = (
        Column("figure", say("Figure"), Unit.TEXT, lambda row: Term(row[0], figure_name(row[0]))),
        Column("before_ns", say("Before"), Unit.NS, lambda row: row[1][0] and round(row[1][0])),
        Column("after_ns", say("After"), Unit.NS, lambda row: row[1][1] and round(row[1][1])),
        Column("delta_ns", say("Change"), Unit.NS, lambda row: round((row[1][1] or 0) - (row[1][0] or 0))),
    )
    title = say("What moved at {commit}, per step", commit=change.first_after.short)
    return Sheet.of(f"moved_{number}", title, columns, list(change.moved_ns.items())[:_MOST_MOVED])


def _where(blamed: BlamedChange) -> list[str]:
    """The part, range and kernel that moved most, as `diff` has them, and the commits between."""
    said = diff_answer(blamed.diff).places()
    if len(blamed.commits) > 1 and blamed.change.verdict == CODE:
        said.append(say("Commits in between: {commits}.", commits=joined("; ", blamed.commits)))
    return said


def blame_document(store: str, found: Trend, blamed: Sequence[BlamedChange], damaged: Sequence[str]) -> Document:
    """Each change with the commits that may have made it, and what moved."""
    nothing = _too_few(found) or [say("Nothing changed {figure} beyond noise.", figure=found.figure)]
    said: list[str] = [] if blamed else nothing
    for part in blamed:
        said += [change_sentence(part.change), *_where(part)]
    moved = [_moved_sheet(part.change, number) for number, part in enumerate(blamed, 1)]
    kernels = [diff_answer(part.diff).sheet("kernels", is_exact=True) for part in blamed[-1:]]
    return _document(store, [_changes_sheet(found), *moved, *kernels], said, damaged)


def history_comment(found: Trend, blamed: Sequence[BlamedChange], damaged: Sequence[str]) -> Document:
    """For a pull request: the trend, its changes, and what moved at the last one."""
    title, *more = _trend_sentences(found)
    inner = blame_document(found.figure, found, blamed, damaged)
    heading = Heading(say("gpuledger: {figure} over {runs} runs", figure=found.figure, runs=len(found.runs)), 3)
    changes = [SheetBlock(_changes_sheet(found))] if found.changes else []
    last = [(Remarks(tuple(_where(part))), SheetBlock(_moved_sheet(part.change, 1))) for part in blamed[-1:]]
    blocks = (mark(), heading, Conclusion(title), Remarks((*more, *damaged)), *changes, *(last[0] if last else ()))
    return Document(lambda: blocks, inner.data, inner.sheets)
