"""The timeline holds what the trace holds: every activity comes back, on tracks that nest, whatever was recorded."""

from __future__ import annotations

import gzip
import json
import resource
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger import open_trace
from gpuledger.catalog.kernel_families import COMMUNICATION
from gpuledger.catalog.kernel_names import label
from gpuledger.cli.main import verb_named
from gpuledger.errors import OutputRefused
from gpuledger.export import timeline
from gpuledger.export.chrome import ChromeWriter
from gpuledger.export.perfetto import Messages, Piece, constant, varints, where
from gpuledger.export.sections import ENDINGS, earliest_ns, form_of, scene, sections
from gpuledger.export.timeline import FEW_LANES, NAMELESS, UniqueNumbers, events, nested_lanes, separate_lanes
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.causes import CAUSES, TRIGGERS
from gpuledger.replay.critical_path import critical_path
from gpuledger.replay.scenario import scenario
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from gpuledger.verbs.report import build_report
from support.command import ROOT, gpuledger
from support.pages.timelines import NASTY, ON_GPU, clean, counted, expected, launched, nasty_trace, perfetto
from support.profiles.nsys_exports import call, kernel, minimal, push
from support.profiles.perfetto_decoder import Decoded, decode, fields, signed
from support.profiles.random_export import write as write_random
from support.thorough import tries
from support.traces.trace_notation import of_tables, table, trace


@pytest.fixture(scope="module")
def run_of_decode(unpacked: Callable[[str], Path]) -> tuple[Trace, Decoded]:
    """A capture, and its timeline."""
    opened = open_trace(unpacked("decode.sqlite"))
    return opened, exported(opened)


def exported(of: Trace, wanted: Selection | None = None) -> Decoded:
    return decode(perfetto(of, wanted))


def chrome(of: Trace) -> dict[str, Any]:
    made = scene(of, "test", Selection())
    document = b"".join(ChromeWriter(earliest_ns(of)).write(sections(made, UniqueNumbers())))
    parsed: dict[str, Any] = json.loads(document)
    return parsed


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(verb_named("export"), [str(each) for each in arguments], catch_exceptions=False)


# Examples


def test_overlapping_kernels_of_a_stream_get_lanes_of_one_name() -> None:
    found = exported(trace("s0: 0-10 a", "s0: 5-15 b", "s0: 10-20 c", "s1: 0-3 d"))
    assert [(each.name, each.start, each.end, each.depth) for each in found.on("stream 0")] == [
        ("a", 0, 10, 0),
        ("b", 5, 15, 0),
        ("c", 10, 20, 0),
    ]
    lanes = {each.name: each.track for each in found.on("stream 0")}
    assert lanes["a"] == lanes["c"] != lanes["b"]
    assert {found.path(uuid) for uuid in lanes.values()} == {("GPU 0 (test GPU)", "stream 0")}


def test_the_critical_path_lies_on_a_track_without_gaps(run_of_decode: tuple[Trace, Decoded]) -> None:
    opened, timeline = run_of_decode
    [device] = build_report(opened, "decode", Selection()).devices
    path = timeline.on("critical path")
    assert sum(each.end - each.start for each in path) == device.steady_ns
    assert all(before.end == after.start for before, after in pairwise(path))
    called = {each.name for each in path if each.arguments["part"] == "call"}
    assert "cudaLaunchKernel" in called
    assert {each.name for each in path if each.arguments["part"] == "host code before a call"} <= {*CAUSES}


@pytest.fixture(scope="module")
def run_of_graph(unpacked: Callable[[str], Path]) -> tuple[Trace, Decoded]:
    opened = open_trace(unpacked("graph.sqlite"))
    return opened, exported(opened)


@pytest.mark.parametrize("name", ["decode", "graph"])
def test_every_row_is_on_its_track(name: str, request: pytest.FixtureRequest) -> None:
    opened, found = request.getfixturevalue(f"run_of_{name}")
    made = build_report(opened, name, Selection())
    [device] = made.devices
    assert device.steps is not None
    above = f"GPU 0 ({opened.origin.gpus[0].name})"
    books = {
        (above, "steps"): len(device.steps),
        (above, "idle, by trigger"): len(device.ledger.gaps),
        (above, "findings"): len(made.findings),
        (above, "critical path"): len(critical_path(scenario(opened, device))),
        ("health of the profile", "notes"): len(opened.health),
    }
    assert counted(found) == expected(opened) | {track: count for track, count in books.items() if count}
    assert found.arrows == launched(opened) > 0


