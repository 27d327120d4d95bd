"""A page of a few sentences and tables: what a verb shows as HTML that answers with figures per step of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuledger.messages import say
from gpuledger.present.document import Block, Heading, Paragraph, SheetBlock
from gpuledger.present.sheet import Sheet

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Page, Part, Reader


def stretch_text(steps: int | None, gpu: int) -> str:
    """What figures per step are of; None: there are no steps."""
    if steps is None:
        return say("the whole window, GPU {gpu}", gpu=gpu)
    if steps == 1:
        return say("one step, GPU {gpu}", gpu=gpu)
    return say("mean of {steps} steady steps, GPU {gpu}", steps=steps, gpu=gpu)


def tables_page(
    profile: str,
    sentences: Sequence[Paragraph],
    sheets: Sequence[Sheet],
    reader: Reader,
    *,
    more: Sequence[Block] = (),
    charts: Sequence[Part] = (),
) -> Page:
    """The first sentence as the verdict, the others under it, pictures, each table under its title, and what else."""
    from gpuledger.present.writers.html.blocks import block_sections
    from gpuledger.present.writers.html.parts import Command, Page, Section, Text
    from gpuledger.present.writers.html.tables import cut

    name = cut(profile, reader.room.letters, reader.tell)
    told = [cut(reader.tell(sentence.text), reader.room.letters, reader.tell) for sentence in sentences]
    blocks: list[Block] = [block for sheet in sheets for block in (Heading(sheet.title), SheetBlock(sheet))]
    return Page(
        title=f"{name} · gpuledger",
        name=name,
        headline="",
        verdict=told[0] if told else "",
        tiles=(),
        opening=tuple(Text(sentence, "lead") for sentence in told[1:]),
        sections=(
            *((Section("charts", reader.tell(say("Roofline")), tuple(charts)),) if charts else ()),
            *block_sections([*blocks, *more], reader, ""),
            Section("again", say("Reproduce"), (Command(reader.command),)),
        ),
    )
