"""YAML with the line of every value: text in, a tree of words, lists and fields out, or one sentence with the line.

Words stay as they were written: `no` is the word "no", `0x10` is "0x10", and whoever needs a number asks for one. What
a runbook has no use for is refused: tags, merge keys, two documents, a key given twice. Size, depth and the number of
values, with every alias written out, have limits, so that no small file becomes a large tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import yaml

from gpuledger.errors import GpuledgerError

MOST_BYTES: Final = 200_000
MOST_VALUES: Final = 10_000
DEEPEST: Final = 12

_TAG: Final = "tag:yaml.org,2002:"
_WORDS: Final = {f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "timestamp", "value")}


class BadRunbook(GpuledgerError):
    """The runbook is not what it should be; the claim begins with the file and the line."""


@dataclass(frozen=True, slots=True)
class Word:
    """A single value, as it was written. None: there is nothing behind the colon or the dash."""

    line: int
    text: str | None


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Fields:
    """Keys with values."""

    line: int
    fields: Mapping[str, Node]
    key_lines: Mapping[str, int]


Node = Word | Items | Fields


def parsed(text: bytes, file: str) -> Node:
    """The tree of a file's content."""
    if len(text) > MOST_BYTES:
        raise BadRunbook(f"{file}: {len(text):,} bytes; a runbook has {MOST_BYTES:,} at most")
    try:
        plain = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise BadRunbook(f"{file}:{line}: not UTF-8") from None
    try:
        _check_shape(plain, file)
        root = yaml.compose(plain, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise _not_yaml(error, plain, file) from None
    if root is None:
        raise BadRunbook(f"{file}:1: empty", hint="`gpuledger run --list` names runbooks to start from")
    return _Tree(file).node(root, 0)


def unknown(word: str, known: tuple[str, ...] | list[str]) -> str:
    """What to say behind an unknown word: the one that was meant, else all there are."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"there are: {', '.join(known)}" if known else "there are none"


def _check_shape(text: str, file: str) -> None:
    """Refuse what would be too deep to compose, without composing it."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise BadRunbook(f"{file}:{line}: a second document; a runbook is one")
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise BadRunbook(f"{file}:{line}: nested more than {DEEPEST} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _not_yaml(error: yaml.YAMLError, text: str, file: str) -> BadRunbook:
    if isinstance(error, yaml.reader.ReaderError):
        line = text[: error.position].count("\n") + 1
        return BadRunbook(f"{file}:{line}: the character {error.character!r} may not stand in YAML")
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return BadRunbook(f"{file}:{error.problem_mark.line + 1}: not YAML: {error.problem}")
    return BadRunbook(f"{file}: not YAML: {error}")


class _Tree:
    """Makes the tree, and counts what it makes."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._values = 0

    def node(self, node: yaml.Node, depth: int) -> Node:
        line = node.start_mark.line + 1
        self._values += 1
        if self._values > MOST_VALUES:
            raise BadRunbook(f"{self._file}:{line}: more than {MOST_VALUES:,} values, with aliases written out")
        if depth > DEEPEST:  # an alias may lead back to what it is in
            raise BadRunbook(f"{self._file}:{line}: nested more than {DEEPEST} deep")
        if isinstance(node, yaml.ScalarNode):
            return Word(line, self._word(node, line))
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return Items(line, tuple(self.node(each, depth + 1) for each in node.value))
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._fields(node, line, depth)
        raise self._tagged(node, line)

    def _fields(self, node: yaml.MappingNode, line: int, depth: int) -> Fields:
        fields: dict[str, Node] = {}
        lines: dict[str, int] = {}
        for key_node, value in node.value:
            at = key_node.start_mark.line + 1
            if key_node.tag == f"{_TAG}merge":
                raise BadRunbook(f"{self._file}:{at}: merge keys (<<) have no place in a runbook; write the keys out")
            key = self._word(key_node, at) if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                raise BadRunbook(f"{self._file}:{at}: a key must be a word")
            if key in fields:
                raise BadRunbook(f"{self._file}:{at}: '{key}' is given twice, first in line {lines[key]}")
            fields[key], lines[key] = self.node(value, depth + 1), at
        return Fields(line, fields, lines)

    def _word(self, node: yaml.ScalarNode, line: int) -> str | None:
        if node.tag == f"{_TAG}null":
            return None if node.value in ("", "~") else str(node.value)
        if node.tag not in _WORDS:
            raise self._tagged(node, line)
        if "\0" in node.value:
            raise BadRunbook(f"{self._file}:{line}: a NUL may not stand in a runbook")
        return str(node.value)

    def _tagged(self, node: yaml.Node, line: int) -> BadRunbook:
        return BadRunbook(f"{self._file}:{line}: the tag {node.tag} has no place in a runbook")