def test_a_kernel_says_what_was_recorded_of_it(run_of_decode: tuple[Trace, Decoded]) -> None:
    opened, timeline = run_of_decode
    kernels = opened[Table.KERNELS]
    at = int(np.flatnonzero(kernels["registers"] > 100)[0])
    found = next(each for each in timeline.on("stream 7") if each.start == kernels["start_ns"][at])
    name = kernels.texts("name")[at] or ""
    assert (found.name, found.category, found.end) == (label(name), "kernel", kernels["end_ns"][at])
    assert found.arguments["kernel"] == name
    assert found.arguments["grid"] == " x ".join(map(str, kernels["grid"][at].tolist()))
    assert found.arguments["registers_per_thread"] == kernels["registers"][at]
    assert found.arguments["correlation"] == kernels["correlation"][at]
    assert found.arguments["range"] in opened[Table.RANGES].texts("name")
    assert "graph_node" not in found.arguments  # not recorded is not -1
    copy = next(each for each in timeline.slices if each.category == "copy")
    length = copy.end - copy.start
    assert copy.arguments["bytes_per_s"] == pytest.approx(copy.arguments["bytes"] * 1e9 / length, rel=1e-6)


def test_gaps_are_named_by_trigger_and_their_arguments_sum_to_them(run_of_decode: tuple[Trace, Decoded]) -> None:
    opened, timeline = run_of_decode
    gaps = timeline.on("idle, by trigger")
    for gap in gaps:
        causes = {str(cause): gap.arguments.get(f"{cause}_ns", 0) for cause in CAUSES}
        assert sum(causes.values()) == gap.end - gap.start
        assert gap.name == str(TRIGGERS[TRIGGERS.index(gap.arguments["trigger"])].label)
    total = build_report(opened, "decode", Selection()).devices[0].ledger.busy.idle
    assert sum(gap.end - gap.start for gap in gaps) == int((total.end_ns - total.start_ns).sum())


def test_steps_hold_their_books(run_of_decode: tuple[Trace, Decoded]) -> None:
    steps = run_of_decode[1].on("steps")
    assert [each.name for each in steps] == [f"step {at}" for at in range(20)]
    for step in steps:
        lines = [value for name, value in step.arguments.items() if name.endswith("_ns")]
        assert sum(lines) == step.end - step.start


def test_findings_stand_where_their_evidence_is(run_of_decode: tuple[Trace, Decoded]) -> None:
    opened, found = run_of_decode
    made = build_report(opened, "decode", Selection())
    marks = {each.name: each for each in found.on("findings")}
    assert set(marks) == {each.code for each in made.findings}
    assert all(each.instant for each in marks.values())
    first = made.findings[0]
    mark = marks[first.code]
    assert mark.arguments["claim"] == first.claim
    assert mark.arguments["saving_ns_per_step"] == first.saving_ns_per_step
    about = [each for each in found.on("idle, by trigger") if each.arguments["trigger"] == "host_code"]
    assert marks["HOST-CODE"].start == max(about, key=lambda each: each.end - each.start).start


def test_counters_follow_the_device(run_of_decode: tuple[Trace, Decoded]) -> None:
    opened, found = run_of_decode
    levels: dict[str, list[tuple[int, float]]] = {}
    for uuid, time, value in found.counters:
        levels.setdefault(found.tracks[uuid]["name"], []).append((time, value))
    busy = levels["busy"]
    [device] = build_report(opened, "decode", Selection()).devices
    width = np.diff([time for time, _ in busy])
    share = (width * [value for _, value in busy[:-1]]).sum() / 100 / width.sum()
    idle_ns = sum(amount for line, amount in device.ledger.total().items() if line.startswith("idle"))
    assert share == pytest.approx(1 - idle_ns / device.ledger.window_ns, rel=1e-9)
    assert min(value for _, value in levels["launches in the queue"]) == 0
    assert levels["launches in the queue"][-1][1] == 0
    assert max(value for _, value in levels["memory in use"]) > 1e9


