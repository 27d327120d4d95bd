"""The readers' definitions: what a value that is odd, or is not there, is taken for."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gpuledger import Table, open_trace
from gpuledger.trace.spans import Span
from support.profiles.nsys_exports import PID, call, kernel, minimal, push
from support.profiles.torch_traces import CALL, KERNEL, KERNEL_ARGS, saved
from support.traces.trace_notation import columns_of


def altered(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return path


def with_two_gpus(path: Path, *mapping: tuple[int, int, int]) -> Path:
    """(GPU, device number, process) of each process that the export knows."""
    return altered(
        path,
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, cuDevice INTEGER, smCount INTEGER)",
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'first', 0, 132), (1, 'second', 1, 132)",
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)",
        *(f"INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES {row}" for row in mapping),
    )


# Nsight Systems


@pytest.mark.parametrize(("began", "last_call", "moved"), [(5_000, 90, True), (40, 90, False), (5_000, 5_010, False)])
def test_ranges_on_the_hosts_clock_are_moved_where_no_other_clock_has_such_times(
    tmp_path: Path, began: int, last_call: int, moved: bool
) -> None:
    """A recording of 100 ns. On a host that had just started, a range of then may as well be of the recording.

    And where calls have such times too, that is how the recording counts.
    """
    times = [(0, 50), (began + 20, began + 90), (began + 20, None), (began + 101, began + 102)]
    path = altered(
        minimal(
            tmp_path / "a.sqlite",
            NVTX=[push(*each, "r") for each in times],
            KERNEL=[kernel(30, 95)],
            RUNTIME=[call(last_call, last_call + 5)],
        ),
        "CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER, duration INTEGER, startTime INTEGER, stopTime INTEGER)",
        f"INSERT INTO ANALYSIS_DETAILS VALUES (0, 100, {began}, {began + 100})",
    )
    ranges = open_trace(path)[Table.RANGES]
    assert ranges["start_ns"].tolist()[:3] == ([0, 20, 20] if moved else [start for start, _ in times[:3]])
    assert ranges["start_ns"].tolist()[3] == began + 101  # of no time that the recording lasted


@pytest.mark.parametrize(("recorded", "lasts"), [(None, 5_000), (60, 95), (700, 700), (9_000, 5_000)])
def test_a_call_that_sleeps_on_when_the_recording_is_over_does_not_make_it_longer(
    tmp_path: Path, recorded: int | None, lasts: int
) -> None:
    """The last work on the GPU ends after 95 ns, which a recording of 60 ns holds too; the call returns after 5 us."""
    path = minimal(
        tmp_path / "a.sqlite",
        KERNEL=[kernel(30, 95)],
        OSRT=[call(0, 20, eventClass=27), call(40, 5_000, eventClass=27)],
    )
    if recorded is not None:
        altered(
            path,
            "CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER, duration INTEGER, startTime INTEGER, stopTime INTEGER)",
            f"INSERT INTO ANALYSIS_DETAILS VALUES (0, {recorded}, 100, {100 + recorded})",
        )
    span = open_trace(path).span
    assert isinstance(span, Span)
    assert (span.start_ns, span.end_ns) == (0, lasts)


def test_a_process_with_one_gpu_works_on_that_one_whatever_its_number(tmp_path: Path) -> None:
    """All work says device 0, and the process is listed with device 3 of the second GPU alone."""
    path = with_two_gpus(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2, deviceId=0)]), (1, 3, 100))
    assert open_trace(path)[Table.KERNELS]["gpu"].tolist() == [1]


def test_a_process_with_two_gpus_is_taken_at_its_word(tmp_path: Path) -> None:
    path = with_two_gpus(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2, deviceId=0)]), (1, 3, 100), (0, 4, 100))
    assert open_trace(path)[Table.KERNELS]["gpu"].tolist() == [0]


def test_work_that_does_not_say_its_gpu_ran_on_the_only_one_of_its_process(tmp_path: Path) -> None:
    """The second process runs on both GPUs; the first one, of which a kernel says nothing, on the second GPU."""
    other = PID + (1 << 24)
    rows = [
        kernel(1, 2, deviceId=-1),
        kernel(3, 4, deviceId=0, globalPid=other),
        kernel(5, 6, deviceId=1, globalPid=other),
    ]
    path = with_two_gpus(minimal(tmp_path / "a.sqlite", KERNEL=rows), (1, 0, 100), (0, 0, 101), (1, 1, 101))
    trace = open_trace(path)
    assert trace[Table.KERNELS]["gpu"].tolist() == [1, 0, 1]
    assert len(trace.origin.gpus) == 2


def test_a_cuda_call_without_a_class_is_the_runtimes(tmp_path: Path) -> None:
    """Of a class that nobody knows it is the driver's."""
    path = minimal(tmp_path / "a.sqlite", RUNTIME=[call(1, 2), call(3, 4, eventClass=1), call(5, 6, eventClass=99)])
    assert open_trace(path)[Table.CALLS].texts("layer") == ["runtime", "driver", "driver"]
    without = altered(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN eventClass")
    assert open_trace(without)[Table.CALLS].texts("layer") == ["runtime"] * 3


def test_a_call_of_the_system_without_a_class_is_a_call_if_it_takes_time(tmp_path: Path) -> None:
    """Those of class 31 and 32 mark where tracing began and ended, and take none in any recording."""
    marks = [call(3, 4, eventClass=31), call(5, 5, eventClass=31), call(7, 7, eventClass=32)]
    path = minimal(tmp_path / "a.sqlite", OSRT=[call(1, 2, eventClass=27), *marks])
    assert columns_of(open_trace(path)[Table.CALLS], "start_ns", "layer") == [(1, "os")]
    without = altered(path, "ALTER TABLE OSRT_API DROP COLUMN eventClass")
    assert columns_of(open_trace(without)[Table.CALLS], "start_ns", "layer") == [(1, "os"), (3, "os")]


def test_node_0_is_no_node_of_a_graph(tmp_path: Path) -> None:
    rows = [kernel(1, 2, graphNodeId=0), kernel(3, 4, graphNodeId=6)]
    kernels = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=rows))[Table.KERNELS]
    assert kernels["graph_node"].tolist() == [-1, 6]


