"""A page as one HTML file: no request to anywhere, nothing runs but our own script, whatever names are in it.

Blocks of a document become parts, a mapping each, and `templates/parts.j2` has a macro for each `kind` of them. Jinja
escapes every value that a template prints; it is translated and control characters and direction marks are spelled
out before that. A content security policy with the hashes of our style sheet and script forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markdown_it import MarkdownIt
from markupsafe import Markup

from gpuledger.findings.finding import Finding
from gpuledger.findings.rules import codes
from gpuledger.findings.rules import page as advice_page
from gpuledger.messages import Message, capitalised, say, translated
from gpuledger.present import document as doc
from gpuledger.present.charts.svg import ByClass, Picture, hatch, is_hatched, svg
from gpuledger.present.finding_words import finding_points, plain_range, plain_words, then_words
from gpuledger.present.palette import TONES
from gpuledger.present.safe_text import shell_lines, unbroken, visible, visible_json
from gpuledger.present.writers.html.scripted import flame_json, steps_json, timeline_json
from gpuledger.present.writers.html.tables import Room, cut, table
from gpuledger.units import instant_text, share_text
from gpuledger.version import own_version

LARGEST: Final = 3_000_000
"""No page has more bytes than this."""

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
    "what_to_do": say("What to do"),
    "timeline": say("Timeline"),
    "flame": say("Flame graph"),
    "step": say("Step"),
    "needs_script": say("The timeline needs JavaScript; `gpuledger view` shows the whole run in Perfetto."),
    "stretch": say("Show"),
    "search": say("Search"),
    "find": say("kernel, call, range"),
    "previous": say("Previous"),
    "next": say("Next"),
    "zoom_in": say("Zoom in"),
    "zoom_out": say("Zoom out"),
    "all": say("Fit"),
    "link": say("Copy link"),
    "timeline_help": say(
        "Drag to pan; scroll zooms after a click, or with Ctrl. Keys: W/S zoom, A/D pan, arrows go "
        "from event to event, L jumps between a launch and its kernel, F fits, / searches, N goes to "
        "the next hit, T shows threads that only wait."
    ),
    "by": say("By"),
    "time_of": say("Time"),
    "zoom_back": say("Reset zoom"),
    "flame_help": say("Click or press Enter to zoom in; arrows move between frames; Escape zooms out."),
}
"""What the templates say themselves."""


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
    by = say("made by gpuledger {version}; self-contained, nothing is loaded from the network", version=made_by)
    words = {name: translated(said, language) for name, said in (*_WORDS.items(), ("made_by", by))}
    style, script = _style(), _script()
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'"
    return (
        _environment()
        .get_template("page.j2")
        .render(
            page=_PageParts(language, room, command).page(page),
            language=language,
            content=content,
            version=made_by,
            words=words,
            policy=Markup(policy),  # noqa: S704 - ours, and quotes in it must stay
            style=Markup(style),  # noqa: S704 - a file of the package
            script=Markup(script),  # noqa: S704 - a file of the package
            hatch=Markup(hatch(ByClass())),  # noqa: S704 - environment of constants
        )
    )


Part = Mapping[str, Any]
"""What a macro of the templates is given: its `kind`, and the values that it prints."""


class _PageParts:
    """Blocks as parts of a page for one reader: in a language, with so much room."""

    def __init__(self, language: str, room: Room, command: str) -> None:
        self._language, self._room, self._command = language, room, command

    def _tell(self, text: str) -> str:
        return translated(text, self._language)

    def _cut(self, text: str, times: int = 1) -> str:
        """A text in the reader's language, in at most so many times the letters of a name."""
        return cut(self._tell(text), times * self._room.letters, self._tell)

    def page(self, page: doc.Page) -> dict[str, Any]:
        """What the template of a page prints."""
        name = self._cut(page.name)
        return {
            "title": f"{self._cut(page.title) if page.title else name} · gpuledger",
            "name": name,
            "headline": self._cut(page.headline),
            "verdict": cut(self._tell(page.verdict), VERDICT_LETTERS, self._tell),
            "tiles": page.tiles,
            "opening": self._parts(page.opening, 1),
            "sections": [
                {
                    "name": section.name,
                    "title": self._cut(section.title),
                    "short": section.short,
                    "result": self._cut(section.result),
                    "parts": self._parts(section.blocks),
                }
                for section in page.sections
            ],
        }

    def _parts(self, blocks: Iterable[doc.Block], paragraph: int = 4) -> list[Part]:
        """One part per block; a table takes its caption from a heading right before it."""
        parts: list[Part] = []
        above = ""
        for block in blocks:
            if above and isinstance(block, doc.SheetBlock) and block.sheet.all_rows:
                block = replace(block, sheet=replace(block.sheet, title=above), is_quiet=True)
            parts += self._block(block, paragraph)
            above = parts[-1]["text"] if isinstance(block, doc.Heading) else ""
        return parts

    def _block(self, block: doc.Block, paragraph: int) -> Iterable[Part]:  # noqa: C901, PLR0911, PLR0912 - a case per block
        tell = self._tell
        match block:
            case doc.Heading(text):
                return [{"kind": "heading", "text": self._cut(text)}]
            case doc.Paragraph(text, tone):
                return [{"kind": "text", "text": self._cut(text, paragraph), "tone": tone}]
            case doc.Points(title, items):
                lines = [self._cut(item) for item in items[: self._room.rows]]
                return [{"kind": "listing", "title": self._cut(title), "lines": lines}]
            case doc.SheetBlock(sheet) if not sheet.all_rows:
                return [{"kind": "text", "text": say("{reason}.", reason=sheet.why_no_rows), "tone": "unknown"}]
            case doc.SheetBlock():
                return [{"kind": "table", "table": table(block, tell, self._room)}]
            case doc.ShellCommands(commands):
                return [{"kind": "command", "text": shell_lines(command)[0]} for command in commands]
            case doc.Reproduce():
                return [{"kind": "command", "text": self._command}]
            case doc.Findings():
                return self._findings(block)
            case doc.Chart():
                return [{"kind": "chart", **self._chart(block)}]
            case doc.LedgerBlock(chart=chart):
                return [{"kind": "chart", **self._chart(chart)}]
            case doc.TimelineBlock():
                fix = say("with {code} fixed", code=block.fixed.code) if block.fixed is not None else ""
                return [{"kind": "timeline", "json": timeline_json(block, tell, self._room.letters), "fix": fix}]
            case doc.FlameBlock(still=still):
                picture = None if still is None else self._chart(still)
                return [{"kind": "flame", "json": flame_json(block, tell), "still": picture}]
            case doc.StepStrip(chart, still):
                shown = table(still, tell, self._room)
                return [{"kind": "strip", "chart": self._chart(chart), "still": shown, "json": steps_json(block, tell)}]
            case _:
                raise TypeError(f"a page has no place for {type(block).__name__}")

    def _chart(self, chart: doc.Chart) -> Part:
        return {"picture": chart.picture(self._tell), "caption": chart.caption, "name": chart.name}

    def _findings(self, block: doc.Findings) -> Iterable[Part]:
        """Cards, each with our page about its code folded away; or the few of the first screen; or points."""
        match block.form:
            case doc.FindingsForm.POINTS:
                return self._parts(map(finding_points, block.entries))
            case doc.FindingsForm.TOP:
                return [{"kind": "top", "findings": [self._finding(shown) for shown in block.entries]}]
        cards: list[Part] = []
        explained_codes: set[str] = set()
        for shown in block.entries:
            finding = shown.finding
            explanation = explanation_html(finding.code, self._language)
            is_first = finding.code not in explained_codes
            explained_codes.add(finding.code)
            cards.append(
                {
                    **self._finding(shown),
                    "facts": self._facts(block, shown),
                    "evidence": [self._cut(sentence) for sentence in finding.sentences],
                    "command": finding.next,
                    "saving_ns": finding.saving_ns,
                    "saving_ns_per_step": finding.saving_ns_per_step,
                    "explained": explanation if is_first else "",
                    "elsewhere": f"explain-{finding.code}" if explanation and not is_first else "",
                }
            )
        return [{"kind": "cards", "cards": cards}]

    def _finding(self, shown: doc.ShownFinding) -> dict[str, Any]:
        finding, bounds = shown.finding, plain_range(shown.finding)
        return {
            "code": finding.code,
            "claim": cut(capitalised(self._tell(finding.claim)), self._room.letters, self._tell),
            "saving": "" if shown.saving is None else capitalised(shown.saving),
            "share": "" if shown.share is None else share_text(shown.share),
            "interval": bounds and say("without the profiler {low} to {high}", low=bounds[0], high=bounds[1]),
            "place": shown.place,
        }

    def _facts(self, block: doc.Findings, shown: doc.ShownFinding) -> list[tuple[str, str]]:
        finding, example = shown.finding, None
        if finding.example is not None and block.zero_ns is not None:
            start, end = (instant_text(instant - block.zero_ns) for instant in finding.example)
            example = say("{start} to {end}", start=start, end=end)
        facts = (
            (say("fix"), shown.fix),
            (say("in order"), self._in_order(block, finding)),
            (say("without the profiler"), plain_words(finding)),
            (say("confidence"), finding.confidence),
            (say("on"), say("GPU {gpu}", gpu=finding.gpu) if block.names_gpu and finding.gpu >= 0 else None),
            (say("if"), finding.assumption or None),
            (say("for example"), example),
        )
        return [(name, value) for name, value in facts if value is not None]

    @staticmethod
    def _in_order(block: doc.Findings, finding: Finding) -> Message | None:
        """What it adds after those before it, of which the first has none."""
        first = next((shown.finding for shown in block.entries if shown.finding.then_ns is not None), None)
        if finding.then_ns is None or finding is first:
            return None
        return then_words(finding) or say("saves as much once those above are fixed")