def test_queued_launches_are_counted_from_the_call_to_the_kernel() -> None:
    strings = Strings(("k", "cudaLaunchKernel", "runtime"))
    kernels = table(
        Table.KERNELS, strings, 3, start_ns=[50, 60, 70], end_ns=[60, 70, 80], correlation=[1, 2, 2], name=["k"] * 3
    )
    calls = table(
        Table.CALLS,
        strings,
        2,
        start_ns=[0, 20],
        end_ns=[10, 30],
        correlation=[1, 2],
        name=["cudaLaunchKernel"] * 2,
        layer=["runtime"] * 2,
        stack=[-1, -1],
    )
    found = exported(of_tables(strings, {Table.KERNELS: kernels, Table.CALLS: calls}))
    queue = [(t, value) for uuid, t, value in found.counters if found.tracks[uuid]["name"] == "launches in the queue"]
    assert queue == [(10, 1), (30, 2), (50, 1), (60, 0)]  # the launch of two kernels is one launch
    assert found.arrows == 3


def test_a_stretch_alone(run_of_decode: tuple[Trace, Decoded]) -> None:
    opened, _ = run_of_decode
    whole = build_report(opened, "decode", Selection()).window
    window = (whole.start_ns + 100_000_000, whole.start_ns + 200_000_000)
    found = exported(opened, Selection(time_ns=(100_000_000, 200_000_000)))
    assert 0 < len(found.slices) < 4000
    for each in found.slices:
        assert each.start <= window[1]
        assert each.end >= window[0]
    assert all(window[0] <= time <= window[1] for _, time, _ in found.counters)


def test_a_stretch_in_which_a_gpu_did_nothing() -> None:
    strings = Strings(("k",))
    rows = table(Table.KERNELS, strings, 3, start_ns=[0, 50, 90], end_ns=[10, 60, 99], gpu=[0, 1, 0], name=["k"] * 3)
    found = exported(of_tables(strings, {Table.KERNELS: rows}), Selection(time_ns=(0, 20)))
    assert [(each.start, each.end) for each in found.on("stream 0")] == [(0, 10)]
    assert [each.end - each.start for each in found.on("idle, by trigger")] == [20, 10]
    assert {path[0] for path in map(found.path, found.tracks)} >= {"GPU 0 (test GPU)", "GPU 1"}


def test_chrome_holds_the_same(run_of_decode: tuple[Trace, Decoded]) -> None:
    opened, found = run_of_decode
    document = chrome(opened)
    made = document["traceEvents"]
    by_kind = Counter(each["ph"] for each in made)
    instants = sum(each.instant for each in found.slices)
    assert (by_kind["X"], by_kind["i"]) == (len(found.slices) - instants, instants)
    assert by_kind["s"] == by_kind["f"] == found.arrows
    assert by_kind["C"] == len(found.counters)
    base = document["baseTimeNanoseconds"]
    times = sorted((round(each["ts"] * 1000) + base, each["name"]) for each in made if each["ph"] in "Xi")
    assert times == sorted((each.start, each.name) for each in found.slices)
    named = {(each["pid"], each["tid"]) for each in made if each["name"] == "thread_name"}
    assert {(each["pid"], each["tid"]) for each in made if each["ph"] in "Xisf"} <= named


def test_chrome_slices_nest_on_their_threads(unpacked: Callable[[str], Path]) -> None:
    threads: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for each in chrome(open_trace(unpacked("zoo_graph.sqlite")))["traceEvents"]:
        if each["ph"] == "X":
            start, length = (round(each[name] * 1000) for name in ("ts", "dur"))
            threads.setdefault((each["pid"], each["tid"]), []).append((start, start + length))
    for spans in threads.values():
        assert no_crossing(spans)


def test_the_format_follows_the_ending(decode: Path, tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.pftrace", tmp_path / "a.perfetto-trace.gz"
    ran = run(decode, "-o", plain)
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr == f"Wrote {plain}: 1.74 MB\n"
    assert run(decode, "-o", packed, "-q").stderr == ""
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    run(decode, "-o", tmp_path / "a.json")
    run(decode, "-o", tmp_path / "a.json.gz")
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_bytes())["traceEvents"]
    assert form_of("T.PFTRACE") == ENDINGS[".pftrace"]
    assert form_of("x/") is None


def test_the_same_profile_gives_the_same_bytes(decode: Path) -> None:
    assert perfetto(open_trace(decode)) == perfetto(open_trace(decode))


