"""A kernel of few blocks that takes long, in Triton: points in the plane in, the same turned around the origin out.

A block turns its points by a small angle, again and again: it computes for as long as it is asked to and reads nothing
meanwhile, so that two such kernels on other multiprocessors of one GPU take as long side by side as either alone.
"""

from __future__ import annotations

import math

import torch  # type: ignore[import-not-found, unused-ignore]
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]


@triton.jit(do_not_specialize=["cosine", "sine", "turns"])  # type: ignore[untyped-decorator, unused-ignore]
def turn_points(points, output, cosine, sine, turns, size, part: tl.constexpr):  # type: ignore[no-untyped-def]
    """`points` is 2 x size: all x, then all y."""
    places = tl.program_id(0) * part + tl.arange(0, part)
    x, y = tl.load(points + places), tl.load(points + size + places)
    for _ in range(turns):
        x, y = x * cosine - y * sine, x * sine + y * cosine
    tl.store(output + places, x)
    tl.store(output + size + places, y)


def turned(points: Tensor, angle: float, turns: int, part: int) -> Tensor:
    """One kernel, a block per `part` points, which divides their number."""
    output, size = torch.empty_like(points), points.shape[1]
    turn_points[(size // part,)](
        points, output, math.cos(angle), math.sin(angle), turns, size, part=part, num_warps=part // 32
    )
    return output
