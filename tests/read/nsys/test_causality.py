"""What cannot be true is told while a profile is read, nothing whole is; clocks are put right where that is sure."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Trace, build_report, open_trace
from gpuledger.findings.about_gaps import ABOUT_GAPS
from gpuledger.findings.finding import Finding
from gpuledger.read.causality import ClockFit, WorkClock, with_true_times
from gpuledger.selection import Selection
from gpuledger.trace.model import CORRECTED
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Kind, Rows, Table
from support.command import ROOT, gpuledger
from support.profiles.corpus import FILES as CORPUS
from support.profiles.damage import EXPORT_DAMAGE, TRACE_DAMAGE, damaged_export, damaged_trace
from support.profiles.opened import plain, report_of, trace_of
from support.profiles.torch_traces import FILES as TRACES
from support.thorough import some

CAPTURES = ROOT / "captures"
DECODE, TORCH_DECODE = CAPTURES / "nsys" / "decode.sqlite.xz", CAPTURES / "torch" / "decode.json.gz"
WHOLE = [*sorted((CAPTURES / "nsys").glob("*.sqlite.xz")), *sorted((CAPTURES / "serve").glob("*.xz")), *CORPUS, *TRACES]
IDLE = {rule.code for rule in ABOUT_GAPS}
PUT_RIGHT = ("clock early", "clock late", "clock drifts", "copies on another clock", "kernels on epoch time")


def _codes(trace: Trace) -> set[str]:
    return {note.code for note in trace.health if note in trace.damage or note.code in CORRECTED}


def _first(findings: tuple[Finding, ...]) -> Finding | None:
    return next((found for found in findings if not found.code.startswith("CAPTURE")), None)


def _is_like(first: Finding | None, before: Finding | None) -> bool:
    if first is None or before is None:
        return first is before
    return first.code == before.code and abs(first.saving_ns - before.saving_ns) <= 0.1 * before.saving_ns


TOLD_AS = {
    "clock early": "clock-early-corrected",
    "clock late": "clock-late-corrected",
    "clock drifts": "clock-drift-corrected",
    "copies on another clock": "clock-early-corrected",
    "kernels on epoch time": "clock-late-corrected",
    "broken end": "outside-recording",
    "kernels of 0 ns": "kernels-timeless",
    "ids wrapped": "ids-repeated",
    "rows twice": "rows-twice",
    "a third of calls lost": "launches-lost",
    "half of calls lost": "launches-lost",
    "overlap on a stream": "stream-overlap",
    "synchronize returns early": "",  # the GPU is done before they are called
    "outside the recording": "outside-recording",
    "a tenth of calls lost": "launches-lost",
    "a tenth ends before it starts": "",  # rows that cannot be used are left out, and counted
    "times in whole milliseconds": "kernels-timeless",
}


def _holds(damaged: Path, whole: Path, code: str) -> None:
    """It is told, and nothing is believed that is not known; else the first finding is the same."""
    trace = open_trace(damaged)
    findings = build_report(trace, damaged.name, Selection()).findings
    assert not code or code in _codes(trace)
    if trace.damage:
        first, others = findings[0], [found for found in findings[1:] if not found.code.startswith("CAPTURE")]
        assert (first.code, first.saving_ns) == ("CAPTURE-DAMAGED", 0)
        assert {str(found.confidence) for found in others} <= {"low"}
    else:
        assert _is_like(_first(findings), _first(report_of(whole).findings))


@pytest.mark.parametrize("kind", EXPORT_DAMAGE)
def test_a_damaged_export_is_told_or_answers_the_same(tmp_path: Path, kind: str) -> None:
    _holds(damaged_export(plain(DECODE), tmp_path / "damaged.sqlite", kind), DECODE, TOLD_AS[kind])


@pytest.mark.parametrize("kind", some(list(TRACE_DAMAGE), 3))
def test_a_damaged_trace_is_told_or_answers_the_same(tmp_path: Path, kind: str) -> None:
    _holds(damaged_trace(TORCH_DECODE, tmp_path / "damaged.json", kind), TORCH_DECODE, TOLD_AS[kind])


@pytest.mark.parametrize("name", ["graph", "experts_grouped"])
def test_synchronize_calls_that_return_early_are_told(tmp_path: Path, name: str) -> None:
    source = plain(CAPTURES / "nsys" / f"{name}.sqlite.xz")
    damaged = damaged_export(source, tmp_path / "damaged.sqlite", "synchronize returns early")
    assert "sync-before-end" in _codes(open_trace(damaged))


def test_a_late_clock_is_told_where_nobody_waits_for_the_gpu(tmp_path: Path) -> None:
    """Each kernel finds the GPU idle, and not one starts before a millisecond has passed."""
    source = plain(CAPTURES / "nsys" / "emit_nvtx.sqlite.xz")
    assert not len(open_trace(source)["syncs"])
    assert not open_trace(source).damage
    late = open_trace(damaged_export(source, tmp_path / "late.sqlite", "clock late"))
    assert "starts-late" in _codes(late)
    assert _first(build_report(late, "x", Selection()).findings) is None


def test_work_that_waits_for_another_process_is_not_taken_for_a_late_clock(tmp_path: Path) -> None:
    """765 operations find the GPU idle, and the one that waits least does so for 140 us, but each for another time."""
    with tarfile.open(CAPTURES / "nsys" / "structures.tar.xz") as archive:
        archive.extract("structures/two_processes.sqlite", tmp_path, filter="data")
    assert not open_trace(tmp_path / "structures" / "two_processes.sqlite").damage


@pytest.mark.parametrize("kind", PUT_RIGHT)
def test_times_that_were_put_right_are_those_that_were_recorded(tmp_path: Path, kind: str) -> None:
    corrected = open_trace(damaged_export(plain(DECODE), tmp_path / "damaged.sqlite", kind))
    whole = trace_of(DECODE)
    assert not corrected.damage
    for table in ("kernels", "copies"):
        off = np.abs(corrected[table]["start_ns"] - whole[table]["start_ns"])
        assert off.max() < 50_000  # what the bounds leave open
    first = _first(build_report(corrected, "x", Selection()).findings)
    assert first is not None
    assert first.confidence == "medium"


def test_what_is_said_of_a_damaged_profile(tmp_path: Path) -> None:
    damaged = damaged_export(plain(DECODE), tmp_path / "run.sqlite", "a third of calls lost")
    said = gpuledger("info", damaged).stdout.splitlines()[2]
    assert said.startswith("Damaged: ")
    assert "lack the call that launched them, though others on their stream have theirs" in said
    report = gpuledger("report", damaged, "--format=json")
    codes = [found["code"] for found in json.loads(report.stdout)["findings"]]
    assert codes[0] == "CAPTURE-DAMAGED"
    assert not IDLE.intersection(codes)
    assert gpuledger("report", damaged).stdout.splitlines()[2].endswith("What follows is a guess.")


def test_a_corrected_clock_is_told_by_info_and_report(tmp_path: Path) -> None:
    damaged = damaged_export(plain(DECODE), tmp_path / "run.sqlite", "clock early")
    sentence = "the clock of the work on GPU 0 was 999 us early: their times were corrected"
    assert gpuledger("info", damaged).stdout.splitlines()[2].startswith(f"Good for a report, corrected: {sentence}")
    assert f"Note: {sentence}" in gpuledger("report", damaged).stdout


@pytest.mark.parametrize("path", some(WHOLE, 3, first=2), ids=lambda path: path.name[:60])
def test_no_whole_profile_is_called_damaged(path: Path) -> None:
    assert not _codes(trace_of(path))


def _rows(table: Table, strings: Strings, **columns: np.ndarray) -> Rows:
    count = len(columns["start_ns"])
    filled = {
        column.name: np.full(count, -1, column.kind.dtype)
        for column in table.schema.columns
        if column.kind in (Kind.INT64, Kind.INT32, Kind.TEXT)
    }
    kept = {name: values.astype(filled[name].dtype) for name, values in columns.items()}
    return Rows(table.schema, filled | kept, strings)


def _tables(launched: list[int], latency: list[int], shift_ns: int) -> dict[Table, Rows]:
    """Kernels of 20 us on one stream, each launched at a time, run after a latency, and waited for."""
    strings = Strings(["k", "cudaLaunchKernel", "cudaDeviceSynchronize"])
    call = np.cumsum(np.array(launched) + 100_000)
    start = call + np.array(latency)
    ids = np.arange(1, len(call) + 1)
    work = {"start_ns": start + shift_ns, "end_ns": start + 20_000 + shift_ns}
    one, zero = np.ones(len(call), np.int64), np.zeros(len(call), np.int64)
    kernels = _rows(
        Table.KERNELS, strings, **work, pid=one, gpu=zero, stream=one, correlation=ids, name=zero, graph_node=-one
    )
    calls = _rows(
        Table.CALLS,
        strings,
        start_ns=np.concatenate((call, call + 5_000)),
        end_ns=np.concatenate((call + 4_000, start + 25_000)),
        pid=np.concatenate((one, one)),
        correlation=np.concatenate((ids, ids + 1_000_000)),
        name=np.concatenate((one, one + 1)),
    )
    return {Table.KERNELS: kernels, Table.CALLS: calls}


@given(
    gaps=st.lists(st.integers(0, 1_000_000), min_size=12, max_size=60),
    latency=st.integers(5_000, 30_000),
    shift_ns=st.integers(-(10**15), 10**15),
)
def test_any_offset_is_put_right_or_small(gaps: list[int], latency: int, shift_ns: int) -> None:
    tables, notes = with_true_times(_tables(gaps, [latency] * len(gaps), shift_ns))
    off = tables[Table.KERNELS]["start_ns"] - _tables(gaps, [latency] * len(gaps), 0)[Table.KERNELS]["start_ns"]
    assert int(np.abs(off).max()) < 60_000
    assert not notes or {note.code for note in notes} <= CORRECTED
    assert bool(notes) or abs(shift_ns) < 60_000


_TIME = st.integers(-(2**62) + 1, 2**62 - 1)


@given(
    rows=st.lists(st.tuples(_TIME, _TIME, st.integers(-1, 9), st.integers(-1, 3)), min_size=1, max_size=40),
    data=st.data(),
)
def test_any_times_are_gone_through(rows: list[tuple[int, int, int, int]], data: st.DataObject) -> None:
    """No number makes it fail, nor changes how many rows there are."""
    strings = Strings(["k", "cudaLaunchKernel", "cudaDeviceSynchronize", "cudaStreamSynchronize"])
    start, end, correlation, code = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    calls = data.draw(
        st.lists(st.tuples(_TIME, _TIME, st.integers(-1, 9), st.integers(-1, 3)), min_size=1, max_size=40)
    )
    begin, finish, carried, name = (np.array(column, np.int64) for column in zip(*calls, strict=True))
    one = np.ones(len(rows), np.int64)
    tables = {
        Table.KERNELS: _rows(
            Table.KERNELS,
            strings,
            start_ns=start,
            end_ns=end,
            pid=one,
            gpu=one,
            stream=code,
            correlation=correlation,
            name=0 * one,
            graph_node=code,
        ),
        Table.CALLS: _rows(
            Table.CALLS,
            strings,
            start_ns=begin,
            end_ns=finish,
            pid=np.ones(len(calls), np.int64),
            correlation=carried,
            name=name,
        ),
    }
    checked, notes = with_true_times(tables)
    assert {table: len(held) for table, held in checked.items()} == {table: len(held) for table, held in tables.items()}
    assert all(note.count > 0 for note in notes)


def test_a_line_moves_times_by_whole_nanoseconds() -> None:
    fit = ClockFit(at_ns=1_000, offset_ns=10**18, slope=0.001, launches=1, syncs=1)
    assert fit.moved(np.array([1_000, 2_000, 1_000_001_000])).tolist() == [
        10**18 + 1_000,
        10**18 + 2_001,
        10**18 + 1_001_001_000,
    ]


Change = Callable[[dict[str, np.ndarray]], None]


def _noted(change: Change, latency: int = 10_000, count: int = 20) -> list[tuple[str, int]]:
    """What is noted of kernels of 20 us on one stream, launched each 100 us, after a change of their columns."""
    strings = Strings(["k", "cudaLaunchKernel"])
    call, one = 100_000 * np.arange(count), np.ones(count, np.int64)
    ids = np.arange(1, count + 1)
    start = call + latency
    columns = {"start_ns": start, "end_ns": start + 20_000, "correlation": ids.copy(), "stream": one.copy()}
    change(columns)
    rows = len(columns["start_ns"])
    rest = dict.fromkeys(("gpu", "name"), np.zeros(rows, np.int64)) | {
        "pid": np.ones(rows),
        "graph_node": -np.ones(rows),
    }
    calls = {"start_ns": call, "end_ns": call + 4_000, "pid": one, "correlation": ids, "name": one}
    tables = {
        Table.KERNELS: _rows(Table.KERNELS, strings, **columns, **rest),
        Table.CALLS: _rows(Table.CALLS, strings, **calls),
    }
    return [(note.code, note.count) for note in with_true_times(tables)[1]]


def _overlaps(rows: int, by_ns: int) -> Change:
    def change(columns: dict[str, np.ndarray]) -> None:
        columns["end_ns"][:rows] = columns["start_ns"][1 : rows + 1] + by_ns

    return change


def _takes_no_time(rows: int, since_ns: int) -> Change:
    def change(columns: dict[str, np.ndarray]) -> None:
        for name in ("start_ns", "end_ns"):
            columns[name] += since_ns
        columns["end_ns"][:rows] = columns["start_ns"][:rows]

    return change


def _launched_by(rows: slice, ids: object) -> Change:
    def change(columns: dict[str, np.ndarray]) -> None:
        columns["correlation"][rows] = ids

    return change


def _twice(rows: int) -> Change:
    def change(columns: dict[str, np.ndarray]) -> None:
        columns.update({name: np.append(values, values[:rows]) for name, values in columns.items()})

    return change


def _nothing(_: dict[str, np.ndarray]) -> None:
    """As it was."""


@pytest.mark.parametrize(
    ("change", "noted"),
    [
        (_nothing, []),
        (_overlaps(3, 5_001), [("stream-overlap", 3)]),  # clocks are matched to 5 us
        (_overlaps(3, 5_000), []),
        (_overlaps(2, 5_001), []),  # too few
        (_overlaps(1, 200_001), [("stream-overlap", 1)]),  # but by much
        (_overlaps(1, 200_000), []),
        (_takes_no_time(3, 1), [("kernels-timeless", 3)]),
        (_takes_no_time(2, 1), []),
        (_takes_no_time(4, 0), []),  # times are whole microseconds, of which a fifth may be 0
        (_takes_no_time(5, 0), [("kernels-timeless", 5)]),
        (_launched_by(slice(1, 4), 1), [("ids-repeated", 3)]),
        (_launched_by(slice(1, 3), 1), []),
        (_launched_by(slice(5, 8), [101, 102, 103]), [("launches-lost", 3)]),
        (_launched_by(slice(5, 7), [101, 102]), []),
        (_launched_by(slice(0, 3), [101, 102, 103]), []),  # nothing was launched before: the recording began later
        (_twice(3), [("rows-twice", 3)]),
        (_twice(2), []),
    ],
)
def test_each_law_is_told_from_three_rows_on(change: Change, noted: list[tuple[str, int]]) -> None:
    assert _noted(change) == noted


@pytest.mark.parametrize(("pairs", "noted"), [(3, [("stream-order", 3)]), (2, [])])
def test_work_in_another_order_than_its_launches_is_told(pairs: int, noted: list[tuple[str, int]]) -> None:
    turned = [number for pair in range(pairs) for number in (2 * pair + 2, 2 * pair + 1)]
    assert _noted(_launched_by(slice(2 * pairs), turned), latency=1_000_000) == noted


@pytest.mark.parametrize(
    ("latency", "count", "noted"), [(54_001, 21, [("starts-late", 20)]), (54_000, 21, []), (54_001, 20, [])]
)
def test_a_launch_that_idle_gpus_wait_for_is_told(latency: int, count: int, noted: list[tuple[str, int]]) -> None:
    assert _noted(_nothing, latency, count) == noted


@pytest.mark.parametrize(
    ("room_ns", "offset_ns"),
    [(100_001, None), (100_000, 14_500), (4_501, 14_500), (2_000, 12_000), (-20_000, 0)],
)
def test_a_clock_is_put_right_to_the_soonest_launch_within_its_bounds(room_ns: int, offset_ns: int | None) -> None:
    at, low = np.array([0, 1_000, 2_000]), np.full(3, 10_000)
    fit = WorkClock(0, None, (at, low), (at, low + room_ns)).fit()
    assert (None if fit is None else (fit.offset_ns, fit.slope)) == (None if offset_ns is None else (offset_ns, 0.0))


@pytest.mark.parametrize(
    ("low", "high", "is_off"),
    [
        ([5_000] * 3, [6_000] * 3, False),
        ([5_001] * 3, [6_000] * 3, True),
        ([5_001] * 2, [6_000] * 3, False),
        ([200_001], [300_000], True),
        ([0] * 3, [-20_000] * 3, False),
        ([0] * 3, [-20_001] * 2, True),  # many programs synchronize but twice
        ([0] * 3, [-20_001], False),
    ],
)
def test_a_clock_is_off_where_its_bounds_leave_out_zero(low: list[int], high: list[int], is_off: bool) -> None:
    bounds = [(np.arange(len(bound)), np.array(bound)) for bound in (low, high)]
    assert WorkClock(0, None, *bounds).is_off is is_off