def test_tables_as_parquet(decode: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "tables.parquet"
    ran = run(decode, "-o", folder)
    opened = open_trace(decode)
    assert {each.stem for each in folder.iterdir()} == {each.value for each in opened.tables}
    assert ran.stderr.startswith(f"Wrote {folder}/: kernels.parquet, copies.parquet, ")
    for each, rows in opened.tables.items():
        read = parquet.read_table(folder / f"{each.value}.parquet")
        assert read.to_pylist() == rows.to_arrow().to_pylist()
    refused = gpuledger("export", decode, "-o", folder)
    assert refused.stderr.startswith(f"error: {folder}/allocs.parquet: exists already")
    (folder / "mine.txt").write_text("kept")
    assert run(decode, "-o", folder, "--force").exit_code == 0
    assert (folder / "mine.txt").read_text() == "kept"
    assert [each.name for each in tmp_path.iterdir()] == ["tables.parquet"]


def test_ranks_share_one_clock(eight: Path, tmp_path: Path) -> None:
    out = tmp_path / "job.pftrace"
    ran = run(eight, "-o", out, "--workers=0")
    assert ran.exit_code == 0
    found = decode(out.read_bytes())
    headings = {found.path(uuid)[0] for uuid in found.tracks}
    assert {f"rank {at}: GPU 0 (NVIDIA H200)" for at in range(8)} <= headings
    pids = [track["pid"] for track in found.tracks.values() if track["name"].startswith("rank") and "pid" in track]
    assert len(set(pids)) == len(pids) == 8
    ends = np.array(
        [
            sorted(
                each.end
                for each in found.slices
                if each.arguments.get("family") == COMMUNICATION and at == rank(found, each)
            )
            for at in range(8)
        ]
    )
    spread = ends.max(axis=0) - ends.min(axis=0)
    assert np.median(spread) < 20_000  # their own clocks are up to a millisecond apart
    raw = [open_trace(path)[Table.KERNELS] for path in sorted(eight.iterdir())]
    assert len(raw) == 8
    lasts = [int(each["end_ns"].max()) for each in raw]
    assert max(lasts) - min(lasts) > 200_000


def rank(found: Decoded, each: Any) -> int:
    return int(found.path(each.track)[0].split(":")[0].removeprefix("rank "))


# Laws


def no_crossing(spans: list[tuple[int, int]]) -> bool:
    """No two overlap without one holding the other, tried pair by pair against a stack."""
    stack: list[int] = []
    for start, end in sorted(spans, key=lambda each: (each[0], -each[1])):
        while stack and stack[-1] <= start:
            stack.pop()
        if stack and stack[-1] < end:
            return False
        stack.append(end)
    return True


SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=60)


@given(SPANS)
def test_lanes_of_a_stream_never_overlap(drawn: list[tuple[int, int, int]]) -> None:
    group, start, length = np.array(drawn, np.int64).reshape(-1, 3).T
    lane, _ = separate_lanes(start, start + length, group)
    for key in set(zip(group.tolist(), lane.tolist(), strict=True)):
        mine = (group == key[0]) & (lane == key[1])
        spans = sorted(zip(start[mine].tolist(), (start + length)[mine].tolist(), strict=True))
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    # and there are no more lanes than records at one instant, if any has a length
    for each in set(group.tolist()):
        mine = (group == each) & (length > 0)
        deepest = max((int(((start[mine] <= at) & (at < (start + length)[mine])).sum()) for at in range(43)), default=0)
        assert lane[mine].max(initial=-1) + 1 <= max(deepest, 1) + int(((group == each) & (length == 0)).any())


@given(SPANS)
def test_lanes_of_a_thread_nest(drawn: list[tuple[int, int, int]]) -> None:
    group, start, length = np.array(drawn, np.int64).reshape(-1, 3).T
    lane, rank = nested_lanes(start, start + length, group)
    for key in set(zip(group.tolist(), lane.tolist(), strict=True)):
        mine = (group == key[0]) & (lane == key[1])
        assert no_crossing(list(zip(start[mine].tolist(), (start + length)[mine].tolist(), strict=True)))
    for each in set(group.tolist()):
        mine = group == each
        if no_crossing(list(zip(start[mine].tolist(), (start + length)[mine].tolist(), strict=True))):
            assert not lane[mine].any()
    position, is_end = events(start, start + length, group * 100 + lane, rank, np.zeros(len(start), np.bool_))
    open_on: dict[int, list[int]] = {}
    for at, closes in zip(position.tolist(), is_end.tolist(), strict=True):
        stack = open_on.setdefault(int(group[at] * 100 + lane[at]), [])
        if closes:
            assert (start + length)[stack.pop()] == (start + length)[at]
        else:
            stack.append(at)
    assert not any(open_on.values())


