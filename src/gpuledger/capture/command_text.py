"""Where in a command its program stands, and how words are put before it: a command and an editor in, a command out.

`env A=1 python x.py` and `timeout 60 torchrun x.py` hand on to a program; `bash -lc 'source env.sh && torchrun x.py'`
starts it from a text, in which the words go before the same program, quoted, and all else stays as it was written. Such
a text is read into its simple commands, each word with its place in the text; nothing is expanded.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gpuledger.errors import GpuledgerError

SHELLS: Final = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_COMMAND_FOLLOWS: Final = frozenset(("if", "then", "elif", "else", "while", "until", "do", "{", "!", "time"))
_NO_COMMAND: Final = frozenset(("for", "case", "select", "function", "fi", "done", "esac", "}", "in"))
_REDIRECTION: Final = re.compile(r"&>>?|<<<|[<>]&|>>|>\||<>|[<>]")
_ARRAY: Final = re.compile(r"\w+(?:\[[^]]*\])?\+?=")
_EXPANDED: Final = re.compile(r"[$`*?~{\[]")
_VALUE_OPTIONS: Final = ("--rcfile", "--init-file")


class UnreadableText(ValueError):
    """The text holds what is not read here; says what."""


class ShellWord(Struct, frozen=True):
    """One word as it stands in the text."""

    source: str
    begin: int

    @property
    def end(self) -> int:
        return self.begin + len(self.source)

    @property
    def plain(self) -> str:
        """The word with no more quotes than it needs; as it stands where the shell expands it."""
        return self.source if _EXPANDED.search(self.source) else shlex.quote(shlex.split(self.source)[0])


class SimpleCommand(Struct, frozen=True):
    """The words of one command, assignments before it included, redirections not."""

    words: tuple[ShellWord, ...]
    end: int  # behind its last word or redirection

    @property
    def plain(self) -> tuple[str, ...]:
        return tuple(word.plain for word in self.words)


def text_place(command: Sequence[str]) -> int | None:
    """Which word of a shell's command line is the text that it runs; None where it is no shell, or runs a file."""
    if not command or Path(command[0]).name not in SHELLS:
        return None
    place, reads_text = 1, False
    while place < len(command) and command[place][:1] in ("-", "+") and len(command[place]) > 1:
        word = command[place]
        if word.startswith("--"):
            place += 1 + (word in _VALUE_OPTIONS)
            continue
        reads_text = reads_text or "c" in word[1:]
        place += 1 + ("o" in word[1:].lower())
    return place if reads_text and place < len(command) else None


def simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Every simple command of the text, in its order."""
    reader = _Reader(text)
    while reader.place < len(text):
        reader.read_one()
    reader.close()
    return tuple(reader.commands)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.words: list[ShellWord] = []
        self.end = 0
        self.commands: list[SimpleCommand] = []

    def read_one(self) -> None:
        text, letter = self.text, self.text[self.place]
        in_test = bool(self.words) and self.words[0].source == "[[" and self.words[-1].source != "]]"
        if text.startswith("\\\n", self.place):
            self.place += 2
        elif letter in " \t" or (in_test and letter in "<>&|()"):
            self.place += 1
        elif letter == "#":
            self.place = _find(text, "\n", self.place, len(text))
        elif redirection := self._redirection():
            self._skip_redirection(redirection)
        elif letter in "\n;&|()":
            if text.startswith("((", self.place):
                raise UnreadableText("arithmetic")
            if letter == "(" and self.words:
                self.words = []  # the name of a function
            self.close()
            self.place += 1
        else:
            word = ShellWord(text[self.place : _word_end(text, self.place)], self.place)
            self.place = word.end
            if self.words or word.source not in _COMMAND_FOLLOWS:
                self.words.append(word)
                self.end = word.end

    def _redirection(self) -> str:
        match = _REDIRECTION.match(self.text, self.place)
        is_process = match is not None and match[0] in ("<", ">") and self.text[match.end() : match.end() + 1] == "("
        return "" if match is None or is_process else match[0]

    def _skip_redirection(self, operator: str) -> None:
        if operator == "<" and self.text.startswith("<<", self.place):
            raise UnreadableText("a here-document")
        if self.words and self.words[-1].end == self.place and self.words[-1].source.isdecimal():
            self.words.pop()  # a descriptor's number
        self.place += len(operator)
        while self.text[self.place : self.place + 1] in (" ", "\t"):
            self.place += 1
        self.end = self.place = _word_end(self.text, self.place)

    def close(self) -> None:
        if self.words and self.words[0].source not in _NO_COMMAND:
            self.commands.append(SimpleCommand(tuple(self.words), self.end))
        self.words = []


def _word_end(text: str, place: int) -> int:
    begin = place
    while place < len(text) and text[place] not in " \t\n;&|<>)":
        if text[place] == "(":
            if not _ARRAY.fullmatch(text[begin:place]):
                break
            place = _bracket_end(text, place)
        else:
            place = _piece_end(text, place)
    if place < len(text) and text[place] in "<>" and text[place + 1 : place + 2] == "(":
        return _word_end(text, _bracket_end(text, place + 1))
    return place


def _piece_end(text: str, place: int) -> int:
    """Behind one letter, or behind what is quoted or expanded as a whole."""
    letter, two = text[place], text[place : place + 2]
    if letter == "\\":
        return min(place + 2, len(text))
    if letter == "'":
        return _find(text, "'", place + 1) + 1
    if letter in '"`' or two == "$'":
        opening = two if two == "$'" else letter
        closing, place = opening[-1], place + len(opening)
        while place < len(text) and text[place] != closing:
            in_quotes = closing == '"' and (text[place] == "`" or text[place : place + 2] in ("$(", "${"))
            place = _piece_end(text, place) if in_quotes else place + (2 if text[place] == "\\" else 1)
        if place >= len(text):
            raise UnreadableText(f"a {closing} without its end")
        return place + 1
    if two in ("$(", "${"):
        return _bracket_end(text, place + 1)
    return place + 1


def _bracket_end(text: str, place: int) -> int:
    closing = {"(": ")", "{": "}"}[text[place]]
    opening, place, depth = text[place], place + 1, 1
    while depth:
        if place >= len(text):
            raise UnreadableText(f"a {opening} without its end")
        depth += (text[place] == opening) - (text[place] == closing)
        place = place + 1 if text[place] in (opening, closing) else _piece_end(text, place)
    return place


def _find(text: str, wanted: str, begin: int, otherwise: int | None = None) -> int:
    place = text.find(wanted, begin)
    if place >= 0:
        return place
    if otherwise is None:
        raise UnreadableText(f"a {wanted} without its end")
    return otherwise


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


class Edit(Struct, frozen=True):
    """These words in place of those from `begin` to `end`."""

    begin: int
    end: int
    words: tuple[str, ...]


Editor = Callable[[tuple[str, ...], bool], tuple[Edit, ...] | None]
"""Takes the words of a program, and whether they stand in a shell's text; None where it is not one to be changed."""


class ProgramPlace(Struct, frozen=True):
    """Where the program stands behind what hands on to it."""

    begin: int
    environment: tuple[int, ...]  # which words before it change its environment


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


def edit_command(command: Sequence[str], editor: Editor) -> tuple[str, ...] | None:
    """The command with its program changed; None where the editor knows no program in it."""
    words = tuple(command)
    edits = edits_behind(words, 0, editor)
    if edits is None:
        return None
    for edit in sorted(edits, key=lambda edit: edit.begin, reverse=True):
        words = (*words[: edit.begin], *edit.words, *words[edit.end :])
    return words


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
    return None if edits is None else tuple(Edit(begin + edit.begin, begin + edit.end, edit.words) for edit in edits)


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
        for edit in sorted(edits, key=lambda edit: edit.begin, reverse=True):
            begin = command.words[edit.begin].begin if edit.begin < len(command.words) else command.end
            end = begin if edit.end == edit.begin else command.words[edit.end - 1].end
            after = " " if edit.words and edit.end == edit.begin else ""
            text = f"{text[:begin]}{shlex.join(edit.words)}{after}{text[end:]}"
        return text
    return None
