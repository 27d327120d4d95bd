"""What a memory snapshot says: torch's own counters on snapshots of a GPU, and a count one by one on made ones."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.memory.allocations import NoPlace, lifetimes, memory_moment
from gpuledger.analyse.memory.snapshot_figures import OomKind, SnapshotFigures, memory_curve_by_event, snapshot_figures
from gpuledger.present.views.memory_snapshot import with_rest
from gpuledger.read.snapshot import open_snapshot
from support.profiles.memory_snapshots import MIB, Program, captured, unpacked_snapshots, written

NAMES = sorted(name.removesuffix(".json") for name in captured() if name.endswith(".json"))


def _figures(path: Path) -> SnapshotFigures:
    [figures] = snapshot_figures(open_snapshot(path))
    return figures


def _captured(folder: Path, name: str) -> SnapshotFigures:
    [path] = unpacked_snapshots(folder, [f"{name}.pickle"])
    return _figures(path)


@pytest.mark.parametrize("name", NAMES)
def test_torch_counts_the_same(name: str, tmp_path: Path) -> None:
    """Its own counters, saved beside each snapshot: all equal to the byte, also where the history began late."""
    figures, torch = _captured(tmp_path, name), json.loads(captured()[f"{name}.json"])
    assert figures.peak_bytes == torch["allocated_bytes.all.peak"]
    assert figures.reserved_peak_bytes == torch["reserved_bytes.all.peak"]
    assert figures.end.allocated_bytes == torch["allocated_bytes.all.current"]
    assert figures.end.reserved_bytes == torch["reserved_bytes.all.current"]
    assert figures.end.stranded_bytes == torch["inactive_split_bytes.all.current"]
    assert figures.lives.unmatched == 0
    assert len(figures.out_of_memories) == torch["num_ooms"]
    assert sum(holder.size_bytes for holder in figures.peak_stacks) == figures.peak_bytes
    assert sum(holder.size_bytes for holder in figures.peak_lines) == figures.peak_bytes


def test_torch_profiler_sees_the_same_peak_at_the_same_instant(tmp_path: Path) -> None:
    """Kineto notes each allocation of its own, on the clock that a trace has."""
    [path] = unpacked_snapshots(tmp_path, ["profiled.memory.pickle"])
    figures = _figures(path)
    trace = json.loads(gzip.decompress(captured()["profiled.json.gz"]))
    on_gpu = [event for event in trace["traceEvents"] if event.get("args", {}).get("Device Type") == 1]
    most = max(on_gpu, key=lambda event: event["args"].get("Total Allocated", 0))
    assert figures.peak_bytes == most["args"]["Total Allocated"]
    instant = trace["baseTimeNanoseconds"] + 1000 * most["ts"]
    assert abs((figures.instant_ns(figures.peak.moment) or 0) - instant) < 20_000


actions = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 3000), st.booleans()), max_size=40)


def _program(drawn: list[tuple[bool, int, int, bool]]) -> Program:
    program, live = Program(), list[int]()
    for frees, which, size, gives_back in drawn:
        if frees and live:
            program.free(live.pop(which % len(live)), gives_back=gives_back)
        else:
            live.append(program.alloc(size, f"f{which % 3} (a.py:{which % 3 + 1})"))
    return program


@given(actions, st.integers(0, 60))
def test_levels_are_those_counted_one_by_one(drawn: list[tuple[bool, int, int, bool]], since: int) -> None:
    """Whichever event the history begins with; and at each moment the parts sum to what is reserved."""
    program = _program(drawn)
    snapshot = program.snapshot(since)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        read = open_snapshot(written(Path(folder), snapshot))
    if not read.gpus:
        assert not any(program.allocated(since))
        return
    [memory] = read.gpus
    [figures] = snapshot_figures(read)
    expected = program.allocated(since)
    assert figures.levels.allocated_bytes.tolist() == (expected or [program.allocated()[-1]])
    assert figures.peak_bytes == max(expected or [program.allocated()[-1]])
    assert sum(holder.size_bytes for holder in figures.peak_stacks) == figures.peak_bytes
    lives = lifetimes(memory)
    for moment in range(-1, len(memory.history)):
        parts = memory_moment(memory, lives, moment)
        assert parts.reserved_bytes == figures.levels.reserved_bytes[moment + 1]
        assert parts.allocated_bytes == figures.levels.allocated_bytes[moment + 1]
    if len(memory.history):
        curve = memory_curve_by_event(read, figures, bins=7)
        held = np.sum([band.held_bytes for band in curve.bands], axis=0)
        assert held.tolist() == curve.allocated_bytes.tolist()
        assert all((band.held_bytes >= 0).all() for band in curve.bands)
        assert curve.allocated_bytes.max() == figures.peak_bytes


def test_the_rest_keeps_the_sum(tmp_path: Path) -> None:
    program = Program()
    for line in range(1, 30):
        program.alloc(512 * line, f"f (a.py:{line})")
    figures = _figures(written(tmp_path, program.snapshot()))
    shown = with_rest(figures.peak_lines)
    assert len(shown) == 11
    assert shown[-1].place is NoPlace.REST
    assert sum(holder.size_bytes for holder in shown) == figures.peak_bytes


def _steps(count: int, *, marked: bool, leaks: bool) -> Program:
    program = Program()
    for _ in range(count):
        temporary = program.alloc(8 * MIB, "forward (a.py:2)")
        if leaks:
            program.alloc(2 * MIB, "remember (a.py:7)", "step (a.py:9)")
        program.free(temporary)
        if marked:
            program.step()
    return program


@pytest.mark.parametrize("marked", [True, False])
def test_what_each_step_leaves_behind_leaks(marked: bool, tmp_path: Path) -> None:
    leaks = _figures(written(tmp_path, _steps(20, marked=marked, leaks=True).snapshot())).leaks
    [leak] = leaks.leaks
    assert leak.path == ("remember (a.py:7)", "step (a.py:9)")
    assert bool(leaks.step_name) is marked
    if marked:  # twenty steps end, the first two are warm-up: seventeen lie between the others
        assert (leaks.steps, leak.allocations, leak.size_bytes) == (17, 17, 34 * MIB)
        assert leaks.bytes_per_step == 2 * MIB
    assert _figures(written(tmp_path, _steps(20, marked=marked, leaks=False).snapshot())).leaks.leaks == ()


CALL = "_call_impl (lib/python3.12/site-packages/torch/nn/modules/module.py:1787)"
OPTIMIZER = "wrapper (lib/python3.12/site-packages/torch/optim/optimizer.py:533)"


def test_activations_of_one_pass_are_no_leak(tmp_path: Path) -> None:
    """Layer after layer keeps something for backward and frees what it gathered, until memory runs out."""
    program = Program()
    for _ in range(40):
        gathered = program.alloc(8 * MIB, "gather (b.py:3)", CALL, "layers (b.py:9)", CALL, "train (a.py:2)")
        program.alloc(2 * MIB, "relu (b.py:4)", CALL, "layers (b.py:9)", CALL, "train (a.py:2)")
        program.alloc(2 * MIB, "mm (b.py:5)", CALL, "layers (b.py:9)", CALL, "train (a.py:2)")
        program.free(gathered)
    program.out_of_memory(8 * MIB, MIB, "loss (a.py:3)")
    assert _figures(written(tmp_path, program.snapshot())).leaks.leaks == ()


@pytest.mark.parametrize("around", [(OPTIMIZER, "train (a.py:4)"), ("train (a.py:4)",)])
def test_a_state_that_replaces_another_is_no_leak(around: tuple[str, ...], tmp_path: Path) -> None:
    """An optimizer of the user's own that makes new tensors: as much is freed as stays, and memory does not grow."""
    program = Program()
    states = [program.alloc(4 * MIB, "step (b.py:7)", *around) for _ in range(40)]
    for state in states:
        scaled = program.alloc(4 * MIB, "step (b.py:6)", *around)
        program.alloc(4 * MIB, "step (b.py:7)", *around)
        program.free(scaled)
        program.free(state)
    assert _figures(written(tmp_path, program.snapshot(since=80))).leaks.leaks == ()