@given(SPANS, st.integers(0, 2**32), st.integers(1, 9))
def test_events_come_in_order_however_few_are_sorted_at_once(
    drawn: list[tuple[int, int, int]], seed: int, at_once: int
) -> None:
    track, start, length = np.array(drawn, np.int64).reshape(-1, 3).T
    draw = np.random.default_rng(seed)
    rank, instant = draw.permutation(len(start)).astype(np.int32), draw.random(len(start)) < 0.2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline, "_AT_ONCE", at_once)
        position, is_end = events(start, start + length, track, rank, instant)
    wanted = [(track[row], start[row], 2 * rank[row], row, False) for row in range(len(start))]
    for row in np.flatnonzero(~instant).tolist():
        place = -2 * (rank[row] + 1) if length[row] else 2 * rank[row] + 1
        wanted.append((track[row], start[row] + length[row], place, row, True))
    assert list(zip(position.tolist(), is_end.tolist(), strict=True)) == [event[3:] for event in sorted(wanted)]


def test_many_lanes_are_decided_quickly() -> None:
    """All of them cross: a lane each, and no time that grows with their square."""
    count = 30_000
    start = np.arange(count)
    lane, _ = nested_lanes(start, start + count, np.zeros(count, np.int64))
    assert sorted(lane.tolist()) == list(range(count))
    lane, _ = separate_lanes(start, start + count, np.zeros(count, np.int64))
    assert lane.max() == count - 1 > FEW_LANES


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_varints_come_back(values: list[int]) -> None:
    made = Messages.of([varints(np.array(values, np.int64), b"\x08")])
    assert [signed(dict(fields(row.tobytes()))[1]) for row in made.octets] == values


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 70))
def test_messages_hold_the_pieces_that_they_have(seed: int, count: int, pieces: int) -> None:
    there = np.random.default_rng(seed).random((count, pieces)) < 0.5
    made = [where([constant(bytes([at]), len(there))], there[:, at])[0] for at in range(pieces)]
    last = Piece(np.full((len(there), 1), 255, np.uint8))
    told = [bytes([*np.flatnonzero(row).tolist(), 255]) for row in there]
    whole = Messages.of([*made, last])
    assert whole.joined() == b"".join(told)
    size = np.arange(count) % 3
    after = np.repeat(np.arange(count, dtype=np.uint8), size)
    assert whole.joined(after, size) == b"".join(text + bytes([at] * (at % 3)) for at, text in enumerate(told))
    is_other = there[:, 0]
    apart = [Messages(whole.octets[rows], whole.kept[rows]) for rows in (~is_other, is_other)]
    assert apart[0].merged(apart[1], is_other).joined() == whole.joined()


@settings(max_examples=tries(10))
@given(st.integers(0, 100_000))
def test_every_activity_of_a_random_export_comes_back(tmp_path_factory: pytest.TempPathFactory, number: int) -> None:
    path = tmp_path_factory.getbasetemp() / "random.sqlite"
    write_random(path, number)
    opened = open_trace(path)
    found = exported(opened)  # which fails where beginnings and ends do not match
    assert rows_of(opened) == Counter(
        (each.category, each.arguments.get("kernel", each.name), each.start, each.end)
        for each in found.slices
        if each.category not in ("idle", "step", "finding", "health", "critical path")
    )


