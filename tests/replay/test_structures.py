"""Captures of structures that are hard to model: each is replayed exactly, and nearly so by its usual lags.

Two streams that compute side by side, a graph with parallel branches, the legacy default stream beside a blocking one,
two processes on one GPU, and a collective of two ranks that are streams. `captures/README.md` says how they were made.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from gpuledger import Trace, open_trace
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.forward_pass import replayed
from gpuledger.replay.graph import Bound
from gpuledger.trace.spans import furthest
from support.command import CAPTURES

NAMES = ("side_streams", "graph_branches", "legacy_stream", "two_processes", "two_ranks")
USUAL = 0.03


@pytest.fixture(scope="module")
def structures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("structures")
    with tarfile.open(CAPTURES / "structures.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "structures"


def _opened(structures: Path, name: str) -> Trace:
    return open_trace(structures / f"{name}.sqlite")


@pytest.mark.parametrize("name", NAMES)
def test_it_is_replayed_exactly_and_nearly_so_by_usual_lags(name: str, structures: Path) -> None:
    trace = _opened(structures, name)
    host, work = host_and_activities(trace)
    exact = replayed(dependency_graph(trace, host, work))
    assert np.array_equal(exact.start, work.start_ns)
    assert np.array_equal(exact.end, work.end_ns)
    usual = replayed(dependency_graph(trace, host, work, residuals=False))
    began = min(int(work.start_ns.min()), int(host.calls["start_ns"].min()))
    wall = int(work.end_ns.max()) - began
    assert int(usual.end.max()) - began == pytest.approx(wall, rel=USUAL)


def _overlapping(work: Activities) -> int:
    """How many operations begin before all earlier ones have ended."""
    return int(np.count_nonzero(work.start_ns[1:] < furthest(work.end_ns)[:-1]))


def test_branches_of_a_graph_wait_for_one_another_and_not_for_their_stream(structures: Path) -> None:
    trace = _opened(structures, "graph_branches")
    host, work = host_and_activities(trace)
    assert _overlapping(work) > 0.1 * len(work)
    times = replayed(dependency_graph(trace, host, work))
    assert np.count_nonzero(times.bound == Bound.BY_OPERATION) > 15  # each of 20 launches forks or joins


def test_processes_that_share_a_gpu_are_one_graph(structures: Path) -> None:
    trace = _opened(structures, "two_processes")
    host, work = host_and_activities(trace)
    graph = dependency_graph(trace, host, work)
    assert len(set(work.pid.tolist())) == 2
    assert graph.threads >= 2
    assert graph.streams >= 2
