"""What a kernel computes in, and what it only moves, told by its name: a demangled name in, the type or the kind out.

Matrix products, convolutions and attention carry their type in the name: cuBLAS and CUTLASS as `sgemm`, `s1688gemm` or
`f32f32_f32f32`, cuDNN as `scudnn` or `ffma`, frameworks as a template's argument. Of PyTorch's kernels by element the
name also tells how many tensors they move, of what size, and how they are launched.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from gpuledger.catalog.kernel_names import name_matcher
from gpuledger.regex import LOOKED_AT, regex

MATRIX_FAMILIES: Final = frozenset({"gemm", "convolution", "attention"})
"""Families whose kernels tensor cores can run."""

NO_MATRIX: Final = frozenset({"elementwise", "copy", "reduction", "norm", "softmax", "sort", "gather-scatter"})
"""Families whose kernels multiply no matrices. An activation may: products are named by what is fused into them."""

BY_ELEMENT: Final = frozenset({"elementwise", "activation", "copy", "reduction"})
"""Families whose kernels do something to each element of a tensor, or add it up: one can run for many tensors."""

_DOUBLE: Final = regex(r"(?<![a-z])dgemm|f64f64|_d884|(?<![a-z])gemm\w*<double|_f64(?![0-9])", re.IGNORECASE)
_SHORT_FLOAT: Final = regex(r"(?<![a-z])tf32", re.IGNORECASE)
_SHORT_STEPS: Final = regex(r"s1688(?![\db])(?!f(?:16|32))", re.IGNORECASE)
"""Products in steps of 16 by 8 by 8: TF32's, unless a narrower type is named, or the GPU is older than TF32."""
_TURING: Final = regex(r"turing|(?:cutlass_|sm_?)75(?!\d)", re.IGNORECASE)
_FLOAT: Final = regex(
    r"(?<![a-z])sgemm(?!v)|f32f32_f32f32|_ffma_|scudnn|simt_s|simt_f32|fmha\w*_f32|convolve_sgemm|gemmSN_\w+<float"
    r"|(?:gemm|conv|attention|fmha)\w*<(?:[^<>]*, *)?float[ ,>]",
    re.IGNORECASE,
)
_NO_PRODUCT: Final = (
    "mask",
    "bias_add",
    "softmax",
    "fill",
    "copy",
    "pad",
    "depthwise",
    "reduce",
    "transpose",
    "im2col",
)
"""What a kernel does that has a product's name, but stands before or after one."""
_NARROW: Final = regex(
    r"half|float(?:16|8)(?!\d)|bf16|b?fp?8(?!\d)|fp16|_h?16816|(?<![a-z])f16(?!\d)|e4m3|e5m2|int8|(?<![a-z])[iu]8(?!\d)",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)  # each type is asked for by itself
def matrix_type(name: str) -> str | None:
    """`fp64`, `fp32` or `tf32` where a matrix kernel's name says so; None: narrower, or it does not say."""
    name = name[:LOOKED_AT]
    if _DOUBLE.search(name):
        return "fp64"
    if _SHORT_FLOAT.search(name):
        return "tf32"
    if _NARROW.search(name):
        return None
    if _SHORT_STEPS.search(name):
        return None if _TURING.search(name) else "tf32"
    match = _FLOAT.search(name)
    if match is None or any(word in match[0].lower() for word in _NO_PRODUCT):
        return None
    return "fp32"


_TORCH_TYPES: Final = (
    (regex(r"e4m3|e5m2|fp8|float8|nvjet_(?:sm\d+_)?q", re.IGNORECASE), "c10::Float8_e4m3fn"),
    (regex(r"bfloat16|bf16|nvjet_(?:sm\d+_)?t", re.IGNORECASE), "c10::BFloat16"),
    (regex(r"half|float16|fp16|(?<![a-z])f16(?!\d)|hgemm|h16816|h1688|nvjet_(?:sm\d+_)?h", re.IGNORECASE), "c10::Half"),
    (regex(r"double|dgemm|f64", re.IGNORECASE), "double"),
    (regex(r"float|sgemm|s1688|tf32|simt|nvjet_(?:sm\d+_)?s", re.IGNORECASE), "float"),
)


