"""Text, dictionary-coded: a column holds small integers, this holds each distinct text once.

Equal codes mean equal text and the other way round, within one trace. The order of the codes is the order in which
the profiler numbered its strings, so sorting by code gives the profiler's own order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]

NO_TEXT: Final = -1
"""The code of a text that was not recorded (not the same as an empty text)."""


class Strings:
    """The distinct texts of one trace."""

    __slots__ = ("_code", "texts")

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts: Final = tuple(texts)
        self._code: Final = {text: code for code, text in enumerate(self.texts)}
        if len(self._code) != len(self.texts):
            raise ValueError("a text was given twice")

    def __len__(self) -> int:
        return len(self.texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strings) and self.texts == other.texts

    __hash__ = None  # type: ignore[assignment]

    def code(self, text: str) -> int:
        """The code of `text`; `NO_TEXT` if nothing in the trace is called that."""
        return self._code.get(text, NO_TEXT)

    def text(self, code: int) -> str | None:
        """The text behind `code`; None for `NO_TEXT`."""
        return None if code == NO_TEXT else self.texts[code]

    def decode(self, codes: Codes) -> list[str | None]:
        """The texts behind a column of codes."""
        texts = (*self.texts, None)  # NO_TEXT is -1, which indexes the last
        return [texts[code] for code in codes.tolist()]

    def each(self, codes: NDArray[np.signedinteger], says: Callable[[str], int]) -> NDArray[np.int64]:
        """What `says` makes of the text behind each code, asked once per distinct text; what has none is empty."""
        by_code = np.zeros(len(self.texts) + 1, np.int64)  # NO_TEXT is -1, which indexes the last
        for code in np.unique(codes).tolist():
            by_code[code] = says(self.text(code) or "")
        found: NDArray[np.int64] = by_code[codes]
        return found

    def kinds(
        self, codes: NDArray[np.signedinteger], kind: Callable[[str], str]
    ) -> tuple[list[str], NDArray[np.int64]]:
        """The distinct kinds of these texts, in the order of codes, and for each code the position of its own."""
        found: dict[str, int] = {}
        numbers = self.each(codes, lambda text: found.setdefault(kind(text), len(found)))
        return list(found), numbers
