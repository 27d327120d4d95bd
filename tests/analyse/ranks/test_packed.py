"""Packed tables: what comes out is what went in, whatever the values, and the room that they take meanwhile."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec.structs import replace

from gpuledger.analyse.ranks.job import job
from gpuledger.analyse.ranks.packed import PackedTable
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_collectives import Collectives, PackedCollectives
from gpuledger.trace.spans import Span, Spans, union
from support.traces.rank_notation import moved, rank, unpacked

COUNT = 5_000
"""Collectives of a long capture."""


def long_rank(number: int, world: int) -> RankSummary:
    random = np.random.default_rng(number)
    end = np.arange(1, COUNT + 1) * 400_000
    start = end - random.integers(20_000, 200_000, COUNT)
    stream, kind, dtype, group, size = (np.full(COUNT, value) for value in (20, 0, 1, -1, 4096))
    whole = Span(0, int(end[-1]))
    return replace(
        rank(number, world=world),
        window=whole,
        steady=whole,
        exposed=PackedTable.of(union(start, end)),
        collectives=PackedCollectives.of(Collectives(start, end, stream, kind, dtype, group, size)),
    )


@given(
    st.sampled_from((np.int64, np.int32, np.int8, np.bool_)).flatmap(
        lambda dtype: st.tuples(
            arrays(dtype, st.integers(0, 20)), arrays(dtype, st.tuples(st.integers(0, 9), st.just(3)))
        )
    )
)
def test_what_is_unpacked_is_what_was_packed(columns: tuple[np.ndarray, np.ndarray]) -> None:
    packed = PackedTable.of(Spans(*columns))
    again: PackedTable[Spans] = pickle.loads(pickle.dumps(packed))  # noqa: S301
    assert len(again) == len(columns[0])
    for name, column in zip(("start_ns", "end_ns"), columns, strict=True):
        for same in (getattr(again.unpacked(), name), again.column(name)):
            assert (same.dtype, same.tolist()) == (column.dtype, column.tolist())
            same[...] = 0  # it is nobody else's


def test_collectives_come_back_by_group_and_by_stream() -> None:
    summary = moved(rank(0, "0-10 all_reduce 8 B", "20-30 all_gather", "40-50 all_reduce"), 7)
    whole = unpacked(summary)
    assert whole.start_ns.tolist() == [7, 20_007, 40_007]
    of_two = PackedCollectives.of(replace(whole, stream=np.array([5, 9, 5])))
    assert (len(of_two), of_two.nameless, of_two.streams) == (3, 3, (5, 9))
    assert [lane.column("start_ns").tolist() for lane in of_two.lanes().values()] == [[7, 40_007], [20_007]]
    assert [lane.unpacked().bytes.tolist() for lane in of_two.lanes().values()] == [[8, -1], [-1]]


def test_a_rank_more_takes_little_more_room() -> None:
    """Of each rank stays what it was packed to; of times that ranks have to be compared by, those of one at a time."""

    def peak_bytes(count: int) -> int:
        ranks = [long_rank(number, count) for number in range(count)]
        assert len(pickle.dumps(ranks[0])) < 10 * COUNT
        tracemalloc.start()
        found = job(ranks)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [part.matched for part in found.parts] == [COUNT] * count
        return peak

    few, many = peak_bytes(4), peak_bytes(24)
    assert many - few < 20 * 2 * COUNT  # two bytes for each collective of the other 20; a time alone has eight
