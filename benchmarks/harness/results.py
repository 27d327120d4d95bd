"""Contests in, rows of the table out, one by one as they are measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.answers import Agreement, agreed
from harness.contests import Contest, Entry
from harness.measure import Command, Failed, Measured, Pace, measured

NOT_INSTALLED = Failed("not installed")


@dataclass(frozen=True, slots=True)
class Row:
    """One program in one contest."""

    contest: Contest
    program: str
    outcome: Measured | Failed
    is_ours: bool
    ratio: float | None = None
    """Its time over ours: above 1, we are faster."""
    agreement: Agreement | None = None


class Bench:
    """Measures, and does not measure the same command twice."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._known: dict[Command, Measured | Failed] = {}

    def rows(self, contest: Contest) -> Iterator[Row]:
        """Ours first."""
        ours = self._outcome(contest.ours)
        name = contest.ours.program
        if isinstance(ours, Failed):
            yield Row(contest, name, ours, is_ours=True)
        else:
            checked = agreed(contest.check, ours.output) if contest.check else None
            yield Row(contest, name, ours, is_ours=True, ratio=1.0, agreement=checked)
        for entry in contest.others:
            theirs = self._outcome(entry)
            if isinstance(ours, Failed) or isinstance(theirs, Failed):
                yield Row(contest, entry.program, theirs, is_ours=False)
                continue
            agreement = agreed(entry.agrees, ours.output, theirs.output) if entry.agrees else None
            ratio = theirs.wall_s / ours.wall_s
            yield Row(contest, entry.program, theirs, is_ours=False, ratio=ratio, agreement=agreement)

    def _outcome(self, entry: Entry) -> Measured | Failed:
        if entry.command is None:
            return NOT_INSTALLED
        if entry.command not in self._known:
            self._known[entry.command] = measured(entry.command, self._pace)
        return self._known[entry.command]


def disagreements(rows: list[Row]) -> list[str]:
    """Answers that differ, in words."""
    return [
        f"{row.contest.name}, {row.program}: {row.agreement.said}"
        for row in rows
        if row.agreement and not row.agreement.same
    ]
