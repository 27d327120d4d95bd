"""nsys's string ids in, the trace's codes out.

While tables are being read a text is an int64: nsys's own id, or a number that `Coder` gave to a text of ours (a
label, an NVTX text that was stored in line). When all are read, the texts in use are fetched once and coded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuledger.limits import Limits
from gpuledger.messages import say
from gpuledger.read.nsys.container import NULL, NsysExport
from gpuledger.trace import sweep
from gpuledger.trace.columns import by_row, distinct
from gpuledger.trace.deadline import check
from gpuledger.trace.health import Note, Severity
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT, Codes, Strings
from gpuledger.units import count_text

_FIRST_OWN = 1 << 62
"""Own texts are numbered from here, above any id of nsys, so that nsys's order comes first."""

_MOST_PLACES = 1 << 22
"""Up to here nsys's ids have a table with a place for each."""


@dataclass(frozen=True)
class TextCoding:
    """The finished dictionary, and how to apply it."""

    strings: Strings
    notes: tuple[Note, ...]
    _ids: Ints
    """In order: nsys's by number, then ours, which are larger and follow one another."""
    _codes: Codes

    def codes(self, ids: Ints) -> Codes:
        """The codes of a column of ids."""
        least, most = int(ids.min(initial=0)), int(ids.max(initial=0))
        first_own = self._first_own
        if first_own is not None and (most < first_own or most >= _FIRST_OWN):
            place = ids if most < _FIRST_OWN else np.where(ids < _FIRST_OWN, ids, ids - (_FIRST_OWN - first_own))
            found: Codes = self._by_place[place if least >= 0 else np.maximum(place, -1)]
            return found
        if not len(self._ids):
            return np.full(len(ids), NO_TEXT, np.int32)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[at] == ids, self._codes[at], np.int32(NO_TEXT)).astype(np.int32)

    @property
    def _first_own(self) -> int | None:
        """Where our own ids begin in `_by_place`; None where nsys does not, as it mostly does, count its ids from 0."""
        last = int(self._ids[self._ids < _FIRST_OWN].max(initial=-1))
        is_counted = len(self._ids) and self._ids[0] >= 0 and last < _MOST_PLACES
        return last + 1 if is_counted else None

    @cached_property
    def _by_place(self) -> Codes:
        """The code of each of nsys's ids, then of each of ours, and last of what has no text: one look for each."""
        theirs = self._ids[self._ids < _FIRST_OWN]
        table = np.full(int(theirs.max(initial=-1)) + 1, NO_TEXT, np.int32)
        table[theirs] = self._codes[: len(theirs)]
        return np.concatenate((table, self._codes[len(theirs) :], np.array([NO_TEXT], np.int32)))


class TextCoder:
    """Collects the texts that the tables use."""

    def __init__(self) -> None:
        self._own: dict[str | bytes, int] = {}
        self._used: list[Ints] = []

    def own(self, text: str | bytes) -> int:
        """The id of a text of ours; bytes are decoded with the others at the end."""
        return self._own.setdefault(text, _FIRST_OWN + len(self._own))

    def use(self, ids: Ints) -> Ints:
        """Note that a column uses these ids of nsys; gives them back, none of them in the place of ours."""
        if ids.max(initial=0) >= _FIRST_OWN:
            ids = np.minimum(ids, _FIRST_OWN - 1)
        self._used.append(distinct(ids))
        return ids

    def labels(self, values: Ints, names: Mapping[int, str]) -> Ints:
        """A column of nsys's enumeration values as ids of their labels; NULL where a value has none."""

        def one_by_one(some: Ints) -> Ints:
            values = distinct(some)
            ids = [self.own(names[value]) if value in names else NULL for value in values.tolist()]
            labelled: Ints = np.array(ids, np.int64)[sweep.search(values, some)]
            return labelled

        return by_row(one_by_one, values)

    def coding(self, export: NsysExport, limits: Limits) -> TextCoding:
        """Fetch what was used and code it: nsys's strings in nsys's order, then our own in the order they came."""
        used = distinct(np.concatenate([np.empty(0, np.int64), *self._used]))
        wanted = used[(used >= 0) & (used < _FIRST_OWN)]
        stored = export.texts_by_id("StringIds", "id", "value", wanted.tolist())
        decoder = _Decoder(limits.text_bytes)
        check()
        texts = dict(zip(stored, decoder.texts(list(stored.values())), strict=True))
        named = used[(used != NULL) & (used < _FIRST_OWN)].tolist()
        by_id = {each: texts.get(each) or _missing(each, texts) for each in named}
        for own, each in self._own.items():
            by_id[each] = own if isinstance(own, str) else decoder.text(own)
        code: dict[str, int] = {}
        codes = np.array([code.setdefault(text, len(code)) for text in by_id.values()], np.int32)
        check()
        lost = len(named) - len(stored)
        notes = decoder.notes()
        if lost:
            sentence = say(
                "{count} names are missing from the export; their events show the string's number",
                count=count_text(lost),
            )
            notes = (*notes, Note(Severity.WARNING, "names-missing", sentence, lost))
        ids = np.array(list(by_id), np.int64)
        return TextCoding(Strings(code), notes, ids, codes)


def _missing(number: int, texts: Mapping[int, str]) -> str:
    """What stands for a text that is empty, or not there."""
    return "" if number in texts else f"[string {number} is not in the export]"


class _Decoder:
    """Bytes to text. What is not UTF-8 stays visible as `\\xNN`, so that two different names stay different."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._odd = 0
        self._cut = 0

    def texts(self, stored: list[bytes]) -> list[str]:
        """All of them at once where that can be, as nearly always: there may be a million."""
        with contextlib.suppress(UnicodeDecodeError):  # then one by one, to see which
            whole = b"\0".join(stored).decode().split("\0")
            if len(whole) == len(stored) and max(map(len, stored), default=0) <= self._longest:
                return whole
        return [self.text(each) for each in stored]

    def text(self, stored: bytes) -> str:
        if len(stored) > self._longest:
            self._cut += 1
            stored = stored[: self._longest] + b"..."
        try:
            return stored.decode()
        except UnicodeDecodeError:
            self._odd += 1
            return stored.decode(errors="backslashreplace")

    def notes(self) -> tuple[Note, ...]:
        found = []
        if self._odd:
            count = count_text(self._odd)
            sentence = say("{count} names are not UTF-8; the invalid bytes are shown as \\xNN", count=count)
            found.append(Note(Severity.INFO, "names-not-utf8", sentence, self._odd))
        if self._cut:
            sentence = say(
                "{count} names longer than {longest} bytes were truncated",
                count=count_text(self._cut),
                longest=count_text(self._longest),
            )
            found.append(Note(Severity.WARNING, "names-cut", sentence, self._cut))
        return tuple(found)
