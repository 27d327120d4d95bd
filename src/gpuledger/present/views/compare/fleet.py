"""A job of many ranks: the verdict, what to do, who is late as a map of shades, tables, and what is not known.

Hundreds of ranks do not fit a screen: neighbours share a row of the map, where the latest of them shows, and tables
keep their worst rows. CSV and JSON have all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Annotated, Final

import numpy as np
from msgspec.structs import replace

from gpuledger.analyse.ranks.collectives import (
    CollectivesOfGroup,
    SingleCollective,
    collectives_by_group,
    worst_collectives,
)
from gpuledger.analyse.ranks.fixing import Fixing, FixKind, fixing
from gpuledger.analyse.ranks.job import (
    ComputeBalance,
    Job,
    StepAcrossRanks,
    compute_balance,
    slowest_step_ns,
    steps_across_ranks,
)
from gpuledger.analyse.ranks.rank import RankSummary, WorkPart
from gpuledger.analyse.ranks.rank_times import (
    LateAt,
    Lateness,
    RankTimes,
    Straggler,
    lateness,
    rank_times,
    stragglers,
)
from gpuledger.catalog.range_names import PHASES
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.ranks.fix_texts import fix_name
from gpuledger.findings.ranks.job_findings import job_findings
from gpuledger.jobs.run import Failed, Fleet, profiles_text
from gpuledger.messages import capitalised, joined, say, uncapitalised
from gpuledger.present import document as doc
from gpuledger.present.finding_words import saving_range_words, shown_finding
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Column, Sheet
from gpuledger.present.views.answer import HealthRow, VerbAnswer, health_rows
from gpuledger.present.views.report_answer import FindingReport, finding_report
from gpuledger.rows import Label, Row, Unit
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, time_text

LATE: Final = say("Who is late, and when")

_MOST_NOTES: Final = 12
_MOST_SHOWN: Final = 20
"""Rows of a table, for people."""

_WORST_BY: Final = {"ranks": ("caused_ns", "compute_ns"), "steps": ("longest_ns",)}
"""Which rows to keep of tables that are not in the order of what matters."""


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


class RankPhase(Row, frozen=True):
    """What a phase of a layer takes on a rank, per step; a rank's sum to its mean step."""

    rank: Annotated[str, Label(say("Rank"))]
    phase: Annotated[str, Label(say("Phase"))]
    time_ns: Annotated[float, Label(say("Time"), Unit.MEAN_NS)]


class FixRow(Row, frozen=True):
    """A rank, stage or collective at the median pace. Times are per step."""

    fixed: Annotated[str, Label(say("Fixed"))]
    kind: Annotated[FixKind, Label(say("Kind"), detail=4)]
    alone_ns: Annotated[int, Label(say("Saves alone"), Unit.NS)]
    then_ns: Annotated[int, Label(say("After those above"), Unit.NS)]
    step_ns: Annotated[int, Label(say("Step then"), Unit.NS, detail=1, meaning="with it and those above fixed")]
    saved_share: Annotated[float, Label(say("Saved so far"), Unit.SHARE, detail=2)]
    cause: Annotated[str, Label(say("Cause"), meaning="what takes longer than the median")]
    longer_ns: Annotated[int, Label(say("longer by"), Unit.NS, detail=1)]
    profile: Annotated[str | None, Label(say("Profile"), detail=5)]