def torch_type(name: str) -> str | None:
    """What a kernel's tensors are of, in torch's words: the narrowest type in its name; None where that has none."""
    return next((kind for pattern, kind in _TORCH_TYPES if pattern.search(name[:LOOKED_AT])), None)


def works_on_floats(name: str) -> bool:
    """Whether a kernel that is no matrix kernel reads or writes single precision, and nothing narrower."""
    return "float" in name and not _NARROW.search(name)


is_vector_product: Final = name_matcher(r"gemv", words=("gemv",))
"""Whether a kernel multiplies a matrix by a vector: it reads each weight once, for two operations."""

changes_layout: Final = name_matcher(
    r"nchw_?(?:to|2)_?nhwc|nhwc_?(?:to|2)_?nchw|convertTensor_kernel|permutationKernel|batched_transpose_\d+x\d+",
    words=("nchw", "converttensor", "permutationkernel", "batched_transpose"),
)
"""Whether a kernel only brings a tensor from one order of its dimensions into another."""

wants_channels_first: Final = name_matcher(r"RowwiseMoments|GroupNormKernel", 0, ("moments", "groupnorm"))
"""Whether a kernel copies tensors whose channels come last before it does anything: PyTorch's group norm."""

changes_type: Final = name_matcher(
    r"(b?float16|float8\w*)_copy_kernel|direct_copy_kernel.*WithCast|_cast_kernel|^cast_", 0, ("_copy_kernel", "cast_")
)
"""Whether a kernel only changes a tensor's type."""

copies_tensor: Final = name_matcher(
    r"CatArrayBatchedCopy|direct_copy_kernel(?!.*WithCast)|copy_device_to_device", words=("copy",)
)
"""Whether a kernel only copies a tensor within the GPU, or puts several together; those that cast do more."""

sorts_values: Final = name_matcher(
    r"(?:Radix|Merge|Segmented)Sort(?!KVInPlace)|radix_sort::|merge_sort::|thrust.*stable_sort", words=("sort",)
)
"""Whether a kernel is a part of a whole sort, not of picking the largest."""


is_misaligned: Final = name_matcher(
    r"(?:bf16|f16|h1688|16816).*align[124](?!\d)|(?:tf32|s1688gemm(?!_b?f16)).*align[12](?!\d)", words=("align",)
)
"""Whether a product on tensor cores reads fewer than 16 bytes at a time, as its rows begin at odd addresses."""

_ALIGN: Final = regex(r"align([124])(?!\d)")


def aligned_elements(name: str) -> int:
    """How many elements a misaligned product reads at a time; 0: another kernel."""
    match = _ALIGN.search(name)
    return int(match[1]) if match and is_misaligned(name) else 0


pads_channels: Final = name_matcher(r"AddPaddingKernel", 0, ("addpadding",))
"""Whether a kernel only widens a tensor's channels to what a convolution's kernel takes."""

_REREADS: Final = (
    (regex(r"cunn_SoftMaxForward(?!Smem)(?![A-Za-z])"), 2 / 4),  # for the maximum, for the sum, and for the result
    (
        regex(r"cunn_SoftMaxBackward(?!Smem)(?![A-Za-z]).{0,200}\bLogSoftMaxBackward"),
        3 / 4,
    ),  # gradients are summed first
    (regex(r"cunn_SoftMaxBackward(?!Smem)(?![A-Za-z])"), 3 / 5),
)


def needed_share(name: str) -> float:
    """Of what a kernel moves where its rows fit in no cache, what it has to: PyTorch's softmax reads them again."""
    if "cunn_SoftMax" not in name:
        return 1.0
    return next((share for pattern, share in _REREADS if pattern.search(name[:LOOKED_AT])), 1.0)


