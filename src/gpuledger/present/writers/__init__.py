"""One writer per format: a document in, text out. A writer is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuledger.present.terminal import Terminal

if TYPE_CHECKING:
    from gpuledger.present.document import Document


def write(
    document: Document,
    form: str,
    *,
    width: int | None = None,
    has_colours: bool = False,
    language: str = "en",
    command: str = "",
    raw: bool = False,
) -> str:
    """The document in one of the formats; `command` is how to make a page again.

    `raw` is for text and Markdown: numbers as CSV and JSON have them.
    """
    match form:
        case "json":
            from gpuledger.present.writers.json import json_text

            return json_text(document.json())
        case "csv":
            from gpuledger.present.writers.csv import sheets_csv

            return sheets_csv(document.sheets())
        case "md":
            from gpuledger.present.writers.markdown import document_markdown

            return document_markdown(document, language, raw=raw)
        case "html":
            from gpuledger.present.writers.html.page import document_html

            return document_html(document, language, command)
        case _:
            from gpuledger.present.writers.text import document_text

            return document_text(document, Terminal(width, has_colours), language, raw=raw)
