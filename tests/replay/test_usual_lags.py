"""What is usual in one trace, in words, and used for another of the same machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger import open_trace
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
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
