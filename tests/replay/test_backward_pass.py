"""Back from a replay's end: the path is whole, slack is what it says, and the compiled passes are the plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from gpuledger.replay.edits import with_durations
from gpuledger.replay.graph import DependencyGraph, GraphEvent, OperationFlag, Times
from gpuledger.replay.passes import (
    NO_LIMIT,
    HeldPath,
    Latest,
    PathWalk,
    is_compiled,
    no_limits,
    replay_times,
    set_limits,
)
from support.traces.drawn_graphs import graphs


def last_path(graph: DependencyGraph, times: Times, stop_ns: int = -NO_LIMIT) -> HeldPath:
    """Back from the end of the last operation."""
    last = len(graph.operations) - 1
    return PathWalk(graph, times).back(last << 2 | GraphEvent.OPERATION, int(times.end[last]), stop_ns)


def latest_for_last(graph: DependencyGraph, times: Times) -> Latest:
    """How late everything may be for the last operation to end as it does."""
    latest = no_limits(graph)
    latest.end[-1] = times.end[-1]
    set_limits(graph, latest)
    return latest


@given(graphs())
def test_segments_follow_one_another(graph: DependencyGraph) -> None:
    times = replay_times(graph)
    path = last_path(graph, times)
    assert path.end_ns[0] == times.end[-1]
    assert (path.end_ns[1:] == path.start_ns[:-1]).all()
    assert (path.start_ns <= path.end_ns).all()


@given(graphs())
def test_what_runs_on_the_path_has_no_slack_and_nothing_has_less(graph: DependencyGraph) -> None:
    times = replay_times(graph)
    path, latest = last_path(graph, times), latest_for_last(graph, times)
    there = graph.operations.flags & OperationFlag.GONE == 0
    assert (latest.end[there] >= times.end[there]).all()
    assert (latest.call_end >= times.call_end).all()
    segments = np.flatnonzero((path.end_ns > path.start_ns) & (path.event & 3 == GraphEvent.OPERATION))
    on_path = path.event[segments] >> 2
    on_path = on_path[there[on_path] & (path.end_ns[segments] > times.start[on_path])]  # not only what lay before it
    assert (latest.end[on_path] == times.end[on_path]).all()


@given(graphs())
def test_what_must_be_no_later_than_it_is_is_not_late(graph: DependencyGraph) -> None:
    """Of what is gone too, on a stream of its own or not: whoever waits for it waits for what came before it."""
    times, latest = replay_times(graph), no_limits(graph)
    latest.end[:], latest.call_end[:] = times.end, times.call_end
    set_limits(graph, latest)
    assert (latest.start >= times.start).all()
    assert (latest.end == times.end).all()
    assert (latest.call_end == times.call_end).all()


@given(graphs(), st.data())
def test_an_operation_may_be_longer_by_its_slack_and_by_no_more(graph: DependencyGraph, data: st.DataObject) -> None:
    times = replay_times(graph)
    running = np.flatnonzero(graph.operations.flags & OperationFlag.GONE == 0)
    one = np.array([data.draw(st.sampled_from(running.tolist()))])
    slack = int((latest_for_last(graph, times).end - times.end)[one[0]])
    duration = graph.operations.duration_ns[one]
    if slack > 1_000:  # nothing depends on it
        assert replay_times(with_durations(graph, one, duration + 1_000)).end[-1] == times.end[-1]
        return
    assert replay_times(with_durations(graph, one, duration + slack)).end[-1] == times.end[-1]
    assert replay_times(with_durations(graph, one, duration + slack + 1)).end[-1] == times.end[-1] + 1


@pytest.mark.skipif(not is_compiled(), reason="installed without a compiler")
@given(graphs())
def test_the_compiled_passes_are_the_plain_ones(graph: DependencyGraph) -> None:
    times = replay_times(graph)
    compiled = (times, latest_for_last(graph, times), last_path(graph, times), last_path(graph, times, 10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPULEDGER_NATIVE", "0")
        times = replay_times(graph)
        plain = (times, latest_for_last(graph, times), last_path(graph, times), last_path(graph, times, 10))
    for ours, theirs in zip(compiled, plain, strict=True):
        for mine, other in zip(astuple(ours), astuple(theirs), strict=True):
            assert mine.tolist() == other.tolist()


@pytest.mark.skipif(not is_compiled(), reason="installed without a compiler")
@given(graphs())
def test_columns_that_do_not_belong_together_are_refused(graph: DependencyGraph) -> None:
    times = replay_times(graph)
    latest = no_limits(graph)
    with pytest.raises(ValueError, match="do not belong together"):
        set_limits(graph, Latest(latest.call_begin, latest.call_end, latest.start[:-1], latest.end))
    with pytest.raises(ValueError, match="do not belong together"):
        PathWalk(graph, times).back(len(graph.operations) << 2 | GraphEvent.OPERATION, 0, 0)
