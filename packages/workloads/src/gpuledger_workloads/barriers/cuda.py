"""Barriers of kernels on GPUs: a board in a GPU's memory in, a crew out whose ranks are streams of this process.

With a GPU for each rank, each process has one of them, and the board lies on the first rank's, mapped into all others.
Kernels of several processes on one GPU take turns, and would wait out each other's turns. There, all ranks are streams
of one process: their kernels run at the same time, being a block each. A replay is that of a CUDA graph per rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]
from torch.multiprocessing.reductions import reduce_tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.barriers.crew import LINE, BoardRow, Step, board_shape
from gpuledger_workloads.common.ranks import Rank

MOST_STREAMS = 8  # a GPU has so many queues by default; streams that share one wait for each other
LATE_CYCLES = 10_000_000  # 5 ms at 2 GHz
_POLLS_PER_S = 1_000_000  # about: a look at the board takes a microsecond, over NVLink some more
_MOST_POLLS = 2**31 - 1
_DEVICE = 6  # where in the arguments that rebuild a tensor its device stands


def own_board(ranks: int) -> Tensor:
    """A board of zeros on the current device."""
    return torch.zeros(board_shape(ranks), dtype=torch.int32, device="cuda")


def shared_board(rank: Rank) -> Tensor:
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
    """The ranks `here` of all `ranks`, each a stream. `kernels` are those of `barrier_kernels`."""

    replay = "CUDA graph"

    def __init__(self, kernels: Any, board: Tensor, here: Sequence[int], patience_s: float) -> None:
        self._cuda: Any = torch.cuda  # its classes are untyped
        self._kernels, self._here = kernels, tuple(here)
        self._ranks = board.shape[1]
        self._rows: Sequence[Tensor] = board.unbind()  # once: making a view takes longer than a barrier
        self._room = 1 << (self._ranks - 1).bit_length()  # Triton counts to powers of two
        self._polls = min(int(patience_s * _POLLS_PER_S), _MOST_POLLS)
        self._phase = 0
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
                phase = self._next()
                for rank, stream in self._streams.items():
                    with self._cuda.stream(stream):
                        self._pass(self._rows, protocol, rank, self._ranks, phase)

        return step

    def recorded(self, protocol: str, count: int) -> Step:
        phases = [self._next() for _ in range(count)]
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

    def _next(self) -> int:
        self._phase += 1
        return self._phase

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