is_masked_attention: Final = name_matcher(r"fmha_cutlass[FB]_(?:bf|f)16", 0, ("fmha_cutlass",))
"""Whether fused attention takes any mask: PyTorch's memory-efficient kernels, made for GPUs of 2020."""

attends_forward: Final = name_matcher(r"flash_fwd|fmha_cutlassF|sdpa\w*_fprop", 0, ("flash_fwd", "fmha_", "sdpa"))
"""Whether a kernel is the forward pass of fused attention."""

attends_backward: Final = name_matcher(
    r"flash_bwd_dq_dk_dv|fmha_cutlassB|sdpa\w*_bprop", 0, ("flash_bwd", "fmha_", "sdpa")
)
"""Whether a kernel is the one of fused attention's backward pass that does the products."""

is_backward: Final = name_matcher(r"Backward|_bwd|bwd_|fmha_cutlassB|_bprop", 0, ("backward", "bwd", "fmha_", "bprop"))
"""Whether a kernel's name says that it is of a backward pass."""

is_flash_attention_2: Final = name_matcher(r"flash_(?:fwd|bwd)_\w*kernel", 0, ("flash_",))
"""Whether fused attention is by FlashAttention 2, which was made for GPUs of 2020."""

is_before_hopper: Final = name_matcher(
    r"flash_(?:fwd|bwd)_\w*kernel|fmha_cutlass|sm_?[78]\d(?!\d)|cutlass_[78]\d_|(?:volta|turing|ampere)_\w*16\w*gemm",
    words=("flash_", "fmha_", "sm7", "sm8", "sm_", "cutlass_", "volta_", "turing_", "ampere_"),
)
"""Whether a kernel multiplies with instructions that GPUs had before Hopper, by its name."""

is_vectorized: Final = name_matcher(r"vectorized_|unrolled_|multi_tensor", 0, ("vectorized_", "unrolled_", "multi_t"))
"""Whether a kernel by element reads what lies side by side."""


_MAKERS: Final = (
    *("elementwise", "pointwise", "element_wise", "at::native", "eigenmetakernel", "generatednative", "op_tensor"),
    *("triton_poi_", "triton_red_", "triton_per_", "triton_for_", "cupy_", "nvfuser", "cudacodegen::", "subtensorop"),
    *("cub::", "thrust::", "rocprim::", "broadcast_kernel", "bin_bcast", "unary_op"),
)
_FUSED: Final = ("loop_", "input_", "wrapped_")
"""How XLA's kernels begin."""
_LOSS: Final = ("logsoftmax", "log_softmax", "crossentropy", "cross_entropy", "logsumexp", "nll")


def goes_by_element(name: str) -> bool:
    """Whether a kernel of a family in BY_ELEMENT comes from what makes such: one called `add` may do anything."""
    function = name.partition("<")[0].lower()  # of a template's arguments any may be of a library's types
    return any(word in function for word in _MAKERS) or function.startswith(_FUSED)


def is_of_loss(name: str) -> bool:
    """Whether a softmax is of a loss: attention takes no logarithm."""
    folded = name.lower()
    return any(word in folded for word in _LOSS)


def only_moves(name: str) -> bool:
    """Whether a kernel copies or casts, and does nothing else."""
    return copies_tensor(name) or changes_type(name)


names_tensor_core_gpu: Final = name_matcher(r"sm_?(?:7[05]|8\d|9\d|1\d\d)(?!\d)|ampere|hopper|blackwell|turing|volta")
"""Whether a kernel was made for a GPU that has tensor cores."""

names_bfloat16_gpu: Final = name_matcher(r"sm_?(?:8\d|9\d|1\d\d)(?!\d)|ampere|hopper|blackwell")
"""Whether a kernel was made for a GPU whose tensor cores know bfloat16."""

