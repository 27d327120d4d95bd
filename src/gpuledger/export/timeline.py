"""What a timeline holds, whatever format it is written in: tracks, records on them, and counters.

A record is a slice or an instant, with a title and arguments. Records come in columns, and columns of different tables
lie behind each other without being copied: position 0 is the first row of the first table. Times are the trace's own;
a writer takes `offset_ns` off, so that several traces share one clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED

LONGEST_TITLE: Final = 500
"""A longer title is cut; the whole text is then an argument."""

NAMELESS: Final = "(no name)"
"""The title of what has none."""


class TrackKind(Enum):
    """What a track stands for; viewers show processes and threads in their own way."""

    PROCESS = "process"
    THREAD = "thread"
    GROUP = "group"
    SLICES = "slices"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the timeline, or a heading over several."""

    uuid: int
    kind: TrackKind
    name: str
    parent: int
    """The uuid of the track that it is shown under; 0 for none."""
    pid: int
    tid: int
    """Unique in the file. A group and what is under it have numbers too: Chrome's format knows nothing else."""
    order: int = 0
    """The place among its siblings."""
    unit: str = ""
    """Of a counter."""


@dataclass(frozen=True, slots=True, eq=False)
class ArgumentColumn:
    """Values for records, table behind table; a table that has none of them gives only its number of rows."""

    parts: tuple[NDArray[Any] | int, ...]
    absent: int = NOT_RECORDED
    """Stands where a record has no value."""

    def take(self, positions: NDArray[np.intp]) -> Ints:
        """The values of these records."""
        values = np.full(len(positions), self.absent, np.int64)
        first = 0
        for part in self.parts:
            if isinstance(part, int):
                first += part
                continue
            if len(self.parts) == 1:
                return part[positions].astype(np.int64)
            inside = (positions >= first) & (positions < first + len(part))
            values[inside] = part[positions[inside] - first]
            first += len(part)
        return values


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """One argument of records: a number, or where there are texts, a position among them."""

    name: str
    values: ArgumentColumn
    texts: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Slices and instants, each on a track on which all of them nest."""

    start_ns: Ints
    end_ns: Ints
    """Never before the start."""
    track: Ints
    """The uuid of each one's track."""
    rank: Ints
    """The order on its track of what begins at one instant: the outer before the inner."""
    titles: Sequence[str]
    title: Ints
    categories: Sequence[str]
    category: Ints
    instant: NDArray[np.bool_]
    arguments: tuple[Argument, ...] = ()
    first_flow: ArgumentColumn | None = None
    """The first of the arrows that a record begins or ends; its others follow. 0: none. Unique in the file."""
    flows: ArgumentColumn | None = None
    """How many arrows."""
    begins_arrows: bool = False
    """Whether arrows begin here, rather than end."""

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """A counter: from each time on it has this value."""

    track: int
    at_ns: Ints
    value: NDArray[Any]
    """Integers, or floats."""


@dataclass(frozen=True, slots=True, eq=False)
class TimelineSection:
    """Some tracks of one trace, with what is on them. Tracks under others come after those."""

    tracks: tuple[Track, ...]
    records: Records | None = None
    levels: tuple[Levels, ...] = ()
    offset_ns: int = 0
    """What to take off its times."""


class UniqueNumbers:
    """Hands out numbers that are unique in one file: of tracks, processes, threads and arrows."""

    _FIRST_MADE_UP: Final = 1 << 24  # above what operating systems number processes with

    def __init__(self) -> None:
        self._uuid = 0
        self._taken: set[int] = set()
        self._made_up = self._FIRST_MADE_UP
        self._arrows = 0

    def uuid(self) -> int:
        """For a track."""
        self._uuid += 1
        return self._uuid

    def like(self, wanted: int) -> int:
        """For a process or thread: its own number if nobody has it, else one that is made up."""
        if not 0 < wanted < self._FIRST_MADE_UP or wanted in self._taken:
            self._made_up += 1
            wanted = self._made_up
        self._taken.add(wanted)
        return wanted

    def arrows(self, count: int) -> int:
        """The first of `count` numbers of arrows."""
        first = self._arrows + 1
        self._arrows += count
        return first


def text_argument(name: str, texts: Sequence[str], codes: NDArray[Any]) -> Argument:
    """An argument of one table alone."""
    return Argument(name, ArgumentColumn((codes,)), texts)


def shown(texts: Sequence[str]) -> list[str]:
    """Texts as titles: never empty, and not endless."""
    return [
        NAMELESS if not text else text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"
        for text in texts
    ]


def by_name(columns: Mapping[str, ArgumentColumn]) -> tuple[Argument, ...]:
    """Numbers as arguments, called by their names."""
    return tuple(Argument(name, column) for name, column in columns.items())
