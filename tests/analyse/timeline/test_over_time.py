"""Figures over time, with numbers by hand."""

from __future__ import annotations

import numpy as np

from gpuledger.analyse.timeline.events import (
    EventFinder,
    EventSource,
    cover,
    cover_edges,
    lead_ns,
    shown_stretches,
    stream_cover,
    stretch_of,
)
from gpuledger.analyse.timeline.over_time import bin_edges, busy_share, queue_depth, stream_use
from gpuledger.ledger.device import analyse_devices
from gpuledger.selection import Selection
from gpuledger.trace.spans import Span, union
from support.traces.book_checks import analysed
from support.traces.trace_notation import trace


def test_bins_fill_the_window_and_are_never_under_1_ns() -> None:
    assert bin_edges(Span(10, 20), 4).tolist() == [10, 12, 15, 17, 20]
    assert bin_edges(Span(10, 12), 4).tolist() == [10, 11, 12]
    assert bin_edges(Span(10, 10), 4).tolist() == [10, 10]
    assert len(bin_edges(Span(0, 10**6))) == 241


def test_what_overlaps_on_a_stream_counts_once_and_the_busiest_are_told_apart() -> None:
    lines = [f"s{stream}: 0-{10 + stream} gemm" for stream in range(1, 27)]
    recorded = trace(*lines, "s1: 5-20 gemm; 90-100 gemm", "s40: 50-50 gemm")
    [device] = analysed(recorded)
    found = stream_use(device.work, Span(0, 100), bins=2)
    assert (found.edges_ns.tolist(), len(found.streams), found.left_out) == ([0, 50, 100], 24, 2)
    assert [use.stream for use in found.streams] == [1, *range(4, 27)]
    assert [use.busy_ns.tolist() for use in found.streams[:2]] == [[20, 10], [14, 0]]
    assert stream_use(device.work, Span(10, 95), bins=1).streams[0].busy_ns.tolist() == [10 + 5]


def test_a_launch_is_queued_from_its_return_until_its_first_work_begins() -> None:
    recorded = trace("t0: 0-10 launch -> s7: 20-30; 10-12 launch -> s7: 30-40; 35-45 launch -> s7: 40-50")
    [device] = analysed(recorded)
    instants, depth = queue_depth(device)
    assert list(zip(instants.tolist(), depth.tolist(), strict=True)) == [(10, 1), (12, 2), (20, 1), (30, 0)]


def test_the_share_of_each_part_in_which_the_gpu_worked() -> None:
    [device] = analysed(trace("s7: 0-25 gemm", "s8: 20-30 gemm", "s7: 75-100 gemm"))
    begins, share = busy_share(device, 4)
    assert (begins.tolist(), share.tolist()) == ([0, 25, 50, 75], [1.0, 0.2, 0.0, 1.0])


def test_a_step_begins_with_its_first_launch_but_no_longer_before_than_it_takes() -> None:
    recorded = trace("t0: 60-65 launch -> s7: 100-120; 70-75 launch -> s7: 150-160")
    [device] = analysed(recorded)
    assert lead_ns(device.work, device.host, Span(100, 200)) == 40
    assert lead_ns(device.work, device.host, Span(100, 120)) == 20
    assert lead_ns(device.work, device.host, Span(150, 300)) == 80
    assert lead_ns(device.work, device.host, Span(200, 300)) == 0


def test_how_much_of_each_part_spans_fill() -> None:
    edges = np.array([0, 10, 20, 20])
    assert cover(union(np.array([5, 12]), np.array([12, 14])), edges).tolist() == [0.5, 0.4, 0.0]
    assert (len(cover_edges(Span(0, 5_000))), cover_edges(Span(7, 5_007))[:2].tolist()) == (1_001, [7, 12])


def test_how_busy_streams_were_is_told_of_what_is_left_out_too() -> None:
    recorded = trace("s1: 0-600 gemm", "s2: 900-1000 gemm")
    [device] = analysed(recorded)
    finder = EventFinder(recorded, device.host, device.work)
    events = finder.events(Span(0, 1_000), 1)
    assert (len(events), events.left_out, events.least_ns) == (1, 1, 100)
    shares = stream_cover(finder, events)
    assert {track.number: round(float(share.sum())) for track, share in shares.items()} == {1: 600, 2: 100}
    assert (finder.count(Span(0, 950)), finder.count(Span(600, 900)), finder.count(Span(599, 901))) == (2, 0, 2)
    assert events.of(EventSource.GPU_WORK).tolist() == [True]


def test_places_are_shown_with_four_times_their_length_around_them() -> None:
    recorded = trace(*(f"s0: {at}-{at + 7}" for at in range(0, 10**7, 10**4)))
    [device] = analyse_devices(recorded, "x", Selection())
    finder = EventFinder(recorded, device.host, device.work)
    for place, core in (
        (Span(4_000_000, 4_200_000), Span(3_200_000, 5_000_000)),
        (Span(9 * 10**6, 9 * 10**6 + 10), Span(8_500_000, 9_500_010)),
    ):
        whole, around = shown_stretches(finder, device, [place], 1_000)
        assert (whole.core, len(whole.events), around.core) == (device.ledger.window, 600, core)
        assert stretch_of(place, (whole, around)) == 1
