"""The kernels of `triton_steps`, loaded only where Triton is. Triton reads annotations, so only constants have one."""

import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

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
