"""The experts of a mixture: weights from a seed; tokens and their routes in, a row for each token out, in three ways.

An expert is a SwiGLU MLP: down(silu(gate(x)) * up(x)). Gate and up are one matrix, so that they are one product. Each
expert's weights come from random numbers of its own: a rank can make any of them, and makes those that it holds.
Matrices lie as in `nn.Linear`: outputs x inputs. The ways:

    loop          expert after expert: which tokens are mine? The host waits for each answer; small products
    batched_gemm  rows padded to the fullest expert's number, one product of batches; the host waits once
    grouped       rows sorted by expert, one product of groups; the host does not wait (once, without such a product)

Each way has three parts, which a profile shows apart: dispatch brings the rows of an expert together, compute
multiplies them, combine brings them back and adds them up by weight. No two threads add to one number, so that the
order of adding is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.mixture.routing import Routed, Router, expert_generator
from gpuledger_workloads.program import refuse

GROUPED_CAPABILITIES = (9, 10)  # elsewhere torch's grouped product is a loop that waits for the device
_ALIGNED_BYTES = 16  # of a row, for a grouped product

Product = Callable[..., Tensor]


@dataclass(frozen=True, slots=True)
class MixtureShape:
    """The size of a mixture: how many experts, and of each its input and what lies between its products."""

    experts: int
    hidden: int
    ffn: int

    @property
    def weights(self) -> int:
        return 3 * self.hidden * self.ffn

    def flop(self, assignments: int) -> int:
        """Multiplications and additions of so many rows through their experts."""
        return 2 * assignments * self.weights


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """The weights of the experts from `first` on, and how they are multiplied in one go."""

    up: Tensor  # experts x 2 ffn x hidden: gate, then up
    down: Tensor  # experts x hidden x ffn
    first: int
    product: Product | None  # a grouped product of torch's; None: segment by segment

    def __len__(self) -> int:
        return len(self.up)

    @property
    def grouped_by(self) -> str:
        """What `grouped` runs on: one kernel for all experts, or one after another."""
        return "segments" if self.product is None else "grouped_mm"


def fill(up: Tensor, down: Tensor, seed: int, expert: int) -> None:
    """Write one expert's weights, which keep the size of what goes through about the same."""
    source = expert_generator(str(up.device), seed, expert)
    up.normal_(std=1 / math.sqrt(up.shape[1]), generator=source)
    down.normal_(std=1 / math.sqrt(down.shape[1]), generator=source)


Filled = Callable[[Tensor, Tensor, int], None]  # writes the two matrices of the expert of that number


def bank(shape: MixtureShape, held: range, *, device: str, dtype: Any, seed: int) -> ExpertWeights:
    """The experts that a rank holds, with random weights."""
    return filled_bank(shape, held, lambda up, down, expert: fill(up, down, seed, expert), device=device, dtype=dtype)


def filled_bank(shape: MixtureShape, held: range, filled: Filled, *, device: str, dtype: Any) -> ExpertWeights:
    """The experts that a rank holds, made where they stay: no second copy in another type or place."""
    up = torch.empty(len(held), 2 * shape.ffn, shape.hidden, device=device, dtype=dtype)
    down = torch.empty(len(held), shape.hidden, shape.ffn, device=device, dtype=dtype)
    for place, expert in enumerate(held):
        filled(up[place], down[place], expert)
    return ExpertWeights(up, down, held.start, grouped_product(shape, device, dtype))


