"""A job of many ranks: the verdict, what to do, who is late as a map of shades, tables, and what is not known.

Hundreds of ranks do not fit a screen: neighbours share a row of the map, where the latest of them shows, and tables
keep their worst rows. CSV and JSON have all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.ranks.collectives import CollectivesOfGroup
from gpuledger.analyse.ranks.fixing import Fix, FixKind
from gpuledger.analyse.ranks.rank import RankSummary, WorkPart
from gpuledger.analyse.ranks.rank_times import LateAt, Lateness, RankTimes, Straggler
from gpuledger.answers.several_profiles import JobAnswer
from gpuledger.catalog.range_names import PHASES
from gpuledger.findings.finding import Finding
from gpuledger.findings.ranks import fix_name
from gpuledger.messages import capitalised, joined, say, uncapitalised
from gpuledger.present import document as doc
from gpuledger.present.charts.over_time import HeatRow, heat_map
from gpuledger.present.finding_words import saving_range_words, shown_finding
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Cell, Column, Sheet, Unit, share_column
from gpuledger.present.terms import notes_block
from gpuledger.trace.model import Note, NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.units import count_text, time_text

LATE: Final = say("Who is late, and when")

_NONE: Final = doc.Paragraph(say("None."), "note")
_MOST_CHART_ROWS: Final = 64
_MOST_CHART_COLUMNS: Final = 240
"""Ranks and steps of a page's map."""

_MOST_NOTES: Final = 12
_MOST_SHOWN: Final = 20
"""Rows of a table, for people."""

_WORST_BY: Final = {"job_ranks": ("caused_ns", "compute_ns"), "job_steps": ("longest_ns",)}
"""Which rows to keep of tables that are not in the order of what matters."""


class Map(Struct, frozen=True, eq=False):
    """Numbers to be shown as shades: a row per rank, a column per step."""

    what: str
    ranks: Sequence[str]
    steps: Sequence[int]
    ns: Ints


class Merged(Struct, frozen=True, eq=False):
    """All that there is to show of a job."""

    name: str
    headline: str
    profiles: int
    failed: tuple[tuple[str, str], ...]
    """Profiles that could not be analysed, each with what was wrong."""
    ranks: int
    world_size: int | None
    tables: tuple[Sheet, ...]
    map: Map | None
    findings: tuple[Finding, ...]
    compared: bool
    """Whether any collective was found on all its ranks, so that waiting can be told."""
    notes: tuple[Note, ...]


def fleet_document(merged: Merged, late: Sheet | None) -> doc.Document:
    """The job; `late` is who was late, rank by rank and step by step. JSON is the document gpuledger.fleet/1."""
    late_map = merged.map
    tables = [for_people(sheet) for sheet in merged.tables if sheet.rows]
    closing = tuple(_closing(merged))
    return doc.Document(
        blocks=lambda: (
            doc.Opening(merged.name, visible(merged.headline)),
            doc.Conclusion(verdict(merged)),
            *([doc.Findings(tuple(map(_shown, merged.findings)))] if merged.findings else []),
            *(
                ()
                if late_map is None
                else (doc.Shades(LATE, late_map.what, late_map.ranks, late_map.steps, late_map.ns),)
            ),
            *(doc.SheetBlock(sheet, doc.SheetTitle.NAMED, tells_hidden=True) for sheet in tables),
            *((doc.Remarks(closing),) if closing else ()),
        ),
        data=doc.json_by("fleet.fleet_json", merged),
        sheets=lambda: (*merged.tables, *([late] if late else [])),
        remarks=tuple(f"{name}: {why}" for name, why in merged.failed),
        page=lambda: _page(merged),
    )


def _shown(finding: Finding) -> doc.ShownFinding:
    return doc.ShownFinding(finding, saving_range_words(finding))


def verdict(merged: Merged) -> str:
    """One sentence."""
    if merged.findings:
        return say("{claim}.", claim=capitalised(merged.findings[0].claim))
    if merged.ranks < 2:
        return say("One rank cannot show waiting for others; give the profiles of all ranks.")
    if not merged.compared:
        return say("No collective was found on all its ranks: who waits for whom is unknown.")
    return say("No rank holds up the others for long.")


