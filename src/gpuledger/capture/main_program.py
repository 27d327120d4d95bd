"""Which program a command is there for: the command in, the place of its program out, also in the text of a shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuledger.capture.launchers import LAUNCHERS, PYTHON
from gpuledger.capture.program_place import program_place
from gpuledger.capture.shell_text import SimpleCommand, UnreadableText, simple_commands, text_place


@dataclass(frozen=True, slots=True)
class MainProgram:
    """Where the program stands in a command."""

    words: tuple[str, ...]
    """The program and its arguments; those of a text as they are written there."""
    place: int
    """Of its first word, or of the text that starts it."""
    in_text: SimpleCommand | None = None


def main_program(command: Sequence[str]) -> MainProgram:
    """The program behind `env` and the like. Where a shell starts it from a text that can be read, the last in it that
    starts ranks or Python, else the last of all; where it cannot be read, the shell."""
    begin = program_place(command).begin
    place = text_place(command[begin:])
    commands = () if place is None else _commands(command[begin + place])
    known = [found for found in commands if (name := Path(found.words[0]).name) in LAUNCHERS or PYTHON.fullmatch(name)]
    for found in (known or commands)[-1:]:
        return MainProgram(found.words, begin + (place or 0), found.in_text)
    return MainProgram(tuple(command[begin:]), begin)


def is_direct(command: Sequence[str]) -> bool:
    """Whether nothing stands before the program that could change its environment."""
    return program_place(command).begin == 0 and text_place(command) is None


def _commands(text: str) -> list[MainProgram]:
    """The commands of a text that start something; none where it cannot be read."""
    try:
        commands = simple_commands(text)
    except UnreadableText:
        return []
    programs = [(command, program_place(command.plain, in_text=True).begin) for command in commands]
    return [
        MainProgram(tuple(word.source for word in command.words[begin:]), 0, command)
        for command, begin in programs
        if begin < len(command.words)
    ]
