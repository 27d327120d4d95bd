"""Barriers: nobody gets past before all have come, a replayed phase barrier lets them, and a dead rank hangs nobody."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from gpuledger_workloads import barrier  # noqa: E402
from gpuledger_workloads.barrier import (  # noqa: E402
    PROTOCOLS,
    BoardRow,
    OnCuda,
    OnHost,
    board_shape,
)
from gpuledger_workloads.command_lines import barrier_parser as parser  # noqa: E402
from support.programs.workload_result import told  # noqa: E402

SAFE = {("phase", "eager"), ("tag", "eager"), ("tag", "replay")}
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


@pytest.fixture(autouse=True)
def _no_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)


def options(**given_ones: Any) -> argparse.Namespace:
    asked = {"iters": 3, "warmup": 1, "checks": 6, "per_step": 4, "cuda_profiler": False, "patience": 20}
    return argparse.Namespace(
        **{**asked, "world_size": 2, "device": "cpu", "backend": None, "ranks_as": None, **given_ones}
    )


def answer(missed: dict[tuple[str, str], int]) -> Any:
    return {
        "replay": "recorded calls",
        "times_ms": {way: [1.0, 2.0, 3.0] for way in barrier.WAYS},
        "missed": {way: missed.get(way, 0) for way in barrier.WAYS},
    }


def on_threads(ranks: int, work: Callable[[int], Any]) -> list[Any]:
    """What each rank found, or how it ended."""
    found: list[Any] = [None] * ranks

    def body(rank: int) -> None:
        try:
            found[rank] = work(rank)
        except SystemExit as end:
            found[rank] = end

    threads = [threading.Thread(target=body, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return found


def crews(ranks: int, patience_s: float = 20) -> list[OnHost]:
    board = np.zeros(board_shape(ranks), np.int64)
    return [OnHost(board, rank, patience_s) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nobody_is_past_a_barrier_before_all_have_come(protocol: str, ranks: int) -> None:
    """Whatever each does before: a counter that each writes before, and all read after."""
    came, here = [0] * ranks, crews(ranks)
    chance = random.Random(7)
    delays = [[chance.choice([0, 0, 0.001, 0.004]) for _ in range(15)] for _ in range(ranks)]

    def work(rank: int) -> int:
        wrong = 0
        step = here[rank].eager(protocol, 1)
        for number, delay in enumerate(delays[rank], start=1):
            time.sleep(delay)
            came[rank] = number
            step()
            wrong += min(came) < number
        return wrong

    assert on_threads(ranks, work) == [0] * ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_on_the_host_all_ways_are_safe_but_a_replayed_phase(monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    monkeypatch.setattr(torch.distributed, "barrier", threading.Barrier(ranks, timeout=60).wait)
    here, asked = crews(ranks), options(world_size=ranks)
    answers = on_threads(ranks, lambda rank: barrier.measured(here[rank], asked, tells=False))
    found = barrier.result_of(asked, answers)
    assert {(row["protocol"], row["how"]) for row in found["barriers"] if row["safe"]} == SAFE
    assert (found["phase_replay_safe"], found["tag_replay_safe"]) == (False, True)
    assert found["replay"] == "recorded calls"


def test_a_recorded_phase_keeps_its_number_and_a_recorded_tag_has_none() -> None:
    alone = crews(1)[0]
    board = alone._board
    for protocol, row, reached in (("phase", BoardRow.PHASE, [3, 3, 3]), ("tag", BoardRow.TAG, [3, 6, 9])):
        replay = alone.recorded(protocol, 3)
        found = []
        for _ in range(3):
            replay()
            found.append(int(board[row, 0, 0]))
        assert found == reached
    alone.eager("phase", 1)()
    assert board[BoardRow.PHASE, 0, 0] == 7  # the host's count went on, six calls were recorded


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_dead_rank_ends_the_others_with_a_sentence(protocol: str) -> None:
    here = crews(3, patience_s=0.2)
    ends = on_threads(3, lambda rank: here[rank].eager(protocol, 1)() if rank != 1 else None)
    for rank in (0, 2):
        claim, _, hint = str(ends[rank]).partition("\n\n")
        assert claim == f"error: rank {rank} gave up at a barrier: rank 1 did not come"
        assert hint.startswith("hint: ")
    assert here[1].gave_up()


def test_the_result_is_the_slowest_rank_per_barrier() -> None:
    slow = answer({("phase", "replay"): 2})
    slow["times_ms"][("tag", "eager")] = [4.0, 1.0, 8.0]
    found = barrier.result_of(options(), [answer({("phase", "replay"): 1}), slow])
    rows = {(row["protocol"], row["how"]): row for row in found["barriers"]}
    assert rows["tag", "eager"]["median_us"] == 1000.0  # of 4, 2 and 8 ms for 4 barriers
    assert rows["tag", "replay"]["median_us"] == 500.0
    assert rows["phase", "replay"] | {"looks": 12, "missed": 3, "safe": False} == rows["phase", "replay"]
    assert found["checked"] is True


@pytest.mark.parametrize("way", sorted(SAFE))
def test_a_barrier_that_must_hold_and_does_not_is_refused(way: tuple[str, str]) -> None:
    with pytest.raises(
        SystemExit, match=rf"^error: the {way[0]} barrier \({way[1]}\) let a rank pass .*3 times in 12 looks"
    ):
        barrier.result_of(options(), [answer({}), answer({way: 3})])


class Device:
    """A GPU of lists: kernels are generators, and run a little further whenever their stream has its turn."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.queues = chance, dict[object, list[Generator[None, None, None]]]()
        self.current: Any = None
        self.recording: list[Any] | None = None
        self.turns = 0

    def launch(self, kernel: Callable[..., Generator[None, None, None]], *arguments: Any) -> None:
        if self.recording is not None:
            self.recording.append((kernel, arguments))
        else:
            self.queues.setdefault(self.current, []).append(kernel(*arguments))

    def synchronize(self) -> None:
        while busy := [queue for queue in self.queues.values() if queue]:
            queue = self.chance.choice(busy)
            self.turns += 1
            if next(queue[0], "done") == "done":
                queue.pop(0)

    @contextmanager
    def stream(self, stream: object) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextmanager
    def graph(self, graph: Any, stream: object) -> Iterator[None]:
        self.recording = graph.calls
        with self.stream(stream):
            yield
        self.recording = None

    def kernel(self, body: Callable[..., Generator[None, None, None]]) -> Any:
        """What Triton makes of a function: a grid, then arguments, of which the last are of no interest here."""
        return {(1,): lambda *arguments, **_: self.launch(body, *arguments)}

    def sleeping(self, cycles: int) -> Generator[None, None, None]:
        for _ in range(min(cycles, 500)):
            yield

    def marked(self, event: Any) -> Generator[None, None, None]:
        event.turn = self.turns
        yield

    def cuda(self) -> Any:
        device = self

        class Event:
            def __init__(self, **_: object) -> None:
                self.turn = 0

            def record(self, stream: object) -> None:
                with device.stream(stream):
                    device.launch(device.marked, self)

            def elapsed_time(self, end: Event) -> float:
                return float(end.turn - self.turn)

        class Graph:
            def __init__(self) -> None:
                self.calls: list[Any] = []

            def replay(self) -> None:
                for kernel, arguments in self.calls:
                    device.launch(kernel, *arguments)

        return SimpleNamespace(
            Stream=object,
            Event=Event,
            CUDAGraph=Graph,
            stream=self.stream,
            graph=self.graph,
            synchronize=self.synchronize,
            _sleep=lambda cycles: self.launch(self.sleeping, cycles),
        )


