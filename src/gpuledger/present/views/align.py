"""An alignment for people and programs: the verdict, the seven checks, what to do, and the kernels side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gpuledger.analyse.align.alignment import Alignment, Isolation
from gpuledger.analyse.align.kernel_sequences import INSERTED, MISSING, ForwardKernel
from gpuledger.analyse.align.operation_side import forwards_text
from gpuledger.analyse.align.side_by_side import KNOWN, NOT_MEASURED, WARN, AlignCheck, AlignRow, shape_text
from gpuledger.catalog.kernel_names import EXACT, FAMILY, FUNCTION, NONE, label
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.present.writers.junit import Case, junit_xml
from gpuledger.trace.model import Note, Severity, always_shown
from gpuledger.units import count_text, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED

CHECKS: Final = say("Checks")

MOST_ROWS: Final = 40
"""So many rows of a long forward are drawn for people: those that differ first. Files for programs have all."""

MOST_LINES: Final = 6
"""So much of what a check found is said to people."""

VERDICT_WORDS: Final = {
    PASS: say("PASS"),
    KNOWN: say("KNOWN"),
    WARN: say("WARN"),
    UNDECIDED: say("UNDECIDED"),
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
_SHAPE_WORDS: Final = {None: "", True: say("same"), False: say("differs")}
_BADGES: Final = {PASS: "good", WARN: "warn", UNDECIDED: "warn", FAIL: "bad"}


class _Line(Struct, frozen=True):
    """A line of the table for people: like rows together, at the place of the first."""

    at: int
    calls: int
    row: AlignRow
    mock_ns: int | None
    e2e_ns: int | None

    @property
    def alike(self) -> bool:
        return self.row.level == EXACT and not self.row.shape_differs


def align_document(made: Alignment, health: Sequence[Note]) -> doc.Document:
    """The alignment; JSON is the document gpuledger.align/1."""
    first = (
        doc.Heading(title(made), 1),
        doc.Paragraph(made.conclusion),
        doc.Paragraph(about(made)),
        checks_block(made),
    )
    return doc.Document(
        blocks=lambda: (doc.Group((*first, *evidence_blocks(made, health))),),
        data=doc.json_by("align.align_json", made, health),
        sheets=lambda: (_every_row(made.sides.rows),),
        page=lambda: _page(made, health),
    )


def _page(made: Alignment, health: Sequence[Note]) -> doc.Page:
    """The conclusion, the seven checks with their verdicts, and the kernels side by side."""
    sides = ((say("Mock, GPU time per forward"), made.sides.mock), (say("Model"), made.sides.e2e))
    tiles = [doc.Tile(name, time_text(side.gpu_ns)) for name, side in sides if side.gpu_ns is not None]
    blocks = [
        doc.Heading(CHECKS),
        checks_block(made),
        doc.Heading(say("What was seen")),
        *evidence_blocks(made, health),
    ]
    return doc.Page(
        title(made),
        made.conclusion,
        headline=about(made),
        tiles=(doc.Tile(say("Verdict"), VERDICT_WORDS[made.verdict]), *tiles),
        sections=(*doc.chapters(blocks), doc.AGAIN),
    )


def title(made: Alignment) -> str:
    """What was compared with what."""
    return say("{before} against {after}", before=made.sides.mock.profile, after=made.sides.e2e.profile)


def checks_block(made: Alignment) -> doc.SheetBlock:
    """The seven checks."""

    def verdict(check: AlignCheck) -> Term:
        return Term(check.verdict, VERDICT_WORDS[check.verdict], badge=_BADGES.get(check.verdict, ""))

    columns = (
        Column("check", say("Check"), Unit.TEXT, "title"),
        Column("verdict", say("Verdict"), Unit.TEXT, verdict),
        Column("mock", say("Mock"), Unit.TEXT),
        Column("e2e", say("Model"), Unit.TEXT),
    )
    return doc.SheetBlock(Sheet.of("align_checks", CHECKS, columns, made.checks))


def evidence_blocks(made: Alignment, health: Sequence[Note]) -> list[doc.Block]:
    """What each check found, and the kernels side by side."""
    found = made.sides
    blocks: list[doc.Block] = []
    blocks += [
        doc.Points(
            say("{title}: {verdict}", title=check.title, verdict=VERDICT_WORDS[check.verdict]),
            tuple(map(_sentence, _said(check))),
        )
        for check in made.checks
        if check.evidence
    ]
    lines, left_out = _worth_drawing(found.rows)
    blocks += [doc.Heading(say("Kernel by kernel")), doc.SheetBlock(_side_by_side(lines))]
    if left_out:
        blocks.append(
            doc.Paragraph(
                say("{count} more kinds of kernels, and single calls, are in CSV and JSON.", count=count_text(left_out))
            )
        )
    lost = [*(note.sentence for note in health if note.severity is Severity.LOSS), *always_shown(health)]
    if noted := (*made.notes, *lost):
        blocks.append(doc.Points(say("Notes"), tuple(map(_sentence, noted)), is_section=True))
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


def _name(kernel: ForwardKernel | None) -> str:
    return "" if kernel is None else kernel.name


def _side_by_side(lines: Sequence[_Line]) -> Sheet:
    """For people: one column of names where they are the same on both sides."""
    same = all(line.row.level == EXACT for line in lines)
    several = any(line.calls > 1 for line in lines)

    def model_kernel(line: _Line) -> str:
        return say("same") if line.row.level == EXACT else label(_name(line.row.e2e)) if line.row.e2e else ""

    def ratio(line: _Line) -> float | None:
        return line.mock_ns / line.e2e_ns if line.mock_ns is not None and line.e2e_ns else None

    def match(line: _Line) -> Message:
        level = _LEVEL_WORDS[line.row.level]
        return say("{level}, moved", level=level) if line.row.moved else level

    columns = (
        Column("position", "#", Unit.ID, "at", detail=3),
        *((Column("calls", say("Calls"), Unit.COUNT),) if several else ()),
        Column(
            "mock_kernel",
            say("Kernel") if same else say("Kernel of the mock"),
            Unit.TEXT,
            lambda line: label(line.row.mock.name) if line.row.mock else "",
            shorten=label,
        ),
        Column("mock_time", say("Mock") if same else say("Time"), Unit.FIGURE, lambda line: _time(line.mock_ns)),
        *(() if same else (Column("e2e_kernel", say("of the model"), Unit.TEXT, model_kernel, shorten=label),)),
        Column("e2e_time", say("Model") if same else say("Time"), Unit.FIGURE, lambda line: _time(line.e2e_ns)),
        Column("ratio", say("Ratio"), Unit.RATIO, ratio, detail=1),
        Column("match", say("Match"), Unit.TEXT, match),
        Column("shape", say("Shape"), Unit.TEXT, lambda line: _SHAPE_WORDS[line.row.same_shape], detail=2),
    )
    return Sheet.of("align_kernels", say("Kernel by kernel"), columns, lines)


def _time(ns: int | None) -> str:
    return "" if ns is None else time_text(ns)


def _every_row(rows: Sequence[AlignRow]) -> Sheet:
    """For programs."""

    def kernel_columns(side: str, words: str) -> tuple[Column, Column]:
        def time(row: AlignRow) -> int | None:
            kernel: ForwardKernel | None = getattr(row, side)
            return None if kernel is None else kernel.time_ns

        return (
            Column(f"{side}_kernel", f"{words} Kernel", Unit.TEXT, lambda entry: _name(getattr(entry[1], side))),
            Column(f"{side}_ns", f"{words} Time", Unit.NS, lambda entry: time(entry[1])),
        )

    def shape_column(side: str, words: str) -> Column:
        def shape(entry: tuple[int, AlignRow]) -> str:
            kernel: ForwardKernel | None = getattr(entry[1], side)
            return "" if kernel is None or kernel.shape is None else shape_text(kernel.shape)

        return Column(f"{side}_shape", f"{words} Shape", Unit.TEXT, shape)

    def ratio(entry: tuple[int, AlignRow]) -> str:
        return "" if entry[1].ratio is None else f"{entry[1].ratio:.4f}"

    columns = (
        Column("position", "Position", Unit.ID, lambda entry: entry[0]),
        *kernel_columns("mock", "Mock"),
        *kernel_columns("e2e", "E2E"),
        Column("ratio", "Ratio", Unit.TEXT, ratio),
        Column("match", "Match", Unit.TEXT, lambda entry: entry[1].level),
        Column("moved", "Moved", Unit.TEXT, lambda entry: "yes" if entry[1].moved else ""),
        Column(
            "shape", "Same Shape", Unit.TEXT, lambda entry: {None: "", True: "yes", False: "no"}[entry[1].same_shape]
        ),
        shape_column("mock", "Mock"),
        shape_column("e2e", "E2E"),
    )
    return Sheet.of("align_kernels", "Kernel by kernel", columns, enumerate(rows, 1))


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
