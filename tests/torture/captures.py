"""Every capture of the repository in a small form: some rows of each table, which are read and reported in no time."""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
import random
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Final

from support.command import ROOT

ROWS: Final = 150
"""Rows of each table that are kept; of names all are."""

_FOLDERS: Final = ("nsys", "torch", "ncu", "serve", "places")


def packed() -> list[Path]:
    """All captures that are one profile: exports, traces, pages of Nsight Compute, folders of Parquet and Arrow."""
    files = [path for name in _FOLDERS for path in sorted((ROOT / "captures" / name).iterdir())]
    endings = (".sqlite.xz", ".json.gz", ".csv.xz", "dir.tar.xz")
    return [path for path in files if path.name.endswith(endings)]


def small(capture: Path, folder: Path) -> Path:
    """A copy of a capture, cut short; made once."""
    target = folder / capture.parent.name / capture.name.removesuffix(".xz").removesuffix(".tar")
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    if capture.name.endswith(".sqlite.xz"):
        target.write_bytes(lzma.decompress(capture.read_bytes()))
        _cut_export(target)
    elif capture.name.endswith(".json.gz"):
        target.write_bytes(gzip.compress(json.dumps(_cut_trace(capture)).encode(), 1, mtime=0))
    elif capture.name.endswith(".csv.xz"):
        lines = lzma.decompress(capture.read_bytes()).decode().splitlines(keepends=True)
        target.write_text("".join(itertools.islice(lines, 40)))
    else:
        with tarfile.open(capture) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        [inner] = (folder / "unpacked").iterdir()
        shutil.move(inner, target)
    return target


def an_export(folder: Path, chance: random.Random) -> Path:
    """One of the exports of Nsight Systems among them."""
    return small(chance.choice([capture for capture in packed() if capture.name.endswith(".sqlite.xz")]), folder)


def _cut_export(path: Path) -> None:
    """Keep the first rows of tables with times: of all of them up to the same time."""
    with closing(sqlite3.connect(path)) as database:
        named = "SELECT name FROM sqlite_master WHERE type = 'table'"
        columns = {
            table: {row[1] for row in database.execute(f'PRAGMA table_info("{table}")')}
            for (table,) in database.execute(named).fetchall()
        }
        timed = [table for table, names in columns.items() if "start" in names]
        work = "CUPTI_ACTIVITY_KIND_KERNEL"
        ends = database.execute(f'SELECT start FROM "{work}" ORDER BY start LIMIT 1 OFFSET {ROWS}').fetchone()
        for table in timed:
            if ends is not None:
                database.execute(f'DELETE FROM "{table}" WHERE start >= ?', ends)
            database.execute(f'DELETE FROM "{table}" WHERE rowid IN (SELECT rowid FROM "{table}" LIMIT -1 OFFSET 4000)')
        for table in ("GPU_METRICS", "SCHED_EVENTS", "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS", "OSRT_CALLCHAINS"):
            if table in columns:
                database.execute(f'DELETE FROM "{table}" WHERE rowid > 2000')
        database.commit()
        database.execute("VACUUM")


def _cut_trace(path: Path) -> dict[str, object]:
    trace: dict[str, object] = json.loads(gzip.decompress(path.read_bytes()))
    events = trace["traceEvents"]
    assert isinstance(events, list)
    times = sorted(event["ts"] for event in events if event.get("cat") == "kernel")
    last = times[min(ROWS // 4, len(times) - 1)] if times else float("inf")
    return trace | {"traceEvents": [event for event in events if event.get("ts", 0) <= last][: 10 * ROWS]}
