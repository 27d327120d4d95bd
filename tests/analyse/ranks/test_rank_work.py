"""What is kept of one rank to be replayed: whole steps, and what its host did by cause."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from gpuledger import open_trace
from gpuledger.analyse.ranks.packed import PackedTable
from gpuledger.analyse.ranks.rank import OF_CODE, WorkPart, rank_summary
from gpuledger.replay.passes import replay_times
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.traces.replayed_ranks import GENERATOR, LAUNCHES
from support.traces.trace_notation import of_tables, table

US = 1_000


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder: Path = tmp_path_factory.mktemp("rank")
    events = LAUNCHES * 12 * GENERATOR.EVENTS_PER_LAUNCH
    return open_trace(GENERATOR.write_job(folder, ranks=2, events=events, steps=12)[0])


@pytest.mark.parametrize(
    ("operations", "first", "steps"), [(3 * LAUNCHES, 3, 4), (20, 4, 3), (10, 4, 2), (5, 5, 1), (3, None, 0)]
)
def test_whole_steps_from_the_middle_as_many_as_there_is_room_for(
    generated: Trace, operations: int, first: int | None, steps: int
) -> None:
    packed = rank_summary(generated, "rank", Selection(), operations=operations).work
    if first is None:
        assert isinstance(packed, NotMeasured)
        assert "--time=FROM:TO" in packed.reason
        return
    assert isinstance(packed, PackedTable)
    work = packed.unpacked()
    assert (work.first_step, len(work.edges) - 1) == (first, steps)
    assert len(work.graph.operations) == steps * LAUNCHES
    assert np.unique(work.step).tolist() == list(range(first, first + steps))
    assert np.array_equal(replay_times(work.graph).end, work.graph.recorded.end)


def test_what_was_packed_takes_a_fraction_and_comes_back_as_it_was(generated: Trace) -> None:
    packed = rank_summary(generated, "rank", Selection(), operations=10 * LAUNCHES).work
    assert isinstance(packed, PackedTable)
    work = packed.unpacked()
    assert PackedTable.of(work).content == packed.content
    assert len(pickle.dumps(packed)) < len(pickle.dumps(work)) / 3
    assert work.edges == packed.bare.edges
    assert [column.dtype for column in (work.step, work.part, work.graph.order)] == [np.int32, np.int8, np.int64]
    assert work.code_ns.shape == (len(work.graph.calls), len(OF_CODE))
    assert all(column.flags.aligned for column in (work.graph.calls.code_ns, work.graph.recorded.start))


def hosted(*between: tuple[Table, str, int, int]) -> Trace:
    """Two launches with 1 ms of code between them, in which the host does these things, in microseconds."""
    texts = ["runtime", "os", "push_pop", "cudaLaunchKernel", "k", *(name for _, name, _, _ in between)]
    strings = Strings(dict.fromkeys(texts))
    rows = [("cudaLaunchKernel", 0, 10, "runtime", 1), ("cudaLaunchKernel", 1_010, 1_020, "runtime", 2)]
    rows += [(name, start, end, "os", 0) for which, name, start, end in between if which is Table.CALLS]
    names, starts, ends, layers, numbers = zip(*sorted(rows, key=lambda row: row[1]), strict=True)
    times = {"start_ns": [US * start for start in starts], "end_ns": [US * end for end in ends]}
    calls = table(Table.CALLS, strings, len(rows), **times, name=names, layer=layers, correlation=numbers)
    work = {"start_ns": [20 * US, 1_030 * US], "end_ns": [30 * US, 1_040 * US], "name": ["k", "k"]}
    kernels = table(Table.KERNELS, strings, 2, **work, correlation=[1, 2], graph_node=[-1, -1])
    marked = [(name, start, end) for which, name, start, end in between if which is Table.RANGES]
    spans = {
        "start_ns": [US * start for _, start, _ in marked],
        "end_ns": [US * end for _, _, end in marked],
        "name": [strings.code(name) for name, _, _ in marked],
        "kind": [strings.code("push_pop")] * len(marked),
    }
    ranges = table(Table.RANGES, strings, len(marked), **spans)
    return of_tables(strings, {Table.CALLS: calls, Table.KERNELS: kernels, Table.RANGES: ranges})


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ((), {}),
        (((Table.RANGES, "Python GC", 100, 400),), {WorkPart.GARBAGE: 300}),
        (((Table.RANGES, "gc.collect", 0, 2_000),), {WorkPart.GARBAGE: 1_000}),
        (((Table.RANGES, "gc_free_step", 100, 400),), {}),
        (((Table.CALLS, "read", 100, 250),), {WorkPart.SYSTEM: 150}),
        (((Table.CALLS, "pthread_cond_wait", 100, 250),), {WorkPart.THREAD: 150}),
        (
            ((Table.CALLS, "read", 100, 200), (Table.RANGES, "GC", 300, 500)),
            {WorkPart.SYSTEM: 100, WorkPart.GARBAGE: 200},
        ),
    ],
)
def test_what_the_host_did_between_its_calls(
    between: tuple[tuple[Table, str, int, int], ...], expected: dict[WorkPart, int]
) -> None:
    trace = hosted(*between)
    packed = rank_summary(trace, "rank", Selection(), operations=100).work
    assert isinstance(packed, PackedTable)
    work = packed.unpacked()
    assert work.code_ns[0].tolist() == [0, 0, 0]  # before a thread's first call nothing is known
    told = {part: int(amount) // US for part, amount in zip(OF_CODE, work.code_ns[1], strict=True) if amount}
    assert told == expected