class FleetAnswer(VerbAnswer, frozen=True, kw_only=True, tag="gpuledger.fleet/1"):
    """Many profiles of one job, put together by rank. Times are per step. The same bytes whoever did the work."""

    job: str
    """The folders, globs and archives that were given."""
    profiles: int
    """How many there were, those that failed included."""
    analyzed: int
    """Profiles with at least one rank in the answer."""
    failed: tuple[Failed, ...]
    world_size: int | None
    """Ranks that the job has, as the profiles say."""
    step_ns: int | None
    """The median over steps of what the slowest rank takes."""
    late: Lateness | None
    findings: tuple[FindingReport, ...]
    health: tuple[HealthRow, ...]
    stragglers: Annotated[tuple[Straggler, ...], Label(say("Stragglers: ranks that others wait for"))]
    phases: Annotated[tuple[RankPhase, ...], Label(say("Phases by rank, per step"))]
    fixes: Annotated[tuple[FixRow, ...], Label(say("What fixing saves, per step, at the median pace"))]
    ranks: Annotated[tuple[RankTimes, ...], Label(say("Ranks, per step"))]
    collectives: Annotated[tuple[CollectivesOfGroup, ...], Label(say("Collectives across ranks"))]
    longest_waits: Annotated[tuple[SingleCollective, ...], Label(say("Collectives with the longest waits"))]
    compute: Annotated[tuple[ComputeBalance, ...], Label(say("Compute across ranks, per step"))]
    steps: Annotated[tuple[StepAcrossRanks, ...], Label(say("Steps across ranks"))]

    @property
    def subject(self) -> str:
        return self.job

    def sheet(self, table: str, *, is_exact: bool = False) -> Sheet:
        """A table; for people phases are columns, and of many rows the worst are kept."""
        if is_exact:
            return super().sheet(table, is_exact=True)
        return _worst(_by_phase(self.phases) if table == "phases" else super().sheet(table))

    def blocks(self) -> Iterator[doc.Block]:
        yield doc.Opening(self.job, visible(self._about()))
        yield doc.Conclusion(self.sentences[0])
        yield self._tiles()
        findings = [_finding(finding) for finding in self.findings]
        if findings:
            ranged = tuple(doc.ShownFinding(finding, saving_range_words(finding)) for finding in findings)
            yield doc.Only(doc.Medium.WRITTEN, (doc.Findings(ranged),))
            yield doc.Only(doc.Medium.PAGE, (doc.Findings(tuple(map(shown_finding, findings))),))
        if self.late is not None:
            late_ns = np.array(self.late.late_ns, np.int64)
            yield doc.Shades(LATE, _LATE_AT[self.late.seen_at], self.late.ranks, self.late.steps, late_ns)
        else:
            yield doc.Only(doc.Medium.PAGE, (doc.Heading(LATE), self._not_drawn()))
        for table in self.tables():
            if getattr(self, table):
                yield doc.SheetBlock(self.sheet(table), doc.SheetTitle.NAMED, tells_hidden=True)
        if rest := self.sentences[1:]:
            yield doc.Only(doc.Medium.WRITTEN, (doc.Remarks(rest),))
        health = doc.Section("health", say("Health and provenance"), tuple(self._health_blocks()), say("Health"))
        yield doc.Only(doc.Medium.PAGE, (health,))

    def document(self) -> doc.Document:
        whole = super().document()
        late = () if self.late is None else (_late_sheet(self.late),)
        return replace(
            whole,
            sheets=lambda: (*whole.sheets(), *late),
            remarks=tuple(f"{failed.profile}: {failed.sentence}" for failed in self.failed),
        )

    def _about(self) -> str:
        count = count_text(len(self.ranks))
        if self.world_size is not None:
            ranks = say("{count} of {world} ranks", count=count, world=count_text(self.world_size))
        else:
            ranks = say("1 rank") if len(self.ranks) == 1 else say("{count} ranks", count=count)
        parts: list[str] = [profiles_text(self.profiles, self.profiles - self.analyzed), ranks]
        parts += sorted({rank.gpu_name for rank in self.ranks if rank.gpu_name})[:3]
        if self.step_ns is not None:
            fewest = min(rank.steps or 1 for rank in self.ranks)
            steps = say("{count} steps", count=count_text(fewest)) if fewest > 1 else say("one step")
            parts.append(say("{steps} of {time} on the slowest rank", steps=steps, time=time_text(self.step_ns)))
        return joined(" · ", parts)

    def _tiles(self) -> doc.Tiles:
        world = "" if self.world_size is None else say("of {count}", count=count_text(self.world_size))
        failed = say("{count} failed", count=count_text(len(self.failed)))
        tiles = [
            doc.Tile(say("Ranks"), count_text(len(self.ranks)), world),
            doc.Tile(say("Profiles"), count_text(self.profiles), failed),
        ]
        if self.findings and self.findings[0].saving_ns:
            top = self.findings[0]
            saving_ns = top.saving_ns if top.saving_ns_per_step is None else top.saving_ns_per_step
            tiles.append(doc.Tile(say("Fix first"), time_text(saving_ns), joined(" · ", (say("per step"), top.code))))
        return doc.Tiles(tuple(tiles))

    def _not_drawn(self) -> doc.Paragraph:
        """Why there is no map of who is late."""
        missing = say("Not measured: neither collectives nor steps were matched across ranks.")
        if any(entry.matched for entry in self.collectives):
            missing = say(
                "Not drawn: no steps were found to draw it by; the tables below have the collectives that were matched."
            )
        return doc.Paragraph(missing, "unknown")

    def _health_blocks(self) -> Iterator[doc.Block]:
        if self.failed:
            yield doc.Points(
                say("Failed: {count}", count=count_text(len(self.failed))),
                tuple(f"{failed.profile}: {failed.sentence}" for failed in self.failed),
            )
        if self.health:
            yield doc.SheetBlock(row_sheet("health", say("Health"), HealthRow, self.health))
        yield doc.Reproduce()