def rows_of(opened: Trace) -> Counter[tuple[str, str, int, int]]:
    """Each row as category, name, start and end."""
    found: list[tuple[str, str, int, int]] = []
    shift = -min(earliest_ns(opened), 0)

    def add(rows: Any, categories: list[str], names: list[str]) -> None:
        start = (rows["start_ns"] + shift).tolist()
        end = np.maximum(rows["start_ns"], rows["end_ns"] + 0).tolist()
        found.extend(zip(categories, names, start, [each + shift for each in end], strict=True))

    for each in ON_GPU:
        rows = opened[each]
        if each is Table.KERNELS:
            add(rows, ["kernel"] * len(rows), [name or "" for name in rows.texts("name")])
        elif each is Table.COPIES:
            kinds = rows.texts("kind")
            add(rows, ["memset" if kind == "Memset" else "copy" for kind in kinds], [kind or "Copy" for kind in kinds])
        else:
            add(rows, ["graph"] * len(rows), [f"graph {number}" for number in rows["graph"].tolist()])
    ranges, calls, overheads = (opened[each] for each in (Table.RANGES, Table.CALLS, Table.OVERHEADS))
    add(ranges, [kind or "" for kind in ranges.texts("kind")], [name or NAMELESS for name in ranges.texts("name")])
    layers = [layer or "" for layer in calls.texts("layer")]
    names = [
        short_function_name(name or "") if layer in ("runtime", "driver") else name or ""
        for layer, name in zip(layers, calls.texts("name"), strict=True)
    ]
    add(calls, layers, [name or NAMELESS for name in names])
    add(overheads, ["profiler"] * len(overheads), [name or NAMELESS for name in overheads.texts("name")])
    return Counter(found)


# Hostile input


def test_nasty_names_and_times_survive() -> None:
    found = exported(nasty_trace())
    kernels = found.on("stream 0")
    assert sorted(each.arguments["kernel"] for each in kernels) == sorted(map(clean, NASTY))
    backwards = {each.arguments["kernel"]: each.arguments.get("recorded_duration_ns") for each in kernels}
    assert backwards[NASTY[2]] == -7
    assert backwards[NASTY[0]] is None
    assert min(each.start for each in found.slices) == 0  # the earliest was -30, and a timestamp has no sign
    assert all(each.end >= each.start for each in found.slices)
    ranges = [each for each in found.slices if each.category == "push_pop"]
    long = next(each for each in ranges if "whole_name" in each.arguments)
    assert (len(long.name), long.arguments["whole_name"]) == (500, NASTY[2])
    assert NAMELESS in {each.name for each in ranges}
    assert found.arrows == len(NASTY)


def test_nasty_names_survive_in_json() -> None:
    made = chrome(nasty_trace())["traceEvents"]
    kernels = [each["args"]["kernel"] for each in made if each.get("cat") == "kernel"]
    assert sorted(kernels) == sorted(map(clean, NASTY))
    assert all(each["dur"] >= 0 and each["ts"] >= 0 for each in made if each["ph"] == "X")


def test_nasty_names_survive_in_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    nasty_trace()[Table.KERNELS].to_parquet(tmp_path / "k.parquet")
    read = parquet.read_table(tmp_path / "k.parquet")
    assert read["name"].to_pylist() == [clean(name) for name in NASTY]


def test_text_that_is_no_unicode_in_a_real_file(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(0, 10, demangledName=9)], RUNTIME=[call(0, 5)])
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO StringIds VALUES (9, CAST(X'ff41' AS TEXT))")
    database.close()
    assert run(path, "-o", tmp_path / "a.pftrace").exit_code == 0
    [found] = decode((tmp_path / "a.pftrace").read_bytes()).on("stream 7")
    assert "A" in found.name


