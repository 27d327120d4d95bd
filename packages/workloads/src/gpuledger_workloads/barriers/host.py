"""Barriers of processes on a CPU: a board in shared memory in, a crew of one rank out.

Both protocols are the ones of the GPU: a rank writes how far it is, and looks at the board until all are as far. There
is no CUDA graph here. A replay calls again what was recorded, with the arguments of that time, as a graph does.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.barriers.crew import BoardRow, Step, board_shape
from gpuledger_workloads.common.program import refuse
from gpuledger_workloads.common.ranks import Rank

Board = np.ndarray[Any, np.dtype[np.int64]]
LATE_S = 0.005
_EAGER_POLLS = 200  # looks before a rank lets others have the core for longer
_PAUSE_S = 5e-5


def shared_board(rank: Rank) -> Board:
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
    """One rank, which looks at the board itself."""

    replay = "recorded calls"

    def __init__(self, board: Board, index: int, patience_s: float) -> None:
        self._board, self._index, self._patience_s = board, index, patience_s
        self._phase = 0

    def meet(self) -> None:
        dist.barrier()

    def eager(self, protocol: str, count: int) -> Step:
        def step() -> None:
            for _ in range(count):
                self._pass(protocol, self._next())

        return step

    def recorded(self, protocol: str, count: int) -> Step:
        calls = [(self._pass, (protocol, self._next())) for _ in range(count)]

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

    def _next(self) -> int:
        self._phase += 1
        return self._phase

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
