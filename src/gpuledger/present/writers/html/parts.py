"""Blocks of a document as parts of a page: charts, tables, findings, and the boxes that its scripts draw in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import Final

from markdown_it import MarkdownIt
from msgspec.structs import replace

from gpuledger.findings.pages import codes
from gpuledger.findings.pages import page as advice_page
from gpuledger.messages import Message, capitalised, say
from gpuledger.present import document as doc
from gpuledger.present.charts.over_time import shade_map
from gpuledger.present.charts.svg import svg
from gpuledger.present.finding_words import finding_points, plain_range, plain_words, then_words
from gpuledger.present.safe_text import shell_lines
from gpuledger.present.writers.html.markup import Html, joined_html, json_html
from gpuledger.present.writers.html.scripted import flame_json, steps_json, timeline_json
from gpuledger.present.writers.html.tables import Room, TableWriter
from gpuledger.units import instant_text, share_text

_NEEDS_SCRIPT: Final = say("The timeline needs JavaScript; `gpuledger view` shows the whole run in Perfetto.")
_TIMELINE_HELP: Final = say(
    "Drag to pan; scroll zooms after a click, or with Ctrl. Keys: W/S zoom, A/D pan, arrows go "
    "from event to event, L jumps between a launch and its kernel, F fits, / searches, N goes to "
    "the next hit, T shows threads that only wait."
)
_FLAME_HELP: Final = say("Click or press Enter to zoom in; arrows move between frames; Escape zooms out.")


class PartWriter(TableWriter):
    """Writes blocks for one reader: in a language, with so much room; `command` makes the page again."""

    def __init__(self, language: str, room: Room, command: str) -> None:
        super().__init__(language, room)
        self._command: Final = command
        self.other_stretches = Html()
        """Of the timeline, for the end of the page."""

    def section(self, section: doc.Section) -> Html:
        """Open, or folded behind its result."""
        heading = self.put('<h2 id="{}-title">{}</h2>', section.name, self.short(section.title))
        parts = self.parts(section.blocks)
        if section.result:
            result = self.coded(self.short(section.result))
            folded = '<details class="fold"><summary>{}<span>{}</span></summary>\n{}\n</details>'
            shown = self.put(folded, heading, result, parts)
        else:
            shown = joined_html((heading, parts), "\n")
        return self.put('<section id="{0}" aria-labelledby="{0}-title">\n{1}\n</section>\n', section.name, shown)

    def parts(self, blocks: Iterable[doc.Block], paragraph: int = 4) -> Html:
        """One part after another; a table takes its caption from a heading right before it."""
        parts: list[Html] = []
        above = ""
        for block in blocks:
            if above and isinstance(block, doc.SheetBlock) and block.sheet.all_rows:
                block = replace(block, sheet=replace(block.sheet, title=above), is_quiet=True)
            parts.append(self._block(block, paragraph))
            above = self.short(block.text) if isinstance(block, doc.Heading) else ""
        return joined_html(parts, "\n")

    def _block(self, block: doc.Block, paragraph: int) -> Html:  # noqa: C901, PLR0911, PLR0912 - a case per block
        match block:
            case doc.Heading(text):
                return self.put("<h3>{}</h3>", self.short(text))
            case doc.Paragraph(text, tone):
                return self._text(self.short(text, paragraph), tone)
            case doc.Points(title, items):
                return self._listing(title, items)
            case doc.Definitions(title, entries):
                return self._listing(title, (": ".join(map(self.tell, entry)) for entry in entries))
            case doc.SheetBlock(sheet) if not sheet.all_rows:
                return self._text(say("{reason}.", reason=sheet.why_no_rows), "unknown")
            case doc.SheetBlock():
                return self.table(block)
            case doc.ShellCommands(commands):
                return joined_html((self._shell(shell_lines(command)[0]) for command in commands), "\n")
            case doc.Reproduce():
                return self._shell(self._command)
            case doc.Findings(form=doc.FindingsForm.POINTS):
                return self.parts(map(finding_points, block.entries))
            case doc.Findings(form=doc.FindingsForm.TOP):
                return self._top_findings(block)
            case doc.Findings():
                return self._cards(block)
            case doc.Chart():
                return self._chart(block)
            case doc.LedgerBlock(chart=chart):
                return self._chart(chart)
            case doc.Shades():
                said, chart = shade_map(block)
                return joined_html((self._text(said, "lead"), self._chart(chart)), "\n")
            case doc.TimelineBlock():
                return self._timeline(block)
            case doc.FlameBlock():
                return self._flame(block)
            case doc.StepStrip():
                return self._steps(block)
            case _:
                raise TypeError(f"a page has no place for {type(block).__name__}")

    def _text(self, text: str, tone: str = "") -> Html:
        return self.put("<p{}>{}</p>", self.put_if(tone, ' class="{}"', tone), self.coded(text))

    def _listing(self, title: str, lines: Iterable[str]) -> Html:
        items = [self.put("<li>{}</li>\n", self.coded(self.short(line))) for line in islice(lines, self.room.rows)]
        titled = self.put_if(title, '<p class="term">{}</p>\n', self.short(title))
        return self.put('<div class="listing">\n{}<ul>\n{}</ul>\n</div>', titled, joined_html(items))

    def _shell(self, text: str) -> Html:
        return self.put(
            '<p class="command"><code>{}</code>'
            '<button type="button" class="copy" data-done="{}" hidden>{}</button></p>',
            *(text, say("Copied"), say("Copy")),
        )

    def _chart(self, chart: doc.Chart) -> Html:
        picture, under = chart.picture(self.tell), Html()
        if picture.legend or chart.caption:
            items = [self.put("<li>{}{}</li>\n", self.swatch(tone), text) for tone, text in picture.legend]
            legend = self.put_if(items, '<ul class="legend">\n{}</ul>\n', joined_html(items))
            said = self.put_if(chart.caption, "<p>{}</p>", self.coded(chart.caption))
            under = self.put("<figcaption>\n{}{}</figcaption>\n", legend, said)
        anchor = self.put_if(chart.name, ' id="{}"', chart.name)
        return self.put('<figure class="chart"{}>\n{}\n{}</figure>', anchor, Html(svg(picture)), under)

    def _steps(self, block: doc.StepStrip) -> Html:
        return self.put(
            '<div class="strip">\n<div id="step-cursor" data-label="{}">{}\n</div>\n<div id="step-panel">\n'
            '<div id="step-chosen" aria-live="polite"></div>\n{}\n</div>\n'
            '<script type="application/json" id="steps-json">{}</script>\n</div>',
            *(say("Step"), self._chart(block.chart), self.table(block.still), json_html(steps_json(block, self.tell))),
        )

    def _timeline(self, block: doc.TimelineBlock) -> Html:
        first, others = timeline_json(block, self.tell, self.room.letters)
        held = '<script type="application/json" id="timeline-others">{}</script>\n'
        self.other_stretches = self.put_if(others, held, json_html(others))
        return self.put(
            '<p class="needs-script unknown">{}</p>\n<div id="timeline-box" hidden>\n<div class="tl-tools">\n'
            '<label>{} <select></select></label>\n<span class="tl-search"><label>{} <input type="search" '
            'autocomplete="off" spellcheck="false" placeholder="{}"></label>\n'
            '<button type="button" data-act="previous" aria-label="{}">‹</button>'
            '<button type="button" data-act="next" aria-label="{}">›</button> <output></output></span>\n'
            '<label hidden><input type="checkbox" autocomplete="off"> {}</label>\n'
            '<span class="tl-zoom"><button type="button" data-act="out" aria-label="{}">−</button>'
            '<button type="button" data-act="in" aria-label="{}">+</button>'
            '<button type="button" data-act="all">{}</button>'
            '<button type="button" class="tl-link" data-done="{}" hidden>{}</button></span>\n</div>\n'
            '<div class="tl-frame" tabindex="0" role="application" aria-label="{}" aria-describedby="tl-help">\n'
            '<div class="tl-scroll" tabindex="-1"><div class="tl-tall"><canvas aria-hidden="true"></canvas></div></div>'
            '\n<div class="tl-card" hidden></div>\n</div>\n<p class="note" id="tl-help">{}</p>\n'
            '<p class="note tl-note"></p>\n<p class="tl-live" aria-live="polite"></p>\n'
            '<div class="tl-panel" aria-live="polite"></div>\n</div>\n'
            '<script type="application/json" id="timeline-json">{}</script>',
            self.coded(_NEEDS_SCRIPT),
            *(say("Show"), say("Search"), say("kernel, call, range"), say("Previous"), say("Next")),
            say("with {code} fixed", code=block.fixed.code) if block.fixed is not None else "",
            *(say("Zoom out"), say("Zoom in"), say("Fit"), say("Copied"), say("Copy link"), say("Timeline")),
            *(_TIMELINE_HELP, json_html(first)),
        )

    def _flame(self, block: doc.FlameBlock) -> Html:
        still = Html() if block.still is None else self._chart(block.still)
        return self.put(
            '<div id="flame-box" hidden>\n<div class="tl-tools">\n<label>{} <select class="fl-tree"></select></label>\n'
            '<label>{} <select class="fl-side"></select></label>\n'
            '<label>{} <input type="search" autocomplete="off" spellcheck="false"></label> <output></output>\n'
            '<button type="button" class="fl-whole">{}</button>\n</div>\n'
            '<div class="fl-frame" role="tree" aria-label="{}" aria-describedby="fl-help"></div>\n'
            '<p class="fl-said" aria-live="polite"></p>\n<p class="note" id="fl-help">{}</p>\n</div>\n{}'
            '<script type="application/json" id="flame-json">{}</script>',
            *(say("By"), say("Time"), say("Search"), say("Reset zoom"), say("Flame graph"), _FLAME_HELP),
            self.put_if(still, '<div class="still">{}\n</div>\n', still),
            json_html(flame_json(block, self.tell, self.room.letters)),
        )

    def _top_findings(self, block: doc.Findings) -> Html:
        """The few of the first screen."""
        items = []
        for shown in block.entries:
            said = self.put(
                '<b>{}</b>\n<span class="saving">{}{}{}</span>\n<span class="code">{}</span>\n',
                self._claim(shown),
                self.coded(capitalised(shown.saving or "")),
                self.put_if(shown.share is not None, " ({})", self.coded(share_text(shown.share or 0.0))),
                self._plain_saving(shown),
                shown.finding.code,
            )
            items.append(self.put("<li>\n{}\n</li>\n", self.linked(said, shown.place, shown.finding.code)))
        return self.put('<ol class="top-findings" aria-label="{}">\n{}</ol>', say("What to do"), joined_html(items))

    def _claim(self, shown: doc.ShownFinding) -> Html:
        return self.coded(self.short(capitalised(self.tell(shown.finding.claim))))

    def _plain_saving(self, shown: doc.ShownFinding) -> Html:
        if (bounds := plain_range(shown.finding)) is None:
            return Html()
        return self.put(
            " <small>{}</small>", say("without the profiler {low} to {high}", low=bounds[0], high=bounds[1])
        )

    def _cards(self, block: doc.Findings) -> Html:
        """A card each, with our page about its code folded away in the first card of the code."""
        explained = set[str]()
        cards = []
        for shown in block.entries:
            cards.append(self._card(block, shown, is_explained=shown.finding.code in explained))
            explained.add(shown.finding.code)
        return self.put('<ol class="cards">\n{}</ol>', joined_html(cards))

    def _card(self, block: doc.Findings, shown: doc.ShownFinding, *, is_explained: bool) -> Html:
        finding, code = shown.finding, shown.finding.code
        per_step, explanation = finding.saving_ns_per_step, Html(explanation_html(code, self.language))
        share = self.put_if(shown.share is not None, " <span>{}</span>", share_text(shown.share or 0.0))
        saving = '<p class="saving"><b>{}</b>{}</p>\n'
        seen = self.linked(Html(self.shown(say("Show on the timeline"))), shown.place, code)
        evidence = joined_html(
            self.put("<li>{}</li>\n", self.coded(self.short(sentence)))
            for sentence in finding.sentences
            if sentence != shown.fix
        )
        facts = (
            self.put("<div><dt>{}</dt><dd>{}</dd></div>\n", name, self.coded(fact))
            for name, fact in self._facts(block, shown)
        )
        explain = '<details class="explain" id="explain-{}"><summary>{}</summary>\n<div>{}</div>\n</details>\n'
        why = self.put_if(explanation, explain, code, say("Why, how it was detected, how to fix it"), explanation)
        if is_explained and explanation:
            why = self.put('<p class="note"><a href="#explain-{}">{}</a></p>\n', code, say("Explained above"))
        return joined_html(
            (
                self.put('<li class="card" data-code="{}" data-saving-ns="{}"', code, finding.saving_ns),
                self.put_if(per_step is not None, ' data-saving-ns-per-step="{}"', per_step or 0),
                self.put('>\n<div class="head">\n<h3>{}</h3>\n', code),
                self.put_if(shown.saving is not None, saving, capitalised(shown.saving or ""), share),
                self.put('</div>\n<p class="claim">{}</p>\n', self._claim(shown)),
                self.put_if(shown.place is not None, '<p class="seen">{}</p>\n', seen),
                self.put_if(evidence, '<ul class="evidence" aria-label="{}">\n{}</ul>\n', say("Evidence"), evidence),
                self.put('<dl class="facts">\n{}</dl>\n{}\n', joined_html(facts), self._shell(finding.next)),
                why,
                Html("</li>\n"),
            )
        )

    @staticmethod
    def _facts(block: doc.Findings, shown: doc.ShownFinding) -> list[tuple[str, str]]:
        finding, example = shown.finding, None
        if finding.example is not None and block.zero_ns is not None:
            start, end = (instant_text(instant - block.zero_ns) for instant in finding.example)
            example = say("{start} to {end}", start=start, end=end)
        facts = (
            (say("fix"), shown.fix),
            (say("in order"), _in_order(block, shown)),
            (say("without the profiler"), plain_words(finding)),
            (say("confidence"), finding.confidence),
            (say("on"), say("GPU {gpu}", gpu=finding.gpu) if block.names_gpu and finding.gpu >= 0 else None),
            (say("if"), finding.assumption or None),
            (say("for example"), example),
        )
        return [(name, value) for name, value in facts if value is not None]


def _in_order(block: doc.Findings, shown: doc.ShownFinding) -> Message | None:
    """What it adds after those before it, of which the first has none."""
    finding = shown.finding
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
