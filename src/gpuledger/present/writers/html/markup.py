"""Values put into markup: each is told in the page's language, shows what hides in it, and is escaped.

Markup itself is written out where it is used, with a pair of braces for each value. Nothing else makes `Html`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from gpuledger.messages import translated
from gpuledger.present.document import Tell
from gpuledger.present.safe_text import unbroken, visible, visible_json

_ESCAPED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "'": "&#39;", '"': "&#34;"})
_MEANS_SOMETHING: Final = frozenset("&<>'\"")


class Html(str):
    """Markup, which is put into other markup as it is."""

    __slots__ = ()


class MarkupWriter:
    """Puts values into markup for a reader of one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.tell: Final[Tell] = partial(translated, language=language)

    def put(self, markup: str, *values: str | int) -> Html:
        """The markup with a value in the place of each pair of braces."""
        return Html(markup.format(*map(self.shown, values)))

    def put_if(self, condition: object, markup: str, *values: str | int) -> Html:
        """The same, or nothing."""
        return self.put(markup, *values) if condition else Html()

    def shown(self, value: str | int) -> str:
        """A value on its way into markup."""
        if isinstance(value, Html):
            return value
        return escaped(visible(self.tell(value))) if isinstance(value, str) else str(value)

    def coded(self, text: str) -> Html:
        """Text with what stands between backquotes as code; a number stays with its unit."""
        pieces = [escaped(piece) for piece in unbroken(visible(self.tell(text))).split("`")]
        if len(pieces) % 2 == 0:
            return Html("`".join(pieces))
        return Html("".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces)))


def escaped(text: str) -> str:
    """Text in which nothing means anything to a browser."""
    return text if _MEANS_SOMETHING.isdisjoint(text) else text.translate(_ESCAPED)


def joined_html(parts: Iterable[Html], between: str = "") -> Html:
    """Parts one after another."""
    return Html(between.join(parts))


def json_html(text: str) -> Html:
    """A document inside a script element, which nothing in it can end, and in which nothing hides."""
    return Html(visible_json(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")))
