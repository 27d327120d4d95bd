"""What repeats in a run, and which of it is the step: tokens, updates, forwards of layers, an engine's own ranges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuledger.errors import NothingRecorded
from gpuledger.findings.profiled_run import diagnose
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.launched_in import LaunchedTime
from gpuledger.ledger.lost_work import waits_for_unrecorded
from gpuledger.ledger.step_variation import variation
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Rows, Table
from support.command import ROOT
from support.profiles.corpus import corpus_file
from support.traces.book_checks import analysed
from support.traces.program import Program

LAYER = ("norm", "gemm_qkv", "flash", "gemm_out", "norm", "gemm_up", "silu", "gemm_down")


def forward(program: Program, layers: int, us: int = 30) -> None:
    """Embedding, equal layers, the head; none of its kernels is the head's or the embedding's alone."""
    program.kernel("norm", us)
    for _ in range(layers):
        for kernel in LAYER:
            program.kernel(kernel, us)
    program.kernel("gemm_up", us)
    program.kernel("norm", us)


def only(trace: Trace, wanted: Selection | None = None) -> Device:
    [device] = analysed(trace, wanted)
    return device


def told(device: Device) -> tuple[int, str]:
    assert device.steps is not None
    return len(device.steps), str(device.steps.source)


@given(
    period=st.lists(st.sampled_from(("write", "read", "kernel", "pause")), min_size=2, max_size=4),
    has_kernels=st.lists(st.booleans(), min_size=3, max_size=12),
)
@example(period=["write", "kernel", "read"], has_kernels=[True, False, False, False])
def test_a_step_that_nothing_announces_holds_a_kernel(period: list[str], has_kernels: list[bool]) -> None:
    """Copies that happen to repeat are not told as more steps than there are kernels."""
    run = Program()
    run.kernel("first", 5)
    for has_kernel in has_kernels:
        for event in period:
            match event:
                case "kernel":
                    if has_kernel:
                        run.kernel("gemm", 20)
                case "pause":
                    run.host(30)
                case _:
                    getattr(run, event)()
    device = diagnose(run.trace(), "made", Selection()).main_device
    kernels = 1 + period.count("kernel") * sum(has_kernels)
    assert device.steps is None or 0.8 * device.step_count <= kernels


@given(layers=st.integers(2, 9), forwards=st.integers(3, 8), us=st.integers(6, 60))
def test_coverage_is_a_share_and_instances_hold_no_more_than_the_window(layers: int, forwards: int, us: int) -> None:
    program = Program()
    for number in range(forwards):
        with program.range(f"iteration {number}"):
            forward(program, layers, us)
    device = only(program.trace())
    assert told(device)[0] == forwards
    for level in device.levels:
        assert 0 < level.coverage <= 1
        assert level.count * level.median_ns <= 2 * device.ledger.window_ns


def test_the_profilers_steps_of_2021_are_found() -> None:
    path = corpus_file("resnet50_num_workers_0__worker0.pt.trace.json.gz")
    assert told(only_of(path)) == (6, "marked by torch's ProfilerStep")
    assert told(only_of(path, Selection(range_pattern="ProfilerStep")))[0] == 6


def only_of(path: Path, wanted: Selection | None = None) -> Device:
    [device] = analysed(path, wanted)
    return device


def test_operators_are_ranges_where_nothing_else_is_called_so() -> None:
    path = ROOT / "captures" / "torch" / "decode.json.gz"
    assert told(only_of(path, Selection(range_pattern="^aten::argmax$")))[0] == 21
    with pytest.raises(NothingRecorded, match="no range matches 'aten::absent'") as refused:
        only_of(path, Selection(range_pattern="aten::absent"))
    assert "aten::" in str(refused.value.found)


def test_the_first_of_each_stream_waits_for_what_was_not_recorded_however_many_wait() -> None:
    program = Program()
    with program.unrecorded():
        for stream in range(40):
            program.kernel("gemm", 5_000, stream=stream)
    for _ in range(3):
        for stream in range(40):
            program.kernel("gemm", 500, stream=stream)
    host, work = host_and_activities(program.trace())
    plain = {stream: int(np.flatnonzero(work.stream == stream)[0]) for stream in range(40)}
    waits = np.flatnonzero(waits_for_unrecorded(work, host, np.arange(len(work))))
    assert sorted(waits.tolist()) == sorted(plain.values())


def test_a_level_is_as_long_as_its_steps_are_told_to_be(unpacked: Callable[[str], Path]) -> None:
    [device] = analysed(unpacked("decode.sqlite"))
    [level] = [level for level in device.levels if level.name == "bench:decode"]
    varies = variation(device)
    assert varies is not None
    assert level.median_ns == varies.median_ns


def rows_of(table: Table, spans: list[tuple[int, int]]) -> Rows:
    columns = {"start_ns": [start for start, _ in spans], "end_ns": [end for _, end in spans], "pid": [1] * len(spans)}
    return Rows(table.schema, {name: np.array(values, np.int64) for name, values in columns.items()}, Strings(()))


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=12),
    st.sets(st.integers(0, 60), min_size=2, max_size=10),
    st.lists(st.integers(-1, 11), max_size=20),
)
def test_sums_over_launches_say_what_ranges_hold(
    calls: list[tuple[int, int]], edges: set[int], launches: list[int]
) -> None:
    """Calls of any threads, some of them longer than a range, against a look at each call and each range."""
    bounds, spans = sorted(edges), [(start, start + length) for start, length in calls]
    ranges = list(zip(bounds[::2], bounds[1::2], strict=False))
    launch = np.array([call for call in launches if call < len(spans)], np.int64)
    time = np.arange(1, len(launch) + 1)
    held = []
    for start, end in ranges:
        inside = [call >= 0 and start <= spans[call][0] and spans[call][1] <= end for call in launch.tolist()]
        held += [int(time[inside].sum())] if any(inside) else []
    told = LaunchedTime(rows_of(Table.CALLS, spans), 1, launch, time).held_ns(rows_of(Table.RANGES, ranges))
    assert told.tolist() == held
