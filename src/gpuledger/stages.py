"""What a command does that takes long on a large profile, by name, for people who wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

TellStage = Callable[[str], None]
"""Told what comes next."""

BOOKS: Final = "booking the time of each GPU"
FINDINGS: Final = "replaying, and looking for what to fix"


def tell_nobody(stage: str) -> None:
    """For whoever does not wait at a terminal."""
