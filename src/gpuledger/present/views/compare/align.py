"""Whether a mock runs what the model runs: the verdict, the seven checks, what to do, and the kernels side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from msgspec import Struct

from gpuledger.analyse.align.alignment import Alignment
from gpuledger.analyse.align.checks import AlignCheck, CheckName, Figure
from gpuledger.analyse.align.kernel_sequences import AlignRow
from gpuledger.analyse.align.operation_kernels import Isolation
from gpuledger.analyse.align.operation_side import OperationSide, forwards_text
from gpuledger.catalog.kernel_names import label
from gpuledger.messages import joined, say
from gpuledger.present import document as doc
from gpuledger.present.views.answer import Answer, health_rows
from gpuledger.present.writers.junit import Case, junit_xml
from gpuledger.rows import Label, LabelledCode, Row, Unit
from gpuledger.trace.measured import Dim3
from gpuledger.trace.model import Note, Severity, always_shown
from gpuledger.units import count_text, time_text
from gpuledger.verdicts import FAIL

MOST_ROWS: Final = 40
"""Rows of a long forward that people see: those that differ first. Programs have all."""

MOST_LINES: Final = 6
"""Of what a check found, for people."""


class AlignVerdict(LabelledCode):
    """What became of a check, or of all."""

    PASS = "PASS", say("PASS"), "good"
    KNOWN = "KNOWN", say("KNOWN")
    WARN = "WARN", say("WARN"), "warn"
    UNDECIDED = "UNDECIDED", say("UNDECIDED"), "warn"
    FAIL = "FAIL", say("FAIL"), "bad"
    NOT_MEASURED = "NOT MEASURED", say("NOT MEASURED")


class AlignMatch(LabelledCode):
    """How like two kernels are; or on which side one has no partner."""

    EXACT = "exact", say("exact")
    FUNCTION = "function", say("function")
    FAMILY = "family", say("family")
    NONE = "none", say("none")
    MISSING = "missing", say("missing")
    INSERTED = "inserted", say("inserted")


class AcceptedRow(Struct, frozen=True):
    """A difference that the user knows of and accepts."""

    what: str
    reason: str


class AlignCheckRow(Row, frozen=True):
    """One check."""

    check: Annotated[CheckName, Label(say("Check"))]
    verdict: Annotated[AlignVerdict, Label(say("Verdict"))]
    mock: Annotated[str, Label(say("Mock"))]
    e2e: Annotated[str, Label(say("Model"))]
    figures: dict[str, Figure]
    evidence: tuple[str, ...]
    remedy: str | None
    """What to do; null where the check does not warn or fail."""
    known: tuple[AcceptedRow, ...]


class AlignKernelRow(Row, frozen=True):
    """A kernel of the mock's forward and one of the model's, or one alone."""

    position: Annotated[int, Label("#", Unit.ID, 3)]
    mock_kernel: Annotated[str | None, Label(say("Kernel of the mock"), shorten=label)]
    mock_ns: Annotated[int | None, Label(say("Mock"), Unit.NS)]
    e2e_kernel: Annotated[str | None, Label(say("of the model"), detail=2, shorten=label)]
    e2e_ns: Annotated[int | None, Label(say("Model"), Unit.NS)]
    ratio: Annotated[float | None, Label(say("Ratio"), Unit.RATIO, 1, "the mock's time over the model's")]
    match: Annotated[AlignMatch, Label(say("Match"))]
    moved: Annotated[bool, Label(say("Moved"), detail=4)]
    same_shape: Annotated[bool | None, Label(say("Same shape"), detail=3)]
    mock_grid: Annotated[Dim3 | None, Label(say("Grid of the mock"), Unit.TRIPLE, 5)]
    mock_block: Annotated[Dim3 | None, Label(say("Block of the mock"), Unit.TRIPLE, 5)]
    e2e_grid: Annotated[Dim3 | None, Label(say("Grid of the model"), Unit.TRIPLE, 5)]
    e2e_block: Annotated[Dim3 | None, Label(say("Block of the model"), Unit.TRIPLE, 5)]
    mock_in_graph: bool | None
    e2e_in_graph: bool | None
    mock_stream: int | None
    e2e_stream: int | None


class AlignSide(Struct, frozen=True):
    """One side."""

    profile: str
    gpu_name: str | None
    steps: int | None
    ranks: int
    forwards: int
    """In the steady steps, the first included."""
    compared: int
    """Forwards that could stand for the side."""
    alike: int
    """Of these, those with the sequence of kernels shown."""
    gpu_ns: int
    """The kernels' own times in the median forward."""
    elapsed_ns: int | None
    """From first start to last end, the median."""
    spread_ns: tuple[int, int] | None
    """10th and 90th percentile of a forward's GPU time."""


class AlignAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.align/1"):
    """Whether a mock of one operation runs the same kernels as in the model, as fast."""

    verdict: AlignVerdict
    """The worst of the checks; known and unmeasured ones do not count."""
    isolated_by: Isolation
    mock: AlignSide
    e2e: AlignSide
    notes: tuple[str, ...]
    checks: Annotated[tuple[AlignCheckRow, ...], Label(say("Checks"))]
    kernels: Annotated[tuple[AlignKernelRow, ...], Label(say("Kernel by kernel"), meaning="in order of execution")]

    def shown_rows(self, table: str) -> Sequence[Row]:
        rows = self.kernels
        if table != "kernels" or len(rows) <= MOST_ROWS:
            return super().shown_rows(table)
        first = sorted(rows, key=lambda row: (_is_alike(row), -max(row.mock_ns or 0, row.e2e_ns or 0)))[:MOST_ROWS]
        return sorted(first, key=lambda row: row.position)

    def blocks(self) -> Iterator[doc.Block]:
        yield doc.Conclusion(self.sentences[0])
        yield doc.Tiles(
            (
                doc.Tile(say("Verdict"), self.verdict.label),
                doc.Tile(say("Mock, GPU time per forward"), time_text(self.mock.gpu_ns)),
                doc.Tile(say("Model"), time_text(self.e2e.gpu_ns)),
            )
        )
        yield doc.Remarks(self.sentences[1:])
        yield doc.SheetBlock(self.sheet("checks"), doc.SheetTitle.NAMED, tells_hidden=True)
        for check in self.checks:
            if check.evidence:
                title = say("{title}: {verdict}", title=check.check.label, verdict=check.verdict.label)
                yield doc.Points(title, tuple(map(_sentence, _found(check))))
        yield doc.SheetBlock(self.sheet("kernels"), doc.SheetTitle.NAMED, tells_hidden=True)
        if (left_out := len(self.kernels) - MOST_ROWS) > 0:
            yield doc.Paragraph(say("{count} more kernels are in CSV and JSON.", count=count_text(left_out)))
        if self.notes:
            yield doc.Points(say("Notes"), tuple(map(_sentence, self.notes)), is_section=True)

    def junit(self) -> str:
        """JUnit XML: one case per check. Only FAIL is a failure; what is not measured says so."""
        cases = [
            Case(
                name=check.check.label,
                said="; ".join((check.verdict, *check.evidence, *((check.remedy,) if check.remedy else ()))),
                failure=check.evidence[0] if check.verdict == FAIL else "",
            )
            for check in self.checks
        ]
        return junit_xml(f"gpuledger align {self.mock.profile} {self.e2e.profile}", cases)


def _is_alike(row: AlignKernelRow) -> bool:
    return row.match is AlignMatch.EXACT and row.same_shape is not False


def _found(check: AlignCheckRow) -> Iterator[str]:
    """What a check found, some of it, and what to do."""
    yield from check.evidence[:MOST_LINES]
    if (more := len(check.evidence) - MOST_LINES) > 0:
        yield say("{count} more of the kind", count=count_text(more))
    if check.remedy:
        yield say("What to do: {remedy}", remedy=check.remedy)


def _sentence(text: str) -> str:
    """With a full stop."""
    return text if text.endswith(".") else say("{told}.", told=text)


def align_answer(made: Alignment, health: Sequence[Note] = ()) -> AlignAnswer:
    """The alignment; `health` is that of both profiles."""
    mock, e2e = made.sides.mock, made.sides.e2e
    lost = (note.sentence for note in health if note.severity is Severity.LOSS)
    return AlignAnswer(
        profile=say("{before} against {after}", before=mock.profile, after=e2e.profile),
        sentences=(made.conclusion, _about(made)),
        health=health_rows(health),
        verdict=AlignVerdict(made.verdict),
        isolated_by=made.isolation,
        mock=_side(mock),
        e2e=_side(e2e),
        notes=(*made.notes, *lost, *always_shown(health)),
        checks=tuple(map(_check, made.checks)),
        kernels=tuple(_kernel(position, row) for position, row in enumerate(made.sides.rows, 1)),
    )


def _about(made: Alignment) -> str:
    """What was compared, how the operation was found, and what of it was compared."""
    mock, e2e = made.sides.mock, made.sides.e2e
    names = say("{before} against {after}", before=mock.profile, after=e2e.profile)
    both = say(
        "{mock} of the mock and {e2e} of the model",
        mock=forwards_text(mock.forwards),
        e2e=forwards_text(e2e.forwards),
    )
    gpus = joined(say(" and "), dict.fromkeys(name for name in (mock.gpu_name, e2e.gpu_name) if name))
    return joined(" · ", [part for part in (names, _isolated(made.isolation), both, gpus) if part])


def _isolated(isolation: Isolation) -> str:
    if isolation.expression is None:
        return say("isolated automatically")
    if isolation.by == "range":
        return say("isolated by range '{pattern}'", pattern=isolation.expression)
    return say("isolated by pattern '{pattern}'", pattern=isolation.expression)


def _side(side: OperationSide) -> AlignSide:
    known = {name: getattr(side, name) for name in AlignSide.__struct_fields__}
    return AlignSide(**known | {"gpu_name": side.gpu_name or None, "steps": side.steps or None})


def _check(check: AlignCheck) -> AlignCheckRow:
    return AlignCheckRow(
        check.check,
        AlignVerdict(check.verdict),
        check.mock,
        check.e2e,
        dict(check.figures),
        check.evidence,
        check.remedy,
        tuple(AcceptedRow(accepted.sentence, accepted.difference.reason) for accepted in check.accepted),
    )


def _kernel(position: int, row: AlignRow) -> AlignKernelRow:
    sides = {
        f"{side}_{ours}": None if kernel is None else getattr(kernel, theirs)
        for side, kernel in (("mock", row.mock), ("e2e", row.e2e))
        for ours, theirs in (
            *(("kernel", "name"), ("ns", "time_ns"), ("grid", "grid"), ("block", "block")),
            *(("in_graph", "in_graph"), ("stream", "stream")),
        )
    }
    return AlignKernelRow(
        position=position,
        ratio=row.ratio,
        match=AlignMatch(row.level),
        moved=row.moved,
        same_shape=row.same_shape,
        **sides,
    )
