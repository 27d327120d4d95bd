"""An argument list as text that can be pasted into a POSIX shell and gives back the same list.

What a terminal would obey is spelled out, for the shell to make when it is run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from gpuledger.present.safe_text import visible_lines

_FLAG: Final = re.compile(r"--[\w-]+=")
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
        pieces = _pieces(argument, room)
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


def _pieces(argument: str, room: int) -> list[str]:
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
            size = max(rest.rfind(each, 0, size) for each in "|(") + 1 or size  # before a name rather than inside one
        lines.append(f"{head}{shlex.quote(rest[:size])}")
        head, rest = "", rest[size:]
    return [f"{line}\\" for line in lines[:-1]] + lines[-1:]
