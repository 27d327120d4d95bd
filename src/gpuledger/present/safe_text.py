"""Untrusted text made safe to show and to paste: names come from profiles, and a profile may come from anybody."""

from __future__ import annotations

import shlex
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile
from typing import Final

from gpuledger.regex import regex
from gpuledger.visible_text import visible, visible_json, visible_lines

__all__ = [
    "cut_apart",
    "cut_in_the_middle",
    "display_width",
    "padded",
    "shell_lines",
    "shell_word",
    "unbroken",
    "visible",
    "visible_json",
    "visible_lines",
    "wrapped",
]

_OPENING: Final = "（“‘《【「"
_CLOSING: Final = "，。；：、！？）”’》】」"
"""Chinese punctuation that no line ends with, and that none begins with."""

_NO_WIDTH: Final = ("Mn", "Me", "Cf")
"""Categories of characters that a terminal draws over the one before, or not at all."""

_BEFORE_UNIT: Final = regex(r"(?<=\d) (?=%|[mun]?s\b|[kMGT]?B\b|kernels?\b|[个次步条])")
"""The space between a number and its unit: no line ends there."""


def wrapped(line: str, width: int | None, indent: int = 0) -> str:
    """A sentence in lines of at most `width`, all but the first one indented; as it is where there is no width.

    Lines end at spaces; Chinese has none, so there they end between any two characters, but for punctuation.
    """
    if width is None:
        return line
    if not any(map(_is_wide, line)):
        margin, kept = " " * indent, _BEFORE_UNIT.sub("\0", line)
        filled = textwrap.fill(kept, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)
        return filled.replace("\0", " ")
    lines = [""]
    for piece in _pieces(line):
        if lines[-1].strip() and display_width(lines[-1]) + display_width(piece.rstrip()) > width:
            lines.append(" " * indent)
            piece = piece.lstrip()
        lines[-1] += piece
    return "\n".join(filled.rstrip() for filled in lines if filled.strip())


def unbroken(text: str) -> str:
    """A text in which no browser ends a line between a number and its unit."""
    return _BEFORE_UNIT.sub("\xa0", text)


def _pieces(line: str) -> list[str]:
    """The line cut wherever a new one may begin."""
    pieces = [line[:1]]
    kept = {match.start() for match in _BEFORE_UNIT.finditer(line)}
    for position, (before, after) in enumerate(pairwise(line), 1):
        between_words = before.isspace() != after.isspace()
        beside_wide = _is_wide(before) or _is_wide(after)
        together = before in _OPENING or after in _CLOSING or not kept.isdisjoint((position - 1, position))
        if (between_words or beside_wide) and not together:
            pieces.append(after)
        else:
            pieces[-1] += after
    return pieces


def display_width(text: str) -> int:
    """How many columns of a terminal `text` takes: a Chinese character takes two, an accent on a letter none."""
    return len(text) if text.isascii() else sum(map(_letter_columns, text))


def _letter_columns(letter: str) -> int:
    if letter.isascii():  # as nearly all are
        return 1
    if _is_wide(letter):
        return 2
    return 0 if unicodedata.category(letter) in _NO_WIDTH else 1


def _first_columns(text: str, width: int) -> str:
    """The beginning of a text, in at most so many columns."""
    if text.isascii():
        return text[:width]
    used = 0
    for position, letter in enumerate(text):
        used += _letter_columns(letter)
        if used > width:
            return text[:position]
    return text


def padded(text: str, width: int) -> str:
    """`text` with spaces behind it, in `width` columns."""
    return text + " " * (width - display_width(text))


def _is_wide(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) in "WF"


def cut_in_the_middle(text: str, width: int) -> str:
    """`text` in at most `width` columns: the beginning and the end of a kernel's name both tell kernels apart."""
    if display_width(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) // 2
    ending = text[-tail:] if tail else ""
    while display_width(ending) > tail:
        ending = ending[1:]
    return _first_columns(text, width - 1 - tail).rstrip() + "…" + ending


