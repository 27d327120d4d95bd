"""The definitions of memory figures at their bounds, with numbers by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuledger.analyse.memory.allocations import (
    MemoryMoment,
    NoPlace,
    SegmentUse,
    lifetimes,
    memory_levels,
    memory_moment,
)
from gpuledger.analyse.memory.figures import (
    CopyFlow,
    copies_by_kind,
    copy_flows,
    memory_figures,
    memory_totals,
    memory_use,
)
from gpuledger.analyse.memory.snapshot_figures import (
    OomKind,
    OutOfMemory,
    SnapshotFigures,
    memory_curve,
    memory_curve_by_event,
    snapshot_figures,
)
from gpuledger.read.snapshot import open_snapshot
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Span
from support.profiles.memory_snapshots import MIB, Program, written
from support.traces.book_checks import analysed
from support.traces.trace_notation import trace


def figures(program: Program, folder: Path, since: int = 0) -> SnapshotFigures:
    [of_gpu] = snapshot_figures(open_snapshot(written(folder, program.snapshot(since))))
    return of_gpu


# Lifetimes


def test_an_allocation_lives_from_its_event_to_its_free(tmp_path: Path) -> None:
    """Events 1 and 3 allocate, 4 and 5 free the first; what was allocated before the third event came before."""
    program = Program()
    first = program.alloc(700, "a (a.py:1)")
    program.alloc(512, "b (a.py:2)")
    program.free(first)
    found = figures(program, tmp_path)
    lives = found.lives
    assert (lives.size_bytes.tolist(), lives.born.tolist(), lives.gone.tolist()) == ([1024, 512], [1, 3], [4, 6])
    assert (lives.done.tolist(), lives.events, lives.unmatched) == ([5, 6], 6, 0)
    assert found.levels.allocated_bytes.tolist() == [0, 0, 1024, 1024, 1536, 512, 512]
    assert (found.levels.peak, found.peak_bytes, found.reserved_peak_bytes) == (3, 1536, 1536)
    assert [int(row) for row in lives.living(3)] == [0, 1]
    assert [int(row) for row in lives.living(4)] == [1]
    late = figures(program, tmp_path, since=4)
    assert (late.lives.born.tolist(), late.early_bytes) == ([-1, -1], 1024)
    assert late.levels.allocated_bytes.tolist() == [1536, 512, 512]
    assert {holder.place: holder.size_bytes for holder in late.peak_lines} == {NoPlace.EARLY: 1024, "b (a.py:2)": 512}


def test_what_waits_for_a_stream_is_neither_allocated_nor_free(tmp_path: Path) -> None:
    program = Program()
    program.free(program.alloc(4 * MIB, "a (a.py:1)"))
    [memory] = open_snapshot(written(tmp_path, program.snapshot())).gpus
    lives = lifetimes(memory)
    waiting, after = (memory_moment(memory, lives, moment) for moment in (2, 3))
    assert (waiting.allocated_bytes, waiting.awaiting_bytes, waiting.releasable_bytes) == (0, 4 * MIB, 0)
    assert (after.allocated_bytes, after.awaiting_bytes, after.releasable_bytes) == (0, 0, 4 * MIB)
    assert (after.segments, after.reserved_bytes, after.stranded_share) == (1, 4 * MIB, 0)
    assert memory_levels(memory, lives).reserved_bytes.tolist() == [0] + [4 * MIB] * 4


def test_a_segment_has_free_pieces_before_between_and_after_its_blocks() -> None:
    found = MemoryMoment(0, 60, 20, 15, 5, 9, 2, (SegmentUse(0, 100, 80, 9, 3),))
    assert (found.reserved_bytes, found.stranded_share, found.partly_used[0].free_bytes) == (100, 0.15, 20)


# What is allocated only to be freed


def test_short_lived_allocations_are_added_up_by_path(tmp_path: Path) -> None:
    program = Program()
    for _ in range(3):
        program.free(program.alloc(MIB, "small (a.py:1)"))
    program.free(program.alloc(8 * MIB, "large (a.py:2)"))
    program.alloc(MIB, "kept (a.py:3)")
    found = figures(program, tmp_path).short_lived
    assert [(churn.path, churn.size_bytes, churn.allocations) for churn in found] == [
        (("large (a.py:2)",), 8 * MIB, 1),
        (("small (a.py:1)",), 3 * MIB, 3),
    ]
    assert {churn.median_life_ns for churn in found} == {10_000}  # events come every 10 us


def test_segments_of_the_second_half_churn(tmp_path: Path) -> None:
    """10 events of the first allocation, and the second half with two segments taken and one given back."""
    program = Program()
    for line in (1, 1, 1):
        program.free(program.alloc(MIB, f"early (a.py:{line})"), gives_back=True)
    for size, line in ((2, 2), (4, 3)):
        program.alloc(size * MIB, f"late (a.py:{line})")
    program.free(program.alloc(MIB, "late (a.py:4)"), gives_back=True)
    program.free(program.alloc(MIB, "late (a.py:4)"), gives_back=True)
    churn = figures(program, tmp_path).segment_churn
    assert (churn.taken, churn.given_back, churn.taken_bytes) == (4, 3, 8 * MIB)
    assert churn.path == ("late (a.py:3)",)


@pytest.mark.parametrize(("size", "is_told"), [(MIB, True), (MIB - 512, False)])
def test_blocks_without_a_stack_are_told_by_the_only_function_of_their_size(
    size: int, is_told: bool, tmp_path: Path
) -> None:
    program = Program()
    program.alloc(size, "forward (a.py:7)")
    program.alloc(size)
    program.alloc(size)
    told = figures(program, tmp_path).peak_gradients
    assert [(holder.place, holder.size_bytes, holder.allocations) for holder in told] == (
        [("forward (a.py:7)", 2 * size, 2)] if is_told else []
    )
    program.alloc(size, "other (b.py:7)")
    assert figures(program, tmp_path).peak_gradients == ()


# Leaks


def stepped(steps: int, leaking: int) -> Program:
    program = Program()
    for step in range(steps):
        program.free(program.alloc(8 * MIB, "forward (a.py:2)"))
        if step >= steps - leaking:
            program.alloc(MIB, "keep (a.py:7)")
        program.step()
    return program


@pytest.mark.parametrize(("steps", "looked_at"), [(8, 5), (7, 0)])
def test_eight_marked_steps_are_enough(steps: int, looked_at: int, tmp_path: Path) -> None:
    """Two steps are warm-up, and the first edge is the end of the third."""
    found = figures(stepped(steps, steps), tmp_path).leaks
    assert (len(found.leaks), found.steps if found.leaks else 0) == ((1, looked_at) if looked_at else (0, 0))


@pytest.mark.parametrize(("leaking", "leaks"), [(8, True), (7, False)])
def test_what_8_of_10_steps_leave_behind_leaks(leaking: int, leaks: bool, tmp_path: Path) -> None:
    found = figures(stepped(13, leaking), tmp_path).leaks
    assert (found.steps, bool(found.leaks)) == (10, leaks)
    if leaks:
        assert (found.leaks[0].steps, found.size_bytes, found.bytes_per_step) == (8, 8 * MIB, 8 * MIB // 10)


# Out of memory


@pytest.mark.parametrize(
    ("stranded", "device_free", "kind", "short", "limited"),
    [
        (60, 40, OomKind.FRAGMENTED, 0, False),
        (59, 40, OomKind.HELD, 1, False),
        (100, None, OomKind.FRAGMENTED, 0, False),
        (99, 100, OomKind.HELD, 1, True),
        (99, 99, OomKind.FRAGMENTED, 0, False),
    ],
)
def test_memory_is_fragmented_where_enough_was_free(
    stranded: int, device_free: int | None, kind: OomKind, short: int, limited: bool
) -> None:
    failed = OutOfMemory(0, (), 100, device_free, MemoryMoment(0, 0, 0, stranded, 0, 0, 1, ()), ())
    assert (failed.kind, failed.short_bytes, failed.is_limited) == (kind, short, limited)


def test_the_last_three_are_told_with_what_was_asked_for(tmp_path: Path) -> None:
    program = Program()
    program.alloc(MIB, "a (a.py:1)")
    for size in (1, 2, 3, 4):
        program.out_of_memory(size * MIB, 0, "b (a.py:2)")
    found = figures(program, tmp_path).out_of_memories
    assert [(one.request_bytes, one.device_free_bytes, one.path) for one in found] == [
        (size * MIB, 0, ("b (a.py:2)",)) for size in (2, 3, 4)
    ]
    assert [holder.size_bytes for holder in found[0].held] == [MIB]


# Over time


def test_the_most_of_each_part_of_the_history(tmp_path: Path) -> None:
    program = Program()
    first = program.alloc(2 * MIB, "a (a.py:1)")
    program.free(first)
    program.alloc(MIB, "b (a.py:2)")
    path = written(tmp_path, program.snapshot())
    snapshot = open_snapshot(path)
    [found] = snapshot_figures(snapshot)
    by_event = memory_curve_by_event(snapshot, found, bins=3)
    assert by_event.allocated_bytes.tolist() == [2 * MIB, 2 * MIB, MIB]
    assert by_event.reserved_bytes.tolist() == [2 * MIB, 2 * MIB, 3 * MIB]
    assert [(band.holder.place, band.held_bytes.tolist()) for band in by_event.bands] == [
        ("b (a.py:2)", [0, 0, MIB]),
        ("a (a.py:1)", [2 * MIB, 2 * MIB, 0]),
    ]
    start = found.start_ns or 0
    assert found.history_span == Span(start, start + 50_000)
    assert (found.since_start_ns(-1), found.since_start_ns(4), found.instant_ns(6)) == (0, 40_000, None)
    in_time = memory_curve(snapshot, found, start, start + 50_000, bins=5)
    assert (len(in_time.allocated_bytes), in_time.allocated_bytes.max()) == (5, 2 * MIB)
    assert found.peak_named is not None
    assert found.peak_named.place == "a (a.py:1)"


# Copies and memory of a trace


def test_copies_by_kind_and_direction() -> None:
    recorded = trace(
        "s7: 0-10 gemm; 100-200 gemm",
        "s1: 10-30 Host-to-Device bytes=4000 memory=Pinned; 40-60 Host-to-Device bytes=1000 memory=Pinned",
        "s1: 70-80 Memset bytes=100",
    )
    [device] = analysed(recorded)
    copied, filled = copies_by_kind(recorded, device)
    assert (copied.kind, copied.copies, copied.total_bytes, copied.total_ns) == ("Host-to-Device", 2, 5_000, 40)
    assert (copied.bytes_per_s, copied.per_step, copied.is_pageable) == (125e9, None, False)
    assert (filled.kind, filled.copies, filled.total_bytes, filled.total_ns) == ("Memset", 1, 100, 10)
    flow, memset = copy_flows(recorded, device)
    assert (flow.kind, flow.memory, flow.count, flow.total_bytes, flow.running_ns, flow.exposed_ns) == (
        "Host-to-Device",
        "Pinned",
        2,
        5_000,
        40,
        40,
    )
    assert (flow.longest, flow.bytes_per_s, memset.exposed_ns) == (Span(10, 30), 125_000_000_000, 10)


def flow(**known: Any) -> CopyFlow:
    fields: dict[str, Any] = {
        "kind": "Host-to-Device",
        "memory": "Pinned",
        "count": 10,
        "total_bytes": 1_000_000,
        "running_ns": 100_000,
        "exposed_ns": 50_000,
        "way_bytes_per_s": 20_000_000_000,
        "is_own_rate": False,
        "longest": Span(0, 1),
        "pid": 1,
        "correlations": (),
    }
    return CopyFlow(**(fields | known))


@pytest.mark.parametrize(("running_ns", "is_at_rate"), [(62_500, True), (62_501, False)])
def test_a_copy_at_80_per_cent_of_its_way_is_as_fast_as_it_gets(running_ns: int, is_at_rate: bool) -> None:
    copied = flow(running_ns=running_ns)
    assert copied.is_at_rate == is_at_rate
    assert copied.slow_ns == (0 if is_at_rate else 12_501 * 50_000 // 62_501)


def test_slow_copies_lose_what_their_way_does_not_take() -> None:
    assert flow().slow_ns == 25_000  # 50 us of 100 would do; half of it is exposed
    assert flow(memory="Pageable", running_ns=60_000).slow_ns == 10_000 * 50_000 // 60_000
    assert flow(total_bytes=0).slow_ns == flow(way_bytes_per_s=None).slow_ns == 0
    assert (flow(total_bytes=0).bytes_per_s, flow(total_bytes=0).is_at_rate, flow().bytes_per_s) == (None, True, 10**10)


@pytest.mark.parametrize(("count", "are_small"), [(5, False), (6, True)])
def test_a_copy_of_under_10_us_is_small(count: int, are_small: bool) -> None:
    assert flow(count=count).are_small == are_small
    assert not flow(count=count, way_bytes_per_s=None).are_small


def test_memory_in_use_counts_allocations_from_before() -> None:
    assert isinstance(memory_totals(trace("s7: 0-10 gemm"), 0), NotMeasured)
    recorded = trace("s7: 0-10 gemm; 50-100 gemm", "t0: 20-30 cudaMalloc; 40-45 launch")
    [device] = analysed(recorded)
    found = memory_figures(recorded, device)
    assert [(row.name, row.calls, row.total_ns) for row in found.allocation_calls] == [("cudaMalloc", 1, 10)]
    assert isinstance(memory_use(recorded, 0, Span(0, 100)), NotMeasured)
