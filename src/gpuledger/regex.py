"""Regular expressions: our own, compiled when they are first used, and those that a user or an agent gives.

A module full of our own is imported in no time: a profile's names need few of them, and to compile them all took a
tenth of a small report. Type checkers see `re.compile`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from re import compile as regex
else:
    from typing import Any

    class regex:  # noqa: N801 - stands for a function
        """Whatever a compiled expression has, this has from the first time that it is asked for."""

        def __init__(self, text: str, flags: int = 0) -> None:
            self._text, self._flags = text, flags

        def __getattr__(self, name: str) -> Any:
            value = getattr(re.compile(self._text, self._flags), name)
            setattr(self, name, value)
            return value


def checked_regex(pattern: str) -> str:
    """The same pattern, if it is one; else ValueError with a sentence."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return pattern


LOOKED_AT: Final = 1 << 14
"""So many letters of a name are looked at for what it means. No kernel's name is longer; a file may hold one that is,
and time goes by the square of it in many a pattern."""


class NamePattern:
    """A pattern from outside, looked for in names. A deadline ends one that takes forever: see `trace.deadline`."""

    __slots__ = ("_search", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self._search = re.compile(pattern, flags).search

    def search(self, name: str) -> re.Match[str] | None:
        return self._search(name[:LOOKED_AT])


__all__ = ["LOOKED_AT", "NamePattern", "regex"]