def grouped_product(shape: MixtureShape, device: str, dtype: Any) -> Product | None:
    """torch's product of row groups with a matrix each, where it has one that does not wait for the device."""
    product: Product | None = getattr(F, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
    row_bytes = [width * torch.empty((), dtype=dtype).element_size() for width in (shape.hidden, shape.ffn)]
    if product is None or any(width_bytes % _ALIGNED_BYTES for width_bytes in row_bytes):
        return None
    on_gpu = device.startswith("cuda")
    if on_gpu and (dtype is not torch.bfloat16 or torch.cuda.get_device_capability()[0] not in GROUPED_CAPABILITIES):
        return None
    rows = torch.zeros(1, shape.hidden, device=device, dtype=dtype)
    matrix = torch.zeros(1, shape.ffn, shape.hidden, device=device, dtype=dtype)
    try:  # older versions have the name and not the kernel
        product(rows, matrix.transpose(1, 2), offs=torch.ones(1, device=device, dtype=torch.int32))
    except (RuntimeError, NotImplementedError):
        return None
    return product


def opened(both: Tensor) -> Tensor:
    """SwiGLU's middle: the first half, through a sigmoid, opens the gate for the second."""
    gate, up = both.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


def one(held: ExpertWeights, place: int, rows: Tensor) -> Tensor:
    """Rows through one expert."""
    return F.linear(opened(F.linear(rows, held.up[place])), held.down[place])


def padded(held: ExpertWeights, rows: Tensor) -> Tensor:
    """Rows, experts x capacity x hidden, through their experts."""
    return torch.bmm(opened(torch.bmm(rows, held.up.transpose(1, 2))), held.down.transpose(1, 2))


def grouped(held: ExpertWeights, rows: Tensor, ends: Tensor) -> Tensor:
    """Rows in the order of their experts; `ends` says where each expert's rows end, on the device."""
    if held.product is None:
        return torch.cat([one(held, place, part) for place, part in enumerate(rows.split(sizes(ends)))])
    both = held.product(rows, held.up.transpose(1, 2), offs=ends)
    return held.product(opened(both), held.down.transpose(1, 2), offs=ends)


def sizes(ends: Tensor) -> Sequence[int]:
    """How many rows each expert has. The host waits for the device."""
    counts: Sequence[int] = ends.diff(prepend=ends.new_zeros(1)).tolist()
    return counts


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
    for part, part_rows in zip(parts, rows, strict=True):
        weights = part.weights.to(part_rows.dtype).unsqueeze(1)
        mixed.index_add_(0, part.tokens, part_rows * weights)  # a token is there once
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


SAMPLE = 64
TOLERANCE = {"bf16": 0.05, "fp16": 0.01, "fp32": 1e-3}
"""Of the mean norm of a row. One wrong expert of k is wrong by about sqrt(2 / k) of it."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knows what the tokens of a layer should become, in another way: none is moved, every expert sees all of them.

    In double precision. Weights are made again from the seed, one expert at a time, so that neither a wrong place in
    memory nor a wrong order can hide, and a large mixture needs no second copy. Of many tokens a sample is looked at.
    """

    shape: MixtureShape
    router: Router
    hidden: Tensor
    seed: int
    dtype: str

    def checked(self, result: Tensor, what: str) -> float:
        """How far the worst token is off, by the mean norm of one; ends the program where that is too far."""
        if result.shape != self.hidden.shape:
            refuse(f"{what}: {tuple(self.hidden.shape)} went in, and {tuple(result.shape)} came out")
        sample = torch.tensor(sampled(len(self.hidden)), device=self.hidden.device, dtype=torch.long)
        if not len(sample):
            return 0.0
        rows, picked = self.hidden[sample], self.router(self.hidden).experts[sample]
        wrong = self.fault(rows, picked)
        if wrong:
            refuse(f"{what}: {wrong}")
        answer = self.expected(rows, self.shares(rows, picked))
        norm = float(answer.norm(dim=-1).mean()) or 1.0
        error = float((result[sample].double() - answer).norm(dim=-1).max()) / norm
        if not (error < TOLERANCE[self.dtype] and bool(result.isfinite().all())):  # also when it is NaN
            refuse(f"{what}: a token is off by {error:.3g} of the norm that tokens have")
        return error

    def shares(self, rows: Tensor, picked: Tensor) -> Tensor:
        """How much of each expert is in a token, tokens x experts, if it goes to the `picked` ones."""
        chances = (rows.double() @ self.router.weight.double().T).softmax(dim=-1)
        if self.router.plan is None:
            weights = chances.gather(1, picked)
        else:
            weights = chances.sort(dim=-1, descending=True).values[:, : self.router.k]
        return torch.zeros_like(chances).scatter(1, picked, weights / weights.sum(dim=-1, keepdim=True))

    def expected(self, rows: Tensor, share: Tensor) -> Tensor:
        """Every token through every expert that any of them has a share of."""
        shape = self.shape
        up = rows.new_empty(2 * shape.ffn, shape.hidden)
        down = rows.new_empty(shape.hidden, shape.ffn)
        wanted = (share > 0).any(dim=0).tolist()
        exact = rows.double()
        mixed = torch.zeros_like(exact)
        for expert in range(shape.experts):
            if wanted[expert]:
                fill(up, down, self.seed, expert)
                gate = exact @ up[: shape.ffn].double().T
                middle = gate * gate.sigmoid() * (exact @ up[shape.ffn :].double().T)
                mixed += share[:, expert, None] * (middle @ down.double().T)
        return mixed

    def fault(self, rows: Tensor, picked: Tensor) -> str | None:
        """What is wrong with the experts that tokens were sent to; rounding may exchange two that are as likely."""
        if (picked.sort(dim=-1).values.diff(dim=-1) == 0).any():
            return "a token was sent to one expert twice"
        if self.router.plan is not None:
            return None
        logits = rows.double() @ self.router.weight.double().T
        least = logits.gather(1, picked).min(dim=-1).values
        likely = logits.topk(self.router.k, dim=-1).values[:, -1]
        if (least < likely - TOLERANCE[self.dtype] * logits.abs().max()).any():
            return "a token was not sent to its likeliest experts"
        return None


def sampled(count: int) -> list[int]:
    """The tokens to look at: all of a few, else some at even distances, with the first and the last."""
    if count <= SAMPLE:
        return list(range(count))
    return [round(number * (count - 1) / (SAMPLE - 1)) for number in range(SAMPLE)]