def rank_phases_sheets(ranks: Sequence[RankSummary]) -> tuple[Sheet, ...]:
    """What each phase of a layer takes on each rank, per step; a rank's sum to its mean step. None: not asked for."""

    def time_column(name: str) -> Column:
        return Column(f"{name.replace(' ', '_')}_ns", name, Unit.MEAN_NS, lambda rank: _per_step(rank, name))

    told = [rank for rank in ranks if rank.phases_ns]
    place = {name: number for number, name in enumerate(PHASES)}  # idle time and other work come after them
    seen = dict.fromkeys(name for rank in told for name, _ in rank.phases_ns)
    names = sorted(seen, key=lambda name: place.get(name, len(place)))
    columns = (Column("rank", say("Rank"), Unit.TEXT, "label"), *map(time_column, names))
    return (Sheet.of("job_phases", say("Phases by rank, per step"), columns, told),) if told else ()


def _per_step(rank: RankSummary, phase: str) -> float:
    return dict(rank.phases_ns).get(phase, 0) / rank.step_count


def for_people(sheet: Sheet) -> Sheet:
    """The sheet with its worst rows, in their order, and a title that says so."""
    if len(sheet.rows) <= _MOST_SHOWN:
        return sheet
    kept: Iterable[int] = range(_MOST_SHOWN)
    which = say("first")
    if sheet.name in _WORST_BY:
        keys = [column.key for column in sheet.columns]
        by = [keys.index(key) for key in _WORST_BY[sheet.name]]
        order = sorted(range(len(sheet.rows)), key=lambda row: [-_number(sheet.rows[row][column]) for column in by])
        kept = sorted(order[:_MOST_SHOWN])
        which = say("worst by {column}", column=uncapitalised(sheet.columns[by[0]].name))
    title = say(
        "{title}: the {shown} {which}, of {count}",
        title=sheet.title,
        shown=_MOST_SHOWN,
        which=which,
        count=count_text(len(sheet.rows)),
    )
    return replace(sheet, title=title, rows=tuple(sheet.rows[row] for row in kept))


def _number(cell: Cell) -> float:
    return cell if isinstance(cell, int | float) else -1


def _closing(merged: Merged) -> list[str]:
    """What failed, what is not known, and the next command."""
    lines: list[str] = [
        say("Failed: {profile}: {sentence}.", profile=visible(name), sentence=visible(sentence))
        for name, sentence in merged.failed[:_MOST_NOTES]
    ]
    if len(merged.failed) > _MOST_NOTES:
        more = count_text(len(merged.failed) - _MOST_NOTES)
        lines.append(say("Failed: {count} more; --format=json names them all.", count=more))
    lines += [say("Note: {sentence}.", sentence=visible(note.sentence)) for note in merged.notes[:_MOST_NOTES]]
    if len(merged.notes) > _MOST_NOTES:
        more = count_text(len(merged.notes) - _MOST_NOTES)
        lines.append(say("Note: {count} more; --format=json has them all.", count=more))
    if merged.findings:
        lines.append(say("next: {command}", command=merged.findings[0].next))
    return lines


def _page(merged: Merged) -> doc.Page:
    """The verdict, what to do, who is late as a map, and the tables of text."""
    cards = doc.Findings(tuple(map(shown_finding, merged.findings)))
    tables = ((sheet, for_people(sheet)) for sheet in merged.tables)
    return doc.Page(
        merged.name,
        verdict(merged),
        headline=merged.headline,
        tiles=_tiles(merged),
        sections=(
            *([doc.Section("findings", say("What to do"), (cards,))] if cards.entries else []),
            doc.Section("late", LATE, _late_blocks(merged.map, compared=merged.compared)),
            *(
                doc.Section(
                    f"section-{sheet.name}",
                    shown.title,
                    (doc.SheetBlock(shown, anchor=sheet.name, is_quiet=True),) if sheet.rows else (_NONE,),
                    sheet.title,
                )
                for sheet, shown in tables
            ),
            doc.Section("health", say("Health and provenance"), _health_blocks(merged), say("Health")),
        ),
    )


