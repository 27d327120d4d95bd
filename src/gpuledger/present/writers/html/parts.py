"""What a page is made of, as HTML: charts, tables, findings, and the boxes that its scripts draw in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gpuledger.present.charts.svg import Picture, is_hatched, svg
from gpuledger.present.document import TimelinePlace
from gpuledger.present.writers.html.markup import Html, MarkupWriter, joined_html, json_html
from gpuledger.present.writers.html.tables import ColumnHead, HtmlTable, TableCell

_DEEPEST: Final = 9
"""So many depths of a tree are set in differently, by classes of the style sheet."""

_SHORT: Final = 26
"""Letters of a cell that is not broken into lines."""


class FindingCard(Struct, frozen=True):
    """What is shown of a finding, on the first screen and in its section."""

    code: str
    claim: str
    saving: str
    share: str
    interval: str
    place: TimelinePlace | None
    saving_ns: int
    saving_ns_per_step: int | None
    facts: Sequence[tuple[str, str]]
    evidence: Sequence[str]
    command: str
    explained: Html
    """Our page about its code; empty where another card has it, which is then called `elsewhere`."""
    elsewhere: str


class PartWriter(MarkupWriter):
    """Parts of a page in one language; `words` is what they say themselves."""

    def __init__(self, language: str, words: Mapping[str, str]) -> None:
        super().__init__(language)
        self._words = words

    def text(self, text: str, tone: str = "") -> Html:
        return self.put("<p{}>{}</p>", self.put_if(tone, ' class="{}"', tone), self.coded(text))

    def listing(self, title: str, lines: Iterable[str]) -> Html:
        items = joined_html(self.put("<li>{}</li>\n", self.coded(line)) for line in lines)
        titled = self.put_if(title, '<p class="term">{}</p>\n', title)
        return self.put('<div class="listing">\n{}<ul>\n{}</ul>\n</div>', titled, items)

    def command(self, text: str) -> Html:
        return self.put(
            '<p class="command"><code>{}</code>'
            '<button type="button" class="copy" data-done="{}" hidden>{}</button></p>',
            text,
            self._words["copied"],
            self._words["copy"],
        )

    def chart(self, picture: Picture, caption: str = "", name: str = "") -> Html:
        under = Html()
        if picture.legend or caption:
            items = [self.put("<li>{}{}</li>\n", self._swatch(tone), text) for tone, text in picture.legend]
            legend = self.put_if(items, '<ul class="legend">\n{}</ul>\n', joined_html(items))
            said = self.put_if(caption, "<p>{}</p>", self.coded(caption))
            under = self.put("<figcaption>\n{}{}</figcaption>\n", legend, said)
        anchor = self.put_if(name, ' id="{}"', name)
        return self.put('<figure class="chart"{}>\n{}\n{}</figure>', anchor, Html(svg(picture)), under)

    def steps(self, chart: Html, still: Html, json: str) -> Html:
        return self.put(
            '<div class="strip">\n<div id="step-cursor" data-label="{}">{}\n</div>\n<div id="step-panel">\n'
            '<div id="step-chosen" aria-live="polite"></div>\n{}\n</div>\n'
            '<script type="application/json" id="steps-json">{}</script>\n</div>',
            self._words["step"],
            chart,
            still,
            json_html(json),
        )

    def timeline(self, json: str, fix: str) -> Html:
        word = self._words
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
            self.coded(word["needs_script"]),
            *(word[name] for name in ("stretch", "search", "find", "previous", "next")),
            fix,
            *(word[name] for name in ("zoom_out", "zoom_in", "all", "copied", "link", "timeline", "timeline_help")),
            json_html(json),
        )

    def flame(self, json: str, still: Html) -> Html:
        return self.put(
            '<div id="flame-box" hidden>\n<div class="tl-tools">\n<label>{} <select class="fl-tree"></select></label>\n'
            '<label>{} <select class="fl-side"></select></label>\n'
            '<label>{} <input type="search" autocomplete="off" spellcheck="false"></label> <output></output>\n'
            '<button type="button" class="fl-whole">{}</button>\n</div>\n'
            '<div class="fl-frame" role="tree" aria-label="{}" aria-describedby="fl-help"></div>\n'
            '<p class="fl-said" aria-live="polite"></p>\n<p class="note" id="fl-help">{}</p>\n</div>\n{}'
            '<script type="application/json" id="flame-json">{}</script>',
            *(self._words[name] for name in ("by", "time_of", "search", "zoom_back", "flame", "flame_help")),
            self.put_if(still, '<div class="still">{}\n</div>\n', still),
            json_html(json),
        )

    def top_findings(self, cards: Iterable[FindingCard]) -> Html:
        """The few of the first screen."""
        items = []
        for card in cards:
            share = self.put_if(card.share, " ({})", self.coded(card.share))
            interval = self.put_if(card.interval, " <small>{}</small>", card.interval)
            said = self.put(
                '<b>{}</b>\n<span class="saving">{}{}{}</span>\n<span class="code">{}</span>\n',
                *(self.coded(card.claim), self.coded(card.saving), share, interval, card.code),
            )
            items.append(self.put("<li>\n{}\n</li>\n", self._linked(said, card.place, card.code)))
        return self.put(
            '<ol class="top-findings" aria-label="{}">\n{}</ol>', self._words["what_to_do"], joined_html(items)
        )

    def cards(self, cards: Iterable[FindingCard]) -> Html:
        return self.put('<ol class="cards">\n{}</ol>', joined_html(map(self._card, cards)))

    def _card(self, card: FindingCard) -> Html:
        per_step = card.saving_ns_per_step
        share = self.put_if(card.share, " <span>{}</span>", card.share)
        seen = (
            Html()
            if card.place is None
            else self._linked(Html(self.shown(self._words["place"])), card.place, card.code)
        )
        evidence = joined_html(self.put("<li>{}</li>\n", self.coded(sentence)) for sentence in card.evidence)
        facts = (self.put("<div><dt>{}</dt><dd>{}</dd></div>\n", name, self.coded(fact)) for name, fact in card.facts)
        explain = '<details class="explain" id="explain-{}"><summary>{}</summary>\n<div>{}</div>\n</details>\n'
        elsewhere = '<p class="note"><a href="#{}">{}</a></p>\n'
        return joined_html(
            (
                self.put('<li class="card" data-code="{}" data-saving-ns="{}"', card.code, card.saving_ns),
                self.put_if(per_step is not None, ' data-saving-ns-per-step="{}"', per_step or 0),
                self.put('>\n<div class="head">\n<h3>{}</h3>\n', card.code),
                self.put_if(card.saving, '<p class="saving"><b>{}</b>{}</p>\n', card.saving, share),
                self.put('</div>\n<p class="claim">{}</p>\n', self.coded(card.claim)),
                self.put_if(seen, '<p class="seen">{}</p>\n', seen),
                self.put_if(
                    evidence, '<ul class="evidence" aria-label="{}">\n{}</ul>\n', self._words["evidence"], evidence
                ),
                self.put('<dl class="facts">\n{}</dl>\n{}\n', joined_html(facts), self.command(card.command)),
                self.put_if(card.explained, explain, card.code, self._words["explain"], card.explained),
                self.put_if(card.elsewhere, elsewhere, card.elsewhere, self._words["explained_above"]),
                Html("</li>\n"),
            )
        )

    def table(self, table: HtmlTable) -> Html:
        zero = table.zero_rows
        rows = []
        for row, is_zero in zip(table.rows, zero, strict=True):
            kind = ' class="zero"' if is_zero else ""
            if table.families is not None:
                kind = self.put(kind + ' data-family="{}"', row[table.families].text)
            rows.append(self.put("<tr{}>{}</tr>\n", Html(kind), self._cells(row, table.heads)))
        foot = joined_html(self.put("<tr>{}</tr>\n", self._cells(row, table.heads)) for row in table.foot)
        heads = (
            self.put('<th scope="col"{}>{}</th>\n', Html(' class="n"' * head.number), head.text or "·")
            for head in table.heads
        )
        return self.put(
            '<div class="table">\n{}<div class="scroll{}" role="region" tabindex="0" aria-label="{}">\n'
            "<table{}{}>\n<caption{}>{}</caption>\n<thead><tr>\n{}</tr></thead>\n<tbody>\n{}</tbody>\n{}"
            "</table>\n</div>\n</div>",
            self._tools(table, sum(zero)) if table.copies else Html(),
            " tall" if table.tall else "",
            table.caption,
            self.put_if(table.name, ' id="{}"', table.name),
            Html(' class="sorts"' * table.sorts),
            Html(' class="quiet"' * table.quiet),
            self.coded(table.caption),
            joined_html(heads),
            joined_html(rows),
            self.put_if(foot, "<tfoot>\n{}</tfoot>\n", foot),
        )

    def _tools(self, table: HtmlTable, folded: int) -> Html:
        word, names = self._words, table.family_names
        search = '<label>{} <input type="search" autocomplete="off" spellcheck="false"></label>\n'
        choice = '<label>{} <select><option value="">{}</option>{}</select></label>\n'
        unfold = '<button type="button" class="unfold" aria-expanded="false">{} ({})</button>\n'
        options = joined_html(self.put("<option>{}</option>", name) for name in names)
        return self.put(
            '<div class="tools" hidden>\n{}{}{}<button type="button" class="csv" data-done="{}">{}</button>\n'
            "<output></output></div>\n",
            self.put_if(table.searches, search, word["filter"]),
            self.put_if(len(names) > 1, choice, word["family"], word["every_family"], options),
            self.put_if(folded, unfold, word["unfold"], folded),
            word["copied"],
            word["csv"],
        )

    def _cells(self, row: Sequence[TableCell], heads: Sequence[ColumnHead]) -> Html:
        cells = []
        for place, (cell, head) in enumerate(zip(row, heads, strict=True)):
            tag = "td" if place else 'th scope="row"'
            if head.number:
                tag += ' class="n"'
            elif head.names or cell.tone or len(cell.text) <= _SHORT:
                tag += ' class="k"'
            value = self.put_if(cell.value, ' data-value="{}"', cell.value)
            cells.append(f"<{tag}{value}>{self._inside(cell)}</{tag[:2]}>")
        return Html("".join(cells))

    def _inside(self, cell: TableCell) -> Html:
        before = Html()
        if cell.share is not None:
            bar = '<svg class="bar" aria-hidden="true"><rect height="100%" width="{}%" class="f-accent"/></svg>'
            before = self.put(bar, f"{100 * cell.share:.1f}")
        if cell.depth:
            before = self.put('{}<span class="d{}"></span>', before, min(cell.depth, _DEEPEST))
        if cell.tone:
            before = joined_html((before, self._swatch(cell.tone)))
        if cell.badge:
            return self.put('{}<span class="badge {}">{}</span>', before, cell.badge, cell.text)
        if cell.whole:
            folded = '{}<details class="name"><summary>{}</summary><code>{}</code></details>'
            return self.put(folded, before, cell.text, cell.whole)
        if cell.place is not None:
            return self.put("{}{}", before, self._linked(Html(self.shown(cell.text)), cell.place, cell.text))
        return self.put("{}{}" if cell.share is None else '{}<span class="p">{}</span>', before, cell.text)

    def _swatch(self, tone: str) -> Html:
        lines = Html('<rect width="12" height="12" fill="url(#hatch)"/>' if is_hatched(tone) else "")
        colour = self.put('<rect width="12" height="12" class="f-{}"/>{}', tone, lines)
        return self.put('<svg class="swatch" width="12" height="12" aria-hidden="true">{}</svg>', colour)

    def _linked(self, said: Html, place: TimelinePlace | None, what: str) -> Html:
        """A link to a place on the timeline, with what is to be marked there."""
        if place is None:
            return said
        marks = (("triggers", place.triggers), ("correlations", place.correlations))
        return self.put(
            '<a href="#timeline" data-stretch="{}" data-start="{}" data-end="{}" data-what="{}"{}{}>{}</a>',
            *(place.stretch, place.start_ns, place.end_ns, what),
            joined_html(
                self.put_if(numbers, f' data-{name}="{{}}"', " ".join(map(str, numbers))) for name, numbers in marks
            ),
            self.put_if(place.tone, ' data-tone="{}"', place.tone),
            said,
        )
