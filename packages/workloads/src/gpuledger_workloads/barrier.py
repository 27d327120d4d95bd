"""Barriers between the ranks of a node, two protocols, called or replayed: `gpuledger bench barrier`.

In: how many ranks, and where they run. Out: the time of a barrier for each protocol and way, and whether it kept ranks
together. A rank writes how far it is on a board that all ranks see, and looks at it until all are as far:

- phase: the host counts barriers, and hands the number over with each call;
- tag: the number lives on the board, and the barrier itself adds 1.

A CUDA graph keeps the arguments of its launches. Replayed, a phase barrier asks for a number that all ranks have passed
long ago, and waits for nobody; a tag barrier goes on counting. That is shown, not assumed: in each round of the check
one rank is late, all write that they have begun before a step and look who has after it; `missed` counts those who had
not, `safe` is whether there were none. Only a replayed phase barrier may miss somebody: any other ends the program.

A step is `--per-step` barriers in a row. Its time is that of the slowest rank, from its first mark to its last, so a
barrier's time holds its share of all launches, and of the way of the slowest rank to the start. All ranks meet before a
step, which is not timed. Where streams are the ranks, one host launches for all. On a CPU, ranks are processes, and a
replay is the recorded calls, made again. NVTX: "bench:measure", in it "phase:eager", "phase:replay", "tag:eager" and
"tag:replay"; "warmup" before and "check" after.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]
from torch.multiprocessing.reductions import reduce_tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.device import settle
from gpuledger_workloads.program import Progress, Result, asked, bench, count_of, is_under_torchrun, refuse, wrong
from gpuledger_workloads.ranks import Rank, over_ranks

PROTOCOLS = ("phase", "tag")
LINE = 32  # numbers from one rank's to the next rank's: 128 bytes of a GPU's 4-byte ones

Step = Callable[[], None]  # takes each rank of this process through some barriers, one after the other


class BoardRow(IntEnum):
    """What the board says about each rank."""

    PHASE = 0  # the phase number that it reached: a number of the host, handed over with each call
    TAG = 1  # how many tag barriers it reached: counted where it is kept
    ARRIVED = 2  # rounds of the check that it began
    MISSED = 3  # ranks that had not begun the round when it was past the barriers of it, all rounds together
    GAVE_UP = 4  # the first line only: ranks that stopped waiting. From then on nobody waits.


def board_shape(ranks: int) -> tuple[int, int, int]:
    """Rows x ranks x numbers in a line."""
    return len(BoardRow), ranks, LINE


class Crew(Protocol):
    """The ranks of this process: one, or all of them."""

    replay: str  # what a replay is here

    def meet(self) -> None:
        """Go on when all ranks are here, and have done what they were told to."""

    def eager(self, protocol: str, count: int) -> Step:
        """A step of `count` barriers, each called when its turn comes."""

    def recorded(self, protocol: str, count: int) -> Step:
        """The same step, recorded once with its arguments; the step replays it."""

    def timed_ms(self, step: Step) -> float:
        """How long a step took on the slowest rank of this process."""

    def look(self, step: Step, late: int) -> None:
        """Begin a round, rank `late` after the others; take the step; count who has not begun, and should have."""

    def missed(self) -> int:
        """What all looks of this process counted since it was asked last."""

    def gave_up(self) -> bool:
        """Whether a rank stopped waiting for another; asked of the board, so that all ranks say the same."""


Board = np.ndarray[Any, np.dtype[np.int64]]
LATE_S = 0.005
_EAGER_POLLS = 200  # looks before a rank lets others have the core for longer
_PAUSE_S = 5e-5


def host_board(rank: Rank) -> Board:
    """A board of zeros that all ranks see: a file without a name, mapped by each."""
    names: list[str | None] = [None]
    if rank.index == 0:
        handle, names[0] = tempfile.mkstemp(prefix="gpuledger-barrier-")
        os.truncate(handle, int(np.prod(board_shape(rank.count))) * np.dtype(np.int64).itemsize)
        os.close(handle)
    try:
        dist.broadcast_object_list(names)
        board = np.memmap(str(names[0]), np.int64, "r+", shape=board_shape(rank.count))
        dist.barrier()
        return np.asarray(board)  # a plain array: views of it are made faster
    finally:
        if rank.index == 0:
            Path(str(names[0])).unlink()


class OnHost:
    """One rank, a process, which looks at the board itself.

    There is no CUDA graph here: a replay calls again what was recorded, with the arguments of that time, as one does.
    """

    replay = "recorded calls"

    def __init__(self, board: Board, index: int, patience_s: float) -> None:
        self._board, self._index, self._patience_s = board, index, patience_s
        self._phases = itertools.count(1)

    def meet(self) -> None:
        dist.barrier()

    def eager(self, protocol: str, count: int) -> Step:
        def step() -> None:
            for _ in range(count):
                self._pass(protocol, next(self._phases))

        return step

    def recorded(self, protocol: str, count: int) -> Step:
        calls = [(self._pass, (protocol, next(self._phases))) for _ in range(count)]

        def step() -> None:
            for call, arguments in calls:
                call(*arguments)

        return step

    def timed_ms(self, step: Step) -> float:
        start = time.perf_counter()
        step()
        return 1e3 * (time.perf_counter() - start)

    def look(self, step: Step, late: int) -> None:
        if self._index == late:
            time.sleep(LATE_S)
        arrived = self._board[BoardRow.ARRIVED, :, 0]
        arrived[self._index] += 1
        step()
        self._board[BoardRow.MISSED, self._index, 0] += np.count_nonzero(arrived < arrived[self._index])

    def missed(self) -> int:
        mine = self._board[BoardRow.MISSED, self._index]
        count, mine[0] = int(mine[0]), 0
        return count

    def gave_up(self) -> bool:
        return bool(self._board[BoardRow.GAVE_UP, 0, 0])

    def _pass(self, protocol: str, phase: int) -> None:
        """The barrier. Each line has one writer, so that adding needs no lock."""
        reached = self._board[BoardRow.TAG if protocol == "tag" else BoardRow.PHASE, :, 0]
        goal = int(reached[self._index]) + 1 if protocol == "tag" else phase
        reached[self._index] = goal
        polls, end = 0, time.monotonic() + self._patience_s
        while reached.min() < goal:
            if self.gave_up() or time.monotonic() >= end:
                self._give_up(np.flatnonzero(reached < goal).tolist())
            polls += 1
            time.sleep(0 if polls < _EAGER_POLLS else _PAUSE_S)

    def _give_up(self, missing: list[int]) -> NoReturn:
        self._board[BoardRow.GAVE_UP, 0, 0] = 1
        names = ", ".join(map(str, missing)) or "another"
        refuse(
            f"rank {self._index} gave up at a barrier: rank {names} did not come",
            hint=f"ranks wait for {self._patience_s:g} s; --patience=S changes that",
        )


MOST_STREAMS = 8  # a GPU has so many queues by default; streams that share one wait for each other
LATE_CYCLES = 10_000_000  # 5 ms at 2 GHz
_POLLS_PER_S = 1_000_000  # about: a look at the board takes a microsecond, over NVLink some more
_MOST_POLLS = 2**31 - 1
_DEVICE = 6  # where in the arguments that rebuild a tensor its device stands


def own_board(ranks: int) -> Tensor:
    """A board of zeros on the current device."""
    return torch.zeros(board_shape(ranks), dtype=torch.int32, device="cuda")


def cuda_board(rank: Rank) -> Tensor:
    """The board of rank 0, in the memory of its GPU, as this rank's own GPU sees it."""
    board = own_board(rank.count) if rank.index == 0 else None
    torch.cuda.synchronize()
    way: list[Any] = [None if board is None else reduce_tensor(board)]
    dist.broadcast_object_list(way)
    if board is None:
        rebuild, arguments = way[0]
        # opened for the GPU that looks at it, which makes the driver map a peer's memory
        here = torch.cuda.current_device()
        board = rebuild(*arguments[:_DEVICE], here, *arguments[_DEVICE + 1 :])
    dist.barrier()
    return board


