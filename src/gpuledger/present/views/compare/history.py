"""A history of runs: the runs, a figure over them with its changes, and what moved at each change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

from msgspec.structs import replace

from gpuledger.analyse.diff.run_history import (
    CODE,
    FEWEST,
    HARDWARE,
    METHOD,
    NOISE,
    BlamedChange,
    LevelChange,
    StoredRun,
    Trend,
)
from gpuledger.ledger.books import Line
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.safe_text import visible
from gpuledger.present.views.answer import Answer, HealthRow, health_rows
from gpuledger.present.views.compare.diff import KernelChangeRow, diff_answer, mark
from gpuledger.rows import Label, LabelledCode, Row, Unit
from gpuledger.trace.model import Note, Severity
from gpuledger.units import count_text, share_text, signed_share

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDEST: Final = 60
_MOST_MOVED: Final = 12


class ChangeVerdict(LabelledCode):
    """What made a figure another."""

    CODE = CODE, say("code"), "bad"
    METHOD = METHOD, say("method"), "warn"
    HARDWARE = HARDWARE, say("hardware"), "warn"
    NOISE = NOISE, say("noise"), "good"


class HistoryRunRow(Row, frozen=True):
    """A run, with the figure that is asked about."""

    commit: Annotated[str, Label(say("Commit"))]
    value_ns: Annotated[int | None, Label(say("Time"), Unit.NS)]
    value_bytes: Annotated[int | None, Label(say("Size"), Unit.BYTES)]
    value: Annotated[float | None, Label(say("Number"), Unit.MEAN)]
    low_ns: Annotated[int | None, Label(say("Low"), Unit.NS, 1)]
    high_ns: Annotated[int | None, Label(say("High"), Unit.NS, 1)]
    date_utc: Annotated[str, Label(say("Recorded (UTC)"), detail=2)]
    steps: Annotated[int, Label(say("Steps"), Unit.COUNT, 3)]
    clock_hz: Annotated[float | None, Label(say("Clock (Hz)"), Unit.AMOUNT, 6)]
    gpu_name: Annotated[str, Label("GPU", detail=2)]
    subject: Annotated[str, Label(say("Subject"), detail=4)]
    machine: Annotated[str, Label(say("Machine"), detail=5)]
    driver: Annotated[str, Label(say("Driver"), detail=6)]
    tool: Annotated[str, Label(say("Tool"), detail=6)]
    method: Annotated[str, Label(say("Method"), detail=6)]


class HistoryChangeRow(Row, frozen=True):
    """A change of the figure."""

    verdict: Annotated[ChangeVerdict, Label(say("Verdict"))]
    last_before: Annotated[str, Label(say("Last before"), detail=1)]
    first_after: Annotated[str, Label(say("First after"))]
    before_ns: Annotated[int | None, Label(say("Before"), Unit.NS)]
    after_ns: Annotated[int | None, Label(say("After"), Unit.NS)]
    before_bytes: Annotated[int | None, Label(say("Before"), Unit.BYTES)]
    after_bytes: Annotated[int | None, Label(say("After"), Unit.BYTES)]
    before: Annotated[float | None, Label(say("Before"), Unit.MEAN)]
    after: Annotated[float | None, Label(say("After"), Unit.MEAN)]
    change_share: Annotated[float, Label(say("Change"), Unit.CHANGE)]
    by_chance_share: Annotated[float | None, Label(say("By chance"), Unit.SHARE, 2)]
    what: Annotated[str, Label(say("What"), detail=1)]


class MovedRow(Row, frozen=True):
    """A figure that moved with a change, per step."""

    commit: Annotated[str, Label(say("First after"), detail=1)]
    figure: Annotated[Line | str, Label(say("Figure"))]
    before_ns: Annotated[int | None, Label(say("Before"), Unit.NS)]
    after_ns: Annotated[int | None, Label(say("After"), Unit.NS)]
    delta_ns: Annotated[int, Label(say("Change"), Unit.CHANGE_NS)]


class HistoryAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.history/1"):
    """Runs of a store, a figure over them, its changes, and what moved at each."""

    figure: str
    """Which of the runs' figures this is about."""
    noise_share: float | None = None
    """The standard deviation from run to run around the levels."""
    drift_share: float | None = None
    """How much it grows from the first run to the last, in no single step."""
    comment_sentences: tuple[str, ...] = ()
    """The trend, then what moved at the last change."""
    changes: Annotated[tuple[HistoryChangeRow, ...], Label(say("Changes of {figure}", figure=""))] = ()
    moved: Annotated[tuple[MovedRow, ...], Label(say("What moved, per step"))] = ()
    kernels: Annotated[tuple[KernelChangeRow, ...], Label(say("Kernels that changed most"))] = ()
    runs: Annotated[tuple[HistoryRunRow, ...], Label(say("Runs, the oldest commit first"))] = ()

    def title(self, table: str) -> str:
        if table == "changes":
            return say("Changes of {figure}", figure=_figure_name(self.figure))
        return super().title(table)

    def comment(self) -> doc.Document:
        """For a pull request: the trend, its changes, and what moved at the last one."""
        first, *more = self.comment_sentences
        title = say("gpuledger: {figure} over {runs} runs", figure=self.figure, runs=len(self.runs))
        blocks: list[doc.Block] = [mark(), doc.Heading(title, 3), doc.Conclusion(first), doc.Remarks(tuple(more))]
        last = [row for row in self.moved if row.commit == self.moved[-1].commit]
        blocks += [
            doc.SheetBlock(answer.sheet(table))
            for table, answer in (("changes", self), ("moved", replace(self, moved=tuple(last))))
            if getattr(answer, table)
        ]
        return replace(self.document(), blocks=lambda: tuple(blocks))


