"""What each finding means, how it is fixed and verified: a page of Markdown for each code, in `explain/`.

A test holds the pages against the rules, so that to list the codes and print a page takes neither rules nor numpy.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent / "explain"


@cache
def codes() -> tuple[str, ...]:
    """Every code that has a page, in the order of the alphabet."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.md")))


def page(code: str, language: str = "en") -> str:
    """The page about a code; the English one where there is none in the language."""
    path = _FOLDER / language / f"{code}.md"
    return (path if path.exists() else _FOLDER / f"{code}.md").read_text(encoding="utf-8")
