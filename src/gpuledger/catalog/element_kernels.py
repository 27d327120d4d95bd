"""PyTorch's kernels by element: a demangled name in, how many tensors they move, of what size, and how launched, out.

`vectorized_elementwise_kernel<8, Functor, std::array<char *, 3>>` moves three tensors, sixteen bytes of each at a time;
a block of it does 1,024 elements. Others take their work per thread as a template's argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_KERNEL: Final = re.compile(
    r"(vectorized_|unrolled_)?(?:templated_)?elementwise_kernel\w*<(?:\(int\))?(\d+)?(?:, *(?:\(int\))?(\d+))?"
)
_POINTERS: Final = re.compile(r"array<char *\*, *(?:\(unsigned long\))?(\d)(?:ul)?>")
_NARROWING: Final = re.compile(r"(?:b?float16|float8\w*)_copy_kernel")
_CASTING: Final = re.compile(r"WithCast")
_HALF: Final = re.compile(r"half|bfloat16", re.IGNORECASE)
_BINARY: Final = re.compile(r"BinaryFunctor|CUDAFunctor_(?:add|mul|sub|div)|lerp_tensor")
_TERNARY: Final = re.compile(r"addcmul|addcdiv|where_kernel|lerp_scalar")

VECTOR_BYTES: Final = 16
VECTORIZED_PER_BLOCK, UNROLLED_PER_BLOCK = 1024, 512


@dataclass(frozen=True, slots=True)
class ElementKernel:
    """What a kernel by element does for each element. Sizes are bytes; 0: not told by its name."""

    tensors: int
    """Read and written."""
    element_bytes: int
    """Of the narrowest."""
    bytes_moved: int
    """Of all tensors, by element."""
    elements_per_block: int
    is_vectorized: bool


@lru_cache(maxsize=4096)
def element_kernel(name: str) -> ElementKernel | None:
    """None: another kind of kernel."""
    match = _KERNEL.search(name)
    if match is None:
        return None
    how, first, second = match.groups()
    tensors = _tensors(name)
    if _NARROWING.search(name):
        narrow, moved = 2, 6
    elif _CASTING.search(name):
        narrow, moved = 2, 6  # from or to half of it
    else:
        narrow = _element_bytes(name, int(first) if how == "vectorized_" and first else 0)
        moved = tensors * narrow
    return ElementKernel(tensors, narrow, moved, _per_block(how, first, second), how == "vectorized_")


def _tensors(name: str) -> int:
    if told := _POINTERS.search(name):
        return int(told[1])
    if _TERNARY.search(name):
        return 4
    return 3 if _BINARY.search(name) else 2


def _element_bytes(name: str, lanes: int) -> int:
    if _HALF.search(name):
        return 2
    if "double" in name:
        return 8
    if "float" in name:
        return 4
    return VECTOR_BYTES // lanes if lanes in (2, 4, 8) else 0


def _per_block(how: str | None, first: str | None, second: str | None) -> int:
    if how == "vectorized_":
        return VECTORIZED_PER_BLOCK
    if how == "unrolled_":
        return UNROLLED_PER_BLOCK
    return int(first) * int(second) if first and second else 0
