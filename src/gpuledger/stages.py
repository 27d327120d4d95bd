"""What a command does that takes long on a large profile, by name, for people who wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

TellStage = Callable[[str], None]
"""Told what comes next."""

BOOKS: Final = "booking the time of each GPU"
FINDINGS: Final = "replaying, and looking for what to fix"


class Listener(Protocol):
    """Whoever waits for an answer: told what is read, and what comes next."""

    def __call__(self, table: str, rows: int) -> None:
        """Told which table is being read, and how many of its rows so far."""

    def stage(self, name: str) -> None:
        """Told what comes next."""

    def clear(self) -> None:
        """Told that nothing is waited for any more, or that another profile is next."""


class Nobody:
    """Nobody waits at a terminal."""

    def __call__(self, table: str, rows: int) -> None: ...

    def stage(self, name: str) -> None: ...

    def clear(self) -> None: ...


NOBODY: Final = Nobody()
