"""The critical path of a stretch: what it consists of, what lies beside it, and what edits do to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuledger.ledger.device import analyse_devices
from gpuledger.read import open_trace
from gpuledger.replay.critical_path import FREE_NS, PathPart, critical_path, slack
from gpuledger.replay.edits import Edit, run_aside, with_durations, without_calls
from gpuledger.replay.scenario import Scenario, scenario
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from support.traces.program import Program

US = 1_000


def waited() -> Program:
    """A long kernel that the host waits for, one beside it, and one after that."""
    program = Program()
    program.kernel("first", 10)
    program.host(10)
    program.kernel("long", 60)
    program.kernel("beside", 10, stream=9)
    program.wait()
    program.host(8)
    program.wait()  # for nothing: what waiting itself takes
    program.kernel("last", 15)
    return program


def model_of(trace: Trace) -> Scenario:
    [device] = analyse_devices(trace, "test", Selection())
    return scenario(trace, device)


def longer(operation: int, by_ns: int) -> Edit:
    """One operation takes so much longer."""
    one = np.array([operation])
    return lambda graph: with_durations(graph, one, graph.operations.duration_ns[one] + by_ns)


def test_slack_is_how_much_longer_a_kernel_may_take() -> None:
    model = model_of(waited().trace())
    spare = slack(model).operation_ns.tolist()
    turnaround = int(model.graph.operations.stream_ns[1])
    assert spare == [5 * US - turnaround, 0, 45 * US, 0]
    for operation, spare_ns in enumerate(spare):
        assert model.steady_ns(longer(operation, spare_ns)) == model.steady_ns()
        assert model.steady_ns(longer(operation, spare_ns + 1)) == model.steady_ns() + 1


def test_what_nothing_waits_for_may_end_whenever_it_will() -> None:
    program = Program()
    program.kernel("beside", 8, stream=9)
    program.kernel("long", 80)
    model = model_of(program.trace())
    assert slack(model).operation_ns[0] >= FREE_NS
    assert model.steady_ns(longer(0, 10**9)) == model.steady_ns()


def test_an_edit_has_a_path_of_its_own() -> None:
    model = model_of(waited().trace())
    without_waits: Edit = lambda graph: without_calls(graph, np.array([3, 4]))  # noqa: E731
    path = critical_path(model, without_waits)
    assert path.length_ns.sum() == model.steady_ns(without_waits) < model.steady_ns()
    assert "idle.sync" not in path.by_line()


def test_operations_on_a_stream_of_their_own_wait_for_each_other() -> None:
    program = Program()
    for _ in range(3):
        program.kernel("k", 100)
    model = model_of(program.trace())
    moved: Edit = lambda graph: run_aside(graph, np.array([0, 1, 2]))  # noqa: E731
    path = critical_path(model, moved)
    assert path.length_ns.sum() == model.steady_ns(moved)
    assert path.length_ns[path.are(PathPart.RUNNING)].tolist() == [100 * US] * 3


@pytest.mark.parametrize("name", ["decode", "zoo_node", "two_gloo"])
def test_the_segments_of_a_capture_sum_to_its_steady_stretch(name: str, unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked(f"{name}.sqlite"))
    device, *_ = analyse_devices(trace, name, Selection())
    model = scenario(trace, device)
    path, late = critical_path(model), slack(model)
    assert path.length_ns.sum() == device.steady_ns
    assert (path.start_ns[1:] == path.end_ns[:-1]).all()
    assert (path.length_ns > 0).all()
    assert late.operation_ns.min() == 0
    assert (late.operation_ns[path.runs(len(device.work))] == 0).all()
    assert (late.call_ns[path.call[path.are(PathPart.CALL)]] == 0).all()


def test_instances_of_a_range_each_have_a_path(unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked("decode.sqlite"))
    [device] = analyse_devices(trace, "decode", Selection(scope_pattern="mlp"))
    model = scenario(trace, device)
    path = critical_path(model)
    assert len(model.stretches) == 158
    assert path.length_ns.sum() == device.steady_ns
    assert (path.start_ns[1:] >= path.end_ns[:-1]).all()
    assert (slack(model).operation_ns[path.runs(len(device.work))] == 0).all()
