"""Small, clean answers: whatever a tool says in, what an agent is sent out.

An agent pays for every letter, so lists come in pages with the place where they go on, and names are cut. And it takes
what it reads for words: what a terminal would obey, or nobody sees, is spelled out, as everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuledger.present.safe_text import cut_in_the_middle, visible

Json = dict[str, Any]

MOST_LETTERS: Final = 6_000
"""Of one answer's rows."""

LONGEST_TEXT: Final = 300
"""Of a name or a sentence."""


class OurWords(str):
    """A text of several lines that is part of the package: it is sent as it is."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """What one call of a tool gives: an object as JSON, and a picture where there is one."""

    content: Json
    picture: bytes | None = None
    """A PNG file."""


def paged(rows: Sequence[Any], offset: int, limit: int, letters: int = MOST_LETTERS) -> Json:
    """The rows from `offset` on, as many as were asked for and fit; where they go on, if they do; and how many are."""
    shown: list[Any] = []
    left = letters
    for row in map(cleaned, rows[offset : offset + limit]):
        left -= len(written(row))
        if left < 0 and shown:
            break
        shown.append(row)
    after = offset + len(shown)
    return {"rows": shown, "total": len(rows), "next_offset": after if after < len(rows) else None}


def picked(content: Mapping[str, Any], *keys: str) -> Json:
    """Some of a document's keys, as it has them."""
    return {key: content[key] for key in keys}


def cleaned(content: Any) -> Any:
    """The same with every text made visible and cut, keys too: some are names from a profile."""
    if isinstance(content, OurWords):
        return content
    if isinstance(content, str):
        return cut_in_the_middle(visible(content), LONGEST_TEXT)
    if isinstance(content, Mapping):
        return {cleaned(str(key)): cleaned(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [cleaned(value) for value in content]
    return content


def written(content: Any) -> str:
    """JSON without spaces between."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
