"""An alignment for people and programs: the verdict, the seven checks, what to do, and the kernels side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuledger.analyse.align.alignment import Alignment, Isolation
from gpuledger.analyse.align.kernel_sequences import INSERTED, MISSING, ForwardKernel
from gpuledger.analyse.align.operation_side import OperationSide, forwards_text
from gpuledger.analyse.align.side_by_side import FAIL, KNOWN, NOT_MEASURED, PASS, WARN, AlignCheck, AlignRow, shape_text
from gpuledger.catalog.kernel_names import EXACT, FAMILY, FUNCTION, NONE, label
from gpuledger.messages import joined, say
from gpuledger.present.document import Block, Document, Group, Heading, Paragraph, Points, SheetBlock
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.present.writers.json import health_json
from gpuledger.present.writers.junit import Case, junit_xml
from gpuledger.trace.model import Note, Severity, told_always
from gpuledger.units import count_text, time_text

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Page, Reader

CHECKS: Final = say("Checks")

MOST_ROWS: Final = 40
"""So many rows of a long forward are drawn for people: those that differ first. Files for programs have all."""

MOST_LINES: Final = 6
"""So much of what a check found is said to people."""

_CHECKS: Final = (
    Column("check", say("Check"), Unit.TEXT),
    Column("verdict", say("Verdict"), Unit.TEXT),
    Column("mock", say("Mock"), Unit.TEXT),
    Column("e2e", say("Model"), Unit.TEXT),
)
VERDICT_WORDS: Final = {
    PASS: say("PASS"),
    KNOWN: say("KNOWN"),
    WARN: say("WARN"),
    FAIL: say("FAIL"),
    NOT_MEASURED: say("NOT MEASURED"),
}
_LEVEL_WORDS: Final = {
    EXACT: say("exact"),
    FUNCTION: say("function"),
    FAMILY: say("family"),
    NONE: say("none"),
    MISSING: say("missing"),
    INSERTED: say("inserted"),
}
_BADGES: Final = {PASS: "good", WARN: "warn", FAIL: "bad"}


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the table for people: like rows together, at the place of the first."""

    at: int
    calls: int
    row: AlignRow
    mock_ns: int | None
    e2e_ns: int | None

    @property
    def alike(self) -> bool:
        return self.row.level == EXACT and not self.row.shape_differs


def align_document(made: Alignment, health: Sequence[Note]) -> Document:
    """The alignment; JSON is the document gpuledger.align/1."""
    found = made.sides
    return Document(
        blocks=lambda: (
            Group(
                (
                    Heading(title(made), 1),
                    Paragraph(made.conclusion),
                    Paragraph(about(made)),
                    checks_block(made),
                    *evidence_blocks(made, health),
                )
            ),
        ),
        data=lambda: {
            "schema": "gpuledger.align/1",
            "verdict": made.verdict,
            "conclusion": made.conclusion,
            "checks": [_check(check) for check in made.checks],
            "isolated_by": {"by": made.isolation.by, "expression": made.isolation.expression},
            "forwards": {"mock": found.mock.forwards, "e2e": found.e2e.forwards},
            "sides": {"mock": _side(found.mock), "e2e": _side(found.e2e)},
            "kernels": [_row(position, row) for position, row in enumerate(found.rows, 1)],
            "notes": list(made.notes),
            "health": health_json(health),
        },
        sheets=lambda: (_every_row(found.rows),),
        page=lambda reader: _page(made, health, reader),
    )


def _page(made: Alignment, health: Sequence[Note], reader: Reader) -> Page:
    from gpuledger.present.views.page.align_page import align_page

    return align_page(made, health, reader)


def title(made: Alignment) -> str:
    """What was compared with what."""
    return say("{before} against {after}", before=made.sides.mock.profile, after=made.sides.e2e.profile)


def checks_block(made: Alignment) -> SheetBlock:
    """The seven checks."""
    return SheetBlock(Sheet("align_checks", CHECKS, _CHECKS, tuple(map(_check_row, made.checks))))


