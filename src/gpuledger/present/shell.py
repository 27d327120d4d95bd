"""An argument list as text that can be pasted into a POSIX shell and gives back the same list."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

_FLAG: Final = re.compile(r"--[\w-]+=")
_JOINED = " \\"


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
    return flag + (shlex.quote(value) if value or not flag else "")


def _pieces(argument: str, room: int) -> list[str]:
    """One argument in a line of its own, or in several: the shell puts together what only `\\` and a line end part.

    The lines after the first begin at the margin, as a space would begin another argument.
    """
    if len(whole := f"  {_quoted(argument)}") <= room:
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
