"""What a kernel computes in, and what it only moves, told by its name: a demangled name in, the type or the kind out.

Matrix products, convolutions and attention carry their type in the name: cuBLAS and CUTLASS as `sgemm`, `s1688gemm` or
`f32f32_f32f32`, cuDNN as `scudnn` or `ffma`, frameworks as a template's argument.

PyTorch's kernels by element: a demangled name in, how many tensors they move, of what size, and how launched, out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MATRIX_FAMILIES: Final = frozenset({"gemm", "convolution", "attention"})
"""Families whose kernels tensor cores can run."""

NO_MATRIX: Final = frozenset({"elementwise", "copy", "reduction", "norm", "softmax", "sort", "gather-scatter"})
"""Families whose kernels multiply no matrices. An activation may: products are named by what is fused into them."""

BY_ELEMENT: Final = frozenset({"elementwise", "activation", "copy", "reduction"})
"""Families whose kernels do something to each element of a tensor, or add it up: one can run for many tensors."""

_DOUBLE: Final = re.compile(r"(?<![a-z])dgemm|f64f64|_d884|(?<![a-z])gemm\w*<double|_f64(?![0-9])", re.IGNORECASE)
_SHORT_FLOAT: Final = re.compile(r"tf32|s1688(?!\d)", re.IGNORECASE)
_FLOAT: Final = re.compile(
    r"(?<![a-z])sgemm(?!v)|f32f32_f32f32|_ffma_|scudnn|simt_s|simt_f32|fmha\w*_f32|convolve_sgemm|gemmSN_\w+<float"
    r"|(?:gemm|conv|attention|fmha)\w*<(?:[^<>]*, *)?float[ ,>]",
    re.IGNORECASE,
)
_NARROW: Final = re.compile(r"half|bfloat|bf16|fp16|_h?16816|f16f16|e4m3|e5m2|int8", re.IGNORECASE)

_LAYOUT: Final = re.compile(
    r"nchw_?(?:to|2)_?nhwc|nhwc_?(?:to|2)_?nchw|convertTensor_kernel|permutationKernel", re.IGNORECASE
)
_COPIES: Final = re.compile(
    r"CatArrayBatchedCopy|direct_copy_kernel(?!.*WithCast)|copy_device_to_device", re.IGNORECASE
)
_SORTS: Final = re.compile(
    r"(?:Radix|Merge|Segmented)Sort(?!KVInPlace)|radix_sort::|merge_sort::|thrust.*stable_sort", re.IGNORECASE
)
_CASTS: Final = re.compile(r"(b?float16|float8\w*)_copy_kernel|direct_copy_kernel.*WithCast|_cast_kernel|^cast_")
_CHANNELS_FIRST: Final = re.compile(r"RowwiseMoments|GroupNormKernel")
_MULTI_TENSOR: Final = re.compile(r"multi_?tensor_?apply", re.IGNORECASE)
_ADAM: Final = re.compile(r"addcdiv")
_UNNAMED: Final = re.compile(r"CatArrayBatchedCopy.*OpaqueType<(?:\(unsigned int\))?8u?>|direct_copy_kernel.*WithCast")
_TENSOR_CORES: Final = re.compile(
    r"sm_?(?:7[05]|8\d|9\d|1\d\d)(?!\d)|ampere|hopper|blackwell|turing|volta", re.IGNORECASE
)


@lru_cache(maxsize=4096)  # each type is asked for by itself
def matrix_type(name: str) -> str | None:
    """`fp64`, `fp32` or `tf32` where a matrix kernel's name says so; None: narrower, or it does not say."""
    if _DOUBLE.search(name):
        return "fp64"
    if _SHORT_FLOAT.search(name):
        return "tf32"
    return "fp32" if _FLOAT.search(name) and not _NARROW.search(name) else None


def works_on_floats(name: str) -> bool:
    """Whether a kernel that is no matrix kernel reads or writes single precision, and nothing narrower."""
    return "float" in name and not _NARROW.search(name)


def changes_layout(name: str) -> bool:
    """Whether a kernel only brings a tensor from one order of its dimensions into another."""
    return _LAYOUT.search(name) is not None


def wants_channels_first(name: str) -> bool:
    """Whether a kernel copies tensors whose channels come last before it does anything: PyTorch's group norm."""
    return _CHANNELS_FIRST.search(name) is not None


def changes_type(name: str) -> bool:
    """Whether a kernel only changes a tensor's type."""
    return _CASTS.search(name) is not None


def copies_tensor(name: str) -> bool:
    """Whether a kernel only copies a tensor within the GPU, or puts several together; those that cast do more."""
    return _COPIES.search(name) is not None


def sorts_values(name: str) -> bool:
    """Whether a kernel is a part of a whole sort, not of picking the largest."""
    return _SORTS.search(name) is not None


def only_moves(name: str) -> bool:
    """Whether a kernel copies or casts, and does nothing else."""
    return copies_tensor(name) or changes_type(name)


def names_tensor_core_gpu(name: str) -> bool:
    """Whether a kernel was made for a GPU that has tensor cores."""
    return _TENSOR_CORES.search(name) is not None


def is_multi_tensor(name: str) -> bool:
    """Whether a kernel does something to the elements of many tensors at once."""
    return _MULTI_TENSOR.search(name) is not None


def ends_adam_update(name: str) -> bool:
    """Whether a kernel divides by what Adam keeps of a gradient's squares: the last pass of an update."""
    return _ADAM.search(name) is not None


def moves_unnamed(name: str) -> bool:
    """Whether a kernel moves elements of eight bytes, or casts, and does not say of which type they are."""
    return _UNNAMED.search(name) is not None


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
