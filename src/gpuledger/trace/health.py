"""What was lost or is doubtful about a trace. Notes in, shown with every output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How much a note matters to the numbers."""

    INFO = "info"
    """Good to know; no number is affected."""
    WARNING = "warning"
    """Some numbers may be incomplete."""
    LOSS = "loss"
    """Rows that the profile holds are missing from the numbers."""


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that a reader of the numbers should know. `count` is how many rows it is about."""

    severity: Severity
    code: str
    sentence: str
    count: int = 1


NAMES_FROM = "names-from"
"""The code of the note that says how much of the work inside graphs a second file names: it belongs to every answer."""


def told_always(notes: Iterable[Note]) -> list[str]:
    """The sentences that people see in any case, besides what was lost."""
    return [note.sentence for note in notes if note.code == NAMES_FROM]


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Stands where a number would be that the profile cannot give. Never zero."""

    reason: str