def _tiles(merged: Merged) -> tuple[doc.Tile, ...]:
    world = "" if merged.world_size is None else say("of {count}", count=count_text(merged.world_size))
    failed = say("{count} failed", count=count_text(len(merged.failed)))
    tiles = [
        doc.Tile(say("Ranks"), count_text(merged.ranks), world),
        doc.Tile(say("Profiles"), count_text(merged.profiles), failed),
    ]
    if merged.findings and merged.findings[0].saving_ns:
        top = merged.findings[0]
        saving_ns = top.saving_ns if top.saving_ns_per_step is None else top.saving_ns_per_step
        tiles.append(doc.Tile(say("Fix first"), time_text(saving_ns), joined(" · ", (say("per step"), top.code))))
    return tuple(tiles)


def _late_blocks(late: Map | None, *, compared: bool) -> tuple[doc.Block, ...]:
    """Ranks by steps; of very many, neighbours share a cell, where the latest shows."""
    if late is None:
        missing = (
            say(
                "Not drawn: no steps were found to draw it by; the tables below have the collectives that were matched."
            )
            if compared
            else say("Not measured: neither collectives nor steps were matched across ranks.")
        )
        return (doc.Paragraph(missing, "unknown"),)
    largest = max(int(late.ns.max()), 1)
    said = say(
        "One row per rank, one column per step: {what}; full color is {most}.",
        what=late.what,
        most=time_text(largest),
    )
    columns = np.array_split(np.arange(len(late.steps)), min(len(late.steps), _MOST_CHART_COLUMNS))
    rows = []
    for ranks in np.array_split(np.arange(len(late.ranks)), min(len(late.ranks), _MOST_CHART_ROWS)):
        latest = np.array([int(late.ns[np.ix_(ranks, column)].max()) for column in columns], np.int64)
        first, last = late.ranks[int(ranks[0])], late.ranks[int(ranks[-1])]
        name = first if len(ranks) == 1 else f"{first} - {last}"
        rows.append(HeatRow(name, latest, time_text(int(latest.max()))))
    worst = sorted(rows, key=lambda row: -int(row.values.max()))[:4]
    described = joined(say("; "), [say("{rank}: up to {time}", rank=row.name, time=row.said) for row in worst])
    ends = (say("step {step}", step=late.steps[0]), say("step {step}", step=late.steps[-1]))
    scale = say("of {time}", time=time_text(largest))
    draw = partial(heat_map, LATE, described, rows, largest, ends, scale)
    return doc.Paragraph(said, "lead"), doc.Chart(draw, name="rank-map")


def _health_blocks(merged: Merged) -> tuple[doc.Block, ...]:
    failed = doc.Points(
        say("Failed: {count}", count=count_text(len(merged.failed))),
        tuple(f"{name}: {why}" for name, why in merged.failed),
    )
    return (
        *([failed] if merged.failed else []),
        *([notes_block(merged.notes)] if merged.notes else []),
        doc.Reproduce(),
    )


_CAUSE: Final = {
    WorkPart.COMPUTE: say("compute"),
    WorkPart.COMM: say("communication"),
    WorkPart.COPY: say("copies"),
    WorkPart.HOST: say("host"),
    WorkPart.GARBAGE: say("garbage collection"),
    WorkPart.SYSTEM: say("OS calls"),
    WorkPart.THREAD: say("waiting on a thread"),
}

_LATE_AT: Final = {
    LateAt.COLLECTIVES: say("how late a rank reached a step's collectives, at most"),
    LateAt.STEPS: say("how much longer a step took than on the fastest rank"),
}


