"""Call chains of an export -> stacks. nsys keeps one row per frame, in one table for each kind of event.

Python's stacks come as JSON in the payload of NVTX marks, and only if the export was made with `--include-json=true`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gpuledger.read.nsys.container import NULL, NsysExport
from gpuledger.read.nsys.strings import TextCoder, TextCoding
from gpuledger.trace.columns import same
from gpuledger.trace.spans import Ints
from gpuledger.trace.stacks import Stacks, python_frame

CHAINS: Final[Mapping[str, str]] = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "CUDA_CALLCHAINS",
    "OSRT_API": "OSRT_CALLCHAINS",
    "COMPOSITE_EVENTS": "SAMPLING_CALLCHAINS",
}
"""Which table holds the frames of the events of which other."""

_FRAME: Final = ("id", "symbol", "stackDepth")


class StackReader:
    """Numbers the stacks of all tables from 0."""

    def __init__(self, export: NsysExport, coder: TextCoder) -> None:
        self._export, self._coder = export, coder
        self._frames: list[Ints] = []
        self._lengths: list[Ints] = []
        self._count = 0

    def of_events(self, table: str, chain: Ints) -> Ints:
        """The stack of each event of `table`, from its call chain's id."""
        frames = CHAINS.get(table, "")
        if not set(_FRAME) <= self._export.tables.get(frames, frozenset()) or not (chain != NULL).any():
            return same(NULL, len(chain))
        read = self._export.integers(frames, list(_FRAME)).columns
        known = np.logical_and.reduce([read[name] != NULL for name in _FRAME])
        ids, symbol, depth = (read[name][known] for name in _FRAME)
        order = np.lexsort((depth, ids))
        chains, lengths = np.unique(ids, return_counts=True)
        symbol = self._coder.use(symbol)
        first = self._add(symbol[order], lengths)
        if not len(chains):
            return same(NULL, len(chain))
        at = np.minimum(np.searchsorted(chains, chain), len(chains) - 1)
        return np.where(chains[at] == chain, first + at, NULL)

    def of_python(self, payloads: Sequence[bytes | None]) -> Ints:
        """The stack in each payload of nsys's Python sampling; NULL where there is none."""
        from html import unescape

        found = [_frames(payload) for payload in payloads]
        ids = {each for frames in found for frame in frames for each in frame[:2]}
        texts = {
            each: unescape(text.decode(errors="backslashreplace"))
            for each, text in self._export.texts_by_id("StringIds", "id", "value", ids).items()
        }
        stacks = np.full(len(payloads), NULL, np.int64)
        for at, frames in enumerate(found):
            if frames:
                own = [self._coder.own(python_frame(texts.get(f, "?"), texts.get(s, "?"), n)) for f, s, n in frames]
                stacks[at] = self._add(np.array(own, np.int64), np.array([len(own)]))
        return stacks

    def _add(self, frames: Ints, lengths: Ints) -> int:
        """Note stacks; gives the number of the first."""
        self._frames.append(frames)
        self._lengths.append(lengths)
        self._count += len(lengths)
        return self._count - len(lengths)

    def stacks(self, coding: TextCoding) -> Stacks:
        """All that were read, their text coded."""
        frames = np.concatenate([np.empty(0, np.int64), *self._frames])
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        return Stacks(np.cumsum(lengths), coding.codes(frames))


def _frames(payload: bytes | None) -> list[tuple[int, int, int]]:
    """Function, file (both as ids) and line of each frame in a payload; none in one of another kind."""
    try:
        outer = json.loads(payload or b"null")
        [(kind, inner)] = outer.items()
        if not kind.startswith("Python"):
            return []
        return [(int(each["Function"]), int(each["File"]), int(each["Line"])) for each in inner["Frames"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []  # somebody else's payload, which may hold anything