def test_the_gpu_of_a_sample_is_the_lowest_byte_of_its_type(tmp_path: Path) -> None:
    """GPU 17 of a machine with many."""
    path = altered(
        minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 2)]),
        "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)",
        "INSERT INTO TARGET_INFO_GPU VALUES (1, 'second'), (17, 'eighteenth')",
        "CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, metricId INTEGER, metricName TEXT)",
        "INSERT INTO TARGET_INFO_GPU_METRICS VALUES (1041, 3, 'SMs Active [Throughput %]')",
        "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER)",
        "INSERT INTO GPU_METRICS VALUES (5, 1041, 3, 97)",
    )
    trace = open_trace(path, only=tuple(Table))
    [gpu] = trace[Table.METRICS]["gpu"].tolist()
    assert trace.origin.gpus[gpu].name == "eighteenth"


# torch.profiler


@pytest.mark.parametrize("numbers", [(-1, -1, -1), (0, 0, 0)], ids=["not numbered", "all 0"])
def test_kernels_of_a_graph_launch_are_numbered_in_order(numbers: tuple[int, ...], tmp_path: Path) -> None:
    launch = CALL | {"name": "cudaGraphLaunch", "args": {"correlation": 5}}
    nodes = [
        KERNEL | {"ts": 30 + 10 * at, "args": KERNEL_ARGS | {"graph node id": number}}
        for at, number in enumerate(numbers)
    ]
    alone = [CALL | {"args": {"correlation": 6}}, KERNEL | {"ts": 90, "args": KERNEL_ARGS | {"correlation": 6}}]
    kernels = open_trace(saved(tmp_path / "a.json", [launch, *nodes, *alone]))[Table.KERNELS]
    assert kernels["graph_node"].tolist() == [1, 2, 3, -1]


@pytest.mark.parametrize(("device_type", "place"), [(0, "Pageable"), (1, "Device"), (6, "Device")])
def test_memory_of_cuda_and_of_hip_is_a_gpus(device_type: int, place: str, tmp_path: Path) -> None:
    memory = {"Bytes": -512, "Device Id": 0, "Device Type": device_type, "Addr": 64}
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 10, "ts": 5, "args": memory}
    rows = [CALL | {"args": {"correlation": 5}}, KERNEL | {"args": KERNEL_ARGS}, event]
    allocs = open_trace(saved(tmp_path / "a.json", rows), only=tuple(Table))[Table.ALLOCS]
    gpu = 0 if place == "Device" else -1
    assert columns_of(allocs, "operation", "bytes", "memory_kind", "gpu") == [("Deallocation", 512, place, gpu)]
