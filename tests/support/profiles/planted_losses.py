"""Profiles that lose work: copies of captures with rows of GPU work taken out."""

from __future__ import annotations

import gzip
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

ON_GPU = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
COPIES = ON_GPU[1:]
TORCH_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def without_rows(profile: Path, target: Path, share: float, *, of: tuple[str, ...] = ON_GPU, seed: int = 1) -> int:
    """Take this share of the rows of some tables out of an export, at random; gives how many."""
    shutil.copy(profile, target)
    with closing(sqlite3.connect(target)) as export, export:
        rows = [(table, row) for table in _there(export, of) for (row,) in export.execute(f"SELECT rowid FROM {table}")]
        gone = random.Random(seed).sample(rows, round(share * len(rows)))
        for table, row in gone:
            export.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
    return len(gone)


def without_graphs(profile: Path, target: Path, count: int, *, seed: int = 1) -> None:
    """Take all nodes of so many graph launches out, neither of the first nor of the last."""
    shutil.copy(profile, target)
    with closing(sqlite3.connect(target)) as export, export:
        whose = "SELECT DISTINCT correlationId FROM {} WHERE graphNodeId IS NOT NULL ORDER BY 1"
        launches = [launch for (launch,) in export.execute(whose.format(ON_GPU[0]))]
        for launch in random.Random(seed).sample(launches[1:-1], count):
            for table in _there(export, ON_GPU):
                export.execute(f"DELETE FROM {table} WHERE correlationId = ?", (launch,))


def torch_without_rows(profile: Path, target: Path, share: float, *, seed: int = 1) -> int:
    """The same for a trace of torch.profiler."""
    trace = msgspec.json.decode(gzip.decompress(profile.read_bytes()))
    events = trace["traceEvents"]
    work = [place for place, event in enumerate(events) if event.get("cat") in TORCH_WORK]
    gone = set(random.Random(seed).sample(work, round(share * len(work))))
    trace["traceEvents"] = [event for place, event in enumerate(events) if place not in gone]
    target.write_bytes(msgspec.json.encode(trace))
    return len(gone)


def _there(export: sqlite3.Connection, tables: tuple[str, ...]) -> list[str]:
    names = {name for (name,) in export.execute("SELECT name FROM sqlite_master")}
    return [table for table in tables if table in names]
