"""A page as one HTML file: no request to anywhere, nothing runs but our own script, whatever names are in it.

Blocks of a document become parts (`parts`), and every value in them is escaped (`markup`). A content security policy
with the hashes of our style sheet and script forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from gpuledger.messages import say
from gpuledger.present import document as doc
from gpuledger.present.charts.svg import ByClass, hatch
from gpuledger.present.palette import TONES
from gpuledger.present.writers.html.markup import Html, joined_html, json_html
from gpuledger.present.writers.html.parts import PartWriter
from gpuledger.present.writers.html.tables import Room, cut
from gpuledger.version import own_version

LARGEST: Final = 2_000_000
"""No page has more bytes than this, 2 MB: it opens at once, and can be sent to anybody."""

ROOMS: Final = (Room(500, 400), Room(200, 240), Room(80, 120), Room(30, 60))
"""Tried in order until the page is small enough."""

VERDICT_LETTERS: Final = 2_000
"""Of the first sentences, however little room there is for the rest."""

LARGEST_JSON: Final = 600_000
"""A document with more bytes is not put into the page."""

SCRIPTS: Final = (
    "dom",
    "packed",
    "theme",
    "copying",
    "tables",
    "sections",
    "step_ledger",
    "timeline_model",
    "timeline_layout",
    "timeline_view",
    "timeline_draw",
    "timeline_card",
    "timeline_search",
    "timeline_input",
    "timeline",
    "flame",
    "bands",
    "main",
)
"""What the page's script is put together from: one idea a file, whoever uses another after it."""


def document_html(document: doc.Document, language: str, command: str) -> str:
    """The page of a document, with as much in it as fits; `command` is how to make it again."""
    if document.page is None:
        raise ValueError("this document has no page")
    page, content, text = document.page(), embedded_json(document.json()), ""
    for room in ROOMS:
        text = html(page, language, content, own_version(), room, command)
        if len(text.encode(errors="backslashreplace")) <= LARGEST:
            break
    return text


def html(page: doc.Page, language: str, content: str, made_by: str, room: Room = ROOMS[0], command: str = "") -> str:
    """The page with so much room; `content` is the document that it shows, as JSON."""
    writer, style, script = PartWriter(language, room, command), _style(), _script()
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'"
    by = say("made by gpuledger {version}; self-contained, nothing is loaded from the network", version=made_by)
    head = (
        '<!doctype html>\n<html lang="{}">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="{}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        '<meta name="generator" content="gpuledger {}">\n<title>{} · gpuledger</title>\n'
        '<link rel="icon" href="data:,">\n<style>{}</style>\n</head>\n'
    )
    foot = '<footer><p>{}</p></footer>\n<script type="application/json" id="document">{}</script>\n</body>\n</html>\n'
    return joined_html(
        (
            writer.put(
                head,
                "zh-Hans" if language == "zh" else language,
                Html(policy),  # ours, and quotes in it must stay
                *(made_by, writer.short(page.name), Html(style)),
            ),
            _body(writer, page, Html(script)),
            writer.put(foot, by, json_html(content)),
        )
    )


def _body(writer: PartWriter, page: doc.Page, script: Html) -> Html:
    """All that is seen of a page but its last line; the script right after the timeline, so that this answers."""
    put = writer.put
    sections = list(map(writer.section, page.sections))
    drawn = (
        place
        for place, section in enumerate(page.sections, 1)
        if any(isinstance(block, doc.TimelineBlock) for block in section.blocks)
    )
    sections.insert(next(drawn, len(sections)), put("<script>{}</script>\n", script))
    links = (
        put('<li><a href="#{}">{}</a></li>\n', section.name, section.short or writer.short(section.title))
        for section in page.sections
    )
    tiles = joined_html(
        put(
            "<div><dt>{}</dt><dd><b>{}</b>{}</dd></div>\n",
            *(tile.name, tile.value, writer.put_if(tile.note, " <span>{}</span>", tile.note)),
        )
        for tile in page.tiles
    )
    opening = writer.parts(page.opening, 1)
    return put(
        '<body>\n<a class="skip" href="#content">{}</a>\n'
        '<svg class="defs" width="0" height="0" aria-hidden="true"><defs>{}</defs></svg>\n<header class="top">\n'
        '<div class="who">\n<h1>{}</h1>\n<p class="headline">{}</p>\n</div>\n'
        '<button type="button" id="theme" hidden>{}</button>\n</header>\n<nav aria-label="{}">\n<ul>\n{}</ul>\n'
        '</nav>\n<main id="content">\n<p class="verdict">{}</p>\n{}{}{}</main>\n{}',
        say("Skip to content"),
        Html(hatch(ByClass())),
        *(writer.short(page.name), writer.short(page.headline), say("Theme"), say("Sections"), joined_html(links)),
        writer.coded(cut(writer.tell(page.verdict), VERDICT_LETTERS, writer.tell)),
        writer.put_if(tiles, '<dl class="tiles" aria-label="{}">\n{}</dl>\n', say("At a glance"), tiles),
        writer.put_if(opening, '<div class="opening">\n{}\n</div>\n', opening),
        joined_html(sections),
        writer.other_stretches,
    )


def embedded_json(content: Mapping[str, Any]) -> str:
    """A document as text to be put into a page; without what makes it too large, which is then named in `left_out`."""
    text = _dumped(content)
    for key in ("kernels", "tables", "ranges", "calls"):
        if len(text.encode()) <= LARGEST_JSON:
            return text
        if key in content:
            kept = {name: value for name, value in content.items() if name != key}
            content = kept | {"left_out": [*content.get("left_out", []), key]}
            text = _dumped(content)
    return text if len(text.encode()) <= LARGEST_JSON else _dumped({"left_out": ["all"]})


def _dumped(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace").decode()


_FILES: Final = Path(__file__).with_name("templates")
"""The style sheet and the scripts."""


@cache
def _style() -> str:
    """Our style sheet, with the palette."""
    style = (_FILES / "page.css").read_text(encoding="utf-8")
    light, dark = ("".join(f"--{name}: {tone[paper]};" for name, tone in TONES.items()) for paper in (0, 1))
    used = (
        f".f-{name} {{ fill: var(--{name}); }} .s-{name} {{ fill: none; stroke: var(--{name}); }}\n" for name in TONES
    )
    written = {"--light: tones;": light, "--dark: tones;": dark, "/* tones */": "".join(used)}
    for mark, lines in written.items():
        style = style.replace(mark, lines)
    return style


@cache
def _script() -> str:
    """Our scripts as one, in a scope of their own."""
    sources = [(_FILES / "scripts" / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(("(() => {", '"use strict";', *sources, "})();"))


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
