"""Ways to put tokens through their experts: tokens, their routes and the weights in, a row for each token out.

    loop          expert after expert: which tokens are mine? The host waits for each answer; small products
    batched_gemm  rows padded to the fullest expert's number, one product of batches; the host waits once
    grouped       rows sorted by expert, one product of groups; the host does not wait (once, without such a product)

Each way has three parts, which a profile shows apart: dispatch brings the rows of an expert together, compute
multiplies them, combine brings them back and adds them up by weight. No two threads add to one number, so that the
order of adding is always the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.mixture.experts import ExpertWeights, grouped, one, padded
from gpuledger_workloads.mixture.routing import Routed


@dataclass(frozen=True, slots=True)
class ExpertTokens:
    """The tokens of one expert."""

    expert: int
    tokens: Tensor
    weights: Tensor
    rows: Tensor


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows brought together, and where each assignment's row is; 0 for a place without an expert, whose weight is 0."""

    rows: Tensor
    row_of: Tensor
    ends: Tensor


@dataclass(frozen=True, slots=True)
class Mode:
    """One way, in its three parts. What dispatch gives, compute takes; what both give, combine takes."""

    dispatch: Callable[[ExpertWeights, Tensor, Routed], Any]
    compute: Callable[[ExpertWeights, Any], Any]
    combine: Callable[[Tensor, Routed, Any, Any], Tensor]


def loop_dispatch(held: ExpertWeights, hidden: Tensor, routed: Routed) -> list[ExpertTokens]:
    """Each expert asks for its tokens by itself, and the host waits to know how many there are."""
    parts = []
    for expert in range(len(held)):
        tokens, places = (routed.experts == expert).nonzero(as_tuple=True)
        if len(tokens):
            parts.append(ExpertTokens(expert, tokens, routed.weights[tokens, places], hidden[tokens]))
    return parts


def loop_compute(held: ExpertWeights, parts: list[ExpertTokens]) -> list[Tensor]:
    """Small products, one expert after another."""
    return [one(held, part.expert, part.rows) for part in parts]


def loop_combine(hidden: Tensor, _: Routed, parts: list[ExpertTokens], rows: list[Tensor]) -> Tensor:
    """Each expert adds to its tokens."""
    mixed = torch.zeros_like(hidden)
    for part, each in zip(parts, rows, strict=True):
        mixed.index_add_(0, part.tokens, each * part.weights.to(each.dtype).unsqueeze(1))  # a token is there once
    return mixed


def by_expert(held: ExpertWeights, routed: Routed) -> tuple[Tensor, Tensor, Tensor]:
    """Assignments in the order of their experts: the experts, the assignments, and where each expert's end."""
    experts, order = routed.experts.flatten().sort(stable=True)  # places without an expert come last
    experts, order = experts[: routed.assigned], order[: routed.assigned]
    every = torch.arange(len(held), device=experts.device)
    return experts, order, torch.searchsorted(experts, every, right=True, out_int32=True)


def batched_dispatch(held: ExpertWeights, hidden: Tensor, routed: Routed) -> Packed:
    """As many rows for each expert as the fullest has: the one number that the host must know."""
    experts, order, ends = by_expert(held, routed)
    counts = ends.diff(prepend=ends.new_zeros(1))
    capacity = int(counts.max())
    within = torch.arange(len(order), device=order.device) - (ends - counts)[experts]
    slots = experts * capacity + within
    rows = hidden.new_zeros(len(held) * capacity, hidden.shape[1])
    rows.index_copy_(0, slots, hidden.index_select(0, order // routed.experts.shape[1]))
    return Packed(rows.view(len(held), capacity, -1), _placed(routed, order, slots), ends)


def batched_compute(held: ExpertWeights, packed: Packed) -> Tensor:
    """All experts at once, the padding too."""
    return padded(held, packed.rows).flatten(0, 1)


def grouped_dispatch(held: ExpertWeights, hidden: Tensor, routed: Routed) -> Packed:
    """The rows of all experts, one after another; where they end stays on the device."""
    _, order, ends = by_expert(held, routed)
    rows = hidden.index_select(0, order // routed.experts.shape[1])
    return Packed(rows, _placed(routed, order, torch.arange(len(order), device=order.device)), ends)


def grouped_compute(held: ExpertWeights, packed: Packed) -> Tensor:
    """All experts at once, as many rows as each has."""
    return grouped(held, packed.rows, packed.ends)


def packed_combine(hidden: Tensor, routed: Routed, packed: Packed, rows: Tensor) -> Tensor:
    """Each token fetches the rows of its experts: no two threads add to one number."""
    count, k = routed.experts.shape
    fetched = rows.index_select(0, packed.row_of).view(count, k, rows.shape[1])
    return torch.bmm(routed.weights.to(hidden.dtype).unsqueeze(1), fetched).squeeze(1)


def _placed(routed: Routed, order: Tensor, slots: Tensor) -> Tensor:
    """For each assignment the row that it went to."""
    return order.new_zeros(routed.experts.numel()).scatter_(0, order, slots)


MODES = {
    "loop": Mode(loop_dispatch, loop_compute, loop_combine),
    "batched_gemm": Mode(batched_dispatch, batched_compute, packed_combine),
    "grouped": Mode(grouped_dispatch, grouped_compute, packed_combine),
}


def mixed(name: str, held: ExpertWeights, hidden: Tensor, routed: Routed) -> Tensor:
    """Tokens through their experts, the three parts marked as on one GPU."""
    mode = MODES[name]
    if not routed.assigned:
        return torch.zeros_like(hidden)
    with window("dispatch_single"):
        packed = mode.dispatch(held, hidden, routed)
    with window(f"compute_{name}"):
        rows = mode.compute(held, packed)
    with window("combine_single"):
        return mode.combine(hidden, routed, packed, rows)


def computed(name: str, held: ExpertWeights, hidden: Tensor, routed: Routed) -> Tensor:
    """The same in one part, for a rank whose dispatch and combine are between ranks."""
    mode = MODES[name]
    with window(f"compute_{name}"):
        if not routed.assigned:
            return torch.zeros_like(hidden)
        packed = mode.dispatch(held, hidden, routed)
        return mode.combine(hidden, routed, packed, mode.compute(held, packed))
