"""Tokens on their way between ranks: the experts of each token in, what to send to whom out, and the sending itself.

A token travels once to each rank that owns one of its experts, however many it owns. The way there and back:

    owner = owners(256, rank.count, device)
    sent = layout(experts, owner, rank.count)  # no host sync
    counts = agreed(sent.counts, exchanged_counts(sent.counts, rank))  # one: split sizes are numbers of the host
    order = sent.order[: sum(counts.send)]
    rows = exchange(tokens[order], counts.send, counts.receive, rank)  # sorted by the rank that they come from
    back = exchange(answers, counts.receive, counts.send, rank)        # row i answers for token order[i]

What else a receiver needs, such as the experts of a token, takes the same way: `exchange(experts[order], ...)`. Rows
of a rank that sends or gets nothing have length 0. gloo moves host memory: rows of a GPU are staged through the host,
which waits for both copies; nccl takes them where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.common.ranks import Rank


@dataclass(frozen=True, slots=True)
class Layout:
    """What a rank sends. `order` and `targets` have room for the most copies there can be; the rest of them is 0."""

    order: Tensor
    """The token of each copy, sorted by the rank it goes to, then by token."""
    targets: Tensor
    """The rank each copy goes to."""
    counts: Tensor
    """Copies for each rank; their sum is how much of `order` counts."""
    goes: Tensor
    """Whether a token goes to a rank, tokens x ranks."""


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
    return Layout(
        order=kept % max(tokens, 1),
        targets=kept // max(tokens, 1),
        counts=goes.sum(0),
        goes=goes,
    )


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