def evidence_blocks(made: Alignment, health: Sequence[Note]) -> list[Block]:
    """What each check found, and the kernels side by side."""
    found = made.sides
    blocks: list[Block] = []
    blocks += [
        Points(
            say("{title}: {verdict}", title=check.title, verdict=VERDICT_WORDS[check.verdict]),
            tuple(map(_sentence, _said(check))),
        )
        for check in made.checks
        if check.evidence
    ]
    lines, left_out = _worth_drawing(found.rows)
    blocks += [Heading(say("Kernel by kernel")), SheetBlock(_side_by_side(lines))]
    if left_out:
        blocks.append(
            Paragraph(
                say("{count} more kinds of kernels, and single calls, are in CSV and JSON.", count=count_text(left_out))
            )
        )
    lost = [*(note.sentence for note in health if note.severity is Severity.LOSS), *told_always(health)]
    if noted := (*made.notes, *lost):
        blocks.append(Points(say("Notes"), tuple(map(_sentence, noted)), is_section=True))
    return blocks


def _said(check: AlignCheck) -> list[str]:
    """What a check found, some of it, and what to do."""
    more = len(check.evidence) - MOST_LINES
    lines = list(check.evidence[:MOST_LINES])
    lines += [say("{count} more of the kind", count=count_text(more))] if more > 0 else []
    return [*lines, say("What to do: {remedy}", remedy=check.remedy)] if check.remedy else lines


def about(made: Alignment) -> str:
    """How the operation was found, and what of it was compared."""
    found = made.sides
    both = say(
        "{mock} of the mock and {e2e} of the model",
        mock=forwards_text(found.mock.forwards),
        e2e=forwards_text(found.e2e.forwards),
    )
    gpus = joined(say(" and "), dict.fromkeys(name for name in (found.mock.gpu_name, found.e2e.gpu_name) if name))
    return joined(" · ", [part for part in (_isolated(made.isolation), both, gpus) if part])


def _isolated(isolation: Isolation) -> str:
    if isolation.expression is None:
        return say("isolated automatically")
    if isolation.by == "range":
        return say("isolated by range '{pattern}'", pattern=isolation.expression)
    return say("isolated by pattern '{pattern}'", pattern=isolation.expression)


def _check_row(check: AlignCheck) -> tuple[Cell, ...]:
    verdict = Term(check.verdict, VERDICT_WORDS[check.verdict], badge=_BADGES.get(check.verdict, ""))
    return check.title, verdict, check.mock, check.e2e


def _sentence(text: str) -> str:
    """With a full stop."""
    return text if text.endswith(".") else say("{told}.", told=text)


def _worth_drawing(rows: Sequence[AlignRow]) -> tuple[list[_Line], int]:
    """Lines in order, and how many are left out: of many rows, like ones are one line, those that differ come first."""
    single = [_Line(at, 1, row, *_times([row])) for at, row in enumerate(rows, 1)]
    if len(rows) <= MOST_ROWS:
        return single, 0
    grouped: dict[object, list[AlignRow]] = {}
    first: dict[object, int] = {}
    for at, row in enumerate(rows, 1):
        key = (row.names, row.level, row.moved, row.same_shape)
        grouped.setdefault(key, []).append(row)
        first.setdefault(key, at)
    lines = [_Line(first[key], len(some), some[0], *_times(some)) for key, some in grouped.items()]
    chosen = sorted(lines, key=lambda line: (line.alike, -max(line.mock_ns or 0, line.e2e_ns or 0)))[:MOST_ROWS]
    return sorted(chosen, key=lambda line: line.at), len(lines) - len(chosen)


def _times(rows: Sequence[AlignRow]) -> tuple[int | None, int | None]:
    mock = [row.mock.time_ns for row in rows if row.mock is not None]
    e2e = [row.e2e.time_ns for row in rows if row.e2e is not None]
    return sum(mock) if mock else None, sum(e2e) if e2e else None


def _side_by_side(lines: Sequence[_Line]) -> Sheet:
    """For people: one column of names where they are the same on both sides."""
    same = all(line.row.level == EXACT for line in lines)
    several = any(line.calls > 1 for line in lines)
    columns = (
        Column("position", "#", Unit.ID, detail=3),
        *((Column("calls", say("Calls"), Unit.COUNT),) if several else ()),
        Column("mock_kernel", say("Kernel") if same else say("Kernel of the mock"), Unit.TEXT, shorten=label),
        Column("mock_time", say("Mock") if same else say("Time"), Unit.FIGURE),
        *(() if same else (Column("e2e_kernel", say("of the model"), Unit.TEXT, shorten=label),)),
        Column("e2e_time", say("Model") if same else say("Time"), Unit.FIGURE),
        Column("ratio", say("Ratio"), Unit.RATIO, detail=1),
        Column("match", say("Match"), Unit.TEXT),
        Column("shape", say("Shape"), Unit.TEXT, detail=2),
    )
    rows = tuple(_drawn(line, same=same, several=several) for line in lines)
    return Sheet("align_kernels", say("Kernel by kernel"), columns, rows)


