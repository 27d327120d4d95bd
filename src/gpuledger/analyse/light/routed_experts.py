"""What experts need whose weights are not among their operator's inputs, as in engines for serving.

The operator was given rows of some width and each row's score for each expert. Two products are launched: the second
writes rows of that width, so that its blocks and the tile in its name tell how many tiles of rows there are, and these
how many columns the first writes. Each expert that rows go to reads its weights; one tile of each may be nearly empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.operators.arithmetic import Count, Inputs
from gpuledger.catalog.kernel_types import RoutedProduct


def routed_counts(given: Inputs, launched: Sequence[tuple[RoutedProduct, int]]) -> tuple[Count, Count] | None:
    """Of both products, by their names and blocks, in their order; None where these do not go together."""
    matrices = [shape for shape in given.shapes if len(shape) == 2]
    if len(launched) != 2 or len(matrices) < 2 or matrices[0][0] != matrices[1][0]:
        return None
    (rows, width), (_, experts) = matrices[:2]
    (up, up_blocks), (down, down_blocks) = launched
    tiles, odd = divmod(down_blocks, -(-width // down.columns_tile))
    if odd or not tiles or up.rows_tile != down.rows_tile or up_blocks % tiles or not rows:
        return None
    columns = up_blocks // tiles * up.columns_tile
    inner = columns // 2 if up.is_gated else columns
    pairs = max((tiles - experts) * up.rows_tile, rows)
    return (
        _count(up, pairs, min(experts, pairs), width, columns, inner),
        _count(down, pairs, min(experts, pairs), inner, width, width),
    )


def _count(kernel: RoutedProduct, pairs: int, experts: int, depth: int, columns: int, written: int) -> Count:
    """Of rows times their experts' weights; results are of 16 bits, or are rows of the next."""
    moved_bits = experts * depth * columns * kernel.weight_bits + pairs * (depth * kernel.row_bits + written * 16)
    return Count(2 * pairs * depth * columns, kernel.kind, is_bound=True, moved_bytes=moved_bits // 8)
