"""What a kernel computes in, and what it only moves, told by its name: a demangled name in, the type or the kind out.

Matrix products, convolutions and attention carry their type in the name: cuBLAS and CUTLASS as `sgemm`, `s1688gemm` or
`f32f32_f32f32`, cuDNN as `scudnn` or `ffma`, frameworks as a template's argument.
"""

from __future__ import annotations

import re
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
