"""What the ranks of one process can do, wherever they run, and the memory that all ranks of a node share.

The board has a line for each rank in each row, so that ranks which write do not share one. `barrier` measures crews,
`barrier_host` has one for processes on a CPU, `barrier_cuda` one for streams or processes on GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

PROTOCOLS = ("phase", "tag")
LINE = 32
"""Numbers from one rank's to the next rank's: 128 bytes of a GPU's 4-byte ones."""

Step = Callable[[], None]
"""Takes each rank of this process through some barriers, one after the other."""


class BoardRow(IntEnum):
    """What the board says about each rank."""

    PHASE = 0
    """The phase number that it reached: a number of the host, handed over with each call."""
    TAG = 1
    """How many tag barriers it reached: counted where it is kept."""
    ARRIVED = 2
    """Rounds of the check that it began."""
    MISSED = 3
    """Ranks that had not begun the round when it was past the barriers of it, all rounds together."""
    GAVE_UP = 4
    """The first line only: ranks that stopped waiting. From then on nobody waits."""


def board_shape(ranks: int) -> tuple[int, int, int]:
    """Rows x ranks x numbers in a line."""
    return len(BoardRow), ranks, LINE


class Crew(Protocol):
    """The ranks of this process: one, or all of them."""

    replay: str
    """What a replay is here."""

    def meet(self) -> None:
        """Go on when all ranks are here, and have done what they were told to."""

    def eager(self, protocol: str, count: int) -> Step:
        """A step of `count` barriers, each called when its turn comes."""

    def recorded(self, protocol: str, count: int) -> Step:
        """The same step, recorded once with its arguments; the step replays it."""

    def timed_ms(self, step: Step) -> float:
        """How long a step took on the slowest rank of this process."""

    def look(self, step: Step, late: int) -> None:
        """Begin a round, rank `late` after the others; take the step; count who has not begun, and should have."""

    def missed(self) -> int:
        """What all looks of this process counted since it was asked last."""

    def gave_up(self) -> bool:
        """Whether a rank stopped waiting for another; asked of the board, so that all ranks say the same."""
