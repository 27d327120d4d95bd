"""Light of public traces, and of kernels inside CUDA graphs, by what their operators were given at the capture."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from gpuledger import open_trace
from gpuledger.analyse.light.books import light_books
from gpuledger.analyse.light.kernel_light import kernel_light
from gpuledger.analyse.light.steady_kernels import SteadyKernels, all_steady
from gpuledger.analyse.operators.graph_places import named_by_trace
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from support.profiles.torch_traces import CAPTURES, CORPUS
from support.thorough import some

RECORDED = (
    *("b200__eager_trace", "h100__Qwen_Qwen1.5-0.5B-Chat__1016005", "mi300__Qwen_Qwen1.5-0.5B-Chat__1016005"),
    *("sglang_Qwen3-8B_prefilldecode", "bs_32_rank0", "trace_diff__control__control", "trace_diff__test__test"),
    *("graph_capture_rank_0.1773709679453551615.pt.trace", "sglang_Qwen3-8B_decode", "graph_execution"),
)
"""Public traces with shapes, of GPUs that have peaks."""

CAPTURED = {
    "sglang_Qwen3-8B_decode": "bs_32_rank0",
    "graph_execution": "graph_capture_rank_0.1773709679453551615.pt.trace",
}
"""Of graphs, the trace of their capture."""


def _busiest(trace: Trace) -> Device:
    return max(analyse_devices(trace, "", Selection()), key=lambda device: device.compute_ns)


def _kernels(trace: Trace) -> SteadyKernels:
    return all_steady(trace, _busiest(trace))


@lru_cache(maxsize=1)
def _graphs(name: str) -> SteadyKernels:
    return _kernels(open_trace(CAPTURES / f"{name}.json.gz", cache=False))


def _public(ending: str) -> Path:
    path = next(iter(CORPUS.glob(f"*{ending}.json.gz")), None)
    if path is None:
        pytest.skip("the corpus of third-party profiles is not here")
    return path


@pytest.mark.parametrize("name", some(RECORDED, 2))
def test_less_than_a_tenth_is_unknown_where_shapes_were_recorded(name: str) -> None:
    trace = open_trace(_public(name), cache=False)
    if name in CAPTURED:
        capture = _public(CAPTURED[name])
        trace = named_by_trace(trace, name, open_trace(capture, cache=False), capture.name)
    kernels, device = _kernels(trace), _busiest(trace)
    books, light = light_books(device, kernels), kernels.once(kernel_light)
    assert books is not None
    assert books.whole.unknown_ns < 0.1 * books.whole.whole_ns
    assert books.whole.whole_ns == device.compute_ns
    for column in (light.low_ns, light.light_ns, light.high_ns):
        assert (np.nan_to_num(column) <= kernels.took_ns).all()
    assert (np.nan_to_num(light.low_ns) <= np.nan_to_num(light.high_ns)).all()


@pytest.mark.parametrize("name", ["graph_warm", "graph_capture_only"])
def test_kernels_of_graphs_are_known_by_what_was_captured(name: str) -> None:
    light = _graphs(name).once(kernel_light)
    assert light.is_known.all()
    names, number = light.operator_names
    assert {names[one] for one in set(number.tolist())} >= {"aten::mm", "aten::silu"}


def test_a_kernel_needs_the_same_inside_a_graph_and_outside() -> None:
    kernels = _graphs("graph_warm")
    light = kernels.once(kernel_light)
    assert light.in_graphs is not None
    inside = light.in_graphs.row >= 0
    assert inside.any()
    for name in set(kernels.names[inside].tolist()):
        mine = (kernels.names == name) & ~np.isnan(light.light_ns)
        assert light.light_ns[mine & inside].mean() == pytest.approx(light.light_ns[mine & ~inside].mean(), rel=0.01)


def test_a_second_file_tells_the_light_of_a_graph() -> None:
    replay, capture = (CAPTURES / f"{name}.json.gz" for name in ("graph", "decode"))
    alone = open_trace(replay, cache=False)
    named = named_by_trace(alone, replay.name, open_trace(capture, cache=False), capture.name)
    before, after = (_kernels(trace).once(kernel_light) for trace in (alone, named))
    assert before.took_ns[before.is_known].sum() < 0.3 * before.took_ns.sum()
    assert after.took_ns[after.is_known].sum() > 0.9 * after.took_ns.sum()