@cache
def explanation_html(code: str, language: str) -> str:
    """Our own page about a code as HTML, without its title, headings two levels down; empty where there is none.

    The pages are part of the package, so their text is trusted; raw HTML in them would be shown as text all the same.
    """
    if code not in codes():
        return ""
    _, _, body = advice_page(code, language).partition("\n")
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(body)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"
        if token.type == "th_open":
            token.attrSet("scope", "col")
        if token.type == "table_open":
            token.attrSet("aria-label", code)
    return str(markdown.renderer.render(tokens, markdown.options, {}))


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


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("gpuledger.present.writers.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.tests["hatched"] = is_hatched
    environment.filters["json"] = _json
    environment.filters["svg"] = _svg
    environment.filters["ours"] = Markup
    environment.filters["coded"] = _coded
    return environment


@pass_context
def _shown(context: Context, value: object) -> object:
    """Every value on its way into a page: told in its language, and characters that hide or turn text spelled out."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _shown_text(context, value)


def _shown_text(context: Context, text: str) -> str:
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
    plain = unbroken(_shown_text(context, text))
    pieces = plain.split("`")
    if len(pieces) % 2 == 0:
        return Markup("{}").format(plain)
    marks = (Markup("<code>{}</code>") if position % 2 else Markup("{}") for position in range(len(pieces)))
    return Markup("").join(mark.format(piece) for mark, piece in zip(marks, pieces, strict=True))


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
