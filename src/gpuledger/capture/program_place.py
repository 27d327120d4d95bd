"""Where in a command its program stands, and how words are put before it: a command and an editor in, a command out.

`env A=1 python x.py` and `timeout 60 torchrun x.py` hand on to a program; `bash -lc 'source env.sh && torchrun x.py'`
starts it from a text, in which the words go before the same program, quoted, and all else stays as it was written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.capture.shell_text import UnreadableText, simple_commands, text_place
from gpuledger.errors import GpuledgerError

ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.ASCII | re.DOTALL)
_HAND_ON: Final = {
    "env": (("-u", "-C", "--unset", "--chdir"), 0),
    "exec": (("-a",), 0),
    "command": ((), 0),
    "nohup": ((), 0),
    "setsid": ((), 0),
    "time": (("-f", "-o"), 0),
    "nice": (("-n",), 0),
    "stdbuf": (("-i", "-o", "-e"), 0),
    "timeout": (("-k", "-s", "--kill-after", "--signal"), 1),
    "taskset": ((), 1),
    "numactl": (("-N", "-m", "-C", "-i", "-p", "--cpunodebind", "--membind", "--physcpubind", "--interleave"), 0),
}
"""Programs that start another: their options that take a word, and how many words come before the other."""


@dataclass(frozen=True, slots=True)
class Edit:
    """These words in place of those from `begin` to `end`."""

    begin: int
    end: int
    words: tuple[str, ...]


Editor = Callable[[tuple[str, ...], bool], tuple[Edit, ...] | None]
"""Takes the words of a program, and whether they stand in a shell's text; None where it is not one to be changed."""


@dataclass(frozen=True, slots=True)
class ProgramPlace:
    """Where the program stands behind what hands on to it."""

    begin: int
    environment: tuple[int, ...]
    """Which words before it change its environment."""


def program_place(words: Sequence[str], *, in_text: bool = False) -> ProgramPlace:
    """Skips `env`, `timeout` and the like; in a shell's text also assignments."""
    place, changes = 0, list[int]()
    while in_text and place < len(words) and ASSIGNMENT.fullmatch(words[place]):
        changes.append(place)
        place += 1
    while place < len(words) and (name := Path(words[place]).name) in _HAND_ON:
        begin = place
        valued, before = _HAND_ON[name]
        place += 1
        while place < len(words) and words[place].startswith("-"):
            place += 1 + (words[place] in valued)
        while name == "env" and place < len(words) and ASSIGNMENT.fullmatch(words[place]):
            place += 1
        place += before
        if name == "env":
            changes += range(begin, place)
    return ProgramPlace(min(place, len(words)), tuple(changes))


def edited(command: Sequence[str], editor: Editor) -> tuple[str, ...] | None:
    """The command with its program changed; None where the editor knows no program in it."""
    words = tuple(command)
    edits = edits_behind(words, 0, editor)
    return None if edits is None else _applied(words, edits)


def edits_behind(
    words: tuple[str, ...], begin: int, editor: Editor, *, in_text: bool = False
) -> tuple[Edit, ...] | None:
    """The edits of the program that is started from word `begin` on."""
    begin += program_place(words[begin:], in_text=in_text).begin
    program = words[begin:]
    if not program:
        return None
    place = None if in_text else text_place(program)
    if place is not None:
        text = _edited_text(program[place], editor)
        return None if text is None else (Edit(begin + place, begin + place + 1, (text,)),)
    edits = editor(program, in_text)
    return None if edits is None else tuple(Edit(begin + each.begin, begin + each.end, each.words) for each in edits)


def _edited_text(text: str, editor: Editor) -> str | None:
    try:
        commands = simple_commands(text)
    except UnreadableText as error:
        raise GpuledgerError(
            f"the text for the shell holds {error}, which gpuledger does not read",
            hint="put what comes before the program into a file, and write `bash -lc 'source FILE && PROGRAM ...'`",
        ) from None
    changed = [
        (command, edits)
        for command in commands
        if (edits := edits_behind(command.plain, 0, editor, in_text=True)) is not None
    ]
    if len(changed) > 1:
        raise GpuledgerError(
            f"the text for the shell starts {len(changed)} programs that could be recorded",
            found="; ".join(text[command.words[0].begin : command.end] for command, _ in changed),
            hint="record one at a time; put the others into a file that the text runs first",
        )
    for command, edits in changed:
        for edit in sorted(edits, key=lambda each: each.begin, reverse=True):
            begin = command.words[edit.begin].begin if edit.begin < len(command.words) else command.end
            end = begin if edit.end == edit.begin else command.words[edit.end - 1].end
            after = " " if edit.words and edit.end == edit.begin else ""
            text = f"{text[:begin]}{shlex.join(edit.words)}{after}{text[end:]}"
        return text
    return None


def _applied(words: tuple[str, ...], edits: Iterable[Edit]) -> tuple[str, ...]:
    for edit in sorted(edits, key=lambda each: each.begin, reverse=True):
        words = (*words[: edit.begin], *edit.words, *words[edit.end :])
    return words