def test_a_leak_needs_no_marks(tmp_path: Path) -> None:
    """That of a training loop on a GPU, recorded without them."""
    snapshot = pickle.loads(captured()["leak.pickle"])  # noqa: S301 - our own
    snapshot["external_annotations"] = []
    [leak] = _figures(written(tmp_path, snapshot)).leaks.leaks
    assert leak.path[0] == "remember (memory.py:66)"


def test_an_out_of_memory_is_fragmented_where_enough_was_free(tmp_path: Path) -> None:
    fragmented = _captured(tmp_path, "oom_fragmented").out_of_memories[0]
    held = _captured(tmp_path, "oom_held").out_of_memories[0]
    assert (fragmented.kind, held.kind) == (OomKind.FRAGMENTED, OomKind.HELD)
    assert fragmented.request_bytes == 640 * MIB
    assert fragmented.layout.largest_free_bytes == 488 * MIB
    assert fragmented.layout.stranded_bytes == 6 * (512 - 13) * MIB
    assert held.request_bytes == 512 * MIB
    assert held.layout.stranded_bytes == 0
    assert sum(holder.size_bytes for holder in held.held) == (6 * 256 + 300) * MIB
    # torch's own message has the same sizes
    assert b"Tried to allocate 640.00 MiB" in captured()["oom_fragmented.txt"]
    assert b"78.00 MiB is allocated by PyTorch, and 2.92 GiB is reserved" in captured()["oom_fragmented.txt"]