class OnCuda:
    """The ranks `here` of all ranks, each a stream; `kernels` are those of `barrier_kernels`.

    With a GPU for each rank, each process has one of them, and the board lies on the first rank's, mapped into all
    others. Kernels of several processes on one GPU take turns, and would wait out each other's turns. There, all ranks
    are streams of one process: their kernels run at the same time, being a block each. A replay is that of a CUDA graph
    per rank.
    """

    replay = "CUDA graph"

    def __init__(self, kernels: Any, board: Tensor, here: Sequence[int], patience_s: float) -> None:
        self._cuda: Any = torch.cuda  # its classes are untyped
        self._kernels, self._here = kernels, tuple(here)
        self._ranks = board.shape[1]
        self._rows: Sequence[Tensor] = board.unbind()  # once: making a view takes longer than a barrier
        self._room = 1 << (self._ranks - 1).bit_length()  # Triton counts to powers of two
        self._polls = min(int(patience_s * _POLLS_PER_S), _MOST_POLLS)
        self._phases = itertools.count(1)
        self._streams = {rank: self._cuda.Stream() for rank in self._here}
        self._marks = {rank: tuple(self._cuda.Event(enable_timing=True) for _ in range(2)) for rank in self._here}
        self._load()

    def meet(self) -> None:
        self._cuda.synchronize()
        if len(self._here) < self._ranks:
            dist.barrier()

    def eager(self, protocol: str, count: int) -> Step:
        def step() -> None:
            for _ in range(count):
                phase = next(self._phases)
                for rank, stream in self._streams.items():
                    with self._cuda.stream(stream):
                        self._pass(self._rows, protocol, rank, self._ranks, phase)

        return step

    def recorded(self, protocol: str, count: int) -> Step:
        phases = [next(self._phases) for _ in range(count)]
        graphs = {rank: self._graph(protocol, rank, phases) for rank in self._here}

        def step() -> None:
            for rank, stream in self._streams.items():
                with self._cuda.stream(stream):
                    graphs[rank].replay()

        return step

    def timed_ms(self, step: Step) -> float:
        for rank, (start, _) in self._marks.items():
            start.record(self._streams[rank])
        step()
        for rank, (_, end) in self._marks.items():
            end.record(self._streams[rank])
        self._cuda.synchronize()
        return max(float(start.elapsed_time(end)) for start, end in self._marks.values())

    def look(self, step: Step, late: int) -> None:
        arrived, missed = self._rows[BoardRow.ARRIVED], self._rows[BoardRow.MISSED]
        for rank, stream in self._streams.items():
            with self._cuda.stream(stream):
                if rank == late:
                    self._cuda._sleep(LATE_CYCLES)
                self._kernels.arrive[(1,)](arrived, rank, line=LINE, num_warps=1)
        step()
        for rank, stream in self._streams.items():
            with self._cuda.stream(stream):
                self._kernels.look[(1,)](arrived, missed, rank, self._ranks, line=LINE, room=self._room, num_warps=1)

    def missed(self) -> int:
        self._cuda.synchronize()
        mine = self._rows[BoardRow.MISSED][self._here[0] : self._here[-1] + 1, 0]
        count = int(mine.sum())
        mine.zero_()
        self._cuda.synchronize()
        return count

    def gave_up(self) -> bool:
        self._cuda.synchronize()
        return bool(self._rows[BoardRow.GAVE_UP][0, 0])

    def _graph(self, protocol: str, rank: int, phases: Sequence[int]) -> Any:
        """The barriers of a rank; their phases become part of it, whatever the host counts later."""
        graph = self._cuda.CUDAGraph()
        with self._cuda.graph(graph, stream=self._streams[rank]):
            for phase in phases:
                self._pass(self._rows, protocol, rank, self._ranks, phase)
        return graph

    def _pass(self, rows: Sequence[Tensor], protocol: str, rank: int, ranks: int, phase: int) -> None:
        self._kernels.pass_barrier[(1,)](
            rows[BoardRow.TAG if protocol == "tag" else BoardRow.PHASE],
            rows[BoardRow.GAVE_UP],
            rank,
            ranks,
            phase,
            self._polls,
            line=LINE,
            room=self._room,
            is_tag=protocol == "tag",
            num_warps=1,
        )

    def _load(self) -> None:
        """Compile and load the kernels: a module that is loaded later waits for kernels that wait for it."""
        scratch = own_board(self._ranks).unbind()
        for protocol in ("phase", "tag"):
            self._pass(scratch, protocol, 0, 1, 1)
        self._kernels.arrive[(1,)](scratch[BoardRow.ARRIVED], 0, line=LINE, num_warps=1)
        self._kernels.look[(1,)](
            scratch[BoardRow.ARRIVED], scratch[BoardRow.MISSED], 0, 1, line=LINE, room=self._room, num_warps=1
        )
        self._cuda._sleep(1)
        self._cuda.synchronize()


