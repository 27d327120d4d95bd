"""A comparison as a page: the verdict, the parts that sum to the difference as a waterfall, and the tables of text."""

from __future__ import annotations

import json

from gpuledger.ledger.lines import Line
from gpuledger.messages import translated
from gpuledger.present.charts.amounts import Change, waterfall
from gpuledger.present.charts.svg import Picture
from gpuledger.present.document import Heading
from gpuledger.present.html.blocks import block_sections
from gpuledger.present.html.page import embedded, fitting
from gpuledger.present.html.parts import Chart, Command, Page, Room, Section, Tile
from gpuledger.present.html.tables import cut
from gpuledger.present.palette import line_tone
from gpuledger.present.views.diff.document import Compared, diff_blocks, verdict_text
from gpuledger.present.views.diff.figures import signed_share, signed_time
from gpuledger.present.views.diff.json import diff_json
from gpuledger.present.views.diff.tables import part_name
from gpuledger.units import time_text


def diff_html(compared: Compared, command: str, version: str) -> str:
    """The page; `command` is how to make it again."""
    content = embedded(json.loads(diff_json(compared)))

    def page(room: Room) -> Page:
        found = compared.diff
        before, after = (cut(side.name, room.letters, _tell) for side in (found.before, found.after))
        blocks = [block for block in diff_blocks(compared) if not (isinstance(block, Heading) and block.level == 1)]
        made = block_sections(blocks, _tell, room, "Compared")
        return Page(
            language="en",
            title=f"{before} against {after} · gpuledger",
            name=f"{before} → {after}",
            headline="",
            verdict=f"{verdict_text(found)}.",
            tiles=_tiles(compared),
            sections=(
                *(_with_waterfall(section, compared) for section in made),
                Section("again", "This page again", (Command(command),)),
            ),
            json=content,
            version=version,
        )

    return fitting(page)


def _tell(text: str) -> str:
    return translated(text, "en")


def _tiles(compared: Compared) -> tuple[Tile, ...]:
    found = compared.diff
    before, after = found.before.median_ns, found.after.median_ns
    change = Tile("Change", signed_time(found.delta_ns), signed_share(found.share))
    return Tile("Before", time_text(before)), Tile("After", time_text(after)), change


def _with_waterfall(section: Section, compared: Compared) -> Section:
    """The section that says why, with the picture before its table."""
    if not section.title.startswith("Why"):
        return section
    chart = Chart(waterfall_picture(compared), name="waterfall")
    return Section(section.name, section.title, (chart, *section.parts), "Why")


def waterfall_picture(compared: Compared) -> Picture:
    """From the step before to the step after, the largest part first."""
    found = compared.diff
    parts = sorted((part for part in found.parts if part.ns), key=lambda part: -abs(part.ns))
    changes = [Change(part_name(part.name), part.ns, signed_time(part.ns), _tone(part.name, part.ns)) for part in parts]
    said = "; ".join(f"{change.name} {change.text}" for change in changes)
    before, after = found.before.median_ns, found.after.median_ns
    return waterfall(
        "From before to after, part by part",
        f"{time_text(before)} before, {time_text(after)} after: {said}",
        ("before", before, time_text(before)),
        changes,
        ("after", after, time_text(after)),
    )


def _tone(part: str, ns: int) -> str:
    """The tone of a part: the ledger's where it is one of its lines, else one for less and one for more."""
    if isinstance(part, Line):
        return line_tone(part)
    return "compute-gemm" if ns < 0 else "compute-moe"
