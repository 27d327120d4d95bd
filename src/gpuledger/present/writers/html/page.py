"""A page as one HTML file: no request to anywhere, nothing runs but our own script, whatever names are in it.

Blocks of a document become parts (`parts`), and every value in them is escaped (`markup`). A content security policy
with the hashes of our style sheet and script forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from msgspec.structs import replace

from gpuledger.findings.finding import Finding
from gpuledger.findings.pages import codes
from gpuledger.findings.pages import page as advice_page
from gpuledger.messages import Message, capitalised, say, translated
from gpuledger.present import document as doc
from gpuledger.present.charts.svg import ByClass, hatch
from gpuledger.present.finding_words import finding_points, plain_range, plain_words, then_words
from gpuledger.present.palette import TONES
from gpuledger.present.safe_text import shell_lines
from gpuledger.present.writers.html.markup import Html, joined_html, json_html
from gpuledger.present.writers.html.parts import FindingCard, PartWriter
from gpuledger.present.writers.html.scripted import flame_json, steps_json, timeline_json
from gpuledger.present.writers.html.tables import Room, cut, table
from gpuledger.units import instant_text, share_text
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
"""What pages say themselves."""


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
    head = (
        '<!doctype html>\n<html lang="{}">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="{}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        '<meta name="generator" content="gpuledger {}">\n<title>{}</title>\n<link rel="icon" href="data:,">\n'
        "<style>{}</style>\n</head>\n"
    )
    foot = '<footer><p>{}</p></footer>\n<script type="application/json" id="document">{}</script>\n</body>\n</html>\n'
    writer = _PageWriter(language, words, room, command)
    return joined_html(
        (
            writer.put(
                head,
                "zh-Hans" if language == "zh" else language,
                Html(policy),  # ours, and quotes in it must stay
                *(made_by, writer.title(page), Html(style)),
            ),
            writer.body(page, script),
            writer.put(foot, words["made_by"], json_html(content)),
        )
    )


class _PageWriter(PartWriter):
    """Blocks as parts of a page for one reader: in a language, with so much room."""

    def __init__(self, language: str, words: Mapping[str, str], room: Room, command: str) -> None:
        super().__init__(language, words)
        self._room, self._command, self._other_stretches = room, command, Html()

    def _tell(self, text: str) -> str:
        return translated(text, self._language)

    def _cut(self, text: str, times: int = 1) -> str:
        """A text in the reader's language, in at most so many times the letters of a name."""
        return cut(self._tell(text), times * self._room.letters, self._tell)

    def title(self, page: doc.Page) -> str:
        return f"{self._cut(page.title or page.name)} · gpuledger"

    def body(self, page: doc.Page, script: str) -> Html:
        """All that is seen of a page but its last line; the script right after the timeline, so that this answers."""
        word = self._words
        sections = list(map(self._section, page.sections))
        drawn = (
            place
            for place, section in enumerate(page.sections, 1)
            if any(isinstance(block, doc.TimelineBlock) for block in section.blocks)
        )
        sections.insert(next(drawn, len(sections)), self.put("<script>{}</script>\n", Html(script)))
        links = (
            self.put('<li><a href="#{}">{}</a></li>\n', section.name, section.short or self._cut(section.title))
            for section in page.sections
        )
        tiles = joined_html(
            self.put(
                "<div><dt>{}</dt><dd><b>{}</b>{}</dd></div>\n",
                *(tile.name, tile.value, self.put_if(tile.note, " <span>{}</span>", tile.note)),
            )
            for tile in page.tiles
        )
        opening = self._parts(page.opening, 1)
        return self.put(
            '<body>\n<a class="skip" href="#content">{}</a>\n'
            '<svg class="defs" width="0" height="0" aria-hidden="true"><defs>{}</defs></svg>\n<header class="top">\n'
            '<div class="who">\n<h1>{}</h1>\n<p class="headline">{}</p>\n</div>\n'
            '<button type="button" id="theme" hidden>{}</button>\n</header>\n<nav aria-label="{}">\n<ul>\n{}</ul>\n'
            '</nav>\n<main id="content">\n<p class="verdict">{}</p>\n{}{}{}</main>\n{}',
            word["skip"],
            Html(hatch(ByClass())),
            *(self._cut(page.name), self._cut(page.headline), word["theme"], word["sections"], joined_html(links)),
            self.coded(cut(self._tell(page.verdict), VERDICT_LETTERS, self._tell)),
            self.put_if(tiles, '<dl class="tiles" aria-label="{}">\n{}</dl>\n', word["glance"], tiles),
            self.put_if(opening, '<div class="opening">\n{}\n</div>\n', opening),
            joined_html(sections),
            self._other_stretches,
        )

    def _section(self, section: doc.Section) -> Html:
        """Open, or folded behind its result."""
        heading = self.put('<h2 id="{}-title">{}</h2>', section.name, self._cut(section.title))
        parts = self._parts(section.blocks)
        if section.result:
            result = self.coded(self._cut(section.result))
            folded = '<details class="fold"><summary>{}<span>{}</span></summary>\n{}\n</details>'
            shown = self.put(folded, heading, result, parts)
        else:
            shown = joined_html((heading, parts), "\n")
        return self.put('<section id="{0}" aria-labelledby="{0}-title">\n{1}\n</section>\n', section.name, shown)

    def _parts(self, blocks: Iterable[doc.Block], paragraph: int = 4) -> Html:
        """One part after another; a table takes its caption from a heading right before it."""
        parts: list[Html] = []
        above = ""
        for block in blocks:
            if above and isinstance(block, doc.SheetBlock) and block.sheet.all_rows:
                block = replace(block, sheet=replace(block.sheet, title=above), is_quiet=True)
            parts.append(self._block(block, paragraph))
            above = self._cut(block.text) if isinstance(block, doc.Heading) else ""
        return joined_html(parts, "\n")

    def _block(self, block: doc.Block, paragraph: int) -> Html:  # noqa: C901, PLR0911, PLR0912 - a case per block
        tell = self._tell
        match block:
            case doc.Heading(text):
                return self.put("<h3>{}</h3>", self._cut(text))
            case doc.Paragraph(text, tone):
                return self.text(self._cut(text, paragraph), tone)
            case doc.Points(title, items):
                return self.listing(self._cut(title), map(self._cut, items[: self._room.rows]))
            case doc.Definitions(title, entries):
                lines = (": ".join(map(self._tell, entry)) for entry in entries[: self._room.rows])
                return self.listing(self._cut(title), map(self._cut, lines))
            case doc.SheetBlock(sheet) if not sheet.all_rows:
                return self.text(say("{reason}.", reason=sheet.why_no_rows), "unknown")
            case doc.SheetBlock():
                return self.table(table(block, tell, self._room))
            case doc.ShellCommands(commands):
                return joined_html((self.command(shell_lines(command)[0]) for command in commands), "\n")
            case doc.Reproduce():
                return self.command(self._command)
            case doc.Findings():
                return self._findings(block)
            case doc.Chart():
                return self._chart(block)
            case doc.LedgerBlock(chart=chart):
                return self._chart(chart)
            case doc.TimelineBlock():
                fix = say("with {code} fixed", code=block.fixed.code) if block.fixed is not None else ""
                first, others = timeline_json(block, tell, self._room.letters)
                held = '<script type="application/json" id="timeline-others">{}</script>\n'
                self._other_stretches = self.put_if(others, held, json_html(others))
                return self.timeline(first, fix)
            case doc.FlameBlock(still=still):
                return self.flame(
                    flame_json(block, tell, self._room.letters), Html() if still is None else self._chart(still)
                )
            case doc.StepStrip(chart, still):
                shown = self.table(table(still, tell, self._room))
                return self.steps(self._chart(chart), shown, steps_json(block, tell))
            case _:
                raise TypeError(f"a page has no place for {type(block).__name__}")

    def _chart(self, chart: doc.Chart) -> Html:
        return self.chart(chart.picture(self._tell), chart.caption, chart.name)

    def _findings(self, block: doc.Findings) -> Html:
        """Cards, each with our page about its code folded away; or the few of the first screen; or points."""
        if block.form is doc.FindingsForm.POINTS:
            return self._parts(map(finding_points, block.entries))
        is_top = block.form is doc.FindingsForm.TOP
        cards: list[FindingCard] = []
        explained_codes: set[str] = set()
        for shown in block.entries:
            finding, bounds = shown.finding, plain_range(shown.finding)
            explanation = "" if is_top else explanation_html(finding.code, self._language)
            is_first = finding.code not in explained_codes
            explained_codes.add(finding.code)
            cards.append(
                FindingCard(
                    code=finding.code,
                    claim=cut(capitalised(self._tell(finding.claim)), self._room.letters, self._tell),
                    saving="" if shown.saving is None else capitalised(shown.saving),
                    share="" if shown.share is None else share_text(shown.share),
                    interval=say("without the profiler {low} to {high}", low=bounds[0], high=bounds[1])
                    if bounds
                    else "",
                    place=shown.place,
                    saving_ns=finding.saving_ns,
                    saving_ns_per_step=finding.saving_ns_per_step,
                    facts=() if is_top else self._facts(block, shown),
                    evidence=[self._cut(sentence) for sentence in finding.sentences if sentence != shown.fix],
                    command=finding.next,
                    explained=Html(explanation if is_first else ""),
                    elsewhere=f"explain-{finding.code}" if explanation and not is_first else "",
                )
            )
        return self.top_findings(cards) if is_top else self.cards(cards)

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
