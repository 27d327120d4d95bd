"""What a regular expression cannot do without: a pattern in, its alternatives out, each with words it must find.

To search a name for three hundred patterns takes long; to see which words it is made of does not. A pattern is worth
trying only where one of its anchors is part of a word. Of regular expressions this knows what tables of names need:
letters, classes, groups that do not capture, looks ahead and behind, and how often. Anything else is a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"(?P<look>\(\?<?[=!])|(?P<group>\(\?:)|(?P<end>\))|(?P<bar>\|)|(?P<often>[?*+]|\{\d*,?\d*\})"
    r"|(?P<one>\\[wds]|\[[^\]\\^]+\])|(?P<place>[\^$]|\\b)|(?P<letter>[^\\()\[\]{}.])"
)
_MAY_BE_MISSING: Final = re.compile(r"[?*]|\{0?,.*")


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative of a pattern. Every text that it matches holds one of the anchors, in lower case a to z."""

    pattern: str
    anchors: frozenset[str]


def alternatives(pattern: str, common: frozenset[str] = frozenset()) -> Iterator[Alternative]:
    """The alternatives that a pattern is made of, at its top. Words in `common` are anchors only for want of others."""
    tokens = [(str(token.lastgroup), token.group()) for token in _tokens(pattern)]
    for branch in _branches(tokens):
        anchors = _anchors(branch, common)
        if _worth(anchors, common) == 0:
            raise ValueError(f"{pattern}: an alternative without a word that it must find")
        yield Alternative("".join(text for _, text in branch), anchors)


_Tokens = list[tuple[str, str]]


def _tokens(pattern: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None:
            raise ValueError(f"{pattern}: cannot be read from {pattern[position:]!r} on")
        yield token
        position = token.end()


def _branches(tokens: _Tokens) -> list[_Tokens]:
    """What stands between the bars that are in no group."""
    branches, depth = list[_Tokens]([[]]), 0
    for kind, text in tokens:
        depth += (kind in ("group", "look")) - (kind == "end")
        if kind == "bar" and depth == 0:
            branches.append([])
        else:
            branches[-1].append((kind, text))
    return branches


def _anchors(branch: _Tokens, common: frozenset[str]) -> frozenset[str]:
    """The best choice among what must be found: a run of letters, or one of those of each branch of a group."""
    choices, run = list[frozenset[str]](), ""
    position = 0
    while position < len(branch):
        kind, text = branch[position]
        after = _end_of_group(branch, position) if kind in ("group", "look") else position + 1
        is_optional = after < len(branch) and _MAY_BE_MISSING.fullmatch(branch[after][1]) is not None
        if kind == "letter" and text.islower() and text.isascii() and not is_optional:
            run += text
        elif kind != "often":
            choices, run = [*choices, frozenset((run,))], ""
            if kind == "group" and not is_optional:
                choices.append(_of_all(_branches(branch[position + 1 : after - 1]), common))
        if after < len(branch) and branch[after][0] == "often":  # a letter that comes twice parts a run as well
            choices, run, after = [*choices, frozenset((run,))], "", after + 1
        position = after
    return max((*choices, frozenset((run,))), key=lambda choice: _worth(choice, common))


def _of_all(branches: list[_Tokens], common: frozenset[str]) -> frozenset[str]:
    """One of the anchors of each branch; none if a branch has none, as then nothing need be found."""
    choices = [_anchors(branch, common) for branch in branches]
    return frozenset[str]().union(*choices) if all(_worth(anchors, common) for anchors in choices) else frozenset()


def _worth(anchors: frozenset[str], common: frozenset[str]) -> int:
    """The longer the shortest of them, the seldomer they are found for nothing; of one letter they are too many."""
    shortest = min(map(len, anchors), default=0)
    return 1 if anchors & common else 0 if shortest < 2 else shortest


def _end_of_group(tokens: _Tokens, start: int) -> int:
    depth = 0
    for end in range(start, len(tokens)):
        kind = tokens[end][0]
        depth += (kind in ("group", "look")) - (kind == "end")
        if depth == 0:
            return end + 1
    raise ValueError("a group without an end")
