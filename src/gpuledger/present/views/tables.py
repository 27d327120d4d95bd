"""A verb that asks one question: the answer, then its tables, as a document and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from gpuledger.messages import say
from gpuledger.present import document as doc
from gpuledger.present.sheet import Sheet
from gpuledger.records import dataclass
from gpuledger.trace.model import Note, always_shown


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """One GPU's answer to a question."""

    sentences: tuple[str, ...]
    """The answer, then what to do."""
    sheets: tuple[Sheet, ...]
    shown: tuple[Sheet, ...] = ()
    """For people, where they are to see other tables than programs."""


def answer_blocks(sentences: Sequence[str]) -> list[doc.Block]:
    """The answer, and under it what to do."""
    return [doc.Conclusion(sentences[0]), *([doc.Remarks(tuple(sentences[1:]))] if sentences[1:] else [])]


def answers_document(
    verb: str, profile: str, answers: Sequence[TableAnswer], notes: Iterable[Note], zero_ns: int
) -> doc.Document:
    """The answers of all GPUs, then their tables."""
    return tables_document(
        verb,
        profile,
        [sheet for answer in answers for sheet in answer.sheets],
        notes,
        zero_ns,
        sentences=[answer.sentences for answer in answers],
        shown=[sheet for answer in answers for sheet in answer.shown or answer.sheets],
    )


def tables_document(
    verb: str,
    profile: str,
    sheets: Sequence[Sheet],
    notes: Iterable[Note],
    zero_ns: int,
    *,
    sentences: Sequence[Sequence[str]] = (),
    shown: Sequence[Sheet] | None = None,
) -> doc.Document:
    """Sentences for each GPU, then tables; JSON is the document gpuledger.VERB/1. Instants are told from `zero_ns`."""
    notes = tuple(notes)
    first = [block for of_gpu in sentences for block in answer_blocks(of_gpu)]
    always = [say("Note: {sentence}.", sentence=sentence) for sentence in always_shown(notes)]
    first += [doc.Remarks(tuple(always))] if always else []
    people = sheets if shown is None else shown

    return doc.Document(
        blocks=lambda: (*first, *(doc.SheetBlock(sheet, doc.SheetTitle.NAMED, tells_hidden=True) for sheet in people)),
        data=doc.json_by("tables.answer_json", verb, profile, zero_ns, sheets, notes),
        sheets=lambda: tuple(sheets),
        page=lambda: tables_page(profile, list(map(doc.Paragraph, chain(*sentences, always))), people),
    )


def stretch_text(steps: int | None, gpu: int) -> str:
    """What figures per step are of; None: there are no steps."""
    if steps is None:
        return say("the whole window, GPU {gpu}", gpu=gpu)
    if steps == 1:
        return say("one step, GPU {gpu}", gpu=gpu)
    return say("mean of {steps} steady steps, GPU {gpu}", steps=steps, gpu=gpu)


def tables_page(
    profile: str,
    sentences: Sequence[doc.Paragraph],
    sheets: Sequence[Sheet],
    *,
    more: Sequence[doc.Block] = (),
    charts: Sequence[doc.Chart] = (),
) -> doc.Page:
    """The first sentence as the verdict, the others under it, pictures, each table under its title, and what else."""
    blocks: list[doc.Block] = [block for sheet in sheets for block in (doc.Heading(sheet.title), doc.SheetBlock(sheet))]
    return doc.Page(
        profile,
        verdict=sentences[0].text if sentences else "",
        opening=tuple(doc.Paragraph(sentence.text, "lead") for sentence in sentences[1:]),
        sections=(
            *((doc.Section("charts", say("Roofline"), tuple(charts)),) if charts else ()),
            *doc.chapters([*blocks, *more]),
            doc.AGAIN,
        ),
    )