def job_sheets(answer: JobAnswer) -> list[Sheet]:
    """All tables about a job."""
    return [
        _fixing_sheet(answer),
        _ranks_sheet(answer.ranks),
        _collectives_sheet(answer.collectives),
        Sheet.of(
            "job_worst",
            say("Collectives with the longest waits"),
            (
                Column("at_ns", say("At"), Unit.INSTANT_NS, "begun_ns", detail=1),
                Column("step", say("Step"), Unit.ID, detail=2),
                Column("kind", say("Collective"), Unit.TEXT),
                Column("ordinal", say("No. in step"), Unit.COUNT),
                Column("group", say("Group"), Unit.TEXT, detail=3),
                Column("bytes", say("Bytes each"), Unit.BYTES, "mean_bytes", detail=4),
                Column("skew_ns", say("Skew"), Unit.NS),
                Column("wait_ns", say("Wait per rank"), Unit.NS, "wait_per_rank_ns"),
                Column("transfer_ns", say("Transfer"), Unit.NS, detail=5),
                Column("late_rank", say("Last to arrive"), Unit.TEXT),
            ),
            answer.worst,
        ),
        Sheet.of(
            "job_compute",
            say("Compute across ranks, per step"),
            (
                Column("family", say("Compute"), Unit.TEXT, lambda balance: balance.family or say("all")),
                Column("mean_ns", say("Mean"), Unit.NS, detail=1),
                Column("most_ns", say("Most"), Unit.NS),
                Column("most_rank", say("on"), Unit.TEXT),
                Column("imbalance", say("Max / mean"), Unit.RATIO),
            ),
            answer.balance,
        ),
        Sheet.of(
            "job_steps",
            say("Steps across ranks"),
            (
                Column("step", say("Step"), Unit.ID),
                Column("longest_ns", say("Longest"), Unit.NS),
                Column("slowest_rank", say("on"), Unit.TEXT),
                Column("median_ns", say("Median"), Unit.NS),
                Column("shortest_ns", say("Shortest"), Unit.NS, detail=1),
            ),
            answer.steps,
        ),
    ]


def _fixing_sheet(answer: JobAnswer) -> Sheet:
    """What saves the most at the median pace, then what still does; each with how long a step then takes."""
    job, fixed = answer.job, answer.fixed
    fixes: list[tuple[Fix, int]] = []
    step_ns = 0
    if not isinstance(fixed, NotMeasured):
        step_ns = fixed.step_ns
        lengths = accumulate((fix.then_ns for fix in fixed.in_order), int.__sub__, initial=step_ns)
        fixes = list(zip(fixed.in_order, list(lengths)[1:], strict=True))

    def profile(row: tuple[Fix, int]) -> str | None:
        return job.ranks[row[0].number].profile if row[0].kind is FixKind.RANK else None

    columns = (
        Column("fixed", say("Fixed"), Unit.TEXT, lambda row: fix_name(job, row[0])),
        Column("kind", say("Kind"), Unit.TEXT, lambda row: row[0].kind.value, detail=4),
        Column("alone_ns", say("Saves alone"), Unit.NS, lambda row: row[0].alone_ns),
        Column("then_ns", say("After those above"), Unit.NS, lambda row: row[0].then_ns),
        Column("step_ns", say("Step then"), Unit.NS, lambda row: row[1], detail=1),
        share_column("saved_percent", say("Saved so far"), lambda row: 1 - row[1] / step_ns, detail=2),
        Column("cause", say("Cause"), Unit.TEXT, lambda row: _CAUSE[row[0].excess[0].part]),
        Column("longer_ns", say("longer by"), Unit.NS, lambda row: row[0].excess[0].longer_ns, detail=1),
        Column("profile", say("Profile"), Unit.TEXT, profile, detail=5),
    )
    return Sheet.of("job_fixing", say("What fixing saves, per step, at the median pace"), columns, fixes)


def _ranks_sheet(ranks: Sequence[RankTimes]) -> Sheet:
    def waiting(key: str, name: str, unit: Unit = Unit.NS, detail: int = 0) -> Column:
        return Column(key, name, unit, lambda rank: rank.waiting and getattr(rank.waiting, key), detail)

    columns = (
        Column("rank", say("Rank"), Unit.TEXT, "label"),
        Column("profile", say("Profile"), Unit.TEXT, detail=5),
        Column("gpu", "GPU", Unit.TEXT, "gpu_name", detail=5),
        Column("steps", say("Steps"), Unit.COUNT, detail=4),
        Column("step_ns", say("Step"), Unit.NS, "median_step_ns"),
        Column("compute_ns", say("Compute"), Unit.NS),
        Column("exposed_comm_ns", say("Exposed comm"), Unit.NS, detail=2),
        Column("hidden_comm_ns", say("Hidden comm"), Unit.NS, detail=3),
        waiting("wait_ns", say("Waits")),
        waiting("transfer_ns", say("Transfers"), detail=1),
        waiting("late", say("Late"), Unit.COUNT, detail=1),
        waiting("caused_ns", say("Others wait for it"), detail=2),
        waiting("saves_ns", say("Fixing it saves"), detail=1),
        Column("matched", say("Matched"), Unit.COUNT, detail=2),
        Column("seen", say("of"), Unit.COUNT, detail=2),
        Column("clock_ahead_ns", say("Clock ahead"), Unit.NS, detail=3),
        Column("clock_residual_ns", say("give or take"), Unit.NS, detail=3),
    )
    return Sheet.of("job_ranks", say("Ranks, per step"), columns, ranks)


