"""The fields of one part of a runbook, asked for by name and kind; what does not fit is one sentence with its line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpuledger.runbook.book import BUILT_IN, Axis, Pick
from gpuledger.runbook.fill import BadField, names_in
from gpuledger.runbook.nodes import BadRunbook, Fields, Items, Node, Word, unknown

NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]{0,63}", re.ASCII)
_KINDS: Final = {Word: "a word", Items: "a list", Fields: "keys with values"}


@dataclass(frozen=True, slots=True)
class Names:
    """What `${...}` and picks may name."""

    axes: Mapping[str, Axis]
    variables: Collection[str]
    sizes: Collection[str]

    @property
    def known(self) -> list[str]:
        flags = [f"{axis.name}.flags" for axis in self.axes.values() if axis.flags]
        return [*self.axes, *flags, *self.variables, *BUILT_IN]


class Part:
    """The fields of one mapping. `what` is how errors call it: "step 2", "the runbook"."""

    def __init__(self, file: str, node: Node, what: str, known: Iterable[str] | None = None) -> None:
        self.file, self.what, self.line = file, what, node.line
        if not isinstance(node, Fields):
            raise self.fault(node.line, f"{what}: expected keys with values, found {_found(node)}")
        self._node = node
        names = list(self.keys if known is None else known)
        for key, line in node.key_lines.items():
            if key not in names:
                raise self.fault(line, f"unknown key '{key}' in {what}; {unknown(key, names)}")

    @property
    def keys(self) -> list[str]:
        return list(self._node.fields)

    def __contains__(self, key: str) -> bool:
        return key in self._node.fields

    def fault(self, line: int, claim: str) -> BadRunbook:
        return BadRunbook(f"{self.file}:{line}: {claim}")

    def key_line(self, key: str) -> int:
        return self._node.key_lines.get(key, self.line)

    def node(self, key: str) -> Node:
        if key not in self._node.fields:
            raise self.fault(self.line, f"{self.what} has no '{key}'")
        return self._node.fields[key]

    def word(self, key: str) -> str:
        return self.word_of(self.node(key), f"'{key}' in {self.what}")

    def maybe(self, key: str) -> str | None:
        return self.word(key) if key in self else None

    def word_of(self, node: Node, what: str) -> str:
        if not isinstance(node, Word):
            raise self.fault(node.line, f"{what}: expected a word, found {_found(node)}")
        if node.text is None:
            raise self.fault(node.line, f'{what}: there is no value; "" is an empty one')
        return node.text

    def words(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of words; one word alone is a list of one."""
        if key not in self:
            return default
        return self.words_of(self.node(key), f"'{key}' in {self.what}")

    def words_of(self, node: Node, what: str) -> tuple[str, ...]:
        """The words of a list, and of lists in it: an alias puts the words of one command into another."""
        if isinstance(node, Word):
            return (self.word_of(node, what),)
        if isinstance(node, Items):
            return tuple(self.word_of(each, f"item {at} of {what}") for at, each in enumerate(_flat(node), 1))
        raise self.fault(node.line, f"{what}: expected a list of words, found {_found(node)}")

    def items(self, key: str) -> tuple[Node, ...]:
        if key not in self:
            return ()
        node = self.node(key)
        if not isinstance(node, Items):
            raise self.fault(node.line, f"'{key}' in {self.what}: expected a list, found {_found(node)}")
        return node.items

    def part(self, key: str, known: Iterable[str] | None = None) -> Part | None:
        if key not in self:
            return None
        return Part(self.file, self.node(key), f"'{key}'", known)

    def pairs(self, key: str) -> dict[str, str]:
        """Names with a word each."""
        part = self.part(key)
        return {} if part is None else {name: part.word(name) for name in part.keys}

    def name(self, key: str, default: str) -> str:
        """A word that can be a file's name."""
        word = self.maybe(key)
        if word is None:
            return default
        if NAME.fullmatch(word) is None:
            claim = f"'{key}' in {self.what}: '{word}' is no name: letters, digits, dots, dashes and underscores"
            raise self.fault(self.node(key).line, claim)
        return word

    def flag(self, key: str) -> bool:
        word = self.maybe(key)
        if word not in (None, "true", "false"):
            raise self.fault(self.node(key).line, f"'{key}' in {self.what}: '{word}' is neither true nor false")
        return word == "true"

    def whole(self, key: str) -> int | None:
        word = self.maybe(key)
        if word is None:
            return None
        if re.fullmatch(r"[1-9][0-9]{0,8}", word) is None:
            raise self.fault(self.node(key).line, f"'{key}' in {self.what}: '{word}' is no whole number above 0")
        return int(word)

    def share(self, key: str) -> float | None:
        word = self.maybe(key)
        if word is None:
            return None
        match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(%?)", word)
        if match is None:
            raise self.fault(self.node(key).line, f"'{key}' in {self.what}: '{word}' is no share, e.g. 20 % or 0.2")
        return float(match[1]) / (100 if match[2] else 1)

    def one_of(self, key: str, known: Collection[str]) -> str:
        word = self.word(key)
        if word not in known:
            claim = f"'{key}' in {self.what}: unknown '{word}'; {unknown(word, list(known))}"
            raise self.fault(self.node(key).line, claim)
        return word

    def all_of(self, key: str, known: Collection[str], default: tuple[str, ...]) -> tuple[str, ...]:
        words = self.words(key, default)
        for word in words:
            if word not in known:
                claim = f"'{key}' in {self.what}: unknown '{word}'; {unknown(word, list(known))}"
                raise self.fault(self.node(key).line, claim)
        return words

    def templates(self, key: str, names: Names, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of words in which `${name}` may stand."""
        return self.checked(self.node(key), self.words(key), names) if key in self else default

    def checked(self, node: Node, words: tuple[str, ...], names: Names) -> tuple[str, ...]:
        lines = [each.line for each in _flat(node)] if isinstance(node, Items) else [node.line]
        for word, line in zip(words, lines, strict=True):
            self.check_template(word, line, names)
        return words

    def check_template(self, word: str, line: int, names: Names, *, whole: bool = True) -> None:
        """Refuse a word that names what is not there, or a list of flags inside of a word."""
        try:
            used = names_in(word)
        except BadField as error:
            raise self.fault(line, str(error)) from None
        for name in used:
            if name not in names.known:
                raise self.fault(line, f"'{word}': nothing is called '{name}'; {unknown(name, names.known)}")
            if name.endswith(".flags") and not (whole and word == f"${{{name}}}"):
                raise self.fault(line, f"'{word}': ${{{name}}} is a list, so it must be a word of its own")

    def pick(self, key: str, names: Names) -> Pick:
        """Some cells."""
        part = self.part(key)
        if part is None:
            return {}
        values = {name: axis.values for name, axis in names.axes.items()}
        if names.sizes:
            values["size"] = tuple(names.sizes)
        picked: dict[str, tuple[str, ...]] = {}
        for name in part.keys:
            if name not in values:
                claim = f"'{key}' in {self.what}: no axis is called '{name}'; {unknown(name, list(values))}"
                raise self.fault(part.key_line(name), claim)
            picked[name] = part.all_of(name, values[name], ())
        return picked


def _flat(node: Items) -> list[Node]:
    flat: list[Node] = []
    for each in node.items:
        flat += _flat(each) if isinstance(each, Items) else [each]
    return flat


def _found(node: Node) -> str:
    if isinstance(node, Word):
        return "nothing" if node.text is None else f"'{node.text[:60]}'"
    return _KINDS[type(node)]
