"""Tokens on their way between ranks: the experts of each token in, what to send to whom, and the sending itself, out.

A token travels once to each rank that owns one of its experts, with the experts' numbers and weights. The way there and
back, between ranks that are processes:

    owner = owners(256, rank.count, device)
    sent = layout(experts, owner, rank.count)  # no host sync
    counts = agreed(sent.counts, exchanged_counts(sent.counts, rank))  # one: split sizes are numbers of the host
    order = sent.order[: sum(counts.send)]
    rows = exchange(tokens[order], counts.send, counts.receive, rank)  # sorted by the rank that they come from
    back = exchange(answers, counts.receive, counts.send, rank)        # row i answers for token order[i]

gloo moves host memory: rows of a GPU are staged through the host, which waits for both copies.

A process is one rank of a `RankGroup`, or it is all of them, each on a stream of one device (on a CPU one after the
other), and what they swap is copied on the device. A program written for a group does not know which. Streams may only
be read from others after they met; what they send is kept until all have fetched it, for which the next meeting is the
proof. Nothing here makes the host wait but `read`, so that a step of a group can be captured in a CUDA graph.

A mixture whose experts are spread over a group:

    normal       each rank tells the others how many rows come; the host reads that, and exactly these rows are sent
    low-latency  every rank sends every other the same number of rows, one for each token that it may have, those that
                 do not go there filled with zeros; no host waits, no shape depends on the data, a CUDA graph can
                 hold it; more bytes travel

What experts made of a token is summed up by weight where they are, and comes back. In low-latency no token is ever
dropped: there is room for as many rows for each expert and sender as the sender has tokens at most. NVTX: "route",
"dispatch", "expert_gemm", "combine".
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.mixture.experts import ExpertWeights, grouped_compute, grouped_dispatch, packed_combine, padded
from gpuledger_workloads.mixture.routing import Routed
from gpuledger_workloads.program import Result
from gpuledger_workloads.ranks import Rank, over_ranks


@dataclass(frozen=True, slots=True)
class Layout:
    """What a rank sends. `order` and `targets` have room for the most copies there can be; the rest of them is 0."""

    order: Tensor  # the token of each copy, sorted by the rank it goes to, then by token
    targets: Tensor  # the rank each copy goes to
    counts: Tensor  # copies for each rank; their sum is how much of `order` counts
    goes: Tensor  # whether a token goes to a rank, tokens x ranks


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows go to each rank, and come from it: split sizes, on the host."""

    send: list[int]
    receive: list[int]


def owners(num_experts: int, ranks: int, device: str = "cpu") -> Tensor:
    """The rank that owns each expert: neighbours together, and as evenly as their number allows."""
    return torch.arange(num_experts, device=device) * ranks // num_experts