is_fused_update: Final = name_matcher(r"Fused(?:Adam|Sgd|Adagrad)", 0, ("fused",))
"""Whether a kernel is the whole update of many parameters."""

is_beside_update: Final = name_matcher(r"ZeroFunctor|LpNorm|CopyFunctor", 0, ("zerofunctor", "lpnorm", "copyfunctor"))
"""Whether a kernel clears, measures or copies lists of tensors: no update does that."""

divides_lists: Final = name_matcher(r"PointwiseOpScalar\w*Functor.*divides", 0, ("divides",))
"""Whether a kernel ends the update of many parameters at once, as Adam's does."""

is_multi_tensor: Final = name_matcher(r"multi_?tensor_?apply", words=("apply",))
"""Whether a kernel does something to the elements of many tensors at once."""

ends_adam_update: Final = name_matcher(r"addcdiv", 0, ("addcdiv",))
"""Whether a kernel divides by what Adam keeps of a gradient's squares: the last pass of an update."""

moves_unnamed: Final = name_matcher(
    r"CatArrayBatchedCopy.*OpaqueType<(?:\(unsigned int\))?8u?>|direct_copy_kernel.*WithCast", 0, ("copy",)
)
"""Whether a kernel moves elements of eight bytes, or casts, and does not say of which type they are."""


_LISTS: Final = regex(r"TensorList(?:ScalarList)?Metadata<(?:[\w:]+, *)?(?:\(int\))?(\d)>")
_LIST_TYPE: Final = regex(r"Functor<(?:c10::)?(double|float|BFloat16|Half)(?:, *(?:\(int\))?\d, *(?:\(int\))?(\d))?")
_LIST_BYTES: Final = {"double": 8, "float": 4, "BFloat16": 2, "Half": 2}
_JOINED: Final = regex(r"CatArrayBatchedCopy.*?OpaqueType<(?:\(unsigned int\))?(\d+)")
_JOINED_TYPE: Final = regex(r"CatArrayBatchedCopy\w*<(?:c10::)?(double|float|BFloat16|Half)")
_CHUNK: Final = 65_536  # elements that a block of PyTorch's multi-tensor kernels goes through
_FUSED_UPDATE: Final = regex(r"Fused(?:Adam|Sgd|Adagrad)")


def list_element_bytes(name: str) -> int:
    """Bytes of an element of lists of tensors, by the name of a kernel that goes through them; 0: not told."""
    if joined := _JOINED.search(name):
        return int(joined[1])
    match = _LIST_TYPE.search(name) if _LISTS.search(name) else _JOINED_TYPE.search(name)
    return _LIST_BYTES[match[1]] if match else 0


def list_kernel(name: str) -> int | None:
    """Bytes that a block of a kernel that goes through lists of tensors moves at most; None: another kind of kernel."""
    match, width = _LISTS.search(name), list_element_bytes(name)
    if match is None or not width:
        return None
    return _CHUNK * width * list_passes(name)


def list_passes(name: str) -> int:
    """How many tensors of a list's length a kernel that goes through lists reads and writes; 0: another kernel."""
    lists, functor = _LISTS.search(name), _LIST_TYPE.search(name)
    if lists is None:
        return 0
    if _FUSED_UPDATE.search(name):
        return 2 * int(lists[1]) - 1  # all but the gradients are written back
    return int(functor[2]) + 1 if functor and functor[2] else max(int(lists[1]), 2)


_KERNEL: Final = regex(
    r"(vectorized_|unrolled_)?(?:templated_)?elementwise_kernel\w*<(?:\(int\))?(\d+)?(?:, *(?:\(int\))?(\d+))?"
)
_POINTERS: Final = regex(r"array<char *\*, *(?:\(unsigned long\))?(\d)(?:ul)?>")
_CASTS_HALF: Final = regex(r"(?:b?float16|float8\w*)_copy_kernel|WithCast")
_HALF: Final = regex(r"half|bfloat16", re.IGNORECASE)
_BINARY: Final = regex(r"BinaryFunctor|CUDAFunctor_(?:add|mul|sub|div)|lerp_tensor")
_TERNARY: Final = regex(r"addcmul|addcdiv|where_kernel|lerp_scalar")

