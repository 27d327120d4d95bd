"""The ranks of one process, and how all ranks swap rows: work for each rank in, what each did or got out.

A process is one rank, which talks to the others through nccl or gloo; or it is all of them, each on a stream of one
device (on a CPU one after the other), and what they swap is copied on the device. A program written for a group does
not know which: it says what each rank of this process does, and where all swap. Streams may only be read from others
after they met; what they send is kept until all have fetched it, for which the next meeting is the proof. Nothing here
makes the host wait but `read`, so that a step of a group can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.common.ranks import Rank
from gpuledger_workloads.mixture.exchange import exchange, stageable

Found = TypeVar("Found")
Splits = Sequence[list[int]]
"""For each rank of this process, how many rows go to, or come from, each rank of all."""


class RankGroup(Protocol):
    """The ranks of this process, `indices` of `count`."""

    indices: Sequence[int]
    count: int
    device: str

    def each(self, work: Callable[[int], Found]) -> list[Found]:
        """Do something for each rank of this process, where its work belongs; it gets the rank's place here."""

    def swapped(self, rows: Sequence[Tensor], sends: Splits, receives: Splits) -> list[Tensor]:
        """Each rank's first rows go to rank 0, the next to rank 1, and so on; what came, sorted by rank."""

    def gathered(self, rows: Sequence[Tensor]) -> list[Tensor]:
        """What all ranks have, each the same shape, on each rank: ranks first."""

    def read(self, numbers: Sequence[Tensor]) -> list[Any]:
        """Numbers of each rank, all of one shape, on the host, which waits for them once."""

    def meet(self) -> None:
        """What is done after it, on any rank, comes after all that any did before."""

    def alone(self, work: Callable[[], Found]) -> Found:
        """Do something that the current stream waits for, and that waits for it: as a graph wants it."""


class ProcessRanks:
    """One rank, this process."""

    def __init__(self, rank: Rank) -> None:
        self.indices: Sequence[int] = (rank.index,)
        self.count, self.device = rank.count, rank.device
        self._rank = rank
        on_device = rank.backend == "nccl"
        self._waits = rank.device != "cpu" and not on_device
        self._flag = torch.ones(1, device=rank.device if on_device else "cpu")

    def each(self, work: Callable[[int], Found]) -> list[Found]:
        return [work(0)]

    def swapped(self, rows: Sequence[Tensor], sends: Splits, receives: Splits) -> list[Tensor]:
        return [exchange(rows[0], sends[0], receives[0], self._rank)]

    def gathered(self, rows: Sequence[Tensor]) -> list[Tensor]:
        mine = stageable(rows[0].contiguous(), self._rank)
        parts = [torch.empty_like(mine) for _ in range(self.count)]
        dist.all_gather(parts, mine)
        return [torch.stack(parts).to(rows[0].device)]

    def read(self, numbers: Sequence[Tensor]) -> list[Any]:
        return [numbers[0].tolist()]

    def meet(self) -> None:
        if self._waits:
            torch.cuda.synchronize()
        dist.all_reduce(self._flag, op=dist.ReduceOp.MAX)

    def alone(self, work: Callable[[], Found]) -> Found:
        return work()


class StreamRanks:
    """All ranks, each a stream of one device."""

    def __init__(self, count: int, device: str) -> None:
        self.indices: Sequence[int] = range(count)
        self.count, self.device = count, device
        cuda: Any = torch.cuda  # its classes are untyped
        self._streams = [cuda.Stream() for _ in range(count)] if device != "cpu" else []
        self._sent: Sequence[Tensor] = ()

    def each(self, work: Callable[[int], Found]) -> list[Found]:
        found = []
        for place in range(self.count):
            with self._on(place):
                found.append(work(place))
        return found

    def swapped(self, rows: Sequence[Tensor], sends: Splits, receives: Splits) -> list[Tensor]:
        self.meet()
        self._sent = rows  # what was sent before may go now: since then all met, so all have fetched it
        parts = [of_rank.split(send) for of_rank, send in zip(rows, sends, strict=True)]
        return self.each(lambda place: torch.cat([of_rank[place] for of_rank in parts]))

    def gathered(self, rows: Sequence[Tensor]) -> list[Tensor]:
        self.meet()
        self._sent = rows
        return self.each(lambda _: torch.stack(list(rows)))

    def read(self, numbers: Sequence[Tensor]) -> list[Any]:
        self.meet()
        with self._on(0):
            found: list[Any] = torch.stack(list(numbers)).tolist()
        return found

    def meet(self) -> None:
        """Through the first stream: it waits for all others, then they for it."""
        for stream in self._streams[1:]:
            self._streams[0].wait_stream(stream)
        for stream in self._streams[1:]:
            stream.wait_stream(self._streams[0])

    def alone(self, work: Callable[[], Found]) -> Found:
        if not self._streams:
            return work()
        current = torch.cuda.current_stream()
        for stream in self._streams:
            stream.wait_stream(current)
        found = work()
        for stream in self._streams:
            current.wait_stream(stream)
        return found

    def _on(self, place: int) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = (
            torch.cuda.stream(self._streams[place]) if self._streams else nullcontext()
        )
        return context
