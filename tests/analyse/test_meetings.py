"""Which communication kernels of one profile are one collective."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np

from gpuledger import open_trace
from gpuledger.analyse.ranks.meetings import meetings
from gpuledger.analyse.ranks.rank import rank_summary
from gpuledger.analyse.ranks.rank_traces import rank_traces
from gpuledger.ledger.activity import State
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.steps import Wanted
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.forward_pass import replayed
from gpuledger.trace.model import Trace
from support.corpus import corpus_file
from support.trace_notation import trace


def of_profile(profile: Trace) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    ranks = [
        rank_summary(rank.trace, "profile", rank.wanted, name=rank.name, place=rank.place)
        for rank in rank_traces(profile, Wanted())
    ]
    return meetings(ranks, host_and_activities(profile)[1])


def test_two_gpus_of_a_public_profile_meet_and_replay_exactly(tmp_path: Path) -> None:
    path = tmp_path / "two.sqlite"
    path.write_bytes(lzma.decompress(corpus_file("mfu_2gpu_after.sqlite.xz").read_bytes()))
    profile = open_trace(path)
    numbers = of_profile(profile)
    host, work = host_and_activities(profile)
    assert ((numbers >= 0) == (work.state == State.COMM)).all()
    assert (np.bincount(numbers[numbers >= 0]) == 2).all()
    graph = dependency_graph(profile, host, work, meetings=numbers)
    times = replayed(graph)
    assert graph.groups == 31
    assert np.array_equal(times.end, work.end_ns)
    assert np.array_equal(times.call_end, graph.recorded.call_end)


def test_one_rank_meets_nobody() -> None:
    assert of_profile(trace("s0: 0-10 ncclKernel_AllReduce", "s1: 5-15 gemm")).tolist() == [-1, -1]
