"""The experts of a mixture: their weights, made from a seed, and what one of them computes.

An expert is a SwiGLU MLP: down(silu(gate(x)) * up(x)). Gate and up are one matrix, so that they are one product. Each
expert's weights come from random numbers of its own: a rank can make any of them, and makes those that it holds.
Matrices lie as in `nn.Linear`: outputs x inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.mixture.routing import expert_generator

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
        """Numbers in one expert's weights."""
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


Filled = Callable[[Tensor, Tensor, int], None]
"""Writes the two matrices of the expert of that number."""


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
    if product is None or any(each % _ALIGNED_BYTES for each in row_bytes):
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