def fleet_answer(name: str, fleet: Fleet) -> FleetAnswer:
    """The answer about a job's ranks."""
    job, fixed, late = fleet.job, fixing(fleet.job), lateness(fleet.job)
    findings, slowest_ns = job_findings(job, fixed), slowest_step_ns(job)
    verdict = say("No rank holds up the others for long.")
    if findings:
        verdict = say("{claim}.", claim=capitalised(findings[0].claim))
    elif len(job.ranks) < 2:
        verdict = say("One rank cannot show waiting for others; give the profiles of all ranks.")
    elif not any(part.counted for part in job.parts):
        verdict = say("No collective was found on all its ranks: who waits for whom is unknown.")
    return FleetAnswer(
        sentences=(verdict, *_closing(fleet, findings)),
        job=name,
        profiles=fleet.profiles,
        analyzed=fleet.analysed,
        failed=fleet.failed,
        world_size=None if isinstance(job.world_size, NotMeasured) else job.world_size,
        step_ns=None if isinstance(slowest_ns, NotMeasured) else slowest_ns,
        late=None if isinstance(late, NotMeasured) else late,
        findings=tuple(finding_report(finding, None) for finding in findings),  # ranks have no one clock: no instants
        health=health_rows(job.notes),
        stragglers=stragglers(job, late, fixed),
        phases=rank_phases(job.ranks),
        fixes=fix_rows(job, fixed),
        ranks=rank_times(job, fixed),
        collectives=collectives_by_group(job),
        longest_waits=worst_collectives(job),
        compute=compute_balance(job),
        steps=steps_across_ranks(job),
    )


def rank_phases(ranks: Sequence[RankSummary]) -> tuple[RankPhase, ...]:
    """Phases of every rank in the order of a layer; idle time and other work come last."""
    place = {name: number for number, name in enumerate(PHASES)}
    seen = dict.fromkeys(name for rank in ranks for name, _ in rank.phases_ns)
    names = sorted(seen, key=lambda name: place.get(name, len(place)))
    return tuple(
        RankPhase(rank.label, name, dict(rank.phases_ns).get(name, 0) / rank.step_count)
        for rank in ranks
        if rank.phases_ns
        for name in names
    )


def _by_phase(rows: Sequence[RankPhase]) -> Sheet:
    """A row for each rank, a column for each phase."""
    phases = dict.fromkeys(row.phase for row in rows)
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        times.setdefault(row.rank, {})[row.phase] = row.time_ns
    columns = (Column("rank", say("Rank"), Unit.TEXT), *(Column(name, name, Unit.MEAN_NS) for name in phases))
    records = [{"rank": rank, **of_phases} for rank, of_phases in times.items()]
    return Sheet.of("phases", say("Phases by rank, per step"), columns, records)


