"""What a verb answers: a Struct whose fields are the JSON; every other form derives from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Annotated, get_args, get_type_hints

from msgspec import Struct

from gpuledger.messages import say
from gpuledger.present import document as doc
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.shown import ShownResult
from gpuledger.rows import Label, Row, labels_of
from gpuledger.trace.model import Note, NotMeasured, always_shown


class HealthRow(Row, frozen=True):
    """Something that a reader of the numbers should know."""

    severity: Annotated[str, Label(say("Severity"))]
    code: Annotated[str, Label(say("Code"), detail=1)]
    count: Annotated[int, Label(say("Count"), detail=2)]
    sentence: Annotated[str, Label(say("What was seen"), is_prose=True)]


class VerbAnswer(ShownResult, Struct, frozen=True, kw_only=True, tag_field="schema"):
    """Base of all answers. A labelled tuple of rows is a table."""

    sentences: tuple[str, ...] = ()
    """The answer, then what to do."""
    not_measured: dict[str, str] = {}
    """Why what was given cannot tell what would be in a table, by the table."""

    @property
    def subject(self) -> str:
        """What a page is called."""
        return str(type(self).__struct_config__.tag).partition("/")[0].replace(".", " ")

    def title(self, table: str) -> str:
        """What stands over a table."""
        return labels_of(type(self))[table].text

    def tables(self) -> dict[str, str]:
        """The tables by name, each with what stands over it."""
        return {name: self.title(name) for name in _tables(type(self))}

    def sheet(self, table: str, *, is_exact: bool = False) -> Sheet:
        """A table for people, or as CSV has it."""
        kind = _tables(type(self))[table]
        rows = getattr(self, table) if is_exact else self.shown_rows(table)
        why_empty = self.not_measured.get(table, "")
        return row_sheet(table, self.title(table), kind, rows, is_exact=is_exact, why_empty=why_empty)

    def shown_rows(self, table: str) -> Sequence[Row]:
        """The rows of a table that people see."""
        rows: Sequence[Row] = getattr(self, table)
        return rows

    def shown(self) -> list[str]:
        """The tables that people see: those with rows; without any, all."""
        names = list(_tables(type(self)))
        return [name for name in names if getattr(self, name) or name in self.not_measured] or names

    def blocks(self) -> Iterator[doc.Block]:
        """What people see, in a terminal, in Markdown and on a page."""
        if self.sentences:
            yield doc.Conclusion(self.sentences[0])
        if rest := self.sentences[1:]:
            yield doc.Remarks(rest)
        for name in self.shown():
            yield doc.SheetBlock(self.sheet(name), doc.SheetTitle.NAMED, tells_hidden=True)

    def page(self) -> doc.Page:
        """The same as a page: the first sentence as the verdict, a section for each table."""
        return doc.page_of(self.subject, self.blocks())

    def document(self) -> doc.Document:
        """For the writers."""
        return doc.Document(
            blocks=lambda: tuple(self.blocks()),
            data=lambda: self,
            sheets=lambda: tuple(self.sheet(name, is_exact=True) for name in self.tables()),
            page=self.page,
        )


class Answer(VerbAnswer, frozen=True, kw_only=True):
    """Base of the answers about a profile."""

    profile: str
    zero_ns: int | None = None
    """The profile's own clock at 0: instants count from it, as --time takes them."""
    health: tuple[HealthRow, ...] = ()

    @property
    def subject(self) -> str:
        return self.profile


@cache
def _tables(kind: type[VerbAnswer]) -> dict[str, type[Row]]:
    """Row types by the name of the table, in the order in which tables are shown."""
    hints = get_type_hints(kind)
    return {name: get_args(hints[name])[0] for name in labels_of(kind)}


def health_rows(notes: Iterable[Note]) -> tuple[HealthRow, ...]:
    """What a reader noted."""
    return tuple(HealthRow(note.severity.value, note.code, note.count, note.sentence) for note in notes)


def reasons(**of_gpus: Sequence[object]) -> dict[str, str]:
    """Of tables by name: why no GPU has it."""
    first = {table: next(iter(results), None) for table, results in of_gpus.items()}
    return {
        table: reason.reason
        for table, reason in first.items()
        if isinstance(reason, NotMeasured) and all(isinstance(result, NotMeasured) for result in of_gpus[table])
    }


def note_sentences(notes: Iterable[Note]) -> tuple[str, ...]:
    """Notes that people see in any case."""
    return tuple(say("Note: {sentence}.", sentence=sentence) for sentence in always_shown(notes))
