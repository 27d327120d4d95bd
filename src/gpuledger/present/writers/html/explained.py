"""Our own pages about findings as HTML: Markdown in, escaped HTML out.

The pages are part of the package, so their text is trusted; raw HTML in them would be shown as text all the same.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt

from gpuledger.findings.advice import page
from gpuledger.findings.rules import codes


@cache
def explained(code: str, language: str) -> str:
    """The page about a code without its title, headings two levels down; empty where there is none."""
    if code not in codes():
        return ""
    _, _, body = page(code, language).partition("\n")
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
