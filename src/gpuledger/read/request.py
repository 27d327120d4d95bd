"""What is asked of every reader: which columns, and whom to tell how far it is.

And how it refuses what is too much, and notes what it lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.trace.model import Note, Severity
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text

Progress = Callable[[str, int], None]
"""Told now and then: which table is being read, how many of its rows so far."""

WantedColumns = Mapping[Table, frozenset[str]]
"""What to read: columns of ours, by table. Times are always among them."""


def counted(severity: Severity, code: str, count: int, sentence: str) -> list[Note]:
    """The note on so many rows or values; none where there are none."""
    return [Note(severity, code, sentence, count)] if count else []


def more_event_bytes(limits: Limits) -> str:
    """The option that lets an event, or a line of text, be longer."""
    return f"--limit=event-bytes={bytes_text(8 * limits.event_bytes).replace(' ', '')}"


def too_many_gpus(name: str, count: int, limit: int) -> UnreadableProfile:
    """The refusal of a profile that names more GPUs than there can be."""
    return UnreadableProfile(
        f"{name}: names {count:,} GPUs, more than {limit:,}", hint=f"if there are so many: --limit=gpus={count}"
    )


def too_many_rows(name: str, table: str, limit: int) -> UnreadableProfile:
    """The refusal of a table that is larger than memory should hold."""
    return UnreadableProfile(
        f"{name}: table {table} has more than {limit:,} rows",
        hint=f"look at a shorter stretch of time, or raise the limit: --limit=rows-per-table={4 * limit}",
    )
