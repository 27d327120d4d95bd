"""A page as one HTML file: no request to anywhere, nothing runs but our own script, whatever names are in it.

Jinja escapes every value that a template prints, and control characters and direction marks are spelled out before
that. A content security policy with the hashes of our style sheet and script forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from gpuledger.messages import say, translated
from gpuledger.present.charts.svg import ByClass, Picture, hatch, is_hatched, svg
from gpuledger.present.document import Document
from gpuledger.present.palette import TONES
from gpuledger.present.safe_text import unbroken, visible, visible_json
from gpuledger.present.writers.html.parts import Page, Reader, Room
from gpuledger.version import own_version

LARGEST: Final = 3_000_000
"""No page has more bytes than this."""

ROOMS: Final = (Room(500, 400), Room(200, 240), Room(80, 120), Room(30, 60))
"""Tried in order until the page is small enough."""

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
    "main",
)
"""What the page's script is put together from: one idea a file, whoever uses another after it."""

_WORDS: Final = {
    "skip": say("Skip to content"),
    "sections": say("Sections"),
    "theme": say("Theme"),
    "filter": say("Filter"),
    "copy": say("Copy"),
    "copied": say("Copied"),
    "explain": say("Why, how it was detected, how to fix it"),
    "explained_above": say("Explained above"),
    "glance": say("At a glance"),
    "evidence": say("Evidence"),
    "csv": say("Copy as CSV"),
    "family": say("Family"),
    "every_family": say("all families"),
    "unfold": say("Rows of 0.0 %"),
    "place": say("Show on the timeline"),
    "needs_script": say("The timeline needs JavaScript; `gpuledger view` shows the whole run in Perfetto."),
    "stretch": say("Show"),
    "search": say("Search"),
    "find": say("kernel, call, range"),
    "previous": say("Previous"),
    "next": say("Next"),
    "zoom_in": say("Zoom in"),
    "zoom_out": say("Zoom out"),
    "all": say("Fit"),
    "timeline_help": say(
        "Drag to pan; scroll zooms after a click, or with Ctrl. Keys: W/S zoom, A/D pan, arrows go "
        "from event to event, L jumps between a launch and its kernel, F fits, / searches, N goes to "
        "the next hit."
    ),
    "by": say("By"),
    "time_of": say("Time"),
    "zoom_back": say("Reset zoom"),
    "flame_help": say("Click or press Enter to zoom in; arrows move between frames; Escape zooms out."),
}
"""What the templates say themselves."""


def document_html(document: Document, language: str, command: str) -> str:
    """The page of a document, with as much in it as fits; `command` is how to make it again."""
    if document.page is None:
        raise ValueError("this document has no page")
    made_by, content, text = own_version(), embedded(document.data()), ""
    for room in ROOMS:
        page = document.page(Reader(language, room, command, made_by))
        text = html(page, language, content, made_by)
        if len(text.encode(errors="backslashreplace")) <= LARGEST:
            break
    return text


def html(page: Page, language: str, content: str, made_by: str) -> str:
    """The page as it is; `content` is the document that it shows, as JSON."""
    by = say("made by gpuledger {version}; self-contained, nothing is loaded from the network", version=made_by)
    words = {name: translated(said, language) for name, said in (*_WORDS.items(), ("made_by", by))}
    style, script = _style(), _script()
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'"
    return (
        _environment()
        .get_template("page.j2")
        .render(
            page=page,
            language=language,
            content=content,
            version=made_by,
            words=words,
            policy=Markup(policy),  # noqa: S704 - ours, and quotes in it must stay
            style=Markup(style),  # noqa: S704 - a file of the package
            script=Markup(script),  # noqa: S704 - a file of the package
            hatch=Markup(hatch(ByClass())),  # noqa: S704 - made of constants
        )
    )


def embedded(content: Mapping[str, Any]) -> str:
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


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("gpuledger.present.writers.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.tests["hatched"] = is_hatched
    made.filters["json"] = _json
    made.filters["svg"] = _svg
    made.filters["ours"] = Markup
    made.filters["coded"] = _coded
    return made


@pass_context
def _shown(context: Context, value: object) -> object:
    """Every value on its way into a page: told in its language, and characters that hide or turn text spelled out."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _told(context, value)


def _told(context: Context, text: str) -> str:
    return visible(translated(text, context.get("language", "en")))  # a style sheet has none


def _json(text: str) -> Markup:
    """A document inside a script element, which nothing in it can end, and in which nothing hides."""
    safe = visible_json(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
    return Markup(safe)  # noqa: S704 - it holds none of the characters that mean anything


def _svg(picture: Picture) -> Markup:
    return Markup(svg(picture))  # noqa: S704 - `svg` escapes the texts


@pass_context
def _coded(context: Context, text: str) -> Markup:
    """Text with what stands between backquotes as code."""
    told = unbroken(_told(context, text))
    pieces = told.split("`")
    if len(pieces) % 2 == 0:
        return Markup("{}").format(told)
    joined = Markup("")
    for at, piece in enumerate(pieces):
        joined += Markup("<code>{}</code>").format(piece) if at % 2 else Markup("{}").format(piece)
    return joined


@cache
def _style() -> str:
    """Our style sheet, with the palette."""
    return _environment().get_template("page.css").render(tones=TONES)


@cache
def _script() -> str:
    """Our scripts as one, in a scope of their own."""
    loader = _environment().loader
    if loader is None:
        raise ValueError("the scripts are part of the package")
    sources = [loader.get_source(_environment(), f"scripts/{name}.js")[0] for name in SCRIPTS]
    return "\n".join(("(() => {", '"use strict";', *sources, "})();"))


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