def test_a_trace_without_gpu_work_shows_the_host(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", RUNTIME=[call(0, 5)], NVTX=[push(0, 9, "step")])
    assert run(path, "-o", tmp_path / "a.pftrace").exit_code == 0
    found = decode((tmp_path / "a.pftrace").read_bytes())
    assert [each.name for each in found.on("main thread")] == ["cudaLaunchKernel", "step"]
    assert "no-gpu-work" in {each.name for each in found.on("notes")}


def test_an_empty_trace_is_a_timeline_of_notes() -> None:
    found = exported(of_tables(Strings(()), {}))
    assert [each.name for each in found.slices] == ["no-gpu-work"]


def test_ranges_that_cross_are_all_there(tmp_path: Path) -> None:
    crossing = [push(at, at + 50, f"r{at}") for at in range(0, 100, 10)]
    started = [push(at, at + 55, f"s{at}") | {"eventType": 60} for at in range(0, 100, 10)]
    path = minimal(tmp_path / "a.sqlite", RUNTIME=[call(0, 5)], NVTX=crossing + started, KERNEL=[kernel(7, 9)])
    found = exported(open_trace(path))
    names = [each.name for each in found.slices if each.category in ("push_pop", "start_end")]
    assert sorted(names) == sorted(f"{kind}{at}" for kind in "rs" for at in range(0, 100, 10))
    assert {found.path(each.track)[-1] for each in found.slices if each.name[0] == "s" and each.name[1:].isdigit()} == {
        "start/end ranges"
    }


def test_processes_with_one_number_stay_apart() -> None:
    strings = Strings(("range", "push_pop"))
    pids = [7, 7 | 1 << 24, -1]
    rows = table(
        Table.RANGES, strings, 3, start_ns=[0] * 3, end_ns=[5] * 3, pid=pids, tid=[2**40] * 3, name=["range"] * 3
    )
    found = exported(of_tables(strings, {Table.RANGES: rows}))
    threads = [track for track in found.tracks.values() if "tid" in track]
    assert len({(track["pid"]) for track in threads}) == len({track["tid"] for track in threads}) == 3
    assert all(0 < track["tid"] < 2**31 for track in threads)


@pytest.mark.parametrize("name", ["a", "a.gz", "a.parquet.gz", "a.sqlite", ".pftrace.bak"])
def test_an_unknown_ending_is_refused(name: str) -> None:
    with pytest.raises(OutputRefused, match="the ending says nothing about the format"):
        form_of(name)


def test_an_unknown_ending_is_refused_in_one_sentence(decode: Path, tmp_path: Path) -> None:
    ran = gpuledger("export", decode, "-o", tmp_path / "a.foo")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {tmp_path}/a.foo: the ending says nothing")
    assert ran.stderr.count("\n") == 1
    assert all(ending in ran.stderr for ending in ENDINGS)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_unless_forced(decode: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.pftrace"
    out.write_text("mine")
    ran = gpuledger("export", decode, "-o", out)
    assert (ran.exit_code, ran.stderr) == (1, f"error: {out}: exists already\n\nhint: --force overwrites it\n")
    assert out.read_text() == "mine"
    assert run(decode, "-o", out, "--force").exit_code == 0
    assert out.stat().st_size > 1_000_000


def test_a_full_disk_is_one_sentence(decode: Path, tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("no /dev/full")
    out = tmp_path / "full.pftrace"
    out.symlink_to(full)
    ran = gpuledger("export", decode, "-o", out, "--force")
    assert (ran.exit_code, ran.stderr) == (1, f"error: {out}: cannot be written: no space left on device\n")
    assert full.is_char_device()


def test_a_disk_that_fills_up_leaves_no_part_of_a_file(decode: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.pftrace"
    ran = subprocess.run(
        [sys.executable, "-m", "gpuledger", "export", decode, "-o", out],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"error: {out}: cannot be written: file too large\n"
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_or_profile_is_one_sentence(decode: Path, tmp_path: Path) -> None:
    ran = gpuledger("export", decode, "-o", tmp_path / "no" / "a.pftrace")
    assert ran.stderr == f"error: {tmp_path}/no/a.pftrace: cannot be written: no such file or directory\n"
    ran = gpuledger("export", tmp_path / "no.sqlite", "-o", tmp_path / "a.pftrace")
    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: ")
    assert not list(tmp_path.iterdir())


def test_tables_are_of_one_profile_and_whole(decode: Path, tmp_path: Path) -> None:
    ran = gpuledger("export", decode, "-o", tmp_path / "t.parquet", "--time=0:1")
    assert (ran.exit_code, list(tmp_path.iterdir())) == (2, [])
    (tmp_path / "t.parquet").write_text("a file")
    ran = gpuledger("export", decode, "-o", tmp_path / "t.parquet")
    assert ran.stderr.startswith(f"error: {tmp_path}/t.parquet: is a file")


def test_secrets_of_the_capture_stay_in_it(unpacked: Callable[[str], Path]) -> None:
    opened = open_trace(unpacked("zoo_node.sqlite"))
    octets = perfetto(opened)
    secrets = [value for _, value in opened.origin.private.environment if len(value) > 12]
    assert not [each for each in secrets if each.encode() in octets]


def test_the_docs_page_names_every_track() -> None:
    page = (ROOT / "docs" / "guides" / "timeline.md").read_text()
    for name in (
        "idle, by trigger",
        "critical path",
        "steps",
        "findings",
        "busy",
        "launches in the queue",
        "memory in use",
        "notes",
    ):
        assert f"`{name}`" in page, name