def layout(experts: Tensor, owner: Tensor, ranks: int) -> Layout:
    """What goes where: `experts` are those of each token, tokens x topk, `owner` is the rank of each expert.

    All shapes follow from those of the inputs, so that the host waits for nothing.
    """
    tokens, topk = experts.shape
    goes = torch.zeros(tokens, ranks, dtype=torch.bool, device=experts.device).scatter_(1, owner[experts], True)  # noqa: FBT003
    by_rank = goes.t().flatten()
    room = tokens * min(topk, ranks)
    # a copy's place is how many stand before it; what is no copy goes to one place past the end, which is cut off
    place = (by_rank.cumsum(0) - 1).masked_fill(
        ~by_rank, room
    )  # `where` would bring the number from the host, and wait
    pairs = torch.arange(ranks * tokens, device=experts.device)
    kept = torch.zeros(room + 1, dtype=torch.long, device=experts.device).scatter_(0, place, pairs)[:room]
    return Layout(order=kept % max(tokens, 1), targets=kept // max(tokens, 1), counts=goes.sum(0), goes=goes)


def exchanged_counts(counts: Tensor, rank: Rank) -> Tensor:
    """How many rows come from each rank, given how many go to each."""
    there = stageable(counts, rank)
    received = torch.empty_like(there)
    dist.all_to_all_single(received, there)
    return received.to(counts.device)


def agreed(send: Tensor, receive: Tensor) -> Counts:
    """Both counts on the host; it waits for them once."""
    sent, received = torch.stack((send, receive)).tolist()
    return Counts(sent, received)


def exchange(rows: Tensor, send_counts: list[int], receive_counts: list[int], rank: Rank) -> Tensor:
    """Send the first rows to rank 0, the next to rank 1, and so on; what came, sorted by rank."""
    there = stageable(rows.contiguous(), rank)
    received = there.new_empty(sum(receive_counts), *rows.shape[1:])
    # as bytes: gloo does not know all types of numbers, and neither needs to
    dist.all_to_all_single(_bytes(received), _bytes(there), receive_counts, send_counts)
    return received.to(rows.device)


def stageable(tensor: Tensor, rank: Rank) -> Tensor:
    """A tensor where the ranks' backend can take it from."""
    return tensor.cpu() if rank.backend == "gloo" else tensor


def _bytes(rows: Tensor) -> Tensor:
    """The same memory, a row per row; there may be none."""
    width = math.prod(rows.shape[1:]) * rows.element_size()
    if not rows.numel():
        return rows.new_empty(len(rows), width, dtype=torch.uint8)
    return rows.view(torch.uint8).view(len(rows), width)


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
        results = []
        for place in range(self.count):
            with self._on(place):
                results.append(work(place))
        return results

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
            values: list[Any] = torch.stack(list(numbers)).tolist()
        return values

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
        result = work()
        for stream in self._streams:
            current.wait_stream(stream)
        return result

    def _on(self, place: int) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = (
            torch.cuda.stream(self._streams[place]) if self._streams else nullcontext()
        )
        return context


def over_group(work: Callable[[RankGroup, Namespace], list[Result]], options: Namespace) -> list[Result] | None:
    """Do `work` on every rank: each a process or, with --ranks-as=streams, a stream of this one. None: rank 0 tells."""
    if options.ranks_as == "streams":
        return work(StreamRanks(options.world_size, options.device), options)
    return over_ranks(partial(_in_process, work), options)


def _in_process(work: Callable[[RankGroup, Namespace], list[Result]], rank: Rank, options: Namespace) -> Result:
    return work(ProcessRanks(rank), options)[0]


_NOBODY = -1  # in the notes of a token: no expert


@dataclass(frozen=True, slots=True)
class RankExperts:
    """A layer's mixture on one rank: how its tokens are routed, the experts that it has, and who has which."""

    router: Callable[[Tensor], Routed]
    held: ExpertWeights
    owner: Tensor  # the rank of each expert
    room: int  # tokens that any rank can have in a step: what low-latency sends


Dispatch = Callable[[RankGroup, Sequence[RankExperts], Sequence[Tensor]], list[Tensor]]
"""The ranks of this process, the layer on each, and the tokens of each; rows for these tokens come out."""


def noted(routed: Routed) -> Tensor:
    """What travels with a token, 8 bytes for each place: experts and weights."""
    return torch.cat((routed.experts.int(), routed.weights.view(torch.int32)), dim=1)


def routes_here(notes: Tensor, held: ExpertWeights, assigned: int) -> Routed:
    """Where tokens that came go here; an expert that is elsewhere is none."""
    k = notes.shape[1] // 2
    experts = notes[:, :k].long() - held.first
    elsewhere = (experts < 0) | (experts >= len(held))
    weights = notes[:, k:].contiguous().view(torch.float32)
    # not `where`: it brings its number from the host, which waits for that
    return Routed(experts.masked_fill(elsewhere, len(held)), weights.masked_fill(elsewhere, 0.0), assigned)


def sending_plan(routed: Routed, owner: Tensor, ranks: int) -> tuple[Tensor, Tensor]:
    """The token of each row that leaves, sorted by rank; and for each rank how many rows and how many places come."""
    sent = layout(routed.experts, owner, ranks)
    targets = owner[routed.experts].flatten()
    assigned = torch.zeros_like(sent.counts).scatter_add_(0, targets, torch.ones_like(targets))
    return sent.order, torch.stack((sent.counts, assigned), dim=1)


def summed(like: Tensor, order: Tensor, rows: Tensor, counts: list[int]) -> Tensor:
    """Rows that came back added up. Rank by rank: a token is there once, so that the order is always the same."""
    whole = torch.zeros_like(like)
    for tokens, part in zip(order.split(counts), rows.split(counts), strict=True):
        whole.index_add_(0, tokens, part)
    return whole


def normal(group: RankGroup, places: Sequence[RankExperts], rows: Sequence[Tensor]) -> list[Tensor]:
    """Exactly the rows that are needed; the host waits for their numbers."""
    ranks, one_each = group.count, [[1] * group.count for _ in group.indices]
    with window("route"):
        routed = group.each(lambda place: places[place].router(rows[place]))
    with window("dispatch"):
        telling = group.each(lambda place: sending_plan(routed[place], places[place].owner, ranks))
        heard = group.swapped([numbers for _, numbers in telling], one_each, one_each)
        both = group.read(group.each(lambda place: torch.stack((telling[place][1], heard[place]))))
        sends = [[count for count, _ in numbers[0]] for numbers in both]
        receives = [[count for count, _ in numbers[1]] for numbers in both]
        orders = [order[: sum(send)] for (order, _), send in zip(telling, sends, strict=True)]
        leaving = group.each(lambda place: rows[place].index_select(0, orders[place]))
        notes = group.each(lambda place: noted(routed[place]).index_select(0, orders[place]))
        arrived = group.swapped(leaving, sends, receives)
        notes = group.swapped(notes, sends, receives)
    with window("expert_gemm"):

        def mixed(place: int) -> Tensor:
            held, assigned = places[place].held, sum(count for _, count in both[place][1])
            return exactly(held, arrived[place], routes_here(notes[place], held, assigned))

        answers = group.each(mixed)
    with window("combine"):
        back = group.swapped(answers, receives, sends)
        return group.each(lambda place: summed(rows[place], orders[place], back[place], sends[place]))


def low_latency(group: RankGroup, places: Sequence[RankExperts], rows: Sequence[Tensor]) -> list[Tensor]:
    """The same number of rows between any two ranks; the host waits for nothing."""
    ranks, room, held = group.count, places[0].room, [place.held for place in places]
    even = [[room] * ranks for _ in group.indices]
    with window("route"):
        routed = group.each(lambda place: places[place].router(rows[place]))
    with window("dispatch"):
        leaving = group.each(lambda place: addressed(rows[place], routed[place], places[place].owner, ranks, room))
        arrived = group.swapped(leaving, even, even)
    with window("expert_gemm"):
        answers = group.each(
            lambda place: at_capacity(held[place], *unpacked(arrived[place], rows[place], held[place]))
        )
    with window("combine"):
        back = group.swapped(answers, even, even)
        return group.each(
            lambda place: back[place].view(ranks, room, rows[place].shape[1])[:, : len(rows[place])].sum(dim=0)
        )


def addressed(rows: Tensor, routed: Routed, owner: Tensor, ranks: int, room: int) -> Tensor:
    """A message of the same size for each rank: as bytes, a row and its notes for each token; zeros, no expert, else.

    A token has the same place in every message, so that nothing is needed to bring its answers home.
    """
    stays = torch.ones(len(rows), ranks, dtype=torch.bool, device=rows.device)
    stays = stays.scatter_(1, owner[routed.experts], False).t().unsqueeze(-1)  # noqa: FBT003
    spare = (0, 0, 0, room - len(rows))
    states = F.pad(rows.unsqueeze(0).expand(ranks, -1, -1).masked_fill(stays, 0.0), spare)
    notes = noted(routed).unsqueeze(0).expand(ranks, -1, -1).masked_fill(stays, _NOBODY)
    notes = F.pad(notes, spare, value=_NOBODY)
    return torch.cat((states.view(torch.uint8), notes.view(torch.uint8)), dim=-1).flatten(0, 1)


def unpacked(messages: Tensor, like: Tensor, held: ExpertWeights) -> tuple[Tensor, Routed]:
    """Rows and where they go, from messages that came; as if all experts that could be here were."""
    row_bytes = like.shape[1] * like.element_size()
    notes = messages[:, row_bytes:].contiguous().view(torch.int32)
    most = len(messages) * min(notes.shape[1] // 2, len(held))
    return messages[:, :row_bytes].view(like.dtype), routes_here(notes, held, most)


def exactly(held: ExpertWeights, rows: Tensor, routed: Routed) -> Tensor:
    """Rows through the experts that they go to here, of which the host knows how many there are."""
    if not routed.assigned:
        return torch.zeros_like(rows)
    packed = grouped_dispatch(held, rows, routed)
    return packed_combine(rows, routed, packed, grouped_compute(held, packed))


def at_capacity(held: ExpertWeights, rows: Tensor, routed: Routed) -> Tensor:
    """The same in shapes that do not depend on how many there are."""
    if held.product is None:  # each expert sees all rows, and the shares pick
        shares = rows.new_zeros(len(rows), len(held) + 1)
        shares.scatter_(1, routed.experts, routed.weights.to(rows.dtype))
        return torch.einsum("re,erh->rh", shares[:, :-1], padded(held, rows.expand(len(held), -1, -1)))
    packed = grouped_dispatch(held, rows, routed)
    answers = grouped_compute(held, packed)
    # past the last group nothing was computed
    is_past = torch.arange(len(answers), device=answers.device) >= packed.ends[-1:]
    return packed_combine(rows, routed, packed, answers.masked_fill(is_past.unsqueeze(1), 0.0))


DISPATCHES: dict[str, Dispatch] = {"normal": normal, "low-latency": low_latency}
