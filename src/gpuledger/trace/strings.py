"""Text, dictionary-coded: a column holds small integers, this holds each distinct text once; and stacks made of them.

Equal codes mean equal text and the other way round, within one trace. The order of the codes is the order in which
the profiler numbered its strings, so sorting by code gives the profiler's own order. A recorded call stack is a run of
frames, the innermost first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import DTypeLike, NDArray

from gpuledger.regex import regex
from gpuledger.trace.keys import distinct, is_same, same, take
from gpuledger.trace.spans import Ints
from gpuledger.trace.sweep import occurrence_flags

Codes = NDArray[np.int32]

NO_TEXT: Final = -1
"""The code of a text that was not recorded (not the same as an empty text)."""


class Strings:
    """The distinct texts of one trace."""

    __slots__ = ("_codes", "_count", "_load", "_rewritten", "_texts")

    def __init__(self, texts: Iterable[str]) -> None:
        given = tuple(texts)
        self._texts: tuple[str, ...] | None = given
        self._codes: dict[str, int] | None = _codes(given)
        self._count = len(given)
        self._load: Callable[[], Iterable[str]] = tuple
        self._rewritten: dict[Callable[[str], str], Rewritten] = {}

    @classmethod
    def later(cls, count: int, load: Callable[[], Iterable[str]]) -> Strings:
        """`count` texts that `load` gives; it is called when the first of them is asked for."""
        strings = cls(())
        strings._texts = strings._codes = None
        strings._count, strings._load = count, load
        return strings

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts in the order of their codes."""
        if self._texts is None:
            self._texts = tuple(self._load())
        return self._texts

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> tuple[type[Strings], tuple[tuple[str, ...]]]:
        return Strings, (self.texts,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strings) and self.texts == other.texts

    __hash__ = None  # type: ignore[assignment]

    def code(self, text: str) -> int:
        """The code of `text`; `NO_TEXT` if nothing in the trace is called that."""
        if self._codes is None:
            self._codes = _codes(self.texts)
        return self._codes.get(text, NO_TEXT)

    def text(self, code: int) -> str | None:
        """The text behind `code`; None for `NO_TEXT`."""
        return None if code == NO_TEXT else self.texts[code]

    def as_unicode(self) -> list[str]:
        """All texts for whoever takes nothing but Unicode: a lone surrogate is spelled out."""
        return [text if text.isascii() else text.encode(errors="backslashreplace").decode() for text in self.texts]

    def decode(self, codes: Codes) -> list[str | None]:
        texts = (*self.texts, None)  # NO_TEXT is -1, which indexes the last
        return [texts[code] for code in codes.tolist()]

    def distinct(self, codes: NDArray[np.signedinteger]) -> list[int]:
        """The codes that are there, in order. They are known to lie between NO_TEXT and how many texts there are."""
        if is_same(codes) or self._count > len(codes):
            used: list[int] = distinct(codes).tolist()
            return used
        return (np.flatnonzero(occurrence_flags(codes, NO_TEXT, self._count - 1)) + NO_TEXT).tolist()

    def each(
        self, codes: NDArray[np.signedinteger], says: Callable[[str], int], dtype: DTypeLike = np.int64
    ) -> NDArray[Any]:
        """What `says` makes of the text behind each code, asked once per distinct text; what has none is empty."""
        by_code = np.zeros(len(self.texts) + 1, dtype)  # NO_TEXT is -1, which indexes the last
        used = self.distinct(codes)
        for code in used:
            by_code[code] = says(self.text(code) or "")
        if len(codes) and (by_code[used] == by_code[used[0]]).all():
            return same(by_code[used[0]], len(codes), dtype)
        return take(by_code, codes) if used and used[0] >= 0 else by_code[codes]

    def rewritten(self, codes: NDArray[np.signedinteger], rewrite: Callable[[str], str]) -> Rewritten:
        """What `rewrite`, a function of a module, makes of these texts. It is asked once of each, whoever asks.

        PyTorch numbers the ranges of its operators, so that a million texts may be a few hundred kinds.
        """
        if rewrite not in self._rewritten:
            number: dict[str, int] = {}
            made = [rewrite(text) for text in self.texts]
            code = [number.setdefault(text, len(number)) for text in made]
            changed = [new != old for new, old in zip(made, self.texts, strict=True)]
            every = np.array([*code, NO_TEXT], np.int32), np.array([*changed, False], np.bool_)
            self._rewritten[rewrite] = Rewritten(Strings(number), *every)
        known = self._rewritten[rewrite]
        return Rewritten(known.strings, known.codes[codes], known.changed[codes])

    def kinds(
        self, codes: NDArray[np.signedinteger], kind: Callable[[str], str]
    ) -> tuple[list[str], NDArray[np.int64]]:
        """The distinct kinds of these texts, in the order of codes, and for each code the position of its own."""
        position: dict[str, int] = {}
        numbers = self.each(codes, lambda text: position.setdefault(kind(text), len(position)))
        return list(position), numbers


class Rewritten(Struct, frozen=True, eq=False):
    """Other texts, for each code that was asked about the code among them, and whether the text is another one."""

    strings: Strings
    codes: Codes
    changed: NDArray[np.bool_]


def _codes(texts: tuple[str, ...]) -> dict[str, int]:
    codes = {text: code for code, text in enumerate(texts)}
    if len(codes) != len(texts):
        raise ValueError("a text was given twice")
    return codes


_TORCH_FUNCTION: Final = regex(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$")


class Stacks(Struct, frozen=True, eq=False):
    """Stack `i` is `frames[offsets[i]:offsets[i + 1]]`."""

    offsets: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    frames: Codes = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def texts(self, stack: int, strings: Strings) -> list[str]:
        """The frames of one stack, the innermost first; none for stack -1."""
        if stack < 0:
            return []
        codes = self.frames[self.offsets[stack] : self.offsets[stack + 1]]
        return [text or "" for text in strings.decode(codes)]


def python_frame(function: str, file: str, line: int) -> str:
    """`function (file.py:12)`, a package's file with its path in the package; where it lies is nobody's business.

    A cell of a notebook is `notebook cell 12`, or has the number that Jupyter gives its file.
    """
    path = file.replace("\\", "/")
    standard = re.search(r"/lib/(python[\d.]+/.+)", path) or re.match(r"[A-Za-z]:/.*/(Lib/(?!site-packages/).+)", path)
    cell = re.search(r"(?:/ipykernel_\d+/|^<ipython-input-)(\d+)", path)
    if cell:
        path = f"notebook cell {cell[1]}"
    elif "-packages/" in path:
        path = path.rpartition("-packages/")[2]
        path = path if "/" in path else f"site-packages/{path}"  # a package of one file
    elif standard:
        path = standard[1] if standard[1].startswith("python") else f"python3{standard[1].removeprefix('Lib')}"
    elif re.match(r"/|<|[A-Za-z]:/", path):
        path = path.rsplit("/", 1)[-1]
    return f"{function} ({path}:{line})"


def torch_frame(name: str) -> str:
    """torch's `file.py(12): function` as every frame is written; a built-in function as it is."""
    match = _TORCH_FUNCTION.match(name)
    return python_frame(match["function"], match["file"], int(match["line"])) if match else name
