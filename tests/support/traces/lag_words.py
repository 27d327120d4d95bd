"""The usual lags of one trace in words, so that they can be read, and used to replay another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.lags import _SIZE_BITS, FEWEST, KINDS, TraceLags, middle, usual_by_key
from gpuledger.replay.waits import BY_EVENT, BY_PROCESS
from gpuledger.trace.keys import Positions, distinct
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import Strings

Words = tuple[str, ...]

_LOW: Final = (1 << 31) - 1


class UsualLags(Struct, frozen=True):
    """The usual lags of one trace."""

    launch_ns: dict[Words, int]
    """From a call's return to the start of its operation, by the call's name and the kind of operation."""
    turnaround_ns: dict[Words, int]
    """From the end of an operation to the start of the next in its stream, by their kinds."""
    names_ns: dict[Words, int]  # the same by their names, where a trace shows enough of them
    elsewhere_ns: dict[Words, int]
    """From the end of what an operation waits for elsewhere to its start, by the kind of wait."""
    wake_up_ns: dict[Words, int]
    """From the end of what a call waits for to its return, by the call's name, and whether that is its own copy."""
    shortest_ns: dict[Words, int]  # the least that a synchronising call takes, by its name


def usual_lags(trace: Trace) -> UsualLags:
    """What is usual in a trace."""
    words = LagWords(trace.strings)
    dependency_graph(trace, *host_and_activities(trace), residuals=False, lags=words)
    return words.in_words()


class LagWords(TraceLags):
    """The usual lags of a trace: its own, which it remembers, or those that another one gives."""

    def __init__(self, strings: Strings, given: UsualLags | None = None) -> None:
        self.strings, self.given, self.is_own = strings, given, given is None
        self._often: dict[str, Callable[[], dict[int, int]]] = {}
        self._words: dict[str, Callable[[int], Words]] = {
            "launch_ns": lambda key: (self._call(key >> 32), self._kind(key >> 1 & _LOW), _INSIDE[key & 1]),
            "turnaround_ns": lambda key: (self._kind(key >> 31), self._kind(key & _LOW)),
            "names_ns": lambda key: (self._text((key >> 31) - 1), self._text((key & _LOW) - 1)),
            "elsewhere_ns": lambda key: (_ELSEWHERE.get(key, "branch"),),
            "wake_up_ns": lambda key: (self._call(key >> _SIZE_BITS), self._copy_size(key & (1 << _SIZE_BITS) - 1)),
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
        if self.given is not None:
            table, words = getattr(self.given, what), self._words[what]
            known = {key: table.get(words(key)) for key in distinct(keys(slice(None))).tolist()} if len(lag_ns) else {}
            return {key: lag for key, lag in known.items() if lag is not None}
        lag_ns, own = lag_ns[shown], keys(shown)
        self._often[what] = lambda: usual_by_key(lag_ns, own, usual, FEWEST)
        return usual_by_key(lag_ns, own, usual, fewest)

    def in_words(self) -> UsualLags:
        """What the trace has shown often enough; of keys with the same words the middle."""
        tables: dict[str, dict[Words, int]] = {}
        for what in UsualLags.__struct_fields__:
            lags: dict[Words, list[int]] = {}
            for key, lag in self._often.get(what, dict[int, int])().items():
                lags.setdefault(self._words[what](key), []).append(lag)
            tables[what] = {words: middle(np.array(values)) for words, values in lags.items()}
        return UsualLags(**tables)

    def _text(self, code: int) -> str:
        return self.strings.text(code) or ""

    def _call(self, code: int) -> str:
        return short_function_name(self._text(code))

    def _kind(self, kind: int) -> str:
        return KINDS[kind] if kind < len(KINDS) else self._text(kind - len(KINDS))

    @staticmethod
    def _copy_size(power: int) -> str:
        return f"its own copy of {1 << power} ns or more" if power else ""


_INSIDE: Final = ("after the call", "inside the call")
_ELSEWHERE: Final = {BY_EVENT: "event", BY_PROCESS: "process"}