def runs_answer(
    store: str, runs: Sequence[StoredRun], damaged: Sequence[str] = (), added: Path | None = None
) -> HistoryAnswer:
    """Runs with the first of their figures, the step; `added`: the file of one that was added."""
    figure = next(iter(runs[0].figures)) if runs else ""
    return HistoryAnswer(
        profile=store,
        figure=figure,
        sentences=(
            say("Wrote {path}", path=added)
            if added
            else say("Runs in {store}: {count}.", count=count_text(len(runs)), store=store),
            *_left_out(damaged),
        ),
        health=_health(damaged),
        runs=tuple(_run(run, figure) for run in runs if figure in run.figures),
    )


def trend_answer(store: str, found: Trend, damaged: Sequence[str]) -> HistoryAnswer:
    """One figure over the runs, and its changes."""
    return HistoryAnswer(
        profile=store,
        figure=found.figure,
        noise_share=found.noise_share,
        drift_share=found.drift_share,
        sentences=(*_trend_sentences(found), *_left_out(damaged)),
        health=_health(damaged),
        changes=tuple(_change(found.unit, change) for change in found.changes),
        runs=tuple(_run(run, found.figure) for run in found.runs),
    )


def blame_answer(store: str, found: Trend, blamed: Sequence[BlamedChange], damaged: Sequence[str]) -> HistoryAnswer:
    """Each change with the commits that may have made it, and what moved."""
    said: list[str] = []
    if not blamed:
        said = _too_few(found) or [say("Nothing changed {figure} beyond noise.", figure=found.figure)]
    for part in blamed:
        said += [_change_sentence(part.change), *_place_sentences(part)]
    last = [sentence for part in blamed[-1:] for sentence in _place_sentences(part)]
    return replace(
        trend_answer(store, found, damaged),
        sentences=(*said, *_left_out(damaged)),
        comment_sentences=(*_trend_sentences(found), *_left_out(damaged), *last),
        moved=tuple(row for part in blamed for row in _moved(part.change)),
        kernels=tuple(row for part in blamed[-1:] for row in diff_answer(part.diff).shown_rows("kernels")),
    )


def _figure_name(figure: str) -> str:
    """What people call a figure: lines have the words of a report."""
    line = _line(figure)
    return line.label if line is not None else visible(figure)


def _line(figure: str) -> Line | None:
    """The line of the books that a figure is; None for others, and those of another version, or nobody's."""
    kind, _, name = figure.partition(":")
    try:
        return Line(name) if kind == "line" else None
    except ValueError:
        return None


def _health(damaged: Sequence[str]) -> tuple[HealthRow, ...]:
    return health_rows(Note(Severity.LOSS, "run-unreadable", sentence) for sentence in damaged)


def _left_out(damaged: Sequence[str]) -> list[str]:
    return [say("Left out, as it cannot be read: {sentence}.", sentence=sentence) for sentence in damaged]


def _by_unit(unit: str, value: float) -> tuple[int | None, int | None, float | None]:
    """In nanoseconds, in bytes or as a number: in the one that it is."""
    if unit == "ns":
        return round(value), None, None
    return (None, round(value), None) if unit == "bytes" else (None, None, value)


def _run(run: StoredRun, figure: str) -> HistoryRunRow:
    held = run.figures[figure]
    value_ns, value_bytes, value = _by_unit(held.unit, held.value)
    is_time = held.unit == "ns"
    return HistoryRunRow(
        commit=run.short,
        value_ns=value_ns,
        value_bytes=value_bytes,
        value=value,
        low_ns=round(held.low) if is_time and held.low is not None else None,
        high_ns=round(held.high) if is_time and held.high is not None else None,
        date_utc=run.date_utc[:19],
        steps=run.steps,
        clock_hz=run.clock_hz,
        gpu_name=run.gpu,
        subject=run.subject,
        machine=run.machine,
        driver=run.driver,
        tool=run.tool,
        method=run.method,
    )


def _change(unit: str, change: LevelChange) -> HistoryChangeRow:
    before_ns, before_bytes, before = _by_unit(unit, change.before_value)
    after_ns, after_bytes, after = _by_unit(unit, change.after_value)
    return HistoryChangeRow(
        verdict=ChangeVerdict(change.verdict),
        last_before=change.last_before.short,
        first_after=change.first_after.short,
        before_ns=before_ns,
        after_ns=after_ns,
        before_bytes=before_bytes,
        after_bytes=after_bytes,
        before=before,
        after=after,
        change_share=change.share,
        by_chance_share=change.chance,
        what=change.what or change.first_after.subject,
    )


def _moved(change: LevelChange) -> list[MovedRow]:
    return [
        MovedRow(
            change.first_after.short,
            _line(figure) or figure,
            None if before is None else round(before),
            None if after is None else round(after),
            round((after or 0) - (before or 0)),
        )
        for figure, (before, after) in list(change.moved_ns.items())[:_MOST_MOVED]
    ]


def _sparkline(values: Sequence[float]) -> str:
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
    line = say("{figure}: {line}", figure=_figure_name(found.figure), line=_sparkline(values))
    said: list[str] = [line, *summary, *map(_change_sentence, real)]
    if found.drift_share:
        share = signed_share(found.drift_share)
        said.append(say("It drifts by {share} over all runs, in no single step: no commit is blamed.", share=share))
    return said


def _change_sentence(change: LevelChange) -> Message:
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


def _place_sentences(blamed: BlamedChange) -> list[str]:
    """The part, range and kernel that moved most, as `diff` has them, and the commits between."""
    said = diff_answer(blamed.diff).places()
    if len(blamed.commits) > 1 and blamed.change.verdict == CODE:
        said.append(say("Commits in between: {commits}.", commits=joined("; ", blamed.commits)))
    return said
