"""Kernels of our own, in Triton: a softmax over rows, a product with the activation in it, and a sum of squares."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from lab.programs.paired.program import Step

TILE = 128


def triton_step(device: str) -> Step:
    """Softmax of a wide matrix, a product of it by tiles, and norms of its rows. Triton needs a GPU."""
    if device != "cuda":
        raise RuntimeError("Triton compiles for a GPU")
    kernels: Any = import_module("lab.programs.sampling.triton_kernels")
    torch.manual_seed(0)
    rows, inner, columns = 8192, 4096, 2048
    left = torch.randn(rows, inner, device=device, dtype=torch.bfloat16)
    right = torch.randn(inner, columns, device=device, dtype=torch.bfloat16) * inner**-0.5
    shares, product = torch.empty_like(left), torch.empty(rows, columns, device=device, dtype=torch.bfloat16)
    norms = torch.empty(rows, device=device)

    def step(_: int) -> Tensor:
        kernels.softmax_rows[(rows,)](left, shares, inner, BLOCK=inner, num_warps=8)
        grid = (rows // TILE, columns // TILE)
        kernels.product_gelu[grid](shares, right, product, inner, columns, TILE=TILE, DEPTH=64, num_warps=8)
        kernels.square_norms[(rows // 64,)](product, norms, columns, ROWS=64, COLUMNS=128, num_warps=4)
        return norms

    return step
