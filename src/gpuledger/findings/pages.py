"""What each finding means, how it is fixed and verified: a page of Markdown for each code.

Its head stands in the docstring of the finding's file, and its rest in `explain/`. A test holds the pages against the
rules, so that to list the codes and print a page takes neither rules nor numpy.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

_FINDINGS: Final = Path(__file__).parent
_FOLDER: Final = _FINDINGS / "explain"


@cache
def codes() -> tuple[str, ...]:
    """Every code that has a page, in the order of the alphabet."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.md")))


def page(code: str, language: str = "en") -> str:
    """The page about a code; the English one where there is none in the language."""
    translated = _FOLDER / language / f"{code}.md"
    if translated.exists():
        return translated.read_text(encoding="utf-8")
    rest = (_FOLDER / f"{code}.md").read_text(encoding="utf-8")
    head = re.compile(rf'^(?:""")?{code}: (.+)\.\n\n((?:(?!""").+\n)+)', re.MULTILINE)
    for path in _FINDINGS.glob("*/*.py"):
        if (found := head.search(path.read_text(encoding="utf-8"))) is not None:
            return f"# {code}: {found[1]}\n\n## Symptom\n\n{found[2]}\n{rest}"
    return rest  # of what is refused instead of found
