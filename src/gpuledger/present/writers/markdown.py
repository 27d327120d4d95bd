"""Documents as Markdown, whatever their names hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Final
from urllib.parse import quote

from gpuledger.messages import capitalised, say, translated
from gpuledger.present import document as doc
from gpuledger.present.digits import shown_text
from gpuledger.present.safe_text import shell_lines, visible
from gpuledger.present.sheet import Digits, Sheet, translated_sheet
from gpuledger.present.writers.text import shade_lines
from gpuledger.units import share_text

_SPECIAL = re.compile(r"([\\`*_{}\[\]|#~])")
_LINKED = re.compile(r"@(?=\w)|#(?=\d)|:(?=//)|www(?=\.)|\bGH(?=-\d)", re.IGNORECASE)
"""What GitHub makes a mention, a reference or a link of, escaped or not, unless a comment stands within."""


def document_markdown(document: doc.Document, language: str, *, raw: bool = False) -> str:
    """The whole document, an empty line between blocks."""
    return MarkdownWriter(language, raw=raw).blocks(document.blocks()) + "\n"


class MarkdownWriter:
    """Writes blocks in one language."""

    def __init__(self, language: str, *, raw: bool = False) -> None:
        self._language: Final = language
        self._raw: Final = raw
        self._tell: Final[doc.Tell] = partial(translated, language=language)

    def blocks(self, blocks: Iterable[doc.Block]) -> str:
        """Several blocks."""
        return "\n\n".join(text for block in blocks if (text := self._block(block)))

    def _block(self, block: doc.Block) -> str:  # noqa: C901, PLR0911, PLR0912 - a case per block
        match block:
            case doc.Opening(name, headline, facts):
                listed = "".join(f"\n- {self._said(fact)}" for fact in facts)
                return f"# {escaped(name)}\n\n{self._said(headline)}" + (f"\n{listed}" if listed else "")
            case doc.Conclusion(text):
                return f"**{self._said(text)}**"
            case doc.Heading(text, level):
                return f"{'#' * level} {self._said(text)}"
            case doc.Paragraph(text):
                return self._said(text)
            case doc.Points(title, items):
                return f"**{self._said(title)}**\n\n{self._list(items)}"
            case doc.Remarks(items):
                return self._list(items)
            case doc.Definitions(title, entries):
                listed = self._list(
                    say("{term}: {sentence}", term=term, sentence=sentence) for term, sentence in entries
                )
                return f"## {self._said(title)}\n\n{listed}" if entries else ""
            case doc.SheetBlock(sheet, title):
                return self._sheet(translated_sheet(sheet, self._language), named=title is not doc.SheetTitle.NONE)
            case doc.ShellCommands(commands):
                lines = "\n".join(line for command in commands for line in shell_lines(command))
                return f"## {self._said(say('Commands'))}\n\n```sh\n{lines}\n```" if commands else ""
            case doc.Drawn(_, markdown):
                return markdown(self._tell)
            case doc.Only():
                return self.blocks(block.shown_in(doc.Medium.MARKDOWN))
            case doc.Group(blocks):
                return self.blocks(blocks)
            case doc.Findings():
                return self._findings(block)
            case doc.LedgerBlock():
                return self._ledger(block)
            case doc.Shades(title, what):
                drawn = "\n".join(line.replace("`", "'") for line in shade_lines(block, 100, self._tell))
                return f"## {self._tell(title)}\n\n{self._said(what)}:\n\n```text\n{drawn}\n```"
            case _:  # what only a page can show
                return ""

    def _findings(self, block: doc.Findings) -> str:
        """What to do, numbered: claim and saving, then the fix and the evidence."""
        from gpuledger.present.finding_words import finding_points, fix_words, then_words, unsure_words

        if block.form is doc.FindingsForm.POINTS:
            return self.blocks(map(finding_points, block.entries))
        if block.form is doc.FindingsForm.TOP:
            return ""
        lines = [f"## {self._tell(say('What to do'))}", ""]
        for number, shown in enumerate(block.entries, 1):
            finding, saving = shown.finding, shown.saving
            what = say("{claim}.", claim=finding.claim)
            if saving is not None:
                for more in (unsure_words(finding), then_words(finding)):
                    if more is not None:
                        saving = say("{saving}; {then}", saving=saving, then=more)
                what = say("{claim}. {saving}.", claim=finding.claim, saving=capitalised(saving))
            line = self._tell(say("**{code}**: {what}", code=finding.code, what=self._said(what)))
            lines.append(f"{number}. {line}")
            fix = [] if shown.fix is None else [fix_words(shown.fix)]
            evidence = (sentence for sentence in finding.sentences if sentence != shown.fix)
            lines += [f"   - {self._said(sentence)}" for sentence in (*fix, *evidence)]
        return "\n".join(lines)

    def _ledger(self, block: doc.LedgerBlock) -> str:
        """A table of the lines, then the pictures that lie beside the document."""
        heads = " | ".join(map(self._tell, (say("line"), say("share"), say("per step"))))
        lines = [f"## {self._tell(say('Where the time went'))}", "", self._said(block.title), ""]
        lines += [f"| {heads} |", "|---|--:|--:|"]
        lines += [f"| {self._said(row.name)} | {share_text(row.share)} | {row.time} |" for row in block.rows]
        for title, file in block.files:
            lines += ["", f"![{escaped(title)}]({quote(file)})"]
        return "\n".join(lines)

    def _said(self, text: str) -> str:
        return escaped(self._tell(text))

    def _list(self, items: Iterable[str]) -> str:
        return "\n".join(f"- {self._said(item)}" for item in items)

    def _sheet(self, sheet: Sheet, *, named: bool) -> str:
        """A table, under a heading and its name in JSON where nothing else names it."""
        title = f"## {sheet.title}\n\n`{sheet.name}`\n\n" if named else ""
        if named and not sheet.all_rows:
            return f"{title}{self._said(say('{reason}.', reason=sheet.why_no_rows))}"
        return title + table_markdown(sheet, raw=self._raw).rstrip("\n")


def table_markdown(sheet: Sheet, *, raw: bool = False) -> str:
    """The table itself."""
    exact = raw or not sheet.rounded
    heading = _line([escaped(column.title(exact=exact)) for column in sheet.columns])
    rule = _line(["---" if column.digits is Digits.TEXT else "--:" for column in sheet.columns])
    rows = [
        _line([escaped(shown_text(cell, column, exact=exact)) for cell, column in zip(row, sheet.columns, strict=True)])
        for row in sheet.all_rows
    ]
    return "".join([heading, rule, *rows])


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    plain = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINKED.sub(r"\g<0><!-- -->", _SPECIAL.sub(r"\\\1", plain))


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