Way = tuple[str, str]  # a protocol, and how it is called
WAYS: tuple[Way, ...] = tuple((protocol, how) for protocol in PROTOCOLS for how in ("eager", "replay"))


def run(options: argparse.Namespace) -> Result | None:
    """Measure each way, check each, and tell."""
    settle(options)
    settle_ranks(options)
    if options.ranks_as == "streams":
        count = options.world_size
        crew = OnCuda(_kernels(), own_board(count), range(count), options.patience)
        return result_of(options, [measured(crew, options)])
    answers = over_ranks(work, options)
    return None if answers is None else result_of(options, answers)


def settle_ranks(options: argparse.Namespace) -> None:
    """How many ranks there are and what they are; refuse what cannot be."""
    is_started = is_under_torchrun()
    options.world_size = count = count_of(options)
    here = int(os.environ.get("LOCAL_WORLD_SIZE", count)) if is_started else count
    if here != count:
        refuse(f"ranks must share memory, so all of one node: {here} of {count} are here", hint="start it on one node")
    if count < 2:
        wrong("a barrier needs two ranks at least", hint="--world-size=2")
    on_gpu = options.device == "cuda"
    if options.ranks_as is None:
        is_short = on_gpu and not is_started and torch.cuda.device_count() < count
        options.ranks_as = "streams" if is_short else "processes"
    if options.ranks_as == "streams":
        if not on_gpu or is_started:
            wrong("streams are ranks on a GPU, in one process", hint="--ranks-as=processes")
        if count > MOST_STREAMS:
            wrong(
                f"{count} streams may share queues of the GPU, and wait for each other",
                hint=f"take {MOST_STREAMS} at most",
            )
    options.backend = options.backend or "gloo"  # it only brings ranks together; the board is their own


