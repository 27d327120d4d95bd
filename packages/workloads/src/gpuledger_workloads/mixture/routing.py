"""Which experts a token goes to: tokens in, for each of them its experts and their weights out.

The router is a linear layer, a softmax over all experts, and the k likeliest of them; their weights are divided by
their sum, so that they add up to 1. What it picks depends on its random weights. A plan replaces the experts, and
nothing else, by chosen ones: the same kernels run, no host waits, and the j-th expert of the plan gets the j-th largest
weight.

    random     no plan: what the router picks for random tokens
    uniform    every expert has the same number of tokens, or one more
    power-law  the expert at place r of the popular ones is drawn in proportion to r ** -exponent
    hot        one expert is everyone's first choice; the others share the rest evenly
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.command_lines import EXPONENT

_PLAN = 0  # what a seed is used for: see `generator`
_ROUTER = 1
_TOKENS = 2
_EXPERTS = 1 << 20  # more ranks than this would get the numbers of experts


@dataclass(frozen=True, slots=True)
class Routed:
    """Where tokens go. A place without an expert has the number of experts for its expert, and weight 0."""

    experts: Tensor  # tokens x k, int64; no expert twice in a row
    weights: Tensor  # tokens x k, float32
    assigned: int  # places that have an expert; known to the host


@dataclass(frozen=True, slots=True)
class Gating:
    """How experts are picked by their scores, and what these count then.

    A sigmoid scores each expert for itself, a softmax all of them. `bias` is added to pick and does not count. Where
    experts stand in groups, only those of the best groups are picked, a group being as good as its best two together.
    """

    is_sigmoid: bool = False
    bias: Tensor | None = None
    groups: int = 1
    top_groups: int = 1
    sums_to_one: bool = True
    scale: float = 1.0

    def __call__(self, logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Weights and experts of each token, tokens x k."""
        scores = logits.sigmoid() if self.is_sigmoid else logits.softmax(dim=-1)
        if self.bias is None and self.groups == 1:
            weights, experts = scores.topk(k, dim=-1)
        else:
            experts = self._liked(scores).topk(k, dim=-1).indices
            weights = scores.gather(1, experts)
        if self.sums_to_one:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights * self.scale, experts

    def _liked(self, scores: Tensor) -> Tensor:
        """What experts are picked by: -inf for those of other groups."""
        liked = scores if self.bias is None else scores + self.bias
        if self.groups == 1:
            return liked
        grouped = liked.view(len(liked), self.groups, -1)
        best = grouped.topk(min(2, grouped.shape[-1]), dim=-1).values.sum(dim=-1)
        chosen = best.topk(self.top_groups, dim=-1).indices
        is_out = torch.ones_like(best, dtype=torch.bool).scatter(1, chosen, False)  # noqa: FBT003
        return grouped.masked_fill(is_out.unsqueeze(-1), -math.inf).view_as(liked)


@dataclass(frozen=True, slots=True)
class Router:
    """The router's weights, and the experts that a plan says instead of it."""

    weight: Tensor  # experts x hidden
    k: int
    plan: Tensor | None  # tokens x k, int64
    gating: Gating = Gating()

    def __call__(self, hidden: Tensor) -> Routed:
        weights, experts = self.gating(F.linear(hidden, self.weight).float(), self.k)
        return Routed(experts if self.plan is None else self.plan, weights, experts.numel())


def generator(device: str, seed: int, use: int, number: int = 0) -> Any:
    """Random numbers that depend on nothing but the seed and on what they are for: every rank draws the same."""
    source = torch.Generator(device=device)
    source.manual_seed((seed * 1_000_003 + use + number) % (1 << 63))
    return source


def router(experts: int, k: int, hidden: int, plan: Tensor | None, *, device: str, dtype: Any, seed: int) -> Router:
    """A router with random weights, large enough for some experts to be clearly likelier than others."""
    weight = torch.empty(experts, hidden, device=device, dtype=dtype)
    weight.normal_(std=2.0 / math.sqrt(hidden), generator=generator(device, seed, _ROUTER))
    return Router(weight, k, plan)


def tokens(count: int, hidden: int, *, device: str, dtype: Any, seed: int, rank: int = 0) -> Tensor:
    """The tokens of a rank: rows of random numbers."""
    rows = torch.empty(count, hidden, device=device, dtype=dtype)
    return rows.normal_(generator=generator(device, seed, _TOKENS, rank))


def expert_generator(device: str, seed: int, expert: int) -> Any:
    """Random numbers of one expert's weights."""
    return generator(device, seed, _EXPERTS, expert)


def planned(routing: str, count: int, experts: int, k: int, *, exponent: float = EXPONENT, seed: int) -> Tensor | None:
    """The experts of each token, count x k, distinct in each row; None: the router decides. On the host."""
    if routing == "random":
        return None
    source = generator("cpu", seed, _PLAN)
    names = torch.randperm(experts, generator=source)  # so that the popular ones are not neighbours
    if routing == "uniform":
        return names[torch.arange(count * k).view(count, k) % experts]
    if routing == "hot":
        others = torch.arange(count * (k - 1)).view(count, k - 1) % max(1, experts - 1) + 1
        return names[torch.cat((torch.zeros(count, 1, dtype=torch.long), others), dim=1)]
    if routing != "power-law":
        raise ValueError(routing)
    popularity = -exponent * torch.arange(1, experts + 1, dtype=torch.float64).log()
    # the k largest of log chance + Gumbel noise are k draws in proportion to the chances, without replacement
    noise = -torch.empty(count, experts, dtype=torch.float64).exponential_(generator=source).log()
    return names[(popularity + noise).topk(k, dim=-1).indices]


def tokens_per_expert(routed: Routed, experts: int) -> list[int]:
    """How many tokens each expert has. The host waits for the device."""
    counts: list[int] = torch.bincount(routed.experts.flatten(), minlength=experts + 1)[:experts].tolist()
    return counts


def imbalance(counts: list[int]) -> float | None:
    """The largest of some counts by their mean: 1 where they are equal. None where there is nothing to share."""
    return round(max(counts) * len(counts) / sum(counts), 4) if sum(counts) else None
