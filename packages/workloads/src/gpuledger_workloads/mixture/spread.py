"""A mixture whose experts are spread over ranks: tokens of each rank in, what their experts made of them out.

    normal       each rank tells the others how many rows come; the host reads that, and exactly these rows are sent
    low-latency  every rank sends every other the same number of rows, one for each token that it may have, those that
                 do not go there filled with zeros; no host waits, no shape depends on the data, a CUDA graph can
                 hold it; more bytes travel

Both ways a token goes once to each rank that has one of its experts, with the experts' numbers and weights; what these
made of it is summed up by weight where they are, and comes back. In low-latency the room at the receiver is as many
rows for each expert and sender as the sender has tokens at most, so that no token is ever dropped.

NVTX: "route", "dispatch", "expert_gemm", "combine".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.mixture.exchange import RankGroup, layout
from gpuledger_workloads.mixture.experts import ExpertWeights, grouped_compute, grouped_dispatch, packed_combine, padded
from gpuledger_workloads.mixture.routing import Routed

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
