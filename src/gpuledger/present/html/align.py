"""An alignment as a page: the conclusion, the seven checks with their verdicts, and the kernels side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpuledger.analyse.align.alignment import Alignment
from gpuledger.messages import translated
from gpuledger.present.document import Grid, Heading, Paragraph
from gpuledger.present.html.blocks import block_sections
from gpuledger.present.html.page import embedded, fitting
from gpuledger.present.html.parts import Command, Page, Room, Section, Tile
from gpuledger.present.html.tables import cut
from gpuledger.present.views.align import align_blocks, align_json
from gpuledger.trace.health import Note
from gpuledger.units import time_text


def align_html(made: Alignment, health: Sequence[Note], command: str, version: str) -> str:
    """The page; `command` is how to make it again."""
    content = embedded(json.loads(align_json(made, health)))

    def page(room: Room) -> Page:
        title, conclusion, about, *rest = align_blocks(made, health)
        name, verdict, headline = (
            cut(block.text, room.letters, _tell) if isinstance(block, Heading | Paragraph) else ""
            for block in (title, conclusion, about)
        )
        checks = [block for block in rest if isinstance(block, Grid) and block.sheet.name == "align_checks"]
        return Page(
            language="en",
            title=f"{name} · gpuledger",
            name=name,
            headline=headline,
            verdict=verdict,
            tiles=_tiles(made),
            sections=(
                *block_sections([Heading("Checks"), *checks], _tell, room, ""),
                *block_sections([block for block in rest if block not in checks], _tell, room, "What was seen"),
                Section("again", "This page again", (Command(command),)),
            ),
            json=content,
            version=version,
        )

    return fitting(page)


def _tell(text: str) -> str:
    return translated(text, "en")


def _tiles(made: Alignment) -> tuple[Tile, ...]:
    sides = (("Mock, GPU time of a forward", made.found.mock), ("Model", made.found.e2e))
    tiles = [Tile(name, time_text(side.gpu_ns)) for name, side in sides if side.gpu_ns is not None]
    return Tile("Verdict", made.verdict), *tiles