def kernels(device: Device, counts: bool = True) -> Any:
    """The kernels in Python. With `counts` false, a tag barrier forgets to count after its first time."""

    def pass_tag(reached: Any, rank: int) -> int:
        if counts or not reached[rank, 0]:
            reached[rank, 0] += 1
        return int(reached[rank, 0])

    def pass_barrier(
        reached: Any, gave_up: Any, rank: int, ranks: int, phase: int, polls: int, is_tag: bool
    ) -> Generator[None, None, None]:
        goal = pass_tag(reached, rank) if is_tag else phase
        reached[rank, 0] = goal
        left = 1 if gave_up[0, 0] else polls
        while reached[:ranks, 0].min() < goal:
            left -= 1
            if left == 0:
                gave_up[0, 0] += 1
                return
            yield

    def arrive(arrived: Any, rank: int) -> Generator[None, None, None]:
        arrived[rank, 0] += 1
        yield

    def look(arrived: Any, missed: Any, rank: int, ranks: int) -> Generator[None, None, None]:
        missed[rank, 0] += int((arrived[:ranks, 0] < arrived[rank, 0]).sum())
        yield

    def launched(*arguments: Any, is_tag: bool, **_: object) -> None:
        device.launch(pass_barrier, *arguments, is_tag)

    return SimpleNamespace(pass_barrier={(1,): launched}, arrive=device.kernel(arrive), look=device.kernel(look))


def own_board(ranks: int) -> Any:
    return torch.zeros(board_shape(ranks), dtype=torch.int32)


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[OnCuda, Device]]:
    def made(ranks: int, seed: int, **how: Any) -> tuple[OnCuda, Device]:
        device = Device(random.Random(seed))
        monkeypatch.setattr(barrier, "torch", SimpleNamespace(cuda=device.cuda()))
        monkeypatch.setattr(barrier, "own_board", own_board)
        return OnCuda(kernels(device, **how), own_board(ranks), range(ranks), 20), device

    return made


@hypothesis_settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(ranks=st.integers(2, 5), seed=st.integers(0, 2**32), per_step=st.integers(1, 3))
def test_on_a_device_all_ways_are_safe_but_a_replayed_phase(
    on_device: Callable[..., tuple[OnCuda, Device]], ranks: int, seed: int, per_step: int
) -> None:
    """In whatever order streams have their turns."""
    crew, _ = on_device(ranks, seed)
    asked = options(world_size=ranks, per_step=per_step, checks=ranks)
    found = barrier.result_of(asked, [barrier.measured(crew, asked, tells=False)])
    assert {(row["protocol"], row["how"]) for row in found["barriers"] if row["safe"]} == SAFE
    assert found["replay"] == "CUDA graph"
    assert all(row["median_us"] > 0 for row in found["barriers"])


