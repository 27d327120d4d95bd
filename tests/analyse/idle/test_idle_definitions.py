"""The definitions of what launching costs and of gaps, with numbers by hand."""

from __future__ import annotations

import pytest

from gpuledger.analyse.idle.gap_summary import gap_summary
from gpuledger.analyse.idle.launch_costs import launch_costs
from gpuledger.analyse.idle.overlap import overlap, stream_overlap
from gpuledger.ledger.causes import Cause
from support.traces.book_checks import analysed
from support.traces.trace_notation import called, trace


def test_launched_work_waits_in_buckets_up_to_but_not_including_their_bound() -> None:
    """Launches return at 1,000 ns; their work begins so long after."""
    delays = (-500, 0, 1_999, 2_000, 5_000, 10_000, 10_001, 100_000, 1_000_000)
    lines = [f"t{at}: 0-1000 launch -> s{at}: {1_000 + delay}-{10**7} k" for at, delay in enumerate(delays)]
    [device] = analysed(trace(*lines))
    costs = launch_costs(trace(*lines), device)
    assert [count for _, count in costs.by_delay] == [1, 2, 1, 1, 2, 1, 1]
    queue = costs.queue
    assert (queue.activities, queue.launched_share, queue.per_step, queue.tiny_share) == (9, 1.0, None, 0.0)
    assert (queue.queued_p10_ns, queue.queued_median_ns, queue.ahead_share) == (0, 5_000, 3 / 9)


@pytest.mark.parametrize(("length", "share"), [(4_999, 0.5), (5_000, 0.0)])
def test_what_runs_under_5_us_is_tiny(length: int, share: float) -> None:
    recorded = trace("s7: 0-9000 gemm", f"s8: 0-{length} gemm")
    assert launch_costs(recorded, analysed(recorded)[0]).queue.tiny_share == share


def test_calls_and_families_have_the_most_first() -> None:
    recorded = called(
        "t0: 0-2 launch -> s7: 10-20 gemm; 3-8 launch -> s7: 30-35 relu_kernel; 9-10 launch -> s7: 40-42 gemm",
        "t0: 43-60 sync",
        "t1: 50-70 sync",
        "s7: 70-80 gemm",
        "ranges t0: 0-9 outer; 2-9 inner",
    )
    costs = launch_costs(recorded, analysed(recorded)[0])
    [launch] = costs.launch_calls
    assert (launch.calls, launch.total_ns, launch.mean_ns, launch.median_ns) == (3, 8_000, 8_000 / 3, 2_000)
    assert (costs.waiting_calls[0].calls, costs.waiting_calls[0].total_ns, costs.waited_ns) == (2, 37_000, 27_000)
    assert [(row.range, row.instances, row.launches, row.per_instance, row.total_ns) for row in costs.by_range] == [
        ("outer", 1, 2, 2.0, 7_000),
        ("inner", 1, 1, 1.0, 5_000),
    ]
    assert [(row.family, row.kernels, row.total_ns, row.median_ns) for row in costs.by_family] == [
        ("gemm", 3, 22_000, 10_000),
        ("activation", 1, 5_000, 5_000),
    ]


def test_what_hides_under_what() -> None:
    [device] = analysed(
        trace(
            "s7: 0-40 gemm", "s8: 30-60 ncclDevKernel_AllReduce", "s9: 50-80 Host-to-Device bytes=8", "s7: 90-100 gemm"
        )
    )
    assert [(row.kind, row.running_ns, row.hidden_ns, row.exposed_ns, row.share) for row in overlap(device)] == [
        ("compute", 50, 0, 50, 0.5),
        ("communication", 30, 10, 20, 0.2),
        ("copies", 30, 10, 20, 0.2),
        ("idle", 10, 0, 10, 0.1),
    ]


def test_kernels_that_overlap_on_one_stream() -> None:
    recorded = trace("s7: 0-10 a; 8-20 b; 20-30 a; 29-40 b", "s8: 5-35 c")
    found = stream_overlap(recorded, analysed(recorded)[0])
    assert (found.kernels, found.overlap_ns, found.in_graphs, found.steps) == (2, 3, 0, 1)
    assert [(pair.before, pair.name, pair.count, pair.overlap_ns) for pair in found.pairs] == [("a", "b", 2, 3)]


def test_gaps_by_cause_and_the_longest_first() -> None:
    recorded = called(
        "t0: 0-2 launch -> s7: 4-10 a; 30-32 launch -> s7: 34-40 b; 100-102 launch -> s7: 104-110 c",
        "ranges t0: 25-35 part",
    )
    [device] = analysed(recorded)
    found = gap_summary(recorded, device)
    first, second, third = found.longest
    assert (first.length_ns, first.before, first.after, first.ranges) == (64_000, "b", "c", ())
    assert (second.length_ns, second.start_ns, second.before, second.ranges) == (24_000, 10_000, "a", ("part",))
    assert (second.cause, second.cause_ns, third.before, third.after) == (Cause.DISPATCH, 20_000, None, "a")
    assert {row.cause: row.time_ns for row in found.by_cause} == {
        Cause.DISPATCH: 80_000,
        Cause.LAUNCH: 6_000,
        Cause.LAUNCH_LATENCY: 6_000,
    }
    assert [(row.length, row.from_ns, row.to_ns, row.time_ns) for row in found.by_length if row.gaps] == [
        ("1-5 us", 1_000, 5_000, 4_000),
        ("10-50 us", 10_000, 50_000, 24_000),
        ("50-100 us", 50_000, 100_000, 64_000),
    ]
    assert [row.to_ns for row in found.by_length[:-1]] == [row.from_ns for row in found.by_length[1:]]
    assert (found.by_length[0].from_ns, found.by_length[-1].to_ns) == (0, None)
    assert (found.idle_ns, found.steady_idle_ns, found.gaps) == (92_000, 92_000, 3)
    assert [row.length_ns for row in gap_summary(recorded, device, 24_001).longest] == [64_000]
    assert [row.length_ns for row in gap_summary(recorded, device, 24_000).longest] == [64_000, 24_000]
