"""What is usual in one trace, in words, and used for another of the same machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuledger import open_trace
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.lags import look_up_lags, middle, trimmed_mean, usual_by_key, wake_up_key
from gpuledger.replay.passes import replay_times
from gpuledger.trace.model import Trace
from support.traces.lag_words import LagWords, UsualLags, usual_lags
from support.traces.trace_notation import called

LAUNCHES = [
    f"{100 * place}-{100 * place + 10} cudaLaunchKernel -> s7: {100 * place + 12}-{100 * place + 50}"
    for place in range(9)
]
WAITS = [f"{100 * place + 20}-{100 * place + 55} cudaStreamSynchronize" for place in range(9)]
IN_TURN = [line for pair in zip(LAUNCHES, WAITS, strict=True) for line in pair]


def error(trace: Trace, given: UsualLags) -> float:
    host, work = host_and_activities(trace)
    graph = dependency_graph(trace, host, work, residuals=False, lags=LagWords(trace.strings, given))
    wall = work.end_ns.max() - graph.recorded.call_begin.min()
    return float(abs(replay_times(graph).end.max() - work.end_ns.max()) / wall)


def test_a_trace_says_what_is_usual_in_it() -> None:
    usual = usual_lags(called(*IN_TURN))
    assert usual.launch_ns == {("cudaLaunchKernel", "kernel", "after the call"): 2_000}
    assert usual.wake_up_ns == {("cudaStreamSynchronize", ""): 5_000}
    assert usual.shortest_ns == {("cudaStreamSynchronize",): 5_000}


def test_what_is_given_is_taken() -> None:
    trace = called(*IN_TURN)
    own = usual_lags(trace)
    slower = UsualLags(
        {key: 3 * lag for key, lag in own.launch_ns.items()}, {}, {}, {}, own.wake_up_ns, own.shortest_ns
    )
    assert error(trace, own) == 0
    assert error(trace, slower) > 0


def test_what_is_shown_once_is_not_said() -> None:
    assert usual_lags(called(*IN_TURN[:2])) == UsualLags({}, {}, {}, {}, {}, {})


@pytest.mark.parametrize(("name", "other"), [("decode", "attn"), ("moe_batched_gemm", "decode"), ("zoo_node", "graph")])
def test_another_capture_of_the_machine(unpacked: Callable[[str], Path], name: str, other: str) -> None:
    given = usual_lags(open_trace(unpacked(f"{other}.sqlite")))
    assert error(open_trace(unpacked(f"{name}.sqlite")), given) < 0.03


# what is usual


def test_a_tenth_of_the_lowest_and_of_the_highest_is_left_out_of_a_mean() -> None:
    values = np.array([0, 5, *[10] * 6, 20, 1_000])
    assert trimmed_mean(values) == 11  # of 85 in eight; of all it would be 108, without two on each side 10
    assert trimmed_mean(values[1:]) == 121  # of nine values none is left out


def test_a_kind_is_known_from_so_many_on() -> None:
    keys, values = np.array([7] * 4 + [9] * 3), np.array([1, 2, 3, 10, 5, 5, 5])
    known = usual_by_key(values, keys, middle, 4)
    assert known == {7: 2}  # half way between 2 and 3, rounded to even
    assert look_up_lags(np.array([9, 7, 8]), known, -3).tolist() == [-3, 2, -3]
    assert usual_by_key(values, keys, middle, 3) == {7: 2, 9: 5}


def test_waits_for_copies_are_alike_within_a_power_of_two_from_4_us_on() -> None:
    sizes = (wake_up_key(np.full(6, 1), np.array([0, 1, 4_096, 8_191, 8_192, 16_384])) & 63).tolist()
    assert sizes == [0, 12, 12, 12, 13, 14]
