"""A part of a runbook's file into the struct that it should fit; where it does not fit, a fault with its line.

YAML is read into a tree of words, lists and mappings that know their lines. msgspec checks keys and types, and the path
in its error leads back to the value in the tree, and so to the line. It does not say which entry of a mapping it
refused: mappings and lists are types of our own, read entry by entry.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec import Struct

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


class Blank(Struct, frozen=True):
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


def parse_tree(text: bytes) -> Node:
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
    except yaml.reader.ReaderError as error:
        line = plain[: error.position].count("\n") + 1
        raise RunbookFault(line, f"the character {error.character!r} may not stand in YAML") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise RunbookFault(mark.line + 1 if mark else None, f"not YAML: {error.problem if mark else error}") from None
    except yaml.YAMLError as error:
        raise RunbookFault(None, f"not YAML: {error}") from None
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
                raise RunbookFault(_line(event), f"nested more than {DEEPEST} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


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
            raise RunbookFault(line, f"nested more than {DEEPEST} deep")
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


def suggestion(word: str, known: Iterable[str]) -> str:
    """The second half of a sentence such as `unknown key 'step'; did you mean 'steps'?`."""
    words = list(dict.fromkeys(known))
    close = get_close_matches(word, words, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"there are: {', '.join(words)}" if words else "there are none"


NOT_IN_FILE: Final = "our own: "  # begins the name of a field that no file may set

_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_PATH: Final = re.compile(r" - at `\$\.(\w+)[^`]*`\Z")


class RunbookPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping whose keys are known. In a union of forms, the first whose key is there is meant."""

    KEY: ClassVar[str] = ""
    SHORTHAND: ClassVar[bool] = False  # whether a value that is no mapping stands for one with just that key

    line: int = msgspec.field(default=0, name=f"{NOT_IN_FILE}line")

    @classmethod
    def known_keys(cls) -> list[str]:
        return [key for key in cls.__struct_encode_fields__ if not key.startswith(NOT_IN_FILE)]


class Listed(tuple[T, ...]):
    """A list."""


class FieldsOrWord(Fields[K, T]):
    """Keys with values; a word alone is a key with an empty list of words."""


class WordList(tuple[T, ...]):
    """A list of words, in which lists are put in their place; one word alone is a list of one."""


class Program(tuple[Word, ...]):
    """A command that is not empty. A single word is none, as no shell takes a line apart."""


_EXPECTED: Final[Mapping[object, str]] = {
    Listed: "a list",
    WordList: "a list of words",
    Program: "a list of words, as no shell takes a line apart",
    Fields: "keys with values",
    FieldsOrWord: "a word, or keys with values",
}


def read_as(kind: type[T], node: Node) -> T:
    """The node as a value of a kind: a form, a word, a list of either."""
    forms = [form for form in _options(kind) if isinstance(form, type) and issubclass(form, RunbookPart)]
    if forms:
        return _read_form(forms, node)  # type: ignore[return-value]  # one of the kind's own
    try:
        return msgspec.convert(node, kind, dec_hook=_read_custom)
    except msgspec.ValidationError as error:
        raise _own(error) or RunbookFault(node.line, _why_not(kind, node)) from None


def check_keys(fields: Fields[str, Any], known: Collection[str]) -> None:
    """Refuse a mapping with a key that is not known, with the one that was meant."""
    for key in fields:
        if key not in known:
            raise RunbookFault(fields.key_lines[key], f"unknown key '{key}'; {suggestion(key, known)}")


