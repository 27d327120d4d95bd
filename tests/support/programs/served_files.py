"""One of each kind of file that an agent's tools may open, and of what lies beside it."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pyarrow
import pyarrow.parquet

from gpuledger.verbs.run_store import RunFacts, add_run
from support.command import ROOT
from support.profiles.memory_snapshots import unpacked_snapshots
from support.profiles.nsys_exports import call, kernel, minimal
from support.profiles.report_files import of_export
from support.profiles.rocm_files import rocprof_csv

MARK = "OUTSIDE_SECRET"
TRACE = ROOT / "captures" / "places" / "function.plain.json.gz"


def export(path: Path, name: str) -> Path:
    """An export whose one kernel has this name."""
    kernels = [kernel(20 * n, 20 * n + 10, correlationId=n) for n in range(40)]
    minimal(path, KERNEL=kernels, RUNTIME=[call(20 * n - 8, 20 * n - 5, correlationId=n) for n in range(40)])
    with sqlite3.connect(path) as database:
        database.execute("UPDATE StringIds SET value = ? WHERE id = 1", (name,))
    database.close()
    return path


def with_log(path: Path, name: str) -> None:
    """An export in WAL mode, whose name stands in the log alone."""
    database = sqlite3.connect(export(path, "before"))
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("UPDATE StringIds SET value = ? WHERE id = 1", (name,))
    database.commit()
    held = {ending: Path(f"{path}{ending}").read_bytes() for ending in ("", "-wal")}
    database.close()
    for ending, content in held.items():
        Path(f"{path}{ending}").write_bytes(content)


def as_parquet(path: Path, folder: Path) -> None:
    """The same export as a folder of Parquet files."""
    folder.mkdir()
    with sqlite3.connect(path) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = {name: kind for _, name, kind, *_ in database.execute(f"PRAGMA table_info({table})")}
            rows = [dict(zip(columns, row, strict=True)) for row in database.execute(f"SELECT * FROM {table}")]
            kinds = {"TEXT": pyarrow.string(), "REAL": pyarrow.float64()}
            schema = pyarrow.schema([(name, kinds.get(kind, pyarrow.int64())) for name, kind in columns.items()])
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), folder / f"{table}.parquet")
    database.close()


def stacks(function: str) -> bytes:
    """Samples of a process that the trace has, as `capture` writes them."""
    lines = ['H {"schema": "gpuledger.samples/2", "pid": 1, "host": ""}', f'F [88, 80, "{function}", "/srv/data.py"]']
    return gzip.compress("\n".join(lines).encode())


def everything(folder: Path, word: str) -> Path:
    """One of each kind of file that a tool may open, and of what lies beside it."""
    folder.mkdir(parents=True)
    run = export(folder / "run.sqlite", word)
    with_log(folder / "log.sqlite", word)
    export(folder / "kept.sqlite", word)
    (folder / "kept.sqlite-journal").write_bytes(bytes(28) + word.encode() * 100)  # that nobody needs any more
    trace = gzip.compress(gzip.decompress(TRACE.read_bytes()).replace(b'"void ', f'"{word} '.encode()))
    for name in ("ours", "perf"):
        (folder / f"{name}.json.gz").write_bytes(trace)
        manifest = {"schema": "gpuledger.capture/1", "files": [{"name": f"{name}.json.gz", "bytes": len(trace)}]}
        (folder / f"{name}.capture.json").write_text(json.dumps(manifest | {"plain": {"reason": word}}))
    (folder / "ours.samples.gz").write_bytes(stacks(word))
    (folder / "perf.perf.txt").write_text(f"python 1/1 1.000000:\n\t7f {word} (/lib/{word}.so)\n\n")
    as_parquet(run, folder / "tables")
    unpacked_snapshots(folder, ["leak.pickle"])
    add_run([str(run)], folder / "store", RunFacts(word, "2026-01-01T00:00:00.000Z"))
    (folder / "csv").mkdir()
    rocprof_csv(folder / "csv" / "run_kernel_trace.csv")
    (folder / "printed").mkdir()
    (folder / "printed" / "run_cuda_gpu_kern_sum.csv").write_text(f"Time (%),Instances,Name\n1,3,{word}\n")
    (folder / "report.nsys-rep").write_bytes(of_export(run))
    (folder / "pyproject.toml").write_text(f'[tool.gpuledger.families]\n"{word}" = [".*"]\n')
    return folder
