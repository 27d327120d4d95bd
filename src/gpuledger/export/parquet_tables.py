"""The tables of a trace as Parquet: one file for each table that the profile holds.

Columns are those of the trace, with their units in their names; text is dictionary-coded. What a profile did not record
is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table

ENDING = ".parquet"


def parquet_names() -> tuple[str, ...]:
    """The files that may be written."""
    return tuple(f"{table.value}{ENDING}" for table in Table)


def write_tables(trace: Trace, folder: Path) -> Iterator[Path]:
    """Write each table into the folder, and say which file it is in."""
    for table in Table:
        if table not in trace.tables:
            continue
        path = folder / f"{table.value}{ENDING}"
        trace[table].to_parquet(path)
        yield path