def _read_form(forms: list[type[RunbookPart]], node: Node) -> RunbookPart:
    short = next((form.KEY for form in forms if form.SHORTHAND), "")
    if short and isinstance(node, Word | Items):
        node = Fields({short: node}, node.line, {short: node.line})
    if not isinstance(node, Fields):
        raise RunbookFault(node.line, f"expected keys with values, found {_described(node)}")
    form = next((form for form in forms if form.KEY in node or len(forms) == 1), None)
    if form is None:
        check_keys(node, [key for form in forms for key in form.known_keys()])
        raise RunbookFault(node.line, f"expected one of the keys {', '.join(form.KEY for form in forms)}")
    check_keys(node, form.known_keys())
    try:
        return msgspec.convert({**node, f"{NOT_IN_FILE}line": node.line}, form, dec_hook=_read_custom)
    except msgspec.ValidationError as error:
        if missing := _MISSING.fullmatch(str(error)):
            raise RunbookFault(node.line, f"'{missing[1]}' is missing") from None
        path = _PATH.search(str(error))
        if path is None:
            raise
        key, value = path[1], node[path[1]]  # the path leads to the value, and so to its line
        attribute = dict(zip(form.__struct_encode_fields__, form.__struct_fields__, strict=True))[key]
        kind = get_type_hints(form, include_extras=True)[attribute]
        raise (_own(error) or RunbookFault(value.line, _why_not(kind, value))).inside(f"'{key}'") from None


def _own(error: msgspec.ValidationError) -> RunbookFault | None:
    """The fault that was raised while msgspec asked us for one of our types."""
    return error.__cause__ if isinstance(error.__cause__, RunbookFault) else None


def _read_custom(kind: Any, node: Node) -> object:
    """What msgspec asks for the types that are ours. A plain ValueError: the node is of another kind altogether."""
    origin, parameters = get_origin(kind) or kind, get_args(kind)
    if origin is Word and isinstance(node, Word):
        return node
    if origin is FieldsOrWord and isinstance(node, Word):
        node = Fields({str(node): Items([], node.line)}, node.line, {str(node): node.line})
    if issubclass(origin, Fields) and isinstance(node, Fields):
        key_kind, value_kind = parameters
        for key, line in node.key_lines.items():
            read_as(key_kind, Word(key, line))
        entries = {key: _read_part(value_kind, value, f"'{key}'") for key, value in node.items()}
        return origin(entries, node.line, node.key_lines)
    if origin is Listed and isinstance(node, Items):
        return Listed(_read_part(parameters[0], item, f"item {number}") for number, item in enumerate(node, 1))
    if origin is WordList and isinstance(node, Word):
        return WordList((read_as(parameters[0], node),))
    if origin is WordList and isinstance(node, Items):
        return WordList(_read_part(parameters[0], item, f"item {number}") for number, item in enumerate(_flat(node), 1))
    if origin is Program and isinstance(node, Items):
        words = Program(_read_custom(WordList[Word], node))  # type: ignore[arg-type]
        if not words or not words[0]:
            raise RunbookFault(node.line, "an empty command")
        return words
    raise ValueError


def _flat(items: Items[Any]) -> Iterator[Node]:
    for item in items:
        yield from _flat(item) if isinstance(item, Items) else (item,)


def _read_part(kind: type[T], node: Node, part: str) -> T:
    try:
        return read_as(kind, node)
    except RunbookFault as fault:
        raise fault.inside(part) from None


def _options(kind: Any) -> list[Any]:
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [option for option in options if option is not NoneType]


def _why_not(kind: Any, node: Node) -> str:
    """Why a node is not of this kind: what was found, and what is allowed."""
    [wanted] = _options(kind)
    origin = get_origin(wanted) or wanted
    if isinstance(node, Word) and origin is Literal:
        return f"unknown '{node}'; {suggestion(node, get_args(wanted))}"
    if isinstance(node, Word) and origin is Annotated:
        return f"'{node}' {wanted.__metadata__[0].description}"
    if origin in _EXPECTED:
        return f"expected {_EXPECTED[origin]}, found {_described(node)}"
    if isinstance(node, Blank):
        return 'there is no value; "" is an empty one'
    return f"expected a word, found {_described(node)}"


def _described(node: Node) -> str:
    kinds = {Blank: "nothing", Items: "a list", Fields: "keys with values"}
    return f"'{node[:60]}'" if isinstance(node, Word) else kinds[type(node)]
