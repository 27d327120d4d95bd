"""Untrusted text made safe to show: names come from profiles, and a profile may come from anybody."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Final

_HIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")


def visible(text: str) -> str:
    """`text` with control characters, direction marks and lone surrogates spelled out: ESC becomes \\x1b."""
    return _HIDDEN.sub(lambda match: _escape(match[0]), text)


def _escape(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def wrapped(line: str, width: int | None, indent: int = 0) -> str:
    """A sentence in lines of at most `width`, all but the first one indented; as it is where there is no width."""
    if width is None:
        return line
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def cut_in_the_middle(text: str, width: int) -> str:
    """`text` in at most `width` columns: the beginning and the end of a kernel's name both tell kernels apart."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) // 2
    ending = text[-tail:] if tail else ""
    while cell_len(ending) > tail:
        ending = ending[1:]
    return set_cell_size(text, width - 1 - tail).rstrip() + "…" + ending


def cut_apart(texts: Sequence[str], width: int, shorten: Callable[[str], str] | None = None) -> list[str]:
    """Texts in at most `width` columns each; of those that would look the same when cut, what differs is shown."""
    from rich.cells import cell_len

    short = {text: shorten(text) if shorten is not None and cell_len(text) > width else text for text in texts}
    cut: dict[str, str] = {}
    alike: dict[str, list[str]] = {}
    for text in dict.fromkeys(short.values()):
        cut[text] = cut_in_the_middle(text, width)
        alike.setdefault(cut[text], []).append(text)
    for shown, different in alike.items():
        if len(different) > 1:
            differ_at = _word_start(different[0], _common_length(different))
            head = shown[: width // 3].rstrip("…")
            cut |= {text: _cut_at_the_end(f"{head}…{text[differ_at:]}", width) for text in different}
    return [cut[short[text]] for text in texts]


def _common_length(texts: Sequence[str]) -> int:
    """How many letters all texts have in common at the beginning."""
    first, last = min(texts), max(texts)
    return next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def _word_start(text: str, at: int) -> int:
    while at > 0 and text[at - 1].isalnum():
        at -= 1
    return at


def _cut_at_the_end(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"
