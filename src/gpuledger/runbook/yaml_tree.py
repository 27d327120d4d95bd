"""YAML with the line of every value: text in, a tree of words, lists and mappings out, or a fault with its line.

Words stay as they were written: `no` is the word "no", `0x10` is "0x10", and whoever needs a number asks for one. What
a runbook has no use for is refused: tags, merge keys, two documents, a key given twice. Size, depth and the number of
values, with every alias written out, have limits, so that no small file becomes a large tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import yaml

MOST_BYTES: Final = 200_000
MOST_VALUES: Final = 10_000
DEEPEST: Final = 12

_LOADER: Final = yaml.BaseLoader  # takes every plain word as it stands
_HALF: Final = re.compile("[\ud800-\udfff]")
"""Half of a character, which no file, program or terminal takes: YAML's escapes can write it."""

_TAG: Final = "tag:yaml.org,2002:"

K = TypeVar("K")
T = TypeVar("T")


class RunbookFault(ValueError):
    """What is wrong with a runbook, in which line (None: the whole file) and in which part, innermost first."""

    def __init__(self, line: int | None, claim: str, *, part: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(claim)
        self.line, self.claim, self.part, self.hint = line, claim, part, hint

    def inside(self, part: str) -> RunbookFault:
        """The same fault, told from further out."""
        return RunbookFault(self.line, self.claim, part=(*self.part, part), hint=self.hint)


class Word(str):
    """A single value, as it was written."""

    __slots__ = ("line",)
    line: int

    def __new__(cls, text: str, line: int) -> Self:
        word = super().__new__(cls, text)
        word.line = line
        return word


@dataclass(frozen=True, slots=True)
class Blank:
    """Nothing behind a colon or a dash."""

    line: int


class Items(list[T]):
    """A list."""

    def __init__(self, items: Iterable[T], line: int) -> None:
        super().__init__(items)
        self.line = line


class Fields(dict[K, T]):
    """Keys with values."""

    def __init__(self, fields: Mapping[K, T], line: int, key_lines: Mapping[str, int]) -> None:
        super().__init__(fields)
        self.line, self.key_lines = line, key_lines


Node = Word | Blank | Items[Any] | Fields[str, Any]


def parsed(text: bytes) -> Node:
    """The tree of a file's content."""
    if len(text) > MOST_BYTES:
        raise RunbookFault(None, f"{len(text):,} bytes; a runbook has {MOST_BYTES:,} at most")
    try:
        plain = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RunbookFault(text[: error.start].count(b"\n") + 1, "not UTF-8") from None
    try:
        _check_shape(plain)
        root = yaml.compose(plain, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _not_yaml(error, plain) from None
    if root is None:
        raise RunbookFault(1, "empty", hint="`gpuledger run --list` names runbooks to start from")
    return _Tree().node(root, 0)


def _check_shape(text: str) -> None:
    """Refuse what would be too deep to compose, without composing it."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise RunbookFault(_line(event), "a second document; a runbook is one")
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _too_deep(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _not_yaml(error: yaml.YAMLError, text: str) -> RunbookFault:
    if isinstance(error, yaml.reader.ReaderError):
        line = text[: error.position].count("\n") + 1
        return RunbookFault(line, f"the character {error.character!r} may not stand in YAML")
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return RunbookFault(error.problem_mark.line + 1, f"not YAML: {error.problem}")
    return RunbookFault(None, f"not YAML: {error}")


class _Tree:
    """Makes the tree, and counts what it makes."""

    def __init__(self) -> None:
        self._values = 0

    def node(self, node: yaml.Node, depth: int) -> Node:
        line = _line(node)
        self._values += 1
        if self._values > MOST_VALUES:
            raise RunbookFault(line, f"more than {MOST_VALUES:,} values, with aliases written out")
        if depth > DEEPEST:  # an alias may lead back to what it is in
            raise _too_deep(node)
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}str":
            if "\0" in node.value:
                raise RunbookFault(line, "a NUL may not stand in a runbook")
            if not node.value.isascii() and _HALF.search(node.value):
                raise RunbookFault(line, "half of a character (\\ud800 to \\udfff) may not stand in a runbook")
            return Blank(line) if node.style is None and node.value in ("", "~") else Word(node.value, line)
        if node.tag == f"{_TAG}seq":
            return Items([self.node(item, depth + 1) for item in node.value], line)
        if node.tag == f"{_TAG}map":
            return self._fields(node, depth)
        raise RunbookFault(line, f"the tag {node.tag} has no place in a runbook")

    def _fields(self, node: yaml.Node, depth: int) -> Fields[str, Node]:
        fields: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key_node, value in node.value:
            line = _line(key_node)
            key = self.node(key_node, depth + 1)
            if not isinstance(key, Word):
                raise RunbookFault(line, "a key must be a word")
            if key == "<<" and key_node.style is None:
                raise RunbookFault(line, "merge keys (<<) have no place in a runbook; write the keys out")
            if key in fields:
                raise RunbookFault(line, f"'{key}' is given twice, first in line {lines[key]}")
            fields[str(key)], lines[str(key)] = self.node(value, depth + 1), line
        return Fields(fields, _line(node), lines)


def _line(place: yaml.Node | yaml.Event) -> int:
    return place.start_mark.line + 1 if place.start_mark else 1


def _too_deep(place: yaml.Node | yaml.Event) -> RunbookFault:
    return RunbookFault(_line(place), f"nested more than {DEEPEST} deep")
