"""One nsys export of several ranks as one export for each: copies of it with the other ranks' rows deleted."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

_PROCESS = ~0xFFFFFF
"""The bits of nsys's global thread ids that are the process's."""
_CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
_ON_A_GPU = tuple(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))


def split_by_rank(export: Path, folder: Path) -> list[Path]:
    """A file for each process and GPU that ran kernels, named in the order of GPU and process."""
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(export)) as database:
        ran = "SELECT DISTINCT deviceId, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE end > start ORDER BY 1, 2"
        ranks = database.execute(ran).fetchall()
    return [
        _rank(export, folder / f"rank{number:02}.sqlite", process, device)
        for number, (device, process) in enumerate(ranks)
    ]


def _rank(export: Path, target: Path, process: int, device: int) -> Path:
    shutil.copy(export, target)
    with contextlib.closing(sqlite3.connect(target)) as database, database:
        database.execute("PRAGMA synchronous = OFF")
        columns = {
            name: {column[1] for column in database.execute(f'PRAGMA table_info("{name}")')}
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        }
        on_a_gpu = [name for name in _ON_A_GPU if name in columns]
        if _CALLS in columns:
            launched = {
                here: " UNION ALL ".join(
                    f"SELECT correlationId FROM {name} WHERE globalPid = {process} AND deviceId {here} {device}"
                    f" AND correlationId IS NOT NULL"
                    for name in on_a_gpu
                )
                for here in ("=", "!=")
            }
            foreign, own = (
                f"SELECT globalTid FROM {_CALLS} WHERE correlationId IN ({launched[here]})"
                f" AND globalTid & {_PROCESS} = {process}"
                for here in ("!=", "=")
            )
            foreign += f" AND correlationId NOT IN ({launched['=']})"
            threads = [thread for (thread,) in database.execute(f"{foreign} EXCEPT {own}")]
            for name in (name for name, have in columns.items() if "globalTid" in have):
                database.executemany(f"DELETE FROM {name} WHERE globalTid = ?", [(thread,) for thread in threads])
            database.execute(
                f"DELETE FROM {_CALLS} WHERE correlationId IN ({launched['!=']})"
                f" AND correlationId NOT IN ({launched['=']})"
            )
        for name, have in columns.items():
            if name in on_a_gpu:
                database.execute(f"DELETE FROM {name} WHERE globalPid IS NOT {process} OR deviceId != {device}")
            elif "globalPid" in have:
                database.execute(f"DELETE FROM {name} WHERE globalPid != {process}")
            elif "globalTid" in have:
                database.execute(f"DELETE FROM {name} WHERE globalTid IS NULL OR globalTid & {_PROCESS} != {process}")
    return target
