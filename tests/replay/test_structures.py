"""Captures of structures that are hard to model: replayed exactly, nearly so by usual lags, and changed as in reality.

Two branches of long kernels in turn and side by side, on streams, in a graph, and beside the legacy default stream; two
ranks that are streams and meet in a kernel, one late and none; two processes on one GPU. Three steps of each, with the
step times that were measured over three runs. `captures/README.md` says how they were made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pytest

from gpuledger import Trace, open_trace
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host, host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.edits import run_aside, without_operations
from gpuledger.replay.graph import Bound, DependencyGraph
from gpuledger.replay.passes import replay_times
from gpuledger.replay.waits import with_rendezvous
from gpuledger.trace.keys import Positions
from support.command import CAPTURES
from support.profiles.opened import plain

IN_TURN = ("side_streams.one_stream", "graph_branches.chain", "legacy_stream.blocking")
SIDE_BY_SIDE = ("side_streams.two_streams", "graph_branches.branches", "legacy_stream.non_blocking")
NAMES = (*IN_TURN, *SIDE_BY_SIDE, "two_ranks.uneven", "two_ranks.even", "two_processes")
LAYERS = 8
"""Long kernels of a branch in a step."""
USUAL = 0.005
NEAR = 0.05
"""Of the time: in the first of three steps the GPU waits for launches."""


@dataclass(frozen=True, slots=True)
class Structure:
    """One capture."""

    trace: Trace
    host: Host
    work: Activities

    @classmethod
    def opened(cls, folder: Path, name: str) -> Self:
        trace = open_trace(folder / f"{name}.sqlite")
        return cls(trace, *host_and_activities(trace))

    def graph(self, *, residuals: bool = True) -> DependencyGraph:
        return dependency_graph(self.trace, self.host, self.work, residuals=residuals)

    def named(self, text: str) -> Positions:
        """The kernels of this name."""
        return np.flatnonzero([text in (name or "") for name in self.trace.strings.decode(self.work.name)])

    def branches(self) -> tuple[Positions, Positions]:
        """The long kernels of the first and of the second branch: by stream, else by their place in a step."""
        layers = self.named("turn_points")
        streams = np.unique(self.work.stream[layers])
        second = self.work.stream[layers] == streams[-1]
        if len(streams) == 1:
            second = np.arange(len(layers)) // LAYERS % 2 == 1
        return layers[~second], layers[second]


def _wall(graph: DependencyGraph) -> int:
    times = replay_times(graph)
    return int(times.end.max() - times.call_begin.min())


def _kept(graph: DependencyGraph, changed: DependencyGraph) -> float:
    """How much of its time is left after a change."""
    return _wall(changed) / _wall(graph)


@pytest.fixture(scope="module")
def structures() -> Path:
    return plain(CAPTURES / "structures.tar.xz") / "structures"


def _measured(structures: Path, slower: str, faster: str) -> float:
    """How long a step of the one took in steps of the other."""
    step_ns = json.loads((structures / "step_ns.json").read_text())
    first, second = (step_ns[program][variant] for program, variant in (slower.split("."), faster.split(".")))
    return float(second["profiled"] / first["profiled"])


@pytest.mark.parametrize("name", NAMES)
def test_it_is_replayed_exactly_and_nearly_so_by_usual_lags(name: str, structures: Path) -> None:
    structure = Structure.opened(structures, name)
    exact = replay_times(structure.graph())
    assert np.array_equal(exact.start, structure.work.start_ns)
    assert np.array_equal(exact.end, structure.work.end_ns)
    assert _wall(structure.graph(residuals=False)) == pytest.approx(_wall(structure.graph()), rel=USUAL)


def _side_by_side(work: Activities, rows: Positions) -> float:
    """How many of these operations ran at once, in the mean."""
    busy_ns = int((work.end_ns[rows] - work.start_ns[rows]).sum())
    return busy_ns / int(work.end_ns[rows].max() - work.start_ns[rows].min())


@pytest.mark.parametrize(("in_turn", "beside"), [*zip(IN_TURN, SIDE_BY_SIDE, strict=True)])
def test_two_branches_run_at_once_or_in_turn(in_turn: str, beside: str, structures: Path) -> None:
    both = [Structure.opened(structures, name) for name in (in_turn, beside)]
    one, two = (_side_by_side(each.work, each.named("turn_points")) for each in both)
    assert one < 1
    assert two > 1.85
    assert _measured(structures, in_turn, beside) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("residuals", [True, False])
@pytest.mark.parametrize("name", IN_TURN)
def test_without_one_of_two_branches_in_turn_half_is_left(name: str, residuals: bool, structures: Path) -> None:
    structure = Structure.opened(structures, name)
    graph = structure.graph(residuals=residuals)
    for branch in structure.branches():
        assert _kept(graph, without_operations(graph, branch)) == pytest.approx(0.5, abs=NEAR)


@pytest.mark.parametrize("residuals", [True, False])
@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_without_one_of_two_branches_side_by_side_nothing_is_won(name: str, residuals: bool, structures: Path) -> None:
    structure = Structure.opened(structures, name)
    graph = structure.graph(residuals=residuals)
    first, second = structure.branches()
    for branch in (first, second):
        assert _kept(graph, without_operations(graph, branch)) > 1 - NEAR
    assert _kept(graph, without_operations(graph, np.append(first, second))) < 1 - 4 * NEAR


def test_a_branch_on_a_stream_of_its_own_saves_what_was_measured(structures: Path) -> None:
    structure = Structure.opened(structures, "side_streams.one_stream")
    graph = structure.graph()
    measured = _measured(structures, "side_streams.one_stream", "side_streams.two_streams")
    last = 1 / 6  # of six branches one has nothing left to run beside
    assert _kept(graph, run_aside(graph, structure.branches()[1])) == pytest.approx(measured + last, abs=NEAR)


def test_branches_of_a_graph_wait_for_one_another_and_not_for_their_stream(structures: Path) -> None:
    graph = Structure.opened(structures, "graph_branches.branches").graph()
    bound = replay_times(graph).bound
    assert np.count_nonzero(bound == Bound.BY_OPERATION) >= 3  # each of three launches forks or joins


def test_a_late_rank_costs_what_was_measured(structures: Path) -> None:
    structure = Structure.opened(structures, "two_ranks.uneven")
    reduces, stream = structure.named("all_reduce"), structure.work.stream
    meetings = np.full(len(structure.work), -1, np.int32)
    for rank in np.unique(stream[reduces]):
        mine = reduces[stream[reduces] == rank]
        meetings[mine] = np.arange(len(mine))
    graph = with_rendezvous(structure.graph(), meetings)
    early, late = structure.branches()
    assert (len(early), len(late)) == (3 * LAYERS, 3 * 2 * LAYERS)
    measured = _measured(structures, "two_ranks.uneven", "two_ranks.even")
    surplus = late[np.arange(len(late)) % (2 * LAYERS) >= LAYERS]
    assert _kept(graph, without_operations(graph, surplus)) == pytest.approx(measured, abs=NEAR)
    assert _kept(graph, without_operations(graph, early)) == pytest.approx(1, abs=0.01)


def test_processes_that_share_a_gpu_are_one_graph(structures: Path) -> None:
    structure = Structure.opened(structures, "two_processes")
    graph = structure.graph()
    assert len(set(structure.work.pid.tolist())) == 2
    assert graph.threads >= 2
    assert graph.streams >= 2
