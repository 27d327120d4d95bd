"""Kernels of our own, in Triton, loaded only where it is. It reads annotations: in a kernel only constants have one.

`turned` takes long in few blocks: points in the plane in, the same turned around the origin out, again and again by a
small angle. A block computes for as long as it is asked to and reads nothing meanwhile, so that two such kernels on
other multiprocessors of one GPU take as long side by side as either alone.

`AllReduce` is one between streams of one GPU: each rank's tensor in, their sum out, on each rank. One kernel per rank
and call, as the one-shot all-reduces of serving engines are: a block says that its part of the rank's tensor is ready,
looks until all ranks have said so, and adds up that part. A block looks a bounded number of times, so that a call that
another rank never makes ends. All blocks of all ranks must be on the device at once.

The others are those of `sampled`: a softmax over rows, a product with the activation in it, and a sum of squares.
"""

from __future__ import annotations

import math

import torch  # type: ignore[import-not-found, unused-ignore]
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]


@triton.jit(do_not_specialize=["cosine", "sine", "turns"])  # type: ignore[untyped-decorator, unused-ignore]
def turn_points(points, output, cosine, sine, turns, size, part: tl.constexpr):
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


BLOCKS = 16
POLLS = 2_000_000  # a second or two
PART = 1024


@triton.jit(do_not_specialize=["rank", "goal", "polls", "size"])  # type: ignore[untyped-decorator, unused-ignore]
def one_shot_all_reduce(
    given, reached, output, rank, goal, polls, size, ranks: tl.constexpr, blocks: tl.constexpr, part: tl.constexpr
):
    """`given` is ranks x size; `reached`, ranks x blocks, counts the calls that each block has begun."""
    block = tl.program_id(0)
    tl.atomic_add(reached + rank * blocks + block, 1, sem="acq_rel", scope="gpu")
    for other in tl.static_range(ranks):
        left = polls
        seen = tl.atomic_add(reached + other * blocks + block, 0, sem="acquire", scope="gpu")
        while (seen < goal) & (left > 0):
            seen = tl.atomic_add(reached + other * blocks + block, 0, sem="acquire", scope="gpu")
            left -= 1
    for start in range(block * part, size, blocks * part):
        places = start + tl.arange(0, part)
        total = tl.zeros([part], tl.float32)
        for other in tl.static_range(ranks):
            total += tl.load(given + other * size + places, mask=places < size, other=0.0).to(tl.float32)
        tl.store(output + places, total.to(output.dtype.element_ty), mask=places < size)


class AllReduce:
    """Tensors like `example`, of `count` ranks, each on a stream of its own, where it gives, then takes."""

    def __init__(self, example: Tensor, count: int) -> None:
        self._count, self._calls = count, [0] * count
        # two turns: a rank gives its next tensor while another still reads the one before, but not one more
        self._given = torch.zeros(2, count, *example.shape, dtype=example.dtype, device=example.device)
        self._reached = torch.zeros(count, BLOCKS, dtype=torch.int32, device=example.device)
        self._output = [torch.empty_like(example) for _ in range(count)]
        for rank in range(count):  # compiled and loaded here: loading waits for kernels that would wait for it
            self._launch(rank, goal=0)
        torch.cuda.synchronize()
        self._reached.zero_()

    def give(self, rank: int, values: Tensor) -> None:
        self._given[self._calls[rank] % 2, rank].copy_(values)

    def take(self, rank: int) -> Tensor:
        self._calls[rank] += 1
        self._launch(rank, self._calls[rank])
        return self._output[rank]

    def _launch(self, rank: int, goal: int) -> None:
        given = self._given[(goal - 1) % 2]
        one_shot_all_reduce[(BLOCKS,)](
            given,
            self._reached,
            self._output[rank],
            rank,
            goal,
            POLLS,
            self._output[rank].numel(),
            ranks=self._count,
            blocks=BLOCKS,
            part=PART,
            num_warps=4,
        )


# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False


@triton.jit
def softmax_rows(source, target, columns, BLOCK: tl.constexpr):  # noqa: N803
    """One row per program."""
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    values = tl.load(source + row * columns + place, mask=place < columns, other=float("-inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(target + row * columns + place, (powers / tl.sum(powers, axis=0)).to(tl.bfloat16), mask=place < columns)


@triton.jit
def product_gelu(left, right, target, inner, columns, TILE: tl.constexpr, DEPTH: tl.constexpr):  # noqa: N803
    """One square tile of the product per program, with a sigmoid-weighted activation."""
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    places = tl.program_id(1) * TILE + tl.arange(0, TILE)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for begin in range(0, inner, DEPTH):
        a = tl.load(left + rows[:, None] * inner + (begin + depth)[None, :])
        b = tl.load(right + (begin + depth)[:, None] * columns + places[None, :])
        total = tl.dot(a, b, total)
    total = total * tl.sigmoid(1.702 * total)
    tl.store(target + rows[:, None] * columns + places[None, :], total.to(tl.bfloat16))


@triton.jit
def square_norms(source, target, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: N803
    """Some rows per program."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    for begin in range(0, columns, COLUMNS):
        places = begin + tl.arange(0, COLUMNS)
        values = tl.load(source + rows[:, None] * columns + places[None, :]).to(tl.float32)
        total += tl.sum(values * values, axis=1)
    tl.store(target + rows, tl.sqrt(total))