def work(rank: Rank, options: argparse.Namespace) -> Result:
    """One process of several, with one rank."""
    crew: Crew
    if options.device == "cuda":
        crew = OnCuda(_kernels(), cuda_board(rank), [rank.index], options.patience)
    else:
        crew = OnHost(host_board(rank), rank.index, options.patience)
    return measured(crew, options, tells=rank.index == 0)


def _kernels() -> Any:
    try:
        return import_module("gpuledger_workloads.barrier_kernels")  # late: it needs Triton, which a CPU does not
    except ImportError as error:
        refuse(f"barriers on a GPU are Triton kernels: {error}", hint="pip install triton")


def measured(crew: Crew, options: argparse.Namespace, *, tells: bool = True) -> Result:
    """The times of each way in ms per step, and what each missed, by the ranks of this process."""
    steps = {way: _step(crew, way, options.per_step) for way in WAYS}
    with window("warmup"):
        for step in steps.values():
            for _ in range(options.warmup):
                _timed_ms(crew, step)
    progress = Progress("barrier", len(WAYS) * options.iters)
    times: dict[Way, list[float]] = {way: [] for way in WAYS}
    with window("bench:measure", profiler=options.cuda_profiler):
        for number, (way, step) in enumerate(steps.items()):
            with window(":".join(way)):
                for done in range(options.iters):
                    times[way].append(_timed_ms(crew, step))
                    if tells:
                        progress(number * options.iters + done)
    with window("check"):
        missed = {way: looked(crew, step, options.checks, options.world_size) for way, step in steps.items()}
    if crew.gave_up():
        refuse("a rank gave up at a barrier: another did not come", hint="--patience=S lets ranks wait for longer")
    crew.meet()  # the board is one rank's memory, which must not end before the others do
    return {"replay": crew.replay, "times_ms": times, "missed": missed}


def looked(crew: Crew, step: Step, checks: int, ranks: int) -> int:
    """How often a rank of this process got past a step that another had not come to. Each rank is late in turn."""
    for number in range(checks):
        crew.meet()
        crew.look(step, number % ranks)
    crew.meet()
    return crew.missed()


def _step(crew: Crew, way: Way, count: int) -> Step:
    protocol, how = way
    return crew.recorded(protocol, count) if how == "replay" else crew.eager(protocol, count)


def _timed_ms(crew: Crew, step: Step) -> float:
    crew.meet()
    return crew.timed_ms(step)


def result_of(options: argparse.Namespace, answers: Sequence[Result]) -> Result:
    """The result; refused, where a barrier did not keep ranks together that must."""
    rows = [_row(way, options, answers) for way in WAYS]
    for row in rows:
        if not row["safe"] and (row["protocol"], row["how"]) != ("phase", "replay"):
            refuse(
                f"the {row['protocol']} barrier ({row['how']}) let a rank pass before another came, "
                f"{row['missed']:,} times in {row['looks']:,} looks"
            )
    safe = {f"{row['protocol']}_replay_safe": row["safe"] for row in rows if row["how"] == "replay"}
    return {
        "workload": "barrier",
        "settings": asked(options, "dtype", "seed"),
        "replay": answers[0]["replay"],
        **safe,
        "barriers": rows,
        "checked": True,
    }


def _row(way: Way, options: argparse.Namespace, answers: Sequence[Result]) -> Result:
    """One way: a barrier's time on the slowest rank of each step, and what all ranks missed."""
    slowest_ms = np.max([answer["times_ms"][way] for answer in answers], axis=0)
    points = np.percentile(1e3 * slowest_ms / options.per_step, [50, 10, 90, 99]).round(3).tolist()
    median, p10, p90, p99 = points
    missed = sum(answer["missed"][way] for answer in answers)
    times = {"median_us": median, "p10_us": p10, "p90_us": p90, "p99_us": p99}
    checks = {"looks": options.checks * options.world_size, "missed": missed, "safe": missed == 0}
    return {"protocol": way[0], "how": way[1], **times, **checks}


if __name__ == "__main__":
    bench("barrier")
