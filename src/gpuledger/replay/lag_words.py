"""Usual lags in words: what one trace says of its launches, turnarounds and wake-ups, to be read or used for another.

Within a trace, kinds of edges are numbers; other traces of the same machine number them otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.calls import shortened
from gpuledger.replay.elsewhere import BY_EVENT, BY_PROCESS
from gpuledger.replay.lags import FEWEST, by_key, middle
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import Strings

Words = tuple[str, ...]
Key = TypeVar("Key", int, Ints)

IN_GRAPH: Final = "kernel in a graph"
KINDS: Final = ("kernel", "collective", IN_GRAPH, "collective in a graph")
"""Of operations; copies are of the kind that NVIDIA gives them, in numbers behind these."""

_LOW: Final = (1 << 31) - 1
_SIZE_BITS: Final = 6
_SMALL_COPY_NS: Final = 4_096
"""Copies that take less are all alike."""


@dataclass(frozen=True, slots=True)
class UsualLags:
    """The usual lags of one trace."""

    launch_ns: dict[Words, int]
    """From a call's return to the start of its operation, by the call's name and the kind of operation."""
    turnaround_ns: dict[Words, int]
    """From the end of an operation to the start of the next in its stream, by their kinds."""
    names_ns: dict[Words, int]
    """The same by their names, where a trace shows enough of them."""
    elsewhere_ns: dict[Words, int]
    """From the end of what an operation waits for elsewhere to its start, by the kind of wait."""
    wake_up_ns: dict[Words, int]
    """From the end of what a call waits for to its return, by the call's name, and whether that is its own copy."""
    shortest_ns: dict[Words, int]
    """The least that a synchronising call takes, by its name."""


def launch_key(call: Key, kind: Key, from_begin: Key) -> Key:
    """Of an operation's launch."""
    return (call << 32) + (kind << 1) + from_begin


def pair_key(before: Key, kind: Key) -> Key:
    """Of an operation's turn after another one."""
    return (before << 31) + kind


def wake_up_key(name: Ints, copy_ns: Ints) -> Ints:
    """Of calls that wait: by name, and, if it is for their own copy, how long that takes.

    What comes after the device's part of a copy from or to pageable memory grows with its size.
    """
    size = np.where(copy_ns > 0, np.log2(np.maximum(copy_ns, _SMALL_COPY_NS)).astype(np.int64), 0)
    return (name << _SIZE_BITS) + size


def _size(power: int) -> str:
    return f"its own copy of {1 << power} ns or more" if power else ""


class LagWords:
    """The usual lags of a trace: its own, which it remembers, or those that another one gives."""

    def __init__(self, strings: Strings, given: UsualLags | None = None) -> None:
        self.strings, self.given = strings, given
        self._often: dict[str, Callable[[], dict[int, int]]] = {}
        self._words: dict[str, Callable[[int], Words]] = {
            "launch_ns": lambda key: (self._call(key >> 32), self._kind(key >> 1 & _LOW), _INSIDE[key & 1]),
            "turnaround_ns": lambda key: (self._kind(key >> 31), self._kind(key & _LOW)),
            "names_ns": lambda key: (self._text((key >> 31) - 1), self._text((key & _LOW) - 1)),
            "elsewhere_ns": lambda key: (_ELSEWHERE.get(key, "branch"),),
            "wake_up_ns": lambda key: (self._call(key >> _SIZE_BITS), _size(key & (1 << _SIZE_BITS) - 1)),
            "shortest_ns": lambda key: (self._call(key),),
        }

    def usual(
        self,
        what: str,
        keys: Callable[[Positions | slice], Ints],
        lag_ns: Ints,
        shown: Positions,
        usual: Callable[[NDArray[Any]], int],
        fewest: int = 1,
    ) -> dict[int, int]:
        """The usual lag of each key, from the rows that show it, or as given; `keys` says those of some rows."""
        if self.given:
            table, words = getattr(self.given, what), self._words[what]
            known = {key: table.get(words(key)) for key in distinct(keys(slice(None))).tolist()} if len(lag_ns) else {}
            return {key: lag for key, lag in known.items() if lag is not None}
        lag_ns, own = lag_ns[shown], keys(shown)
        self._often[what] = lambda: by_key(lag_ns, own, usual, FEWEST)
        return by_key(lag_ns, own, usual, fewest)

    def told(self) -> UsualLags:
        """What the trace has shown often enough; of keys with the same words the middle."""
        return UsualLags(**{field.name: self._in_words(field.name) for field in fields(UsualLags)})

    def _in_words(self, what: str) -> dict[Words, int]:
        lags: dict[Words, list[int]] = {}
        for key, lag in self._often.get(what, dict[int, int])().items():
            lags.setdefault(self._words[what](key), []).append(lag)
        return {words: middle(np.array(values)) for words, values in lags.items()}

    def _text(self, code: int) -> str:
        return self.strings.text(code) or ""

    def _call(self, code: int) -> str:
        return shortened(self._text(code))

    def _kind(self, kind: int) -> str:
        return KINDS[kind] if kind < len(KINDS) else self._text(kind - len(KINDS))


_INSIDE: Final = ("after the call", "inside the call")
_ELSEWHERE: Final = {BY_EVENT: "event", BY_PROCESS: "process"}
