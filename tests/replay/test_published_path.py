"""The critical path beside HolisticTraceAnalysis' answers for its own traces, where the corpus is there.

HTA marks the events on its path in a copy of the trace, and its tests name edges that its graph must have. Its path
begins with the trace's first operator and ends with its last call; ours is of what the GPU did.
"""

from __future__ import annotations

import gzip
import json
from functools import cache

import numpy as np

from gpuledger.ledger.activity import short_function_name
from gpuledger.read import open_trace
from gpuledger.replay.critical_path import PathPart, critical_path
from gpuledger.replay.scenario import Scenario, scenario
from support.profiles.corpus import corpus_file
from support.traces.book_checks import analysed

US = 1_000


@cache
def published(ending: str) -> Scenario:
    trace = open_trace(corpus_file(ending))
    [device] = analysed(trace)
    return scenario(trace, device)


def operation(model: Scenario, correlation: int) -> int:
    """The position of the operation that a call with this id launched."""
    [position] = np.flatnonzero(model.device.work.correlation == correlation).tolist()
    return int(position)


def test_the_same_operations_and_calls_are_on_the_path() -> None:
    marked = json.loads(
        gzip.decompress(corpus_file("simple_add__output__overlaid_critical_path_trace.json.gz").read_bytes())
    )
    theirs = [event for event in marked["traceEvents"] if event["ph"] == "X" and event["args"].get("critical")]
    on_gpu = [event for event in theirs if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    model = published("simple_add__input__trace.json.gz")
    path = critical_path(model)
    running = path.are(PathPart.RUNNING)
    ours = model.device.work.correlation[np.unique(path.operation[running])].tolist()
    assert sorted(ours) == sorted(event["args"]["correlation"] for event in on_gpu)
    assert len(ours) == 22
    assert path.length_ns[running].sum() == US * sum(event["dur"] for event in on_gpu)

    calls = model.device.host.calls["correlation"][model.graph.call_row[np.unique(path.call[path.call >= 0])]].tolist()
    theirs_too = {event["args"]["correlation"] for event in theirs if event["cat"] == "cuda_runtime"}
    # theirs alone: what comes before the first work's launch, and after the last work; ours alone: a wait for that
    assert (len(theirs_too), len(theirs_too & set(calls))) == (250, 236)


def test_a_kernel_waits_for_an_event_of_another_stream() -> None:
    model = published("alexnet__benchmark_result_2869224_1695835535_trace.json.gz")
    source, waiting = operation(model, 5606), operation(model, 5629)  # fft2d_c2r on 20, elementwise on 7
    assert model.graph.operations.other[waiting] == source


def test_delays_of_launches_and_between_kernels() -> None:
    model = published("simple_add__input__trace.json.gz")
    fft, following = operation(model, 5597), operation(model, 5604)
    work, graph = model.device.work, model.graph
    assert work.start_ns[fft] - graph.recorded.call_begin[graph.operations.call[fft]] == 27 * US
    assert work.start_ns[following] - work.end_ns[fft] == 7 * US


def test_calls_wait_for_the_kernel_before_their_event() -> None:
    model = published("cuda_event_sync__event_sync_trace.json.gz")
    calls, work, graph = model.device.host.calls, model.device.work, model.graph
    waits = {
        (short_function_name(calls.texts("name")[int(graph.call_row[call])] or ""), work.families[work.family[awaited]])
        for call in range(len(graph.calls))
        for awaited in graph.wait[graph.calls.first_wait[call] : graph.calls.first_wait[call + 1]].tolist()
        if work.family[awaited] >= 0
    }
    assert {name for name, _ in waits} == {"cudaEventSynchronize", "cudaDeviceSynchronize"}


def test_which_stream_an_event_was_recorded_in_is_not_known() -> None:
    """A miss: HTA reads `wait_on_stream` and finds 27; our tables do not hold it, so it is what was launched last.

    It makes no difference here: both were over 18 ms before.
    """
    model = published("cuda_event_sync_multi_stream__event_sync_trace.json.gz")
    waiting = operation(model, 1411)
    assert model.device.work.correlation[model.graph.operations.other[waiting]] == 57
    path = critical_path(model)
    assert path.length_ns.sum() == model.device.steady_ns
