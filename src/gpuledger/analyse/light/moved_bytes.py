"""How many bytes an operator of torch has to move, from the shapes and types of its inputs.

Operators that are not torch's own are bounded by what they were given: tensors that numbers point into are read where
these point, others once. What they return was not recorded; engines for serving hand over what is to be written.

Inputs are read once and outputs written once, whatever a kernel does in between. Outputs are not recorded: those of
operators by element are as large as their inputs together (broadcast), of sums small, of lookups what was picked. Of
lists of tensors (optimizers) torch records the shapes and not the types: `width` is what the kernel's name says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from math import prod
from typing import Final

from gpuledger.analyse.operators.arithmetic import ELEMENT_BYTES, Inputs, Shape
from gpuledger.regex import regex

_WIDTHS: Final[Mapping[str, int]] = {
    **ELEMENT_BYTES,
    "long int": 8,
    "long": 8,
    "int": 4,
    "short int": 2,
    "bool": 1,
    "unsigned char": 1,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}

_FILLS: Final = frozenset(
    (*("fill", "zero", "uniform", "normal", "bernoulli", "exponential", "random", "arange"), "_foreach_zero")
)
_COPIES: Final = frozenset(("copy", "_foreach_copy"))
_SUMS: Final = frozenset(
    (
        *("sum", "nansum", "mean", "prod", "std", "var", "norm", "linalg_vector_norm", "_foreach_norm", "logsumexp"),
        *("amax", "amin", "argmax", "argmin", "max", "min", "any", "all"),
        *("count_nonzero", "bincount", "is_nonzero", "equal"),
    )
)
_LOOKUPS: Final = frozenset(("embedding", "index_select", "gather", "index", "take", "take_along_dim"))
_ADDS_ROWS: Final = frozenset(
    (
        *("embedding_dense_backward", "_embedding_bag_dense_backward", "index_put", "_index_put_impl"),
        *("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy"),
    )
)
_PICKS_ONE: Final = frozenset(["nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"])
_JOINS: Final = frozenset(("cat", "stack", "_foreach_cat"))
_FUSED: Final[Mapping[str, int]] = {"_fused_adam": 3, "_fused_adamw": 3, "_fused_sgd": 2, "_fused_adagrad": 2}
"""How many of the lists that fused optimizers read they also write."""

_IN_PLACE: Final = regex(r"(?<!_)_$")


def moved_bytes(name: str, given: Inputs, width: int | None) -> int | None:
    """At least; None where shapes or types do not tell. `width`: of an element of lists of tensors, in bytes."""
    bare = name.rpartition("::")[2]
    base, is_in_place = _IN_PLACE.sub("", bare), bool(_IN_PLACE.search(bare))
    if base.startswith("_foreach") or base in _FUSED or base in _JOINS:
        return _of_lists(base, given, width, is_in_place=is_in_place)
    sizes = _sizes(given)
    if not sizes:
        return None
    if base in _FILLS or base in _SUMS:
        return sizes[0]
    if base in _PICKS_ONE:
        return sum(sizes) - max(sizes)
    if base in _LOOKUPS or base in _ADDS_ROWS:
        return _picked(base, given, sizes)
    if base in _COPIES or bare.startswith("triton_"):
        return sum(sizes)  # each argument is read or written
    if "::" in name and not name.startswith(("aten::", "triton_")):  # not torch's own, nor made by its compiler
        shapes = [shape for shape in given.shapes if shape]
        # what is written is among the inputs: the engine always does so, or one is shaped as the first
        hands_over = name.startswith(_HANDS_OVER) or (bool(shapes) and shapes[0] in shapes[1:])
        return _given_bytes(given) + (0 if hands_over else _output(given))
    return sum(sizes) + (sizes[0] if is_in_place else _output(given))


def goes_once(name: str) -> bool:
    """Whether an operator is known to need no more than one pass over what it moves."""
    base = _IN_PLACE.sub("", name.rpartition("::")[2])
    return base.startswith(("_foreach", "triton_")) or any(base in known for known in _ONE_PASS)


_ONE_PASS: Final = (_FILLS, _COPIES, _SUMS, _LOOKUPS, _ADDS_ROWS, _PICKS_ONE, _JOINS, _FUSED)
_HANDS_OVER: Final = ("_C::", "_C_cache_ops::", "_moe_C::", "_rocm_C::", "sgl_kernel::", "vllm::")
_NUMBERS: Final = ("long int", "long", "int")


def _given_bytes(given: Inputs) -> int:
    """Of all inputs; of tables, the rows that numbers point to, and no more than is known to come or go besides."""
    places = range(len(given.shapes))
    numbers = max((prod(given.shapes[at]) for at in places if given.kind(at) in _NUMBERS), default=0)
    once = tables = 0
    for at in places:
        shape, width = given.shapes[at], _width(given, at)
        if width is None or not shape:
            continue
        if 0 < numbers < shape[0] and given.kind(at) not in _NUMBERS:
            tables += numbers * prod(shape[1:]) * width
        else:
            once += prod(shape) * width
    return once + min(tables, once)


def _sizes(given: Inputs) -> list[int]:
    """The bytes of each input that is a tensor of a known type."""
    return [
        prod(shape) * size
        for position, shape in enumerate(given.shapes)
        if (size := _width(given, position)) is not None and (shape or not position)
    ]


def _width(given: Inputs, position: int) -> int | None:
    return _WIDTHS.get(given.kind(position) or "")


def _output(given: Inputs) -> int:
    """As large as all inputs together, in the widest of their types that is no number of rows."""
    shapes = [shape for position, shape in enumerate(given.shapes) if _width(given, position) is not None]
    widths = [_width(given, position) or 0 for position, shape in enumerate(given.shapes) if shape]
    narrow = [width for width in widths if width < 8] or widths
    return _broadcast(shapes) * max(narrow, default=0)


def _broadcast(shapes: Sequence[Shape]) -> int:
    """Elements of what these give together; where they do not fit, of the largest."""
    columns = list(zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1))
    fits = all(len({size for size in column if size != 1}) <= 1 for column in columns)
    return prod(max(column) for column in columns) if fits else max(map(prod, shapes), default=0)


def _picked(base: str, given: Inputs, sizes: Sequence[int]) -> int | None:
    """Of a lookup: what is picked is read and written. Of rows added to others: these are read, those written."""
    if base in _ADDS_ROWS:
        given_bytes = sizes[0] if "dense_backward" in base else sum(sizes[1:])
        return 2 * given_bytes if "dense_backward" in base else given_bytes + min(given_bytes, sizes[0])
    table, width = given.shapes[0], _width(given, 0)
    numbers = [shape for shape in given.shapes[1:] if shape]
    numbers = numbers or [shape for shapes in given.lists[1:] for shape in shapes]
    if not table or width is None or not numbers:
        return None
    rows = prod(numbers[0])
    each = 1 if base in ("gather", "take", "take_along_dim") else prod(table[max(len(given.lists[1]), 1) :])
    return 2 * rows * each * width


def _of_lists(base: str, given: Inputs, width: int | None, *, is_in_place: bool) -> int | None:
    """Each list is read, and the first of them, or the output, written."""
    sizes = [sum(map(prod, shapes)) for shapes in given.lists if shapes]
    widths = {size for position in range(len(given.types)) if (size := _width(given, position)) is not None}
    width = width or (widths.pop() if len(widths) == 1 else None)
    if not sizes or width is None:
        return None
    if base in _JOINS:
        return 2 * sizes[0] * width
    if base in _FILLS or base in _SUMS:
        return sizes[0] * width
    if base in _COPIES:
        return 2 * sizes[0] * width
    if base in _FUSED:
        full = [size for size in sizes if size == sizes[0]]
        return (len(full) + min(_FUSED[base], len(full) - 1)) * sizes[0] * width
    same = [size for size in sizes if size == sizes[0]]
    return (len(same) + (1 if is_in_place or base.startswith("_foreach") else 0)) * sizes[0] * width