VECTOR_BYTES: Final = 16
VECTORIZED_PER_BLOCK, UNROLLED_PER_BLOCK = 1024, 512


class ElementKernel(Struct, frozen=True):
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
    name = name[:LOOKED_AT]
    match = _KERNEL.search(name)
    if match is None:
        return None
    how, first, second = match.groups()
    is_vectorized = how == "vectorized_"
    if pointers := _POINTERS.search(name):
        tensors = int(pointers[1])
    else:
        tensors = 4 if _TERNARY.search(name) else 3 if _BINARY.search(name) else 2
    lanes = int(first) if is_vectorized and first else 0
    if _CASTS_HALF.search(name):
        narrow, moved = 2, 6  # from or to half of it
    else:
        by_lanes = VECTOR_BYTES // lanes if lanes in (2, 4, 8) else 0
        narrow = 2 if _HALF.search(name) else 8 if "double" in name else 4 if "float" in name else by_lanes
        moved = tensors * narrow
    plain = int(first) * int(second) if first and second else 0
    per_block = VECTORIZED_PER_BLOCK if is_vectorized else UNROLLED_PER_BLOCK if how == "unrolled_" else plain
    return ElementKernel(tensors, narrow, moved, per_block, is_vectorized)


_ROUTED: Final = (
    # TensorRT-LLM's: the weights come first, and their columns, where the batch is along N
    regex(r"^bmm_\w+?_(?P<weights>(?:Mx)?[BEF][a-z]*\d+m?\d*)(?P<rows>(?:Mx)?[BEF][a-z]*\d+m?\d*)_Fp32"
          r"_t(?P<columns_tile>\d+)x(?P<rows_tile>\d+)x\w*_bN_"),
    # Triton's
    regex(r"^_(?:p_)?matmul_ogs_[NT]+_\w+?x(?P<rows>[a-z0-9]+)x(?P<weights>[a-z0-9]+)"
          r"_(?P<rows_tile>\d+)x(?P<columns_tile>\d+)x\d+x1(?![0-9])"),
)  # fmt: skip
_FOUR_BITS: Final = regex(r"e2m1|fp4", re.IGNORECASE)
_EIGHT_BITS: Final = regex(r"e4m3|e5m2|fp8|float8|int8", re.IGNORECASE)


class RoutedProduct(NamedTuple):
    """What the name of a kernel that multiplies rows with the weights of their experts tells."""

    rows_tile: int
    columns_tile: int
    weight_bits: int
    row_bits: int
    kind: str | None
    """What is multiplied, in the words of `peaks`; None: four bits by four bits, for which there is no peak."""
    is_gated: bool
    """Whether half of its columns gate the others, so that it writes half as many."""


is_routed_product: Final = name_matcher(r"^bmm_\w+_bN_|^_(?:p_)?matmul_ogs_", 0, ("bmm_", "matmul_ogs"))
"""Whether a kernel multiplies rows with the weights of their experts."""


def routed_product(name: str) -> RoutedProduct | None:
    """None for another kernel, or one whose name does not tell its tiles."""
    match = next(filter(None, (pattern.match(name[:LOOKED_AT]) for pattern in _ROUTED)), None)
    if match is None:
        return None
    weights, rows = (
        4 if _FOUR_BITS.search(kind) else 8 if _EIGHT_BITS.search(kind) else 16
        for kind in match.group("weights", "rows")
    )
    return RoutedProduct(
        rows_tile=int(match["rows_tile"]),
        columns_tile=int(match["columns_tile"]),
        weight_bits=weights,
        row_bits=rows,
        kind={16: "bf16", 8: "fp8"}.get(max(weights, rows)),
        is_gated="swiglu" in name.lower(),
    )