def _collectives_sheet(collectives: Sequence[CollectivesOfGroup]) -> Sheet:
    def figure(key: str, name: str, unit: Unit, field: str, detail: int = 0) -> Column:
        return Column(key, name, unit, lambda entry: entry.figures and getattr(entry.figures, field), detail)

    def late_share(entry: CollectivesOfGroup) -> float | None:
        return None if entry.figures is None or entry.figures.late_rank is None else entry.figures.late_share

    def bus(entry: CollectivesOfGroup) -> float | None:
        rate = None if entry.figures is None else entry.figures.median_bus_bytes_per_s
        return None if rate is None else rate / 1e9

    columns = (
        Column("kind", say("Collective"), Unit.TEXT),
        Column("group", say("Group"), Unit.TEXT, detail=3),
        figure("ranks", say("Ranks"), Unit.COUNT, "ranks", detail=4),
        Column("matched", say("Matched"), Unit.COUNT, detail=2),
        Column("seen", say("of"), Unit.COUNT, detail=2),
        figure("bytes", say("Bytes each"), Unit.BYTES, "mean_bytes"),
        figure("transfer_ns", say("Transfer"), Unit.NS, "median_transfer_ns"),
        figure("wait_ns", say("Wait per rank"), Unit.NS, "wait_per_rank_ns"),
        figure("late_rank", say("Waited for most"), Unit.TEXT, "late_rank"),
        share_column("late_percent", say("of the wait"), late_share, detail=1),
        Column("bus_gb_per_s", say("Bus"), Unit.GB_PER_S, bus),
    )
    return Sheet.of("job_collectives", say("Collectives across ranks"), columns, collectives)


def lateness_words(late: Lateness) -> str:
    """What the numbers of lateness are."""
    return _LATE_AT[late.seen_at]


def lateness_sheet(late: Lateness) -> Sheet:
    """Who was late, and when: a row per rank, a column per step."""
    keys = [f"step_{step}_ns" for step in late.steps]
    columns = [Column(key, f"Step {step}", Unit.NS) for key, step in zip(keys, late.steps, strict=True)]
    rows: list[dict[str, Cell]] = [
        {"rank": rank, **dict(zip(keys, times, strict=True))}
        for rank, times in zip(late.ranks, late.late_ns.tolist(), strict=True)
    ]
    title = f"By rank and step: {lateness_words(late)}"
    return Sheet.of("fleet_late", title, (Column("rank", "Rank", Unit.TEXT), *columns), rows)


def straggler_sheet(stragglers: Sequence[Straggler]) -> Sheet:
    """The ranks that others waited for, the most waited for first."""

    def caused_percent(straggler: Straggler) -> float:
        return 100 * straggler.caused_ns / straggler.all_caused_ns if straggler.all_caused_ns else 0.0

    def extra_compute(straggler: Straggler) -> float | None:
        return None if straggler.compute_ratio is None else straggler.compute_ratio - 1

    columns = (
        Column("rank", say("Rank"), Unit.TEXT, "label"),
        Column("late", say("Last to arrive"), Unit.COUNT),
        Column("of", say("of"), Unit.COUNT, "counted", detail=3),
        Column("caused_percent", say("Waited for"), Unit.SHARE_PERCENT, caused_percent, detail=1),
        share_column("saves_percent", say("Step shorter by"), "saves_share"),
        share_column("compute_percent", say("Extra compute"), extra_compute, unit=Unit.CHANGE_PERCENT),
        Column("worst_step", say("Latest in step"), Unit.ID, lambda each: each.worst and each.worst.step, detail=1),
        Column("worst_ns", say("Late by"), Unit.NS, lambda each: each.worst and each.worst.late_ns, detail=2),
        Column("profile", say("Profile"), Unit.TEXT, detail=4),
    )
    return Sheet.of("fleet_stragglers", say("Stragglers: ranks that others wait for"), columns, stragglers)
