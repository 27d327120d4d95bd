"""AMD's profiles: one made run in five formats, what each lacks, an independent count of busy time, hostile bytes."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import random
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gpuledger.errors import GpuledgerError
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from support.command import ROOT, gpuledger
from support.profiles import rocm_files
from support.profiles.rocm_files import BUSY_NS, CALLS, COPIES, KERNELS, MADE, PID, RANGE

CORPUS = ROOT.parent / "shared" / "corpus" / "rocm"


def _busy_ns(device: Device) -> int:
    """Of the books: what is on no line of idle time."""
    books = device.ledger
    lines = [place for place, line in enumerate(books.lines) if not line.startswith("idle")]
    return int(books.books[:, lines].sum())


@pytest.fixture(scope="module", params=MADE)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, MADE[request.param](tmp_path_factory.mktemp("rocm") / "run")


@pytest.fixture(scope="module")
def trace(made: tuple[str, Path]) -> Trace:
    return open_trace(made[1], only=tuple(Table), cache=False)


def test_kernels_are_those_of_the_run(trace: Trace) -> None:
    columns = ("start_ns", "end_ns", "gpu", "stream", "correlation")
    read = zip(trace.kernels.texts("name"), *(trace.kernels[name].tolist() for name in columns), strict=True)
    assert sorted(read) == sorted(KERNELS)
    assert set(trace.kernels["pid"].tolist()) == {PID}


def test_copies_are_those_of_the_run(made: tuple[str, Path], trace: Trace) -> None:
    kind = {"HOST_TO_DEVICE": "Host-to-Device", "DEVICE_TO_HOST": "Device-to-Host"}
    columns = ("start_ns", "end_ns", "gpu", "stream", "correlation", "bytes")
    read = zip(trace.copies.texts("kind"), *(trace.copies[name].tolist() for name in columns), strict=True)
    has_bytes = made[0] in ("rocpd", "rpd", "json")
    expected = [(kind[way], *rest, amount if has_bytes else -1) for way, *rest, amount in COPIES]
    assert sorted(read) == sorted(expected)


def test_calls_and_ranges_are_those_of_the_run(trace: Trace) -> None:
    columns = ("start_ns", "end_ns", "correlation")
    calls = zip(trace.calls.texts("name"), *(trace.calls[name].tolist() for name in columns), strict=True)
    assert sorted(calls) == sorted(CALLS)
    assert set(trace.calls.texts("layer")) == {"runtime"}
    ranges = zip(
        trace.ranges.texts("name"), trace.ranges["start_ns"].tolist(), trace.ranges["end_ns"].tolist(), strict=True
    )
    assert list(ranges) == [RANGE]


def test_launches_are_counted_in_blocks(made: tuple[str, Path], trace: Trace) -> None:
    if made[0] == "results.db":
        assert (trace.kernels["grid"] == -1).all()
    else:
        assert trace.kernels["grid"].tolist() == [[4, 4, 4]] * 3  # 1000 threads in blocks of 256
        assert trace.kernels["block"].tolist() == [[256, 256, 256]] * 3


def test_registers_shared_memory_allocations_and_counters(made: tuple[str, Path], trace: Trace) -> None:
    if made[0] not in ("rocpd", "json"):
        return
    assert set(trace.kernels["registers"].tolist()) == {32}
    assert set(trace.kernels["smem_static_bytes"].tolist()) == {32}
    assert set(trace.kernels["smem_dynamic_bytes"].tolist()) == {64}
    assert trace.allocs.texts("operation") == ["Allocation", "Deallocation"]
    assert trace.allocs["bytes"].tolist() == [1 << 20] * 2
    assert (trace.metrics.texts("name"), trace.metrics["value"].tolist()) == (["SQ_WAVES"], [7])
    assert trace.metrics["start_ns"].tolist() == [5_000]
    assert trace.origin.processes[0].name == "train"
    assert trace.origin.private.command[0] == "/x/train"


def test_gpus_are_described_where_the_profile_does(made: tuple[str, Path], trace: Trace) -> None:
    names = [gpu.name for gpu in trace.origin.gpus]
    known = made[0] in ("rocpd", "json", "csv")
    assert names == [rocm_files.GPU if known else "GPU, name not recorded"] * 2
    assert {gpu.sm_count for gpu in trace.origin.gpus} == {304 if known else None}


def test_busy_time_of_the_books_is_that_of_the_run(trace: Trace) -> None:
    devices = analyse_devices(trace, "run", Selection())
    assert {device.gpu: _busy_ns(device) for device in devices} == BUSY_NS


def test_nothing_was_lost(trace: Trace) -> None:
    assert [note.code for note in trace.health] == []


def test_two_processes_in_one_database(tmp_path: Path) -> None:
    path = rocm_files.rocpd(rocm_files.rocpd(tmp_path / "a.db"), "_00000a11_1111_2222_3333_444455556666", 77)
    trace = open_trace(path, cache=False)
    assert sorted(set(trace.kernels["pid"].tolist())) == [77, PID]
    assert len(trace.kernels) == 2 * len(KERNELS)
    assert len(trace.origin.gpus) == 2  # one machine: the same two


def test_the_monitor_of_rpd_gives_samples_and_its_own_work_is_overhead(tmp_path: Path) -> None:
    trace = open_trace(rocm_files.rpd(tmp_path / "a.rpd"), only=tuple(Table), cache=False)
    assert (trace.metrics.texts("name"), trace.metrics["value"].tolist()) == (["sclk [MHz]"], [1450])
    assert trace.overheads.texts("name") == ["OpTable::writeRows"]


def test_rows_without_times_are_counted(tmp_path: Path) -> None:
    path = rocm_files.rpd(tmp_path / "a.rpd")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE rocpd_op SET start = NULL WHERE id = 0")
    trace = open_trace(path, cache=False)
    assert len(trace.kernels) == 2
    assert [(note.code, note.count) for note in trace.health if note.code == "rows-dropped"] == [("rows-dropped", 1)]


def test_an_operation_of_a_kind_that_is_not_known_is_counted(tmp_path: Path) -> None:
    path = rocm_files.rpd(tmp_path / "a.rpd")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO rocpd_string VALUES (90, 'Barrier')")
        database.execute("INSERT INTO rocpd_op VALUES (50, 2, 1, 10, 20, 1, 90)")
    [note] = [note for note in open_trace(path, cache=False).health if note.code == "events-unknown"]
    assert (note.count, "Barrier" in note.sentence) == (1, True)


def test_kernels_of_a_graph_are_numbered(tmp_path: Path) -> None:
    path = rocm_files.results_db(tmp_path / "a.db")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE HIP SET Name = 'hipGraphLaunch' WHERE \"Index\" = 11")
        database.execute('UPDATE OPS SET "Index" = 11, "dev-id" = 2')
    assert open_trace(path, cache=False).kernels["graph_node"].tolist() == [1, 2, 3]


def test_rows_of_a_picture_are_no_processes_and_events_no_kernels(tmp_path: Path) -> None:
    """An old rocprof numbers the rows of its picture where later ones have the process, and notes barriers."""
    path = rocm_files.results_db(tmp_path / "a.db")
    kernels, processes = len(open_trace(path, cache=False).kernels), open_trace(path, cache=False).origin.processes
    with closing(sqlite3.connect(path)) as database, database:
        for table, row in (("HIP", 2), ("COPY", 1), ("OPS", 6), ("rocTX", 0)):
            database.execute(f"UPDATE {table} SET pid = {row}")
        database.execute('ALTER TABLE OPS ADD COLUMN "proc-id"')
        barrier = (
            "INSERT INTO OPS (BeginNs, EndNs, Name, pid, \"Index\") VALUES (950, 950, 'Unknown command type', 6, 99)"
        )
        database.execute(barrier)
        database.execute(f'UPDATE OPS SET "proc-id" = {rocm_files.PID}')
    trace = open_trace(path, cache=False)
    assert trace.origin.processes == processes
    assert len(trace.kernels) == kernels
    assert set(trace.kernels["pid"].tolist()) == set(trace.calls["pid"].tolist()) == {rocm_files.PID}


def test_kernels_alone_say_whose_they_are_and_what_records_calls(tmp_path: Path) -> None:
    """`info` said that no GPU work was recorded, of no process; the report that launches are missing, of none."""
    with closing(sqlite3.connect(tmp_path / "results.db")) as database, database:
        database.execute('CREATE TABLE KERN ("KernelName", "gpu-id", "queue-id", pid, BeginNs, EndNs)')
        rows = [("gemm.kd", 2, 0, 77, at, at + 300) for at in range(1_000, 9_000, 1_000)]
        database.executemany("INSERT INTO KERN VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.close()
    info = " ".join(gpuledger("info", tmp_path / "results.db").stdout.split())
    assert "· 1 process ·" in info
    assert "Good for a report: nothing was lost" in info
    report = gpuledger("report", tmp_path / "results.db").stdout
    assert "cannot be attributed: no call of the host was recorded\n     record with `rocprof --hip-trace`" in report


def test_hostile_bytes_give_a_trace_or_one_sentence(made: tuple[str, Path], tmp_path: Path) -> None:
    content, rng = made[1].read_bytes(), random.Random(5)
    path = tmp_path / "run_kernel_trace.csv"
    read, sentences = 0, list[str]()
    for _ in range(60):
        changed = bytearray(content)
        for place in (rng.randrange(len(changed)) for _ in range(rng.randrange(1, 9))):
            changed[place] = rng.choice((0, 9, 34, 48, 57, 91, 123, 125, 127, 255, rng.randrange(256)))
        path.write_bytes(changed[: rng.choice((len(changed), rng.randrange(1, len(changed))))])
        try:
            open_trace(path, only=tuple(Table), cache=False)
            read += 1
        except GpuledgerError as error:
            sentences.append(str(error))
    assert read
    assert not any("\n" in sentence for sentence in sentences)


def _union(spans: Iterable[tuple[int, int]]) -> int:
    """Busy time, counted here in plain Python and not with the project's arithmetic."""
    total, until = 0, -(2**62)
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def _spans_of(path: Path, scratch: Path) -> list[tuple[int, int]]:
    """What ran on GPUs, read with SQL, json or csv alone."""
    if path.name.endswith(".json.gz"):
        [process] = json.loads(gzip.decompress(path.read_bytes()))["rocprofiler-sdk-tool"]
        held = process["buffer_records"]
        records = [*held["kernel_dispatch"], *held["memory_copy"]]
        return [(record["start_timestamp"], record["end_timestamp"]) for record in records]
    if path.suffix == ".csv":
        with path.open() as file:
            return [(int(row["Start_Timestamp"]), int(row["End_Timestamp"])) for row in csv.DictReader(file)]
    database = scratch / "run.db"
    database.write_bytes(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes())
    with closing(sqlite3.connect(database)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = [name for name in names if re.match(r"rocpd_(kernel_dispatch|memory_copy)(_|$)|rocpd_op$", name)]
        return [row for table in tables for row in opened.execute(f'SELECT start, "end" FROM "{table}"')]


FILES = [path for path in sorted(CORPUS.glob("*")) if not path.name.endswith(".pftrace")] if CORPUS.is_dir() else []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[-30:])
def test_public_profiles_agree_with_an_independent_reading(path: Path, tmp_path: Path) -> None:
    spans = _spans_of(path, tmp_path)
    trace = open_trace(tmp_path / "run.db" if (tmp_path / "run.db").exists() else path, cache=False)
    work = [trace[table] for table in (Table.KERNELS, Table.COPIES)]
    assert sum(map(len, work)) == len(spans)
    starts, ends = (np.concatenate([rows[time] for rows in work]).tolist() for time in ("start_ns", "end_ns"))
    assert sorted(zip(starts, ends, strict=True)) == sorted(spans)
    [device] = analyse_devices(trace, path.name, Selection())
    assert _busy_ns(device) == _union(spans)
