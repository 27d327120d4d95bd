"""How well tools name planted faults: scores in, a table of tools, of groups and of cases out.

JSON is the document gpuledger.diagnosis/1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from gpuledger.diagnosis.cases import CaseGroup, DiagnosisBenchmark, MeasuredSaving
from gpuledger.diagnosis.score import CaseScore, ScoreTally, ToolScore
from gpuledger.messages import Message, joined, say
from gpuledger.present.document import Block, Conclusion, Document, Group, Opening, Remarks, SheetBlock, SheetTitle
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.units import share_text

_SEEN: Final = {
    "built on": say("built on"),
    "adjusted after": say("adjusted after"),
    "not used": say("not used"),
}
"""What the rules of gpuledger had to do with a group."""


def diagnosis_document(benchmark: DiagnosisBenchmark, scores: Sequence[ToolScore]) -> Document:
    """The scores of some tools over the same cases."""
    tables: list[Block] = [
        SheetBlock(_tool_sheet(scores), SheetTitle.BARE),
        SheetBlock(_group_sheet(benchmark, scores), SheetTitle.BARE),
        *(SheetBlock(_case_sheet(score, len(scores) > 1), SheetTitle.BARE) for score in scores),
    ]
    notes = tuple(_notes(scores))
    return Document(
        blocks=lambda: (
            Opening("bench diagnosis", _headline(benchmark)),
            *(Conclusion(_verdict(score)) for score in scores),
            Group(tuple(tables)),
            Remarks(notes, 6),
        ),
        data=lambda: _data(benchmark, scores),
        sheets=lambda: (_all_cases(scores),),
        remarks=notes,
    )


def _headline(benchmark: DiagnosisBenchmark) -> Message:
    faults = sum(bool(case.faults) for case in benchmark.cases)
    return say("{faults} faults, {controls} controls", faults=faults, controls=len(benchmark.cases) - faults)


def _of(count: int, whole: int) -> str:
    return f"{count}/{whole} ({share_text(count / whole)})"


def _verdict(score: ToolScore) -> Message:
    total, told = score.total, list[str]()
    if total.faults:
        first, three = (_of(count, total.faults) for count in (total.first, total.in_first_three))
        told.append(say("names the fault first in {first}, in its first three in {three}", first=first, three=three))
    if total.measured:
        told.append(say("savings within 25 % in {count}", count=_of(total.savings_within, total.measured)))
    if total.controls:
        told.append(say("false claims in {count}", count=_of(total.claimed, total.controls)))
    return say("{tool}: {told}.", tool=score.name, told=joined(say("; "), told))


_TALLY_COLUMNS: Final = (
    Column("faults", say("Faults"), Unit.COUNT),
    Column("first", say("First"), Unit.COUNT),
    Column("in_first_three", say("Top 3"), Unit.COUNT),
    Column("area", say("Right area"), Unit.COUNT, detail=3),
    Column("measured", say("Measured savings"), Unit.COUNT, detail=2),
    Column("savings_within", say("Within 25 %"), Unit.COUNT),
    Column("median_error_percent", say("Median error"), Unit.SHARE_PERCENT),
    Column("controls", say("Controls"), Unit.COUNT, detail=2),
    Column("claimed", say("False claims"), Unit.COUNT),
)


def _tally_cells(total: ScoreTally) -> tuple[Cell, ...]:
    return (
        total.faults,
        total.first,
        total.in_first_three,
        total.area,
        total.measured,
        total.savings_within,
        None if total.median_error is None else 100 * total.median_error,
        total.controls,
        total.claimed,
    )


def _tool_sheet(scores: Sequence[ToolScore]) -> Sheet:
    columns = (Column("tool", say("Tool"), Unit.TEXT), *_TALLY_COLUMNS)
    return Sheet(
        "tools", say("All cases"), columns, tuple((score.name, *_tally_cells(score.total)) for score in scores)
    )


def _group_sheet(benchmark: DiagnosisBenchmark, scores: Sequence[ToolScore]) -> Sheet:
    """The programs that rules were built on, apart from the others."""
    there = {case.group for case in benchmark.cases}
    columns = (
        Column("group", say("Case group"), Unit.TEXT),
        Column("seen", say("Our rules"), Unit.TEXT, detail=1),
        Column("tool", say("Tool"), Unit.TEXT, detail=0 if len(scores) > 1 else 4),
        *_TALLY_COLUMNS,
    )
    rows = tuple(
        (group.id, Term(group.seen, _SEEN[group.seen]), score.tool, *_tally_cells(score.of_group(group.id)))
        for group in benchmark.groups
        if group.id in there
        for score in scores
    )
    return Sheet("groups", say("By group"), columns, rows)


_CASE_COLUMNS: Final = (
    Column("case", say("Case"), Unit.TEXT),
    Column("accepted", say("Accepted"), Unit.TEXT),
    Column("first", say("Named first"), Unit.TEXT),
    Column("result", say("Result"), Unit.TEXT),
    Column("said_percent", say("Said"), Unit.SHARE_PERCENT),
    Column("measured_percent", say("Measured"), Unit.SHARE_PERCENT),
)


def _case_sheet(score: ToolScore, named: bool) -> Sheet:
    title = say("Cases, {tool}", tool=score.name) if named else say("Cases")
    return Sheet("cases", title, _CASE_COLUMNS, tuple(_case_cells(case) for case in score.cases))


def _all_cases(scores: Sequence[ToolScore]) -> Sheet:
    columns = (Column("tool", say("Tool"), Unit.TEXT), *_CASE_COLUMNS)
    rows = tuple((score.name, *_case_cells(case)) for score in scores for case in score.cases)
    return Sheet("diagnosis", say("Cases"), columns, rows)


def _case_cells(score: CaseScore) -> tuple[Cell, ...]:
    accepted = ", ".join(score.case.accepted) or "–"
    said = None if score.said_percent is None else float(score.said_percent)
    measured = score.measured.percent if isinstance(score.measured, MeasuredSaving) else None
    return (score.case.id, accepted, score.first or "–", _result(score), said, measured)


def _result(score: CaseScore) -> Term:
    if not score.is_answered:
        return Term("not answered", say("not answered"), badge="bad")
    if not score.case.faults:
        if score.false_claims:
            return Term("false claim", say("false claim"), badge="bad")
        return Term("no false claim", say("no false claim"), badge="good")
    if score.place is None:
        return Term("missed", say("missed"), badge="bad")
    if score.place == 1:
        return Term("named first", say("named first"), badge="good")
    return Term(f"place {score.place}", say("place {place}", place=score.place), badge="warn")


def _notes(scores: Sequence[ToolScore]) -> list[str]:
    notes: list[str] = []
    for score in scores:
        if missing := len(score.cases) - score.total.answered:
            text = say("{tool} does not answer {count} cases; they count as missed.", tool=score.name, count=missing)
            notes.append(say("note: {note}", note=text))
        if words := sorted({word for case in score.cases for word in case.not_in_list}):
            text = say(
                "{tool} uses words that are in no list of causes, and count as wrong: {words}.",
                tool=score.name,
                words=joined(", ", words[:8]),
            )
            notes.append(say("note: {note}", note=text))
    return notes


def _data(benchmark: DiagnosisBenchmark, scores: Sequence[ToolScore]) -> dict[str, Any]:
    there = {case.group for case in benchmark.cases}
    groups = [group for group in benchmark.groups if group.id in there]
    return {
        "schema": "gpuledger.diagnosis/1",
        "cases": len(benchmark.cases),
        "tools": [_tool_data(groups, score) for score in scores],
    }


def _tool_data(groups: Sequence[CaseGroup], score: ToolScore) -> dict[str, Any]:
    return {
        "tool": score.tool,
        "version": score.version,
        "total": asdict(score.total),
        "groups": [{"group": group.id, "seen": group.seen, **asdict(score.of_group(group.id))} for group in groups],
        "cases": [_case_data(case) for case in score.cases],
    }


def _case_data(score: CaseScore) -> dict[str, Any]:
    measured = score.measured if isinstance(score.measured, MeasuredSaving) else None
    return {
        "id": score.case.id,
        "kind": score.case.kind,
        "group": score.case.group,
        "accepted": list(score.case.accepted),
        "answered": score.is_answered,
        "first": score.first or None,
        "place": score.place,
        "area_is_right": score.is_area_right,
        "said_percent": score.said_percent,
        "measured_percent": None if measured is None else round(measured.percent, 3),
        "measured_ns": None if measured is None else measured.saves_ns,
        "false_claims": list(score.false_claims),
        "not_in_list": list(score.not_in_list),
    }
