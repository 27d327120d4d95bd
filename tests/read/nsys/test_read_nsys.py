"""The nsys reader: what it makes of exports old and new, whole and odd."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from gpuledger import GpuledgerError, Limits, Severity, Table, Trace, UnreadableProfile, build_report, open_trace
from gpuledger.present.views.report_parts import verdict
from support.profiles.nsys_exports import PID, TID, call, insert, kernel, minimal, push
from support.traces.trace_notation import columns_of


def codes(trace: Trace) -> dict[str, int]:
    return {note.code: note.count for note in trace.health}


def altered(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return path


def test_kernels_come_with_their_columns(tmp_path: Path) -> None:
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9, gridX=2, graphNodeId=8)]))
    kernels = trace[Table.KERNELS]
    assert columns_of(kernels, "start_ns", "end_ns", "name", "pid", "stream", "graph_node") == [(5, 9, "k", 100, 7, 8)]
    assert kernels["grid"].tolist() == [[2, 1, 1]]
    assert kernels.duration_ns.tolist() == [4]
    assert trace.health == ()


def test_columns_are_read_only(tmp_path: Path) -> None:
    kernels = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9)]))[Table.KERNELS]
    with pytest.raises(ValueError, match="read-only"):
        kernels["start_ns"][0] = 1


def test_an_absent_table_is_not_measured_rather_than_empty(tmp_path: Path) -> None:
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9)]))
    assert len(trace[Table.CALLS]) == 0
    missing = trace.missing(Table.KERNELS, Table.CALLS)
    assert missing is not None
    assert "CUPTI_ACTIVITY_KIND_RUNTIME" in missing.reason
    assert trace.missing(Table.KERNELS) is None


def test_only_what_was_asked_for_is_read(tmp_path: Path) -> None:
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9)], RUNTIME=[call(1, 2)]), only=[Table.CALLS])
    assert len(trace[Table.CALLS]) == 1
    with pytest.raises(KeyError, match="kernels was not read"):
        trace[Table.KERNELS]


@pytest.mark.parametrize("suffix", ["_V2", "_V3", "_V11"])
def test_renamed_tables_are_found(tmp_path: Path, suffix: str) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9)])
    altered(path, f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL{suffix}")
    assert len(open_trace(path)[Table.KERNELS]) == 1


def test_the_newest_of_several_versions_counts(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9)])
    with sqlite3.connect(path) as database:
        insert(
            database, "CUPTI_ACTIVITY_KIND_KERNEL", [kernel(1, 2), kernel(3, 4)], name="CUPTI_ACTIVITY_KIND_KERNEL_V3"
        )
    database.close()
    assert len(open_trace(path)[Table.KERNELS]) == 2


def test_a_table_may_lack_every_optional_column_and_have_strange_ones(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite")
    altered(
        path,
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (strange TEXT, end INTEGER, start INTEGER, demangledName INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('x', 9, 5, 1)",
    )
    kernels = open_trace(path)[Table.KERNELS]
    assert columns_of(kernels, "start_ns", "end_ns", "name", "short_name", "pid", "gpu") == [(5, 9, "k", None, -1, 0)]


def test_a_table_without_a_required_column_is_left_out_and_named(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9)])
    altered(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN start TO begin")
    trace = open_trace(path)
    assert codes(trace) == {"table-unusable": 1}
    assert trace.absent[Table.KERNELS].reason == "table CUPTI_ACTIVITY_KIND_KERNEL has no column start"


def test_a_view_in_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", RUNTIME=[call(1, 2)])
    endless = (
        "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start FROM n)"
        " SELECT start, start AS end, 1 AS demangledName FROM n"
    )
    altered(path, f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    trace = open_trace(path)
    assert Table.KERNELS in trace.absent


def test_rows_without_usable_times_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [kernel(5, 9), kernel("soon", 9), kernel(7, 9.5), kernel(9, 9)]
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=rows))
    assert trace[Table.KERNELS]["start_ns"].tolist() == [5, 9]
    [note] = trace.health
    assert (note.code, note.count, note.severity) == ("rows-dropped", 2, Severity.LOSS)
    assert "2 rows of CUPTI_ACTIVITY_KIND_KERNEL have no usable start or end or demangledName" in note.sentence


def test_other_values_that_are_no_numbers_count_as_not_recorded(tmp_path: Path) -> None:
    rows = [kernel(5, 9, deviceId="zero"), kernel(7, 9, gridX=1.5), kernel(8, 9, gridX=2**40)]
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=rows))
    assert columns_of(trace[Table.KERNELS], "start_ns", "device") == [(5, -1), (7, 0), (8, 0)]
    assert trace[Table.KERNELS]["grid"][:, 0].tolist() == [1, -1, -1]
    assert codes(trace) == {"values-unusable": 3, "gpu-not-recorded": 1}


def test_how_many_rows_there_are_does_not_depend_on_the_columns_read(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9, gridX="x"), kernel("x", 9), kernel(1, 2)])
    for columns in (["name"], ["grid"], ["gpu", "pid", "name", "registers"]):
        kernels = open_trace(path, only={Table.KERNELS: columns})[Table.KERNELS]
        assert kernels["start_ns"].tolist() == [5, 1]
        assert all(column in kernels for column in columns)
        assert "context" not in kernels
        with pytest.raises(KeyError, match="column context was not read"):
            kernels["context"]


def test_columns_read_alone_equal_those_read_together(decode: Path) -> None:
    whole = open_trace(decode)
    for table in (Table.KERNELS, Table.CALLS, Table.RANGES):
        for column in table.schema.columns:
            alone = open_trace(decode, only={table: [column.name]})[table]
            if column.name in ("name", "short_name", "mangled_name", "layer", "kind", "domain"):
                assert alone.texts(column.name) == whole[table].texts(column.name)
            else:
                assert np.array_equal(alone[column.name], whole[table][column.name]), column.name


def test_an_unknown_column_is_a_mistake_of_the_caller(decode: Path) -> None:
    with pytest.raises(ValueError, match="kernels has no column colour"):
        open_trace(decode, only={Table.KERNELS: ["colour"]})


def test_a_null_where_one_is_required_drops_the_row(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite")
    altered(
        path,
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, demangledName INTEGER)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1), (NULL, 3, 1), (4, NULL, 1)",
    )
    trace = open_trace(path)
    assert len(trace[Table.KERNELS]) == 1
    assert codes(trace) == {"rows-dropped": 2, "gpu-not-recorded": 1, "links-missing": 1}


def test_times_that_run_backward_are_kept_and_doubted(tmp_path: Path) -> None:
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(9, 5)]))
    assert trace[Table.KERNELS].duration_ns.tolist() == [-4]
    assert codes(trace) == {"times-backward": 1}


@pytest.mark.parametrize("lost", [77, 2**40, -5, 2**62 - 1])
def test_a_name_that_the_export_lost_shows_its_number(tmp_path: Path, lost: int) -> None:
    """Whatever the number: that ids are counted up from 0 is usual, no more."""
    both = [kernel(5, 9, demangledName=lost), kernel(10, 12)]
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=both))
    known = open_trace(minimal(tmp_path / "b.sqlite", KERNEL=both[1:]))[Table.KERNELS].texts("name")
    assert trace[Table.KERNELS].texts("name") == [f"[string {lost} is not in the export]", *known]
    assert codes(trace) == {"names-missing": 1}


def test_bytes_that_are_no_utf8_stay_apart_and_visible(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2), kernel(3, 4, demangledName=3)])
    altered(
        path,
        "UPDATE StringIds SET value = CAST(x'6bff' AS TEXT) WHERE id = 1",
        "UPDATE StringIds SET value = CAST(x'6bfe' AS TEXT) WHERE id = 3",
    )
    trace = open_trace(path)
    assert trace[Table.KERNELS].texts("name") == ["k\\xff", "k\\xfe"]
    assert codes(trace) == {"names-not-utf8": 2}


def test_an_endless_name_is_cut(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)])
    altered(path, "UPDATE StringIds SET value = printf('%.*c', 3000, 'k') WHERE id = 1")
    trace = open_trace(path, limits=Limits(text_bytes=1000))
    [name] = trace[Table.KERNELS].texts("name")
    assert name == "k" * 1000 + "..."
    assert codes(trace) == {"names-cut": 1}


def test_too_many_rows_are_refused(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)] * 5)
    with pytest.raises(UnreadableProfile, match="more than 3 rows"):
        open_trace(path, limits=Limits(rows_per_table=3))


def test_reading_stops_at_its_deadline(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)] * 5_000)
    with pytest.raises(UnreadableProfile, match="took more than 0 s"):
        open_trace(path, limits=Limits(read_seconds=0))


def test_calls_of_all_layers_are_one_table(tmp_path: Path) -> None:
    path = minimal(
        tmp_path / "a.sqlite",
        RUNTIME=[call(1, 2, eventClass=0), call(2, 3, eventClass=1)],
        OSRT=[call(3, 4, eventClass=27), call(4, 4, eventClass=31)],
    )
    calls = open_trace(path)[Table.CALLS]
    assert columns_of(calls, "start_ns", "layer", "correlation", "tid") == [
        (1, "runtime", 1, 100),
        (2, "driver", 1, 100),
        (3, "os", -1, 100),
    ]


def test_correlation_ids_of_two_hosts_stay_apart(tmp_path: Path) -> None:
    elsewhere = 2 << 48 | 100 << 24
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2), kernel(1, 2, globalPid=elsewhere)])
    assert open_trace(path)[Table.KERNELS]["pid"].tolist() == [100, 1 << 24 | 100]


def test_copies_take_nvidias_labels_or_the_built_in_ones(tmp_path: Path) -> None:
    copy = {"start": 1, "end": 2, "bytes": 64, "copyKind": 1, "srcKind": 0, "dstKind": 2, "globalPid": PID}
    path = minimal(tmp_path / "a.sqlite", MEMCPY=[copy, copy | {"copyKind": 99}], MEMSET=[copy])
    trace = open_trace(path)
    assert columns_of(trace[Table.COPIES], "kind", "bytes", "src_kind", "dst_kind") == [
        ("Host-to-Device", 64, "Pageable", "Device"),
        (None, 64, "Pageable", "Device"),
        ("Memset", 64, None, None),
    ]
    assert codes(trace) == {"copy-kind-unknown": 1, "links-missing": 1}


@pytest.mark.parametrize(
    ("row", "kind"), [((1, "H2D"), "H2D"), ((1, None), "Host-to-Device"), ((2, "D2H"), "Host-to-Device")]
)
def test_a_label_that_the_export_leaves_out_is_the_built_in_one(
    tmp_path: Path, row: tuple[int, str | None], kind: str
) -> None:
    copy = {"start": 1, "end": 2, "bytes": 64, "copyKind": 1, "srcKind": 0, "dstKind": 2, "globalPid": PID}
    path = minimal(tmp_path / "a.sqlite", MEMCPY=[copy])
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT)")
        database.execute("INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (?, 'x', ?)", row)
    database.close()
    assert open_trace(path)[Table.COPIES].texts("kind") == [kind]


def test_ranges_nest_per_thread(tmp_path: Path) -> None:
    rows = [
        push(0, 100, "a"),
        push(10, 50, "b"),
        push(20, 30, "c"),
        push(15, 40, "other", globalTid=TID + 1),
        push(60, 70, "d"),
    ]
    ranges = open_trace(minimal(tmp_path / "a.sqlite", NVTX=rows))[Table.RANGES]
    assert columns_of(ranges, "name", "depth", "parent") == [
        ("a", 0, -1),
        ("b", 1, 0),
        ("c", 2, 1),
        ("other", 0, -1),
        ("d", 1, 0),
    ]


def test_range_texts_inline_registered_and_absent(tmp_path: Path) -> None:
    rows = [push(0, 1, "in line"), push(0, 1, None, textId=3), push(0, 1, "loses", textId=3), push(0, 1, None)]
    ranges = open_trace(minimal(tmp_path / "a.sqlite", NVTX=rows))[Table.RANGES]
    assert ranges.texts("name") == ["in line", "q", "q", None]


def test_domains_are_named_by_their_process_earliest_first(tmp_path: Path) -> None:
    other = TID + (1 << 24)
    rows = [
        push(-1, None, "late", eventType=75, domainId=1),
        push(-9, None, "NCCL", eventType=75, domainId=1),
        push(-5, None, "theirs", eventType=75, domainId=1, globalTid=other),
        push(0, 1, "a", domainId=1),
        push(0, 1, "b", domainId=1, globalTid=other),
        push(0, 1, "c", domainId=2),
        push(0, 1, "d", domainId=None),
    ]
    ranges = open_trace(minimal(tmp_path / "a.sqlite", NVTX=rows))[Table.RANGES]
    assert columns_of(ranges, "name", "domain") == [("a", "NCCL"), ("b", "theirs"), ("c", None), ("d", "")]


def test_open_ranges_end_with_the_last_event_and_are_counted(tmp_path: Path) -> None:
    rows = [push(0, None, "open"), push(3, 8, "a"), push(11, None, "mark", eventType=34)]
    trace = open_trace(minimal(tmp_path / "a.sqlite", NVTX=rows))
    assert columns_of(trace[Table.RANGES], "name", "kind", "end_ns", "open") == [
        ("open", "push_pop", 11, True),
        ("a", "push_pop", 8, False),
        ("mark", "mark", 11, False),
    ]
    assert codes(trace) == {"ranges-open": 1}


def test_an_empty_table_of_ranges_is_not_one_that_nsys_writes(tmp_path: Path) -> None:
    export = minimal(tmp_path / "a.sqlite", NVTX=[push(0, 10, "a")])
    altered(export, "DELETE FROM NVTX_EVENTS")
    assert codes(open_trace(export)) == {"ranges-gone": 1}


@pytest.mark.parametrize(
    "change", ["ALTER TABLE NVTX_EVENTS RENAME COLUMN text TO other", "UPDATE NVTX_EVENTS SET text = NULL"]
)
def test_ranges_without_a_name_are_missed(tmp_path: Path, change: str) -> None:
    """Marks need none: those of Python samples carry a stack."""
    export = minimal(tmp_path / "a.sqlite", NVTX=[push(0, 10, "a"), push(3, 8, "b"), push(5, None, "c", eventType=34)])
    altered(export, change)
    assert codes(open_trace(export)) == {"ranges-unnamed": 2}


def test_a_few_ranges_without_a_name_are_the_programs_own(tmp_path: Path) -> None:
    rows = [push(0, 10, "a"), push(3, 8, None), push(12, 14, "b")]
    assert codes(open_trace(minimal(tmp_path / "a.sqlite", NVTX=rows))) == {}


def gpu_tables(path: Path, *mapping: tuple[int, int, int]) -> None:
    altered(
        path,
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER, smCount INTEGER)",
        "INSERT INTO TARGET_INFO_GPU VALUES (1, 'second', 1, 132), (0, 'first', 0, 132)",
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)",
        *(f"INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES {row}" for row in mapping),
    )


def test_two_ranks_that_both_see_device_0_are_on_two_gpus(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2), kernel(1, 2, globalPid=PID + (1 << 24))])
    gpu_tables(path, (0, 0, 100), (1, 0, 101))
    trace = open_trace(path)
    assert trace[Table.KERNELS]["gpu"].tolist() == [0, 1]
    assert [gpu.name for gpu in trace.origin.gpus] == ["first", "second"]
    assert trace.health == ()


def test_two_processes_on_one_gpu_are_on_one_gpu(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2), kernel(1, 2, globalPid=PID + (1 << 24), deviceId=1)])
    gpu_tables(path, (1, 0, 100), (1, 1, 101))
    assert open_trace(path)[Table.KERNELS]["gpu"].tolist() == [1, 1]


def described(path: Path, *rows: str, mapping: tuple[str, ...] = ()) -> Path:
    """The GPUs of a machine as an export lists them: id, name, cuDevice, uuid; and (gpuId, cudaId, pid, uuid)."""
    altered(
        path,
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER, uuid TEXT, smCount INTEGER)",
        *(f"INSERT INTO TARGET_INFO_GPU VALUES ({row}, 132)" for row in rows),
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT)",
        *(f"INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES ({row})" for row in mapping),
    )
    return path


@pytest.mark.parametrize(("places", "names"), [(("61", "01"), "ba"), (("01", "01"), "ab"), (("61", ""), "ab")])
def test_gpus_are_numbered_as_nvidia_smi_numbers_them(places: tuple[str, str], names: str, tmp_path: Path) -> None:
    """It was: 'GPU 3' for what everybody calls 1, as `id` is in no order that anybody sees."""
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2), kernel(3, 4, deviceId=1)])
    first, second = (f"'0000:{place}:00.0'" if place else "NULL" for place in places)
    altered(
        path,
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER, busLocation TEXT)",
        f"INSERT INTO TARGET_INFO_GPU VALUES (0, 'a', 1, {first}), (1, 'b', 0, {second})",
    )
    trace = open_trace(path)
    assert "".join(gpu.name for gpu in trace.origin.gpus) == names
    assert "".join(names[gpu] for gpu in trace[Table.KERNELS]["gpu"].tolist()) == "ba"


@pytest.mark.parametrize("ordinal", [0, 1, 7])
@pytest.mark.parametrize("noted", ["NULL", "0"])
def test_the_only_gpu_of_an_export_is_the_one_that_worked(noted: str, ordinal: int, tmp_path: Path) -> None:
    """Work is not put on an unknown GPU beside an idle one with a name."""
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2, deviceId=ordinal)])
    trace = open_trace(described(path, f"3, 'one', {noted}, ''"))
    assert trace[Table.KERNELS]["gpu"].tolist() == [0]
    assert [gpu.name for gpu in trace.origin.gpus] == ["one"]
    assert trace.health == ()


def test_a_gpu_that_has_another_number_is_known_by_its_uuid(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2), kernel(1, 2, deviceId=1)])
    mapping = ("90, 0, 100, 'GPU-BB'", "91, 1, 100, 'GPU-AA'")
    trace = open_trace(described(path, "0, 'a', NULL, 'aa'", "1, 'b', NULL, 'bb'", mapping=mapping))
    assert trace[Table.KERNELS]["gpu"].tolist() == [1, 0]
    assert trace.health == ()


@pytest.mark.parametrize("noted", ["NULL", "0"])
def test_gpus_that_are_alike_are_taken_in_their_order(noted: str, tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2, deviceId=1), kernel(3, 4)])
    trace = open_trace(described(path, f"0, 'a', {noted}, ''", f"1, 'a', {noted}, ''"))
    assert trace[Table.KERNELS]["gpu"].tolist() == [1, 0]
    assert len(trace.origin.gpus) == 2
    assert codes(trace) == {"gpus-by-place": 1 + 1}


def test_what_cannot_be_known_is_said(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2, deviceId=1), kernel(3, 4)])
    trace = open_trace(described(path, "0, 'a', NULL, ''", "1, 'b', NULL, ''"))
    assert [gpu.name for gpu in trace.origin.gpus] == ["a", "b", "unknown GPU", "unknown GPU"]
    assert set(trace[Table.KERNELS]["gpu"].tolist()) == {2, 3}
    assert codes(trace) == {"gpus-unknown": 2}


def test_two_gpus_at_work_are_not_merged_into_the_one_described(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2, deviceId=1), kernel(3, 4)])
    trace = open_trace(described(path, "0, 'a', 0, ''"))
    assert trace[Table.KERNELS]["gpu"].tolist() == [1, 0]
    assert codes(trace) == {"gpus-unknown": 1}


def test_device_numbers_taken_at_their_word_are_said_to_be(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2), kernel(1, 2, globalPid=PID + (1 << 24), deviceId=3)])
    trace = open_trace(path)
    assert trace[Table.KERNELS]["gpu"].tolist() == [0, 1]
    assert [gpu.name for gpu in trace.origin.gpus] == ["unknown GPU", "unknown GPU"]
    assert codes(trace) == {"gpus-assumed": 2}


def test_graphs_traced_whole_are_a_table_and_a_warning(tmp_path: Path) -> None:
    path = minimal(
        tmp_path / "a.sqlite", GRAPH_TRACE=[{"start": 1, "end": 9, "globalPid": PID, "correlationId": 1, "graphId": 4}]
    )
    trace = open_trace(path)
    assert columns_of(trace[Table.GRAPHS], "start_ns", "end_ns", "graph") == [(1, 9, 4)]
    assert codes(trace) == {"graphs-opaque": 1}
    said = str(verdict(build_report(trace)))
    assert said.endswith("100.0 % of the time is CUDA graphs traced as a whole: their kernels were not recorded.")


def test_rows_waiting_in_a_write_ahead_log_are_read_and_nothing_is_written(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)])
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    insert(writer, "CUPTI_ACTIVITY_KIND_KERNEL", [kernel(3, 4)])
    writer.commit()
    before = sorted(os.listdir(tmp_path))
    assert "a.sqlite-wal" in before
    assert len(open_trace(path)[Table.KERNELS]) == 2
    assert sorted(os.listdir(tmp_path)) == before
    writer.close()
    assert sorted(os.listdir(tmp_path)) == ["a.sqlite"]
    assert len(open_trace(path)[Table.KERNELS]) == 2  # WAL mode, but no log: nothing may appear beside it
    assert sorted(os.listdir(tmp_path)) == ["a.sqlite"]


def test_a_hot_journal_means_an_export_under_way(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)] * 3000)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN EXCLUSIVE")
    insert(writer, "CUPTI_ACTIVITY_KIND_KERNEL", [kernel(3, 4)] * 3000)
    with pytest.raises(UnreadableProfile, match="interrupted, or is still running"):
        open_trace(path, limits=Limits(read_seconds=20))
    writer.rollback()
    writer.close()


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_other_encodings_of_sqlite_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA encoding = '{encoding}'")
        insert(database, "StringIds", [{"id": 1, "value": "känguru"}])
        insert(database, "CUPTI_ACTIVITY_KIND_KERNEL", [kernel(1, 2)])
    database.close()
    assert open_trace(path)[Table.KERNELS].texts("name") == ["känguru"]


@pytest.mark.parametrize("page", [512, 65536])
def test_any_page_size(tmp_path: Path, page: int) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA page_size = {page}")
        insert(database, "StringIds", [{"id": 1, "value": "k" * 5000}])
        insert(database, "CUPTI_ACTIVITY_KIND_KERNEL", [kernel(each, each + 1) for each in range(500)])
    database.close()
    assert np.array_equal(open_trace(path)[Table.KERNELS]["start_ns"], np.arange(500))


def test_the_order_of_rows_changes_no_table(tmp_path: Path) -> None:
    from gpuledger.analyse.recorded.nvidia_tables import cuda_gpu_kern_sum

    rows = [kernel(start, start + 3 * start % 7, demangledName=1 + start % 3) for start in range(40)]
    one = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=rows))
    other = open_trace(minimal(tmp_path / "b.sqlite", KERNEL=rows[::-1]))
    assert cuda_gpu_kern_sum(one) == cuda_gpu_kern_sum(other)


def test_every_cut_and_every_flip_is_refused_or_read(tmp_path: Path, decode: Path) -> None:
    """Damage never gives anything but a trace or one sentence."""
    whole = decode.read_bytes()
    generator = np.random.default_rng(1)
    refused = 0
    for attempt in range(60):
        damaged = bytearray(whole)
        if attempt % 2:
            del damaged[int(generator.integers(1, len(whole))) :]
        else:
            for at in generator.integers(0, len(whole), 40):
                damaged[at] ^= 1 << int(generator.integers(8))
        path = tmp_path / f"{attempt}.sqlite"
        path.write_bytes(damaged)
        try:
            open_trace(path, limits=Limits(read_seconds=20))
        except GpuledgerError as error:
            refused += error.claim.startswith(path.name)
    assert refused >= 30  # at least every truncated one


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (['RANK="3"', 'WORLD_SIZE="8"', 'SLURM_PROCID="5"'], (3, 8)),
        (['OMPI_COMM_WORLD_RANK="1"', 'OMPI_COMM_WORLD_SIZE="2"'], (1, 2)),
        (['RANK="x"', "WORLD_SIZE", 'MY_RANK="4"'], (None, None)),
        ([], (None, None)),
    ],
)
def test_the_rank_is_what_the_launcher_gave(
    variables: list[str], expected: tuple[int | None, ...], tmp_path: Path
) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(10, 20)])
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        database.executemany(
            "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)",
            [(each,) for each in variables],
        )
    database.close()
    origin = open_trace(path).origin
    assert (origin.rank, origin.world_size) == expected