def test_a_tag_that_does_not_count_is_found_out(on_device: Callable[..., tuple[OnCuda, Device]]) -> None:
    crew, _ = on_device(3, 0, counts=False)
    asked = options(world_size=3)
    with pytest.raises(SystemExit, match=r"^error: the tag barrier \(eager\) let a rank pass"):
        barrier.result_of(asked, [barrier.measured(crew, asked, tells=False)])


def test_a_kernel_that_nobody_joins_gives_up_and_the_next_ones_at_once(
    on_device: Callable[..., tuple[OnCuda, Device]],
) -> None:
    crew, device = on_device(2, 0)
    both = crew._streams
    crew._polls, crew._streams = 1000, {0: both[0]}  # the other rank is gone
    crew.eager("tag", 1)()
    crew.meet()
    assert crew.gave_up()
    turns = device.turns
    crew.eager("tag", 50)()
    crew.meet()
    assert device.turns - turns < 200
    crew._streams = both
    with pytest.raises(SystemExit, match=r"^error: a rank gave up at a barrier"):
        barrier.measured(crew, options(), tells=False)


INTERPRETED = """
import torch
from gpuledger_workloads.barrier_kernels import arrive, look, pass_barrier

def passed(reached, gave_up, rank, phase, is_tag):
    pass_barrier[(1,)](reached, gave_up, rank, 3, phase, 9, line=32, room=4, is_tag=is_tag)

reached, gave_up = (torch.zeros(3, 32, dtype=torch.int32) for _ in range(2))
reached[1:, 0] = 5
passed(reached, gave_up, 0, 5, False)
assert (reached[:, 0].tolist(), int(gave_up[0, 0])) == ([5, 5, 5], 0)
passed(reached, gave_up, 2, 6, False)
assert (reached[:, 0].tolist(), int(gave_up[0, 0])) == ([5, 5, 6], 1)
reached[:, 0] = torch.tensor([7, 8, 8])
gave_up.zero_()
passed(reached, gave_up, 0, 0, True)
assert (reached[:, 0].tolist(), int(gave_up[0, 0])) == ([8, 8, 8], 0)
passed(reached, gave_up, 1, 0, True)
assert (reached[:, 0].tolist(), int(gave_up[0, 0])) == ([8, 9, 8], 1)
arrived, missed = (torch.zeros(3, 32, dtype=torch.int32) for _ in range(2))
arrive[(1,)](arrived, 1, line=32)
look[(1,)](arrived, missed, 1, 3, line=32, room=4)
look[(1,)](arrived, missed, 0, 3, line=32, room=4)
assert (arrived[:, 0].tolist(), missed[:, 0].tolist()) == ([0, 1, 0], [0, 2, 0])
print("all as in the model")
"""


def test_the_kernels_do_what_their_models_do() -> None:
    """Triton's interpreter runs them on the host, one at a time."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert (done.stdout, done.returncode) == ("all as in the model\n", 0), done.stderr


def test_processes_share_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    told(parser(), barrier.run, ["--device=cpu", "--world-size=2", "--iters=5", "--warmup=1", "--checks=4"])
    found = json.loads(capsys.readouterr().out)
    assert (found["phase_replay_safe"], found["tag_replay_safe"], found["checked"]) == (False, True, True)
    assert found["settings"]["ranks_as"] == "processes"
    for row in found["barriers"]:
        assert 0 < row["p10_us"] <= row["median_us"] <= row["p90_us"] <= row["p99_us"]


def test_ranks_of_several_nodes_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in zip(TORCHRUN, ("0", "16", "8"), strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=r"^error: ranks must share memory, so all of one node: 8 of 16 are here"):
        told(parser(), barrier.run, ["--device=cpu"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("given_ones", "sentence"),
    [
        ({"world_size": 1}, "two ranks"),
        ({"ranks_as": "streams"}, "streams are ranks on a GPU"),
        ({"ranks_as": "streams", "device": "cuda", "world_size": 9}, "9 streams may share queues"),
    ],
)
def test_ranks_that_cannot_be_are_refused(
    given_ones: dict[str, Any], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        barrier.settle_ranks(options(**given_ones))
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(("gpus", "expected"), [(0, "streams"), (1, "streams"), (2, "processes"), (8, "processes")])
def test_ranks_are_streams_where_gpus_are_too_few(monkeypatch: pytest.MonkeyPatch, gpus: int, expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    asked = options(device="cuda")
    barrier.settle_ranks(asked)
    assert (asked.ranks_as, asked.backend) == (expected, "gloo")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("ranks", [2, 8])
def test_on_a_gpu(capsys: pytest.CaptureFixture[str], ranks: int) -> None:
    told(parser(), barrier.run, ["--ranks-as=streams", f"--world-size={ranks}", "--iters=5"])
    found = json.loads(capsys.readouterr().out)
    assert (found["phase_replay_safe"], found["tag_replay_safe"], found["replay"]) == (False, True, "CUDA graph")
