"""Numbers as `ncu --csv` prints them: text in, a number out, or nothing where nothing was measured.

ncu prints numbers as the locale of its user has them: 4,963.19 or 4.963,19. A file is read one way or the other,
whichever most of the numbers ask for that can be read one way only. Those are `10.32`, `12,5`, `0,125` or
`1.234.567`; but not `16,737`. Where none of them decides, the point is taken for the decimal mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_ENOUGH: Final = 1000
_POINT: Final = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d{2})+,\d{3}|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_COMMA: Final = re.compile(r"[-+]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)(?:,\d+)?(?:[eE][-+]?\d+)?")
_INSTANCES: Final = re.compile(r"\s*\([^()]*\)$")
_GROUPING: Final = re.compile("(?<=\\d)[ \u00a0\u202f'\u2019](?=\\d{3})")
_NOTHING: Final = frozenset(
    ("", "n/a", "(!) n/a", "(!)", "-", "no data", "nan", "-nan", "+nan", "nan(ind)", "-nan(ind)", "none", "null")
) | {f"{sign}{word}" for sign in ("", "-", "+") for word in ("inf", "infinity")}


LARGEST: Final = 1e30
"""No counter of a GPU comes near: what is larger was not measured, and products of two stay finite."""


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """How the numbers of one file are written."""

    comma: bool = False
    """The decimal mark is a comma."""
    doubtful: bool = False
    """Nothing in the file decided, and some numbers would be another thousand times as large the other way."""

    def read(self, text: str) -> float | str | None:
        """A number; None where ncu measured none; the text itself where it is no number at all."""
        bare = _bare(text)
        if bare.lower() in _NOTHING:
            return None
        if self.comma and _COMMA.fullmatch(bare):
            value = float(bare.replace(".", "").replace(",", "."))
        elif not self.comma and _POINT.fullmatch(bare):
            value = float(bare.replace(",", ""))
        else:
            return text.strip()
        return value


def style_of(texts: Iterable[str]) -> NumberStyle:
    """How these numbers are written. Looks no further than it must."""
    points = commas = doubtful = 0
    for text in texts:
        bare = _bare(text)
        as_point, as_comma = _POINT.fullmatch(bare), _COMMA.fullmatch(bare)
        points += bool(as_point and not as_comma)
        commas += bool(as_comma and not as_point)
        doubtful += bool(as_point and as_comma and "." in bare)
        if points + commas >= _ENOUGH:
            break
    return NumberStyle(commas > points, doubtful=bool(doubtful and points == commas))


def _bare(text: str) -> str:
    """Without the values of single instances, which some releases print after the number, and thin spaces."""
    return _GROUPING.sub("", _INSTANCES.sub("", text.strip()))
