"""A text that a shell is to run in, its simple commands out, each word with its place in the text; nothing is expanded.

A simple command is a program with its words, between operators. What this cannot read for certain (here-documents,
arithmetic, quotes without an end) it refuses: who changes a program that was read wrongly breaks it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SHELLS: Final = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_COMMAND_FOLLOWS: Final = frozenset(("if", "then", "elif", "else", "while", "until", "do", "{", "!", "time"))
_NO_COMMAND: Final = frozenset(("for", "case", "select", "function", "fi", "done", "esac", "}", "in"))
_REDIRECTION: Final = re.compile(r"&>>?|<<<|[<>]&|>>|>\||<>|[<>]")
_ARRAY: Final = re.compile(r"\w+(?:\[[^]]*\])?\+?=")
_EXPANDED: Final = re.compile(r"[$`*?~{\[]")
_VALUE_OPTIONS: Final = ("--rcfile", "--init-file")


class UnreadableText(ValueError):
    """The text holds what is not read here; says what."""


@dataclass(frozen=True, slots=True)
class ShellWord:
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


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """The words of one command, assignments before it included, redirections not."""

    words: tuple[ShellWord, ...]
    end: int
    """Behind its last word or redirection."""

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
    return _Reader(text).commands()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._words: list[ShellWord] = []
        self._end = 0
        self._commands: list[SimpleCommand] = []

    def commands(self) -> tuple[SimpleCommand, ...]:
        text = self._text
        while self._place < len(text):
            letter = text[self._place]
            in_test = bool(self._words) and self._words[0].source == "[[" and self._words[-1].source != "]]"
            if text.startswith("\\\n", self._place):
                self._place += 2
            elif letter in " \t":
                self._place += 1
            elif letter == "#":
                self._place = _found(text, "\n", self._place, len(text))
            elif in_test and letter in "<>&|()":
                self._place += 1
            elif redirection := self._redirection():
                self._redirected(redirection)
            elif letter in "\n;&|()":
                self._operator(letter)
            else:
                self._word()
        self._close()
        return tuple(self._commands)

    def _redirection(self) -> str:
        match = _REDIRECTION.match(self._text, self._place)
        is_process = match is not None and match[0] in ("<", ">") and self._text[match.end() : match.end() + 1] == "("
        return "" if match is None or is_process else match[0]

    def _redirected(self, operator: str) -> None:
        if operator == "<" and self._text.startswith("<<", self._place):
            raise UnreadableText("a here-document")
        if self._words and self._words[-1].end == self._place and self._words[-1].source.isdecimal():
            self._words.pop()  # a descriptor's number
        self._place += len(operator)
        while self._text[self._place : self._place + 1] in (" ", "\t"):
            self._place += 1
        self._end = self._place = _word_end(self._text, self._place)

    def _operator(self, letter: str) -> None:
        if self._text.startswith("((", self._place):
            raise UnreadableText("arithmetic")
        if letter == "(" and self._words:
            self._words = []  # the name of a function
        self._close()
        self._place += 1

    def _word(self) -> None:
        word = ShellWord(self._text[self._place : _word_end(self._text, self._place)], self._place)
        self._place = word.end
        if not self._words and word.source in _COMMAND_FOLLOWS:
            return
        self._words.append(word)
        self._end = word.end

    def _close(self) -> None:
        if self._words and self._words[0].source not in _NO_COMMAND:
            self._commands.append(SimpleCommand(tuple(self._words), self._end))
        self._words = []


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
        return _found(text, "'", place + 1) + 1
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
        if text[place] == closing:
            depth, place = depth - 1, place + 1
        elif text[place] == opening:
            depth, place = depth + 1, place + 1
        else:
            place = _piece_end(text, place)
    return place


def _found(text: str, wanted: str, begin: int, otherwise: int | None = None) -> int:
    place = text.find(wanted, begin)
    if place < 0 and otherwise is None:
        raise UnreadableText(f"a {wanted} without its end")
    return place if place >= 0 else otherwise or 0
