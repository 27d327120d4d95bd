"""Untrusted text made visible: what a terminal would obey, and what nobody sees, is spelled out.

At the bottom of the house, as every part that shows a name to people needs it.
"""

from __future__ import annotations

import json
from typing import Final

from gpuledger.regex import regex

_HIDDEN: Final = regex(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180e"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
"""What a terminal obeys and what nobody sees: controls, marks of direction and format, fillers, lone surrogates."""


def visible(text: str) -> str:
    """`text` with control characters, direction marks and lone surrogates spelled out: ESC becomes \\x1b.

    The one way of a text from a file into text, Markdown, CSV, XML or a page; `visible_json` is that into JSON.
    """
    if _HIDDEN.search(text) is None:
        return text  # itself, so that a message stays one
    return _HIDDEN.sub(lambda match: _escape(match[0]), text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines, which may be indented by tabs."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] in "\n\t" else _escape(match[0]), text)


def visible_json(text: str) -> str:
    """A JSON document with the same characters written as JSON escapes: it reads as before, and nothing hides in it."""
    if text.isascii() and "\x7f" not in text:  # JSON itself escapes the other controls
        return text
    return _HIDDEN.sub(lambda match: match[0] if match[0] in "\n\r\t" else json.dumps(match[0])[1:-1], text)


def _escape(letter: str) -> str:
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