def _drawn(line: _Line, *, same: bool, several: bool) -> tuple[Cell, ...]:
    row = line.row
    theirs = say("same") if row.level == EXACT else "" if row.e2e is None else label(row.e2e.name)
    return (
        line.at,
        *((line.calls,) if several else ()),
        "" if row.mock is None else label(row.mock.name),
        "" if line.mock_ns is None else time_text(line.mock_ns),
        *(() if same else (theirs,)),
        "" if line.e2e_ns is None else time_text(line.e2e_ns),
        line.mock_ns / line.e2e_ns if line.mock_ns is not None and line.e2e_ns else None,
        say("{level}, moved", level=_LEVEL_WORDS[row.level]) if row.moved else _LEVEL_WORDS[row.level],
        {None: "", True: say("same"), False: say("differs")}[row.same_shape],
    )


def _every_row(rows: Sequence[AlignRow]) -> Sheet:
    """For programs."""
    columns = (
        Column("position", "Position", Unit.ID),
        Column("mock_kernel", "Mock Kernel", Unit.TEXT),
        Column("mock_ns", "Mock Time", Unit.NS),
        Column("e2e_kernel", "E2E Kernel", Unit.TEXT),
        Column("e2e_ns", "E2E Time", Unit.NS),
        Column("ratio", "Ratio", Unit.TEXT),
        Column("match", "Match", Unit.TEXT),
        Column("moved", "Moved", Unit.TEXT),
        Column("shape", "Same Shape", Unit.TEXT),
        Column("mock_shape", "Mock Shape", Unit.TEXT),
        Column("e2e_shape", "E2E Shape", Unit.TEXT),
    )
    cells = tuple(
        (
            at,
            "" if row.mock is None else row.mock.name,
            None if row.mock is None else row.mock.time_ns,
            "" if row.e2e is None else row.e2e.name,
            None if row.e2e is None else row.e2e.time_ns,
            "" if row.ratio is None else f"{row.ratio:.4f}",
            row.level,
            "yes" if row.moved else "",
            {None: "", True: "yes", False: "no"}[row.same_shape],
            "" if row.mock is None or row.mock.shape is None else shape_text(row.mock.shape),
            "" if row.e2e is None or row.e2e.shape is None else shape_text(row.e2e.shape),
        )
        for at, row in enumerate(rows, 1)
    )
    return Sheet("align_kernels", "Kernel by kernel", columns, cells)


def _check(check: AlignCheck) -> dict[str, Any]:
    return {
        "check": check.check,
        "verdict": check.verdict,
        "figures": dict(check.figures),
        "evidence": list(check.evidence),
        "remedy": check.remedy,
        "known": [{"what": each.sentence, "reason": each.difference.reason} for each in check.accepted],
    }


def _side(side: OperationSide) -> dict[str, Any]:
    return {
        "profile": side.profile,
        "gpu": side.gpu_name or None,
        "steps": side.steps or None,
        "ranks": side.ranks,
        "compared": side.compared,
        "alike": side.alike,
        "gpu_ns": side.gpu_ns,
        "elapsed_ns": side.elapsed_ns,
        "spread_ns": None if side.spread_ns is None else list(side.spread_ns),
    }


def _row(at: int, row: AlignRow) -> dict[str, Any]:
    return {
        "position": at,
        "mock": None if row.mock is None else _kernel(row.mock),
        "e2e": None if row.e2e is None else _kernel(row.e2e),
        "ratio": row.ratio,
        "match": row.level,
        "moved": row.moved,
        "same_shape": row.same_shape,
    }


def _kernel(kernel: ForwardKernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "time_ns": kernel.time_ns,
        "grid": None if kernel.grid is None else list(kernel.grid),
        "block": None if kernel.block is None else list(kernel.block),
        "stream": kernel.stream,
        "in_graph": kernel.in_graph,
    }


def align_junit(made: Alignment) -> str:
    """JUnit XML: one case per check. Only FAIL is a failure; what is not measured says so."""
    cases = [
        Case(
            name=check.title,
            said="; ".join((check.verdict, *check.evidence, *((check.remedy,) if check.remedy else ()))),
            failure=check.evidence[0] if check.verdict == FAIL else "",
        )
        for check in made.checks
    ]
    return junit_xml(f"gpuledger align {made.sides.mock.profile} {made.sides.e2e.profile}", cases)
