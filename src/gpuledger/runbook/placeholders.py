"""`${name}` in a word: which names it uses, and the word with their values. `$$` is a dollar sign."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\$\$|\$\{([^{}]*)\}|\$\{")
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*(\.flags)?")


class BadPlaceholder(ValueError):
    """What stands in a word cannot be filled in; says why."""


def names_in(word: str) -> tuple[str, ...]:
    """The names that a word uses, in order."""
    names = []
    for match in _PLACEHOLDER.finditer(word):
        if match[0] == "$$":
            continue
        if match[1] is None:
            raise BadPlaceholder(f"'{word}': ${{ without an end; $$ is a dollar sign")
        if _NAME.fullmatch(match[1]) is None:
            raise BadPlaceholder(f"'{word}': '{match[1]}' is no name; $$ is a dollar sign")
        names.append(match[1])
    return tuple(names)


def filled(word: str, values: Mapping[str, str]) -> str:
    """The word with each name replaced by its value. Values are not looked into again."""
    return _PLACEHOLDER.sub(lambda match: "$" if match[0] == "$$" else values[match[1]], word)


def all_filled(words: tuple[str, ...], values: Mapping[str, str], lists: Mapping[str, tuple[str, ...]]) -> list[str]:
    """An argument list; a word that is a name of `lists` and nothing else becomes as many words as that has."""
    arguments: list[str] = []
    for word in words:
        names = names_in(word)
        if len(names) == 1 and names[0] in lists:
            arguments += lists[names[0]]
        else:
            arguments.append(filled(word, values))
    return arguments
