"""Recordings that cannot be true: an export or a torch trace in, a copy with one kind of damage out.

Fourteen kinds are given twice, as statements about nsys's tables and as a change of torch's events, which do the same;
three more as statements alone.
"""

from __future__ import annotations

import functools
import gzip
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

MS: Final = 1_000_000
EPOCH: Final = 1_700_000_000 * 10**9
HOUR: Final = 3_600 * 10**9

_KERNELS: Final = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
_COPIES: Final = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_CALL_CATEGORIES: Final = ("cuda_runtime", "cuda_driver")
_COPY_CATEGORIES: Final = ("gpu_memcpy", "gpu_memset")
_WORK_CATEGORIES: Final = ("kernel", *_COPY_CATEGORIES)

Event = dict[str, Any]


def _shift(database: sqlite3.Connection, tables: tuple[str, ...], change: str, where: str = "1") -> None:
    """Change the start and end of rows; `{t}` in `change` is the column."""
    there = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in there.intersection(tables):
        sets = ", ".join(f"{time} = {change.format(t=time)}" for time in ("start", "end"))
        database.execute(f"UPDATE {table} SET {sets} WHERE {where}")


def _first_start(database: sqlite3.Connection) -> int:
    return int(database.execute("SELECT min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0])


def _each_third_kernel(database: sqlite3.Connection) -> None:
    database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 300000 WHERE rowid % 3 = 0")


def _wrap(database: sqlite3.Connection) -> None:
    there = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in there.intersection((*_KERNELS, *_COPIES, _CALLS)):
        database.execute(f"UPDATE {table} SET correlationId = correlationId % 128")


def _return_early(database: sqlite3.Connection) -> None:
    database.execute(
        f"UPDATE {_CALLS} SET end = start + 500 WHERE nameId IN "
        "(SELECT id FROM StringIds WHERE value LIKE '%DeviceSynchronize%' OR value LIKE '%StreamSynchronize%')"
    )


def _middle(database: sqlite3.Connection) -> int:
    return int(database.execute("SELECT max(rowid) / 2 FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0])


EXPORT_DAMAGE: Final[dict[str, Callable[[sqlite3.Connection], object]]] = {
    "clock early": lambda db: _shift(db, (*_KERNELS, *_COPIES), f"{{t}} - {MS}"),
    "clock late": lambda db: _shift(db, (*_KERNELS, *_COPIES), f"{{t}} + {MS}"),
    "clock drifts": lambda db: _shift(
        db, (*_KERNELS, *_COPIES), f"{{t}} - CAST(({{t}} - {_first_start(db)}) * 0.005 AS INTEGER)"
    ),
    "copies on another clock": lambda db: _shift(db, _COPIES, f"{{t}} - 5 * {MS}"),
    "kernels on epoch time": lambda db: _shift(db, _KERNELS, f"{{t}} + {EPOCH}"),
    "broken end": lambda db: db.execute(
        f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + {HOUR} WHERE rowid = {_middle(db)}"
    ),
    "kernels of 0 ns": lambda db: db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start WHERE rowid % 4 = 0"),
    "ids wrapped": _wrap,
    "rows twice": lambda db: db.execute(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL"
    ),
    "a third of calls lost": lambda db: db.execute(f"DELETE FROM {_CALLS} WHERE rowid % 3 = 0"),
    "half of calls lost": lambda db: db.execute(f"DELETE FROM {_CALLS} WHERE (rowid * 7919) % 1000 < 500"),
    "overlap on a stream": _each_third_kernel,
    "synchronize returns early": _return_early,
    "outside the recording": lambda db: _shift(
        db, ("CUPTI_ACTIVITY_KIND_KERNEL",), f"{{t}} + {HOUR}", "rowid % 50 = 49"
    ),
    "a tenth of calls lost": lambda db: db.execute(f"DELETE FROM {_CALLS} WHERE (rowid * 7919) % 1000 < 100"),
    "a tenth ends before it starts": lambda db: db.execute(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1000 WHERE rowid % 10 = 0"
    ),
    "times in whole milliseconds": lambda db: _shift(db, (*_KERNELS, *_COPIES), f"{{t}} / {MS} * {MS}"),
}


def damaged_export(source: Path, target: Path, kind: str) -> Path:
    """A copy of an export in SQLite with this damage."""
    shutil.copyfile(source, target)
    target.chmod(0o600)
    with sqlite3.connect(target) as database:
        EXPORT_DAMAGE[kind](database)
    database.close()
    return target


def _of(events: list[Event], categories: tuple[str, ...]) -> list[Event]:
    return [event for event in events if event.get("ph") == "X" and str(event.get("cat")).lower() in categories]


def _move(events: list[Event], categories: tuple[str, ...], by_us: float, slope: float = 0.0) -> None:
    """Later by so much, and by a part of the time since the first."""
    moved = _of(events, categories)
    first = min((float(event["ts"]) for event in moved), default=0.0)
    for event in moved:
        event["ts"] = float(event["ts"]) + by_us + slope * (float(event["ts"]) - first)


def _longer(events: list[Event], by_us: float, *, every: int = 1, only: int | None = None) -> None:
    kernels = _of(events, ("kernel",))
    for event in [kernels[only]] if only is not None else kernels[::every]:
        event["dur"] = float(event["dur"]) + by_us


def _wrap_events(events: list[Event]) -> None:
    for event in _of(events, (*_WORK_CATEGORIES, *_CALL_CATEGORIES)):
        arguments = event.get("args", {})
        if "correlation" in arguments:
            arguments["correlation"] = int(arguments["correlation"]) % 128


def _lose(events: list[Event], lost: Callable[[int], bool]) -> None:
    gone = {id(event) for number, event in enumerate(_of(events, _CALL_CATEGORIES)) if lost(number)}
    events[:] = [event for event in events if id(event) not in gone]


def _timeless(events: list[Event]) -> None:
    for event in _of(events, ("kernel",))[::4]:
        event["dur"] = 0


def _return_early_events(events: list[Event]) -> None:
    for event in _of(events, _CALL_CATEGORIES):
        if "DeviceSynchronize" in event["name"] or "StreamSynchronize" in event["name"]:
            event["dur"] = 0.5


def _outside_events(events: list[Event]) -> None:
    for event in _of(events, ("kernel",))[49::50]:
        event["ts"] = float(event["ts"]) + HOUR / 1000


TRACE_DAMAGE: Final[dict[str, Callable[[list[Event]], object]]] = {
    "clock early": lambda events: _move(events, _WORK_CATEGORIES, -1000),
    "clock late": lambda events: _move(events, _WORK_CATEGORIES, 1000),
    "clock drifts": lambda events: _move(events, _WORK_CATEGORIES, 0, -0.005),
    "copies on another clock": lambda events: _move(events, _COPY_CATEGORIES, -5000),
    "kernels on epoch time": lambda events: _move(events, ("kernel",), EPOCH / 1000),
    "broken end": lambda events: _longer(events, HOUR / 1000, only=len(_of(events, ("kernel",))) // 2),
    "kernels of 0 ns": _timeless,
    "ids wrapped": _wrap_events,
    "rows twice": lambda events: events.extend(_of(events, ("kernel",))),
    "a third of calls lost": lambda events: _lose(events, lambda number: number % 3 == 0),
    "half of calls lost": lambda events: _lose(events, lambda number: number * 7919 % 1000 < 500),
    "overlap on a stream": lambda events: _longer(events, 300, every=3),
    "synchronize returns early": _return_early_events,
    "outside the recording": _outside_events,
}


def damaged_trace(source: Path, target: Path, kind: str) -> Path:
    """A copy of a torch trace with this damage, not packed."""
    whole = msgspec.json.decode(_unpacked(source))
    TRACE_DAMAGE[kind](whole["traceEvents"])
    target.write_bytes(msgspec.json.encode(whole))
    return target


@functools.cache
def _unpacked(source: Path) -> bytes:
    return gzip.decompress(source.read_bytes())
