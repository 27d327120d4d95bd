"""Samples of GPUs in an nsys export: names and GPUs are found, and what cannot be used is counted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuledger.read import open_trace
from gpuledger.read.nsys import finish
from gpuledger.sql.answer import ask
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import EVENTS, Table
from support.profiles.nsys_exports import kernel, minimal
from support.traces.trace_notation import columns_of

H200 = 1 << 48 | 1 << 32
"""The type of hardware of a host's first GPU; the next GPU's is one more."""
SAMPLES = "rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER"
Row = tuple[object, ...]


def export(
    path: Path,
    rows: Sequence[Row],
    names: Sequence[Row] = ((H200, 3, "SMs Active [Throughput %]"), (H200, 5, "Tensor Active [Throughput %]")),
    gpus: Sequence[Row] = ((0, "NVIDIA H200"),),
    columns: str = SAMPLES,
) -> Path:
    minimal(path, KERNEL=[kernel(100, 200)])
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)")
        database.executemany("INSERT INTO TARGET_INFO_GPU VALUES (?, ?)", gpus)
        database.execute("CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, metricId INTEGER, metricName TEXT)")
        database.executemany("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (?, ?, ?)", names)
        database.execute(f"CREATE TABLE GPU_METRICS ({columns})")
        places = ", ".join("?" * (columns.count(",") + 1))
        database.executemany(f"INSERT INTO GPU_METRICS VALUES ({places})", rows)
    database.close()
    return path


def opened(path: Path) -> Trace:
    return open_trace(path, only=tuple(Table))


def test_samples_have_their_names_and_gpus(tmp_path: Path) -> None:
    names = [(H200 + gpu, 3, "SMs Active [Throughput %]") for gpu in (0, 1)]
    rows = [(-50, -50, H200, 3, 0), (0, 0, H200 + 1, 3, 97), (50, 50, H200, 3, 98)]
    trace = opened(export(tmp_path / "a.sqlite", rows, names, gpus=((0, "A"), (1, "B"))))
    assert columns_of(trace["metrics"], "start_ns", "end_ns", "gpu", "name", "value") == [
        (-50, -50, 0, "SMs Active [Throughput %]", 0),
        (0, 0, 1, "SMs Active [Throughput %]", 97),
        (50, 50, 0, "SMs Active [Throughput %]", 98),
    ]
    assert trace.span == (100, 200)  # a GPU is sampled for longer than the program runs


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE GPU_METRICS",
        "DELETE FROM GPU_METRICS",
        "ALTER TABLE GPU_METRICS RENAME TO v; CREATE VIEW GPU_METRICS AS SELECT * FROM v",
    ],
)
def test_samples_that_are_gone_while_their_counters_are_named_are_told(tmp_path: Path, change: str) -> None:
    path = export(tmp_path / "a.sqlite", [(0, 0, H200, 3, 97)])
    assert "samples-lost" not in {note.code for note in opened(path).health}
    with sqlite3.connect(path) as database:
        database.executescript(change)
    database.close()
    [told] = [note for note in opened(path).health if note.code == "samples-lost"]
    assert told.sentence.startswith("2 GPU counters were sampled, but GPU_METRICS holds no sample")


def test_samples_of_a_gpu_that_is_not_described_are_judged_without_its_figures_which_is_told(tmp_path: Path) -> None:
    trace = opened(export(tmp_path / "a.sqlite", [(0, 0, H200, 3, 97)], gpus=()))
    told = [note.sentence for note in trace.health if note.code == "gpu-figures-not-recorded"]
    assert [sentence.split(" its GPUs")[0].split(" say ")[1] for sentence in told] == [
        "how many SMs",
        "what clock",
        "what memory bandwidth",
    ]


def test_nobody_reads_them_who_does_not_ask(tmp_path: Path) -> None:
    trace = open_trace(export(tmp_path / "a.sqlite", [(0, 0, H200, 3, 5)]))
    assert Table.METRICS not in EVENTS
    with pytest.raises(KeyError, match="metrics was not read"):
        trace["metrics"]
    assert dict(trace.origin.source_rows)["GPU_METRICS"] == 1


def test_what_is_asked_for_where_there_are_samples_is_read_only_there(tmp_path: Path) -> None:
    besides = {Table.METRICS: ["gpu", "name", "value"], Table.KERNELS: ["grid"]}
    sampled = export(tmp_path / "a.sqlite", [(0, 0, H200, 3, 5)])
    minimal(tmp_path / "b.sqlite", KERNEL=[kernel(100, 200)])
    with_samples, without = (
        open_trace(path, only={Table.KERNELS: ["name"]}, where_sampled=besides)
        for path in (sampled, tmp_path / "b.sqlite")
    )
    assert len(with_samples["metrics"]) == 1
    assert "grid" in with_samples["kernels"]
    assert "name" in with_samples["kernels"]
    assert Table.METRICS not in {**without.tables, **without.absent}
    assert "grid" not in without["kernels"]


def test_a_counter_without_a_name_shows_its_number(tmp_path: Path) -> None:
    trace = opened(export(tmp_path / "a.sqlite", [(0, 0, H200, 17, 5), (0, 0, 99, 3, 5)]))
    assert trace["metrics"].texts("name") == ["metric 17", "metric 3"]


def test_rows_with_nothing_in_them_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [(0, 0, H200, 3, 5), (1, None, H200, 3, 5), (2, 2, H200, 3, None), (3, 3, H200, None, 5), (4, 4, None, 3, 5)]
    trace = opened(export(tmp_path / "a.sqlite", rows))
    assert columns_of(trace["metrics"], "start_ns", "name") == [
        (0, "SMs Active [Throughput %]"),
        (4, "SMs Active [Throughput %]"),
    ]
    [note] = [note for note in trace.health if note.code == "rows-dropped"]
    assert note.count == 3


def test_a_table_without_values_is_left_out_and_named(tmp_path: Path) -> None:
    trace = opened(export(tmp_path / "a.sqlite", [(0, 0)], columns="timestamp INTEGER, metricId INTEGER"))
    assert trace.absent[Table.METRICS].reason == "table GPU_METRICS has no column value"


def test_a_table_without_hardware_is_of_the_only_gpu(tmp_path: Path) -> None:
    columns = "timestamp INTEGER, metricId INTEGER, value INTEGER"
    trace = opened(export(tmp_path / "a.sqlite", [(7, 5, 42)], columns=columns))
    assert columns_of(trace["metrics"], "start_ns", "gpu", "name", "value") == [
        (7, 0, "Tensor Active [Throughput %]", 42)
    ]


def test_numbers_that_mean_nothing_are_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "MOST_COUNTERS", 5)
    trace = opened(export(tmp_path / "a.sqlite", [(0, 0, H200, number, 5) for number in range(6)]))
    assert trace["metrics"].texts("name") == [None] * 6


def test_an_empty_table_is_empty(tmp_path: Path) -> None:
    assert len(opened(export(tmp_path / "a.sqlite", []))["metrics"]) == 0


def test_a_profile_without_samples_says_so(unpacked: Callable[[str], Path]) -> None:
    trace = opened(unpacked("attn.sqlite"))
    assert trace.absent[Table.METRICS].reason == "no metrics were recorded (looked for GPU_METRICS)"


def test_percent_that_cannot_be_are_counted(tmp_path: Path) -> None:
    rows = [(at, at, H200, 3, value) for at, value in enumerate((0, 100, 101, 3_159_572, -7))]
    rows.append((9, 9, H200, 5, 40))
    [note] = [note for note in opened(export(tmp_path / "a.sqlite", rows)).health if note.code == "metrics-implausible"]
    assert note.count == 3


def test_samples_that_are_all_negative_are_told_as_that(tmp_path: Path) -> None:
    rows = [(at, at, H200, 3, -1) for at in range(5)]
    [note] = [note for note in opened(export(tmp_path / "a.sqlite", rows)).health if note.code == "metrics-implausible"]
    assert note.count == 5
    answer = ask(opened(tmp_path / "a.sqlite"), None, "SELECT * FROM use")
    assert answer.not_measured == ("use is empty because no sample of GPU metrics can be used",)


@pytest.mark.parametrize("off_ns", [3_600 * 10**9, -3_600 * 10**9])
def test_samples_of_another_time_than_the_work_are_told_as_that(tmp_path: Path, off_ns: int) -> None:
    rows = [(at + off_ns, at + off_ns, H200, 3, 50) for at in range(5)]
    [note] = [note for note in opened(export(tmp_path / "a.sqlite", rows)).health if note.code == "samples-elsewhere"]
    assert note.sentence.startswith("5 samples of GPU counters were taken, none of them while the GPU worked")