def fix_rows(job: Job, fixed: Fixing | NotMeasured) -> tuple[FixRow, ...]:
    """What saves the most at the median pace, then what still does; each with how long a step then takes."""
    if isinstance(fixed, NotMeasured):
        return ()
    _, *lengths = accumulate((fix.then_ns for fix in fixed.in_order), int.__sub__, initial=fixed.step_ns)
    return tuple(
        FixRow(
            fixed=fix_name(job, fix),
            kind=fix.kind,
            alone_ns=fix.alone_ns,
            then_ns=fix.then_ns,
            step_ns=step_ns,
            saved_share=1 - step_ns / fixed.step_ns,
            cause=_CAUSE[fix.excess[0].part],
            longer_ns=fix.excess[0].longer_ns,
            profile=job.ranks[fix.number].profile if fix.kind is FixKind.RANK else None,
        )
        for fix, step_ns in zip(fixed.in_order, lengths, strict=True)
    )


def _late_sheet(late: Lateness) -> Sheet:
    """Who was late, and when: a row per rank, a column per step."""
    keys = [f"step_{step}_ns" for step in late.steps]
    columns = (Column("rank", "rank", Unit.TEXT), *(Column(key, key, Unit.NS) for key in keys))
    rows = [
        {"rank": rank, **dict(zip(keys, times, strict=True))}
        for rank, times in zip(late.ranks, late.late_ns, strict=True)
    ]
    title = say("By rank and step: {what}", what=_LATE_AT[late.seen_at])
    return Sheet.of("late", title, columns, rows)


def _finding(told: FindingReport) -> Finding:
    """What is shown of a finding."""
    return Finding(
        told.code,
        told.claim,
        tuple(map(Evidence, told.evidence)),
        told.saving_ns,
        told.saving_ns_per_step,
        told.saving_low_ns_per_step,
        told.assumption,
        told.confidence,
        next=told.next,
        is_bound=told.saving_is_bound,
    )


def _worst(sheet: Sheet) -> Sheet:
    """The sheet with its worst rows, in their order, and a title that says so."""
    if len(sheet.rows) <= _MOST_SHOWN:
        return sheet
    kept: Sequence[int] = range(_MOST_SHOWN)
    which = say("first")
    if sheet.name in _WORST_BY:
        columns = [column for key in _WORST_BY[sheet.name] for column in sheet.columns if column.key == key]
        by = [sheet.columns.index(column) for column in columns]

        def amounts(row: int) -> list[float]:
            cells = (sheet.rows[row][column] for column in by)
            return [cell if isinstance(cell, int | float) else -1 for cell in cells]

        kept = sorted(sorted(range(len(sheet.rows)), key=amounts, reverse=True)[:_MOST_SHOWN])
        which = say("worst by {column}", column=uncapitalised(columns[0].name))
    title = say(
        "{title}: the {shown} {which}, of {count}",
        title=sheet.title,
        shown=_MOST_SHOWN,
        which=which,
        count=count_text(len(sheet.rows)),
    )
    return replace(sheet, title=title, rows=tuple(sheet.rows[row] for row in kept))


def _closing(fleet: Fleet, findings: Sequence[Finding]) -> list[str]:
    """What failed, what is not known, and the next command."""
    lines: list[str] = [
        say("Failed: {profile}: {sentence}.", profile=visible(failed.profile), sentence=visible(failed.sentence))
        for failed in fleet.failed[:_MOST_NOTES]
    ]
    notes = fleet.job.notes
    if len(fleet.failed) > _MOST_NOTES:
        more = count_text(len(fleet.failed) - _MOST_NOTES)
        lines.append(say("Failed: {count} more; --format=json names them all.", count=more))
    lines += [say("Note: {sentence}.", sentence=visible(note.sentence)) for note in notes[:_MOST_NOTES]]
    if len(notes) > _MOST_NOTES:
        more = count_text(len(notes) - _MOST_NOTES)
        lines.append(say("Note: {count} more; --format=json has them all.", count=more))
    if findings:
        lines.append(say("next: {command}", command=findings[0].next))
    return lines
