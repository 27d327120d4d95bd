"""A change that somebody asks about: its words, what it takes for granted, and the edit of the graph that it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from gpuledger.replay.edits import Edit


class Turn(IntEnum):
    """When a change is made, whatever the order in which it is asked for, so that all together is one answer.

    What goes must go before the rest becomes faster: it is measured in time as it was recorded.
    """

    GOES = 0
    SCALES = 1
    COSTS = 2


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """One change."""

    words: str
    assumption: str
    edit: Edit
    turn: Turn = Turn.GOES
    about_ns: int | None = None
    """What it is about, in the whole stretch, as reports print it; None where they print no such line."""
    utmost: Edit | None = None
    """The same change with infinite speed, for the limit; None where there is none beyond the change."""
    is_bound: bool = False
    """Whether no program will save as much: an upper bound."""
    note: str = ""
    """What else is to be said of it."""
    reported_ns: int | None = None
    """What reports say that it saves of the stretch, if they do."""
    code: str = ""
    """The finding that it acts on, if it does."""


def edits_of(changes: Iterable[ProgramChange]) -> list[Edit]:
    """The edits of several changes, in the order in which they are made."""
    return [change.edit for change in sorted(changes, key=lambda change: change.turn)]
