"""The events of a stretch: all that overlaps it, each once, on lanes in which nothing overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.timeline import events as timeline_events
from gpuledger.analyse.timeline.events import (
    MOST_EVENTS,
    EventFinder,
    Events,
    EventSource,
    lanes,
    shown_stretches,
    stretch_of,
)
from gpuledger.ledger.device import analyse_devices
from gpuledger.ledger.host import host_and_activities
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.traces.trace_notation import of_tables, table, trace

Bounds = Sequence[tuple[int, int]]


def launched(kernels: Bounds, calls: Bounds, ranges: Bounds = ()) -> Trace:
    """Kernels with the calls that launched them, one after the other, and ranges around calls."""
    strings = Strings(("k", "cudaLaunchKernel", "runtime", "step", "push_pop", ""))
    rows = {
        which: table(
            which,
            strings,
            len(bounds),
            start_ns=[start for start, _ in bounds],
            end_ns=[end for _, end in bounds],
            **{column: [text] * len(bounds) for column, text in texts.items()},
            **({} if which is Table.RANGES else {"correlation": range(1, len(bounds) + 1)}),
        )
        for which, bounds, texts in (
            (Table.KERNELS, kernels, {"name": "k"}),
            (Table.CALLS, calls, {"name": "cudaLaunchKernel", "layer": "runtime"}),
            (Table.RANGES, ranges, {"name": "step", "kind": "push_pop", "domain": ""}),
        )
    }
    return of_tables(strings, rows)


def found(of: Trace, span: Span, room: int = MOST_EVENTS) -> Events:
    return EventFinder(of, *host_and_activities(of)).events(span, room)


def test_a_stretch_holds_what_overlaps_it_with_its_launches() -> None:
    of = launched([(30, 50), (60, 90)], [(10, 20), (25, 35)], [(5, 40)])
    events = found(of, Span(20, 70))
    assert [
        (track.is_thread, int(count)) for track, count in zip(events.tracks, np.bincount(events.track), strict=True)
    ] == [
        (False, 2),
        (True, 2),
    ]
    assert list(zip(events.start_ns.tolist(), events.end_ns.tolist(), events.lane.tolist(), strict=True)) == [
        (30, 50, 0),
        (60, 90, 0),
        (5, 40, 0),
        (25, 35, 1),
    ]
    assert events.launch.tolist() == [-1, 3, -1, -1]  # the first call had returned before


bounds = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12).map(
    lambda drawn: [(start, start + length) for start, length in drawn]
)


@given(bounds, bounds, st.integers(0, 40), st.integers(1, 20), st.integers(1, 30))
def test_every_event_that_overlaps_is_there_once_or_counted(
    calls: Bounds, ranges: Bounds, start: int, length: int, room: int
) -> None:
    of, span = launched([(0, 100)], calls, ranges), Span(start, start + length)
    with patch.object(timeline_events, "_BLOCK", 2):  # so few rows are one block
        events = found(of, span, room)
    expected = sorted(
        (begin, end)
        for begin, end in (*calls, *ranges, (0, 100))
        if begin < span.end_ns and (end > start or begin >= start)
    )
    shown = sorted(zip(events.start_ns.tolist(), events.end_ns.tolist(), strict=True))
    assert len(shown) + events.left_out == len(expected)
    assert set(shown) <= set(expected)
    if events.left_out:
        assert len(shown) == room
        assert all(end - begin >= events.least_ns for begin, end in shown)
    else:
        assert shown == expected
    for position in range(len(events.tracks)):
        for lane in range(int(events.lane.max(initial=0)) + 1):
            here = np.flatnonzero((events.track == position) & (events.lane == lane))
            assert (events.end_ns[here][:-1] <= events.start_ns[here][1:]).all()


def test_what_nests_lies_under_what_encloses_it() -> None:
    assert lanes(np.array([0, 0, 10, 50]), np.array([100, 60, 20, 55])).tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("room", [1, 5, 400, MOST_EVENTS])
def test_a_run_without_steps_is_shown_whole_and_bounded(room: int) -> None:
    of = trace(*(f"s0: {at}-{at + 1 + at % 7}" for at in range(0, 9000, 10)))
    [device] = analyse_devices(of, "run", Selection(kernel_pattern=None))
    shown = shown_stretches(EventFinder(of, device.host, device.work), device, [Span(4000, 4010)], room)
    assert 0 < sum(len(stretch.events) for stretch in shown) <= room
    assert shown[0].core == device.ledger.window or shown[0].step is not None
    assert stretch_of(Span(4000, 4010), shown) is not None


def test_the_steps_of_places_come_after_the_median_and_the_longest() -> None:
    lengths = [100] * 9 + [300] + [100] * 9
    edges = np.cumsum([0, *lengths]).tolist()
    of = trace(*(f"s0: {start}-{start + length - 10} last" for start, length in zip(edges, lengths, strict=False)))
    [device] = analyse_devices(of, "run", Selection(kernel_pattern="last"))
    finder = EventFinder(of, device.host, device.work)
    shown = shown_stretches(finder, device, [Span(edges[15] + 5, edges[15] + 6)])
    assert [stretch.is_median for stretch in shown[:2]] == [True, False]
    assert [stretch.is_worst for stretch in shown[:2]] == [False, True]
    assert sorted(stretch.step or 0 for stretch in shown) == list(range(len(lengths)))
    assert {int(source) for stretch in shown for source in stretch.events.source} == {EventSource.GPU_WORK}