def cut_apart(texts: Sequence[str], width: int, shorten: Callable[[str], str] | None = None) -> list[str]:
    """Texts in at most `width` columns each; of those that would look the same when cut, what differs is shown."""
    short = {text: shorten(text) if shorten is not None and display_width(text) > width else text for text in texts}
    cut: dict[str, str] = {}
    alike: dict[str, list[str]] = {}
    for text in dict.fromkeys(short.values()):
        cut[text] = cut_in_the_middle(text, width)
        alike.setdefault(cut[text], []).append(text)
    for shown, different in alike.items():
        if len(different) > 1:
            first, last = min(different), max(different)  # what these begin with, all do
            common = takewhile(lambda letters: letters[0] == letters[1], zip(first, last, strict=False))
            differ_at = _word_start(different[0], len(list(common)))
            head = shown[: width // 3].rstrip("…")
            cut |= {text: _cut_at_the_end(f"{head}…{text[differ_at:]}", width) for text in different}
    return [cut[short[text]] for text in texts]


def _word_start(text: str, at: int) -> int:
    while at > 0 and text[at - 1].isalnum():
        at -= 1
    return at


def _cut_at_the_end(text: str, width: int) -> str:
    return text if display_width(text) <= width else _first_columns(text, width - 1).rstrip() + "…"


_FLAG: Final = regex(r"--[\w-]+=")
_JOINED = " \\"
_PRINTED: Final = {code: chr(code) for code in range(0x20, 0x7F) if chr(code) not in "\\'%"}
"""Bytes that a format of `printf` may hold as they are, between single quotes."""


def shell_lines(argv: Sequence[str], width: int | None = None) -> list[str]:
    """The command in one line, or in lines of at most `width` that a backslash at the end joins."""
    if width is None:
        return [" ".join(_quoted(argument) for argument in argv)]
    room = width - len(_JOINED)
    lines, full = [_quoted(argv[0])], False
    for argument in argv[1:]:
        word = _quoted(argument)
        if not full and len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
            continue
        pieces = _shell_pieces(argument, room)
        lines[-1] += _JOINED
        lines += pieces
        full = len(pieces) > 1  # what follows a list of names is easier to find in a line of its own
    return lines


def _quoted(argument: str) -> str:
    """Quoted where it must be; the flag of `--flag=value` stays outside, where it is easy to read."""
    flag = match[0] if (match := _FLAG.match(argument)) else ""
    value = argument.removeprefix(flag)
    return flag + (shell_word(value) if value or not flag else "")


def shell_word(text: str) -> str:
    """One word, quoted where it must be; `printf` makes what a terminal would obey if it stood there itself."""
    if visible_lines(text) == text:
        return shlex.quote(text)
    body = text.rstrip("\n")  # the shell takes line ends away from what a command prints
    spelled = "".join(_PRINTED.get(byte) or f"\\{byte:03o}" for byte in _bytes(body))
    return f"\"$(printf '{spelled}')\"" + (shlex.quote(text[len(body) :]) if body != text else "")


def _bytes(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")  # as arguments that are no text come in
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")  # no argument can be this


def _shell_pieces(argument: str, room: int) -> list[str]:
    """One argument in a line of its own, or in several: the shell puts together what only `\\` and a line end part.

    The lines after the first begin at the margin, as a space would begin another argument.
    """
    if len(whole := f"  {_quoted(argument)}") <= room or visible_lines(argument) != argument:
        return [whole]
    head = f"  {match[0]}" if (match := _FLAG.match(argument)) else "  "
    rest = argument.removeprefix(head.strip())
    lines = []
    while rest:
        size = next(
            (n for n in range(min(len(rest), room), 1, -1) if len(head) + len(shlex.quote(rest[:n])) <= room), 1
        )
        if size < len(rest):
            size = max(rest.rfind(sign, 0, size) for sign in "|(") + 1 or size  # before a name rather than inside one
        lines.append(f"{head}{shlex.quote(rest[:size])}")
        head, rest = "", rest[size:]
    return [f"{line}\\" for line in lines[:-1]] + lines[-1:]
