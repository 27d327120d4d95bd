"""How much arithmetic operators did, from the shapes that were recorded, and how fast: FLOPs, TFLOP/s, MFU.

Counted are matrix products, convolutions and attention; a multiplication with an addition is two operations. Of nested
operators the innermost that can be counted counts. Whether attention is causal, and a convolution's stride and padding,
are among an operator's other arguments. Where those were not recorded, attention is counted in full, and a convolution
for the output that its backward pass shows, else for one as large as its input: upper bounds, and marked so.

MFU is the time that the counted work would take at the GPU's dense peak, each type at its own, over the time it took.

A matrix product also reads both matrices and writes the result, once at least. With few rows that takes longer than its
arithmetic: the weights' bytes are its roof, and more rows cost nothing more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from math import prod
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from gpuledger.analyse.operators.operators import Ops
from gpuledger.catalog.gpus import peak_bytes_per_s, peak_flops, peaks_of
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, group, is_among
from gpuledger.trace.model import Gpu, NotMeasured, Trace

Shape = tuple[int, ...]

TYPE_NAMES: Final[Mapping[str, str]] = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "float": "fp32",
    "double": "fp64",
    "signed char": "int8",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
}
"""torch's names of types, in the words of `peaks`."""

ELEMENT_BYTES: Final[Mapping[str, int]] = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}

UNDECIDED: Final = "fp32 or tf32"
_TF32: Final = re.compile(r"tf32|xf32|s1688", re.IGNORECASE)
_FP32: Final = re.compile(r"sgemm|ffma|simt|_f32f32_f32f32_|gemv|_SB_|_S_B|dot_kernel", re.IGNORECASE)
"""What kernels that multiply `float` are called; a name with neither decides nothing."""

_MATRIX_FAMILIES: Final = ("gemm", "attention", "convolution", "moe")


class Inputs(NamedTuple):
    """An operator's inputs: a shape for each, () for what is no tensor or has no dimension; a type for each."""

    shapes: tuple[Shape, ...]
    types: tuple[str, ...]
    lists: tuple[tuple[Shape, ...], ...] = ()  # for each input the shapes of a list of tensors, () for what is none
    arguments: tuple[str, ...] = ()  # what is no tensor, as text; "" for tensors. Empty where that was not recorded

    def argument(self, position: int) -> str | None:
        """One that is no tensor; None where it was not recorded."""
        return self.arguments[position] if position < len(self.arguments) and self.arguments[position] else None

    def kind(self, position: int) -> str | None:
        """The type of one input in the words of `peaks`; torch's own for another; None where it was not recorded."""
        name = self.types[position] if position < len(self.types) else ""
        return TYPE_NAMES.get(name, name) or None


class Count(NamedTuple):
    """The operations of one execution."""

    flops: int
    kind: str | None  # the type of what is multiplied; None: not recorded
    is_bound: bool = False  # at most so many
    moved_bytes: int | None = None
    """What a matrix product reads and writes at least; None: another operator, or a type of unknown size."""
    rows: int = 0  # of a product with one matrix of weights


class OperatorWork(Struct, frozen=True):
    """What the operators of one name and inputs did in the steady stretch."""

    name: str
    inputs: str
    count: int
    flops: int
    device_ns: int
    """Of the kernels that the operator itself launched; where there are none, of those launched inside it."""
    kind: str | None
    is_bound: bool
    peak: float | NotMeasured  # the GPU's operations per second in this type
    moved_bytes: int | None  # that all executions read and write at least; None: not a matrix product, or not known
    bandwidth: float | NotMeasured  # the GPU's bytes per second to and from its memory
    rows: int  # of a product with one matrix of weights; 0 for others

    @property
    def memory_ns(self) -> float | None:
        """How long the bytes take at the GPU's bandwidth; None where either is not known."""
        known = self.moved_bytes is not None and not isinstance(self.bandwidth, NotMeasured)
        return self.moved_bytes * 1e9 / self.bandwidth if known else None  # type: ignore[operator]

    @property
    def compute_ns(self) -> float | None:
        """How long the arithmetic takes at the GPU's peak."""
        return None if isinstance(self.peak, NotMeasured) else self.flops * 1e9 / self.peak

    @property
    def is_memory_bound(self) -> bool:
        """Whether the bytes of a matrix product take longer than its arithmetic, at best."""
        memory, compute = self.memory_ns, self.compute_ns
        return memory is not None and compute is not None and memory > compute

    @property
    def roof_share(self) -> float | None:
        """What a matrix product would take at its roof, of the time it took; over 1 where caches had the bytes."""
        memory, compute = self.memory_ns, self.compute_ns
        return max(memory, compute) / self.device_ns if memory and compute and self.device_ns else None

    @property
    def flops_per_s(self) -> float | None:
        return self.flops * 1e9 / self.device_ns if self.device_ns else None

    @property
    def peak_share(self) -> float | None:
        rate = self.flops_per_s
        return None if rate is None or isinstance(self.peak, NotMeasured) else rate / self.peak


class WorkDone(Struct, frozen=True):
    """All counted work of one GPU's steady stretch."""

    work: tuple[OperatorWork, ...]  # the longest first
    steady_ns: int
    matrix_ns: int  # GPU time of all kernels that look like matrix products, convolutions, attention or experts
    counted_ns: int  # of it, the part inside counted operators: the coverage of MFU
    gpu: str

    @property
    def flops(self) -> int:
        return sum(work.flops for work in self.work)

    @property
    def is_bound(self) -> bool:
        return any(work.is_bound for work in self.work)

    @property
    def mfu(self) -> float | NotMeasured:
        """The share of the steady stretch that the counted work would need at peak."""
        if not self.work:
            return NotMeasured(
                say("no matrix multiplication with recorded shapes was launched; graphs are not counted")
            )
        known = [(work.flops, work.peak) for work in self.work if not isinstance(work.peak, NotMeasured)]
        if not known:
            return next(work.peak for work in self.work if isinstance(work.peak, NotMeasured))
        return sum(flops / peak for flops, peak in known) * 1e9 / self.steady_ns

    @property
    def without_peak_share(self) -> float | None:
        """The share of the counted operations that is not in MFU, as the peak of their type is not known."""
        missing = sum(work.flops for work in self.work if isinstance(work.peak, NotMeasured))
        return missing / self.flops if self.flops else None

    @property
    def coverage(self) -> float | None:
        return self.counted_ns / self.matrix_ns if self.matrix_ns else None


def work_done(trace: Trace, device: Device, operators: Ops) -> WorkDone:
    """Count the work of the operators."""
    rows = operators.nest.rows
    first, number = group(rows.codes("name"), rows.codes("inputs"))
    named = list(zip(*(rows.strings.decode(rows.codes(key)[first]) for key in ("name", "inputs")), strict=True))
    parsed = [(name or "", parse_inputs(given) if _is_counted(name or "") else None) for name, given in named]
    outputs = outputs_of(parsed)
    counts = [count_of(name, given, outputs) for name, given in parsed]
    can_count = np.array([count is not None for count in counts], np.bool_)[number] & (operators.whole_ns > 0)
    inside = operators.nest.summed_up(can_count.astype(np.int64)) - can_count
    chosen = can_count & (inside == 0)
    spent = np.where(operators.own_ns > 0, operators.own_ns, operators.whole_ns)
    times = np.bincount(number[chosen], minlength=len(first))
    spent_ns = sweep.sums(number[chosen], spent[chosen], len(first))
    gpu = trace.origin.gpu(device.gpu) or Gpu("GPU, not described")
    # the number of the counted operator around each activity, -1 for none
    around = np.append(operators.nest.handed_down(np.where(chosen, number, -1)), -1)[operators.innermost]
    singles = _single_types(trace, device, operators, gpu, around)
    bandwidth = gpu.bandwidth_bytes_per_s or peak_bytes_per_s(gpu)
    work = []
    for position in np.flatnonzero(times).tolist():
        if (count := counts[position]) is not None:
            kind = singles.get(position, UNDECIDED) if count.kind == "fp32" else count.kind
            peak = peak_flops(gpu, kind) if kind else NotMeasured(say("the type of the inputs was not recorded"))
            name, given = (text or "" for text in named[position])
            amounts = int(times[position]), int(times[position]) * count.flops, int(spent_ns[position])
            moved = None if count.moved_bytes is None else amounts[0] * count.moved_bytes
            work.append(OperatorWork(name, given, *amounts, kind, count.is_bound, peak, moved, bandwidth, count.rows))
    work.sort(key=lambda done: (-done.device_ns, -done.flops, done.name, done.inputs))
    activities = device.work
    matrix = [number for number, name in enumerate(activities.families) if name in _MATRIX_FAMILIES]
    is_matrix = is_among(activities.family[operators.activity], matrix)
    length = (activities.end_ns - activities.start_ns)[operators.activity]
    whole, counted = int(length[is_matrix].sum()), int(length[is_matrix & (around >= 0)].sum())
    return WorkDone(tuple(work), device.steady_ns, whole, counted, gpu.name)


def _single_types(trace: Trace, device: Device, operators: Ops, gpu: Gpu, around: Positions) -> dict[int, str]:
    """Whether products of `float` ran in fp32 or in tf32: the kernels' names say it, or the GPU knows only one."""
    peaks = peaks_of(gpu)
    only_fp32 = not isinstance(peaks, NotMeasured) and "tf32" not in peaks.tera
    inside = np.flatnonzero(around >= 0)
    names = device.work.name[operators.activity[inside]]
    first, _ = group(around[inside], names)
    seen: dict[int, set[str]] = {}
    for number, code in zip(around[inside[first]].tolist(), names[first].tolist(), strict=True):
        kernel, types = trace.strings.text(code) or "", seen.setdefault(number, set())
        if not only_fp32 and _TF32.search(kernel):
            types.add("tf32")
        elif only_fp32 or _FP32.search(kernel):
            types.add("fp32")
    return {number: types.pop() for number, types in seen.items() if len(types) == 1}


@lru_cache(maxsize=65536)
def parse_inputs(text: str | None) -> Inputs | None:
    """What the profile says of an operator's inputs: the shapes' JSON and the types', one after the other."""
    decoder = json.JSONDecoder()
    parsed: list[object] = [] if text is None or not text.startswith("\n") else [[]]
    rest = (text or "").strip()
    try:
        while rest:
            value, end = decoder.raw_decode(rest)
            parsed.append(value)
            rest = rest[end:].lstrip()
    except (ValueError, RecursionError):
        return None
    lists = [part for part in (*parsed, [], [], [])[:3] if isinstance(part, list)]
    if not parsed or len(lists) < 3:
        return None
    return Inputs(
        tuple(_shape(given) or () for given in lists[0]),
        tuple(name if isinstance(name, str) else "" for name in lists[1]),
        tuple(_shapes_in(given) for given in lists[0]),
        tuple(given if isinstance(given, str) else "" for given in lists[2]),
    )


def _shape(given: object) -> Shape | None:
    """Of a tensor; None where it is something else."""
    is_shape = isinstance(given, list) and all(isinstance(size, int) and 0 <= size < 2**40 for size in given)
    return tuple(given) if is_shape else None  # type: ignore[arg-type]


def _shapes_in(given: object) -> tuple[Shape, ...]:
    shapes = [_shape(one) for one in given] if isinstance(given, list) and given else [None]
    return tuple(shape for shape in shapes if shape is not None) if None not in shapes else ()


def _product(rows: Shape, columns: Shape) -> int | None:
    """Operations of [..., m, k] times [..., k, n]; None where they do not go together."""
    if not rows or not columns:
        return None
    (m, k), (inner, n) = (1, *rows)[-2:], columns[-2:] if len(columns) > 1 else (*columns, 1)
    pairs = list(zip_longest(reversed(rows[:-2]), reversed(columns[:-2]), fillvalue=1))
    if k != inner or any(a != b and 1 not in (a, b) for a, b in pairs):
        return None
    return 2 * prod(b if a == 1 else a for a, b in pairs) * m * k * n


def _product_count(flops: int, given: Inputs, rows: int, *matrices: int) -> Count:
    """A product of two inputs, `matrices` being the positions of both; each is read once, and the result written."""
    sizes = [ELEMENT_BYTES.get(given.kind(position) or "") for position in matrices]
    elements = [prod(given.shapes[position]) for position in matrices]
    kind, inner = given.kind(matrices[0]), given.shapes[matrices[0]][-1]
    if None in sizes or not inner:
        return Count(flops, kind)
    read = sum(count * size for count, size in zip(elements, sizes, strict=True) if size)
    return Count(flops, kind, moved_bytes=read + flops // (2 * inner) * (sizes[0] or 0), rows=rows)


def _matmul(given: Inputs, first: int = 0) -> Count | None:
    flops = _product(*given.shapes[first : first + 2]) if len(given.shapes) >= first + 2 else None
    if flops is None:
        return None
    has_weights = len(given.shapes[first + 1]) == 2
    return _product_count(flops, given, prod(given.shapes[first][:-1]) if has_weights else 0, first, first + 1)


def _grouped_matmul(given: Inputs) -> Count | None:
    """Rows of one matrix, each times the one of several that it is assigned to."""
    if len(given.shapes) < 2 or [len(shape) for shape in given.shapes[:2]] != [2, 3]:
        return _matmul(given)
    flops = _product(given.shapes[0], given.shapes[1][1:])
    return None if flops is None else Count(flops, given.kind(0))


def _linear(given: Inputs) -> Count | None:
    if len(given.shapes) < 2 or len(given.shapes[1]) != 2 or not given.shapes[0]:
        return None
    inner = given.shapes[0][-1]
    flops = 2 * prod(given.shapes[0]) * given.shapes[1][0]
    return _product_count(flops, given, prod(given.shapes[0][:-1]), 0, 1) if inner == given.shapes[1][1] else None


def _attention(given: Inputs, heads_at: int, causal_at: int, *, backward: bool = False) -> Count | None:
    """Queries, keys and values of four dimensions, the heads in dimension `heads_at`; backward after the gradient.

    Argument `causal_at` says whether each query sees the keys before it only: half of the scores of a square.

    Forward is two matrix products, one over the keys' width and one over the values'. Backward has to make the scores
    again, so that it is three over the keys' width and two over the values'.
    """
    shapes = given.shapes[1:4] if backward else given.shapes[:3]
    if len(shapes) < 3 or any(len(shape) != 4 for shape in shapes):
        return None
    query, key, value = shapes
    length_at = 3 - heads_at
    if query[0] != key[0] or key[:3] != value[:3] or query[3] != key[3]:
        return None
    scores = query[0] * query[heads_at] * query[length_at] * key[length_at]
    width = 3 * query[3] + 2 * value[3] if backward else query[3] + value[3]
    causal, is_square = given.argument(causal_at), query[length_at] == key[length_at]
    if causal in _IS_CAUSAL and is_square:
        scores //= 2
    count = _attention_count(2 * scores * width, given, backward=backward)
    return count._replace(is_bound=causal is None or not is_square)


def _attention_count(flops: int, given: Inputs, *, backward: bool) -> Count:
    """Queries, keys and values are read and as large a result written; backward, a gradient of each comes and goes."""
    kind, shapes = given.kind(int(backward)), given.shapes[1:4] if backward else given.shapes[:3]
    size = ELEMENT_BYTES.get(kind or "")
    read = sum(map(prod, shapes)) + prod(shapes[0])
    return Count(flops, kind, moved_bytes=None if size is None else (2 if backward else 1) * read * size)


def _packed_attention(given: Inputs, lengths_at: int, causal_at: int, *, backward: bool = False) -> Count | None:
    """Sequences one after the other: [all positions, heads, width], and where each begins, from `lengths_at` on.
    Counted as if all were of one length: of others there are more scores."""
    shapes = given.shapes[1:4] if backward else given.shapes[:3]
    begins = given.shapes[lengths_at] if lengths_at < len(given.shapes) else ()
    if len(shapes) < 3 or any(len(shape) != 3 for shape in shapes) or len(begins) != 1 or begins[0] < 2:
        return None
    query, key, value = shapes
    scores = query[0] * key[0] * query[1] // (begins[0] - 1)
    if given.argument(causal_at) in _IS_CAUSAL:
        scores //= 2
    width = 3 * query[2] + 2 * value[2] if backward else query[2] + value[2]
    return _attention_count(2 * scores * width, given, backward=backward)


def _either_attention(given: Inputs, causal_at: int, lengths_at: int, *, backward: bool = False) -> Count | None:
    """torch's, which takes both."""
    if any(len(shape) == 3 for shape in given.shapes[:2]):
        return _packed_attention(given, lengths_at, causal_at, backward=backward)
    return _attention(given, 2, causal_at, backward=backward)


_IS_CAUSAL: Final = ("True", "1", "2")  # a flag, or the number that xFormers' kernels have for a causal mask


def _convolution(given: Inputs, outputs: Outputs) -> Count | None:
    if len(given.shapes) < 2 or len(given.shapes[0]) < 3 or len(given.shapes[0]) != len(given.shapes[1]):
        return None
    images, weight = given.shapes[:2]
    seen = outputs.get((images, weight), set())
    if len(given.shapes) > 3 and (told := _told_output(given, images[2:], weight[2:])) is not None:
        seen = {(*images[:2], *told)}
    output = next(iter(seen)) if len(seen) == 1 else images
    pixels, size = images[0] * prod(output[2:]), ELEMENT_BYTES.get(given.kind(0) or "")
    moved = None if size is None else size * (prod(images) + prod(weight) + pixels * weight[0])
    is_bound = len(seen) != 1
    return Count(2 * pixels * prod(weight), given.kind(0), is_bound=is_bound, moved_bytes=None if is_bound else moved)


def _told_output(given: Inputs, image: Shape, kernel: Shape) -> Shape | None:
    """How large a convolution's output is, by its stride, padding and dilation; None where they were not recorded.
    `convolution` has a bias and then the stride, `cudnn_convolution` the padding first, and no bias."""
    numbers = [_numbers(argument) for argument in given.arguments[2:7]]
    if len(numbers) < 5:
        return None
    stride, padding, dilation = numbers[1:4] if not given.arguments[2] else (numbers[1], numbers[0], numbers[2])
    if not (len(stride) == len(padding) == len(dilation) == len(image)) or 0 in stride or given.arguments[6] == "True":
        return None
    sides = zip(image, kernel, stride, padding, dilation, strict=True)
    return tuple((size + 2 * pad - wide * (taps - 1) - 1) // step + 1 for size, taps, step, pad, wide in sides)


def _numbers(argument: str) -> Shape:
    return tuple(int(number) for number in re.findall(r"\d+", argument, re.ASCII)) if argument.startswith("[") else ()


def _convolution_back(given: Inputs, order: tuple[int, int, int]) -> Count | None:
    """Gradients of both images and weights, as many operations as forward each; one of them may not be wanted."""
    if len(given.shapes) < 3:
        return None
    gradient, images, weight = (given.shapes[position] for position in order)
    if len(gradient) < 3 or not len(gradient) == len(images) == len(weight):
        return None
    wanted = re.findall("True|False", given.argument(10) or "") if order[0] == 0 else []
    times = wanted[:2].count("True") if len(wanted) == 3 else 2
    size = ELEMENT_BYTES.get(given.kind(order[0]) or "")
    moved = None if size is None else size * times * (prod(gradient) + prod(images) + prod(weight))
    flops, is_bound = 2 * times * prod(gradient) * prod(weight[1:]), len(wanted) != 3
    return Count(flops, given.kind(order[0]), is_bound=is_bound, moved_bytes=None if is_bound else moved)


Outputs = Mapping[tuple[Shape, Shape], set[Shape]]  # output shapes of convolutions, by the shapes of images and weights

_CONV_BACK: Final = {
    "aten::convolution_backward": (0, 1, 2),
    "aten::cudnn_convolution_backward": (1, 0, 2),
    "aten::miopen_convolution_backward": (1, 0, 2),
}
"""Where gradient, images and weights are among the inputs."""

_CONV: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "cudnn_convolution", "miopen_convolution"),
        *("cudnn_convolution_relu", "cudnn_convolution_add_relu", "_conv_depthwise2d", "conv_depthwise3d"),
    )
)


def _counters() -> Iterator[tuple[Callable[[Inputs], Count | None], tuple[str, ...]]]:
    yield _matmul, ("mm", "bmm", "matmul", "_scaled_mm", "_int_mm")
    yield lambda given: _matmul(given, 1), ("addmm", "baddbmm", "_addmm_activation")
    yield _grouped_matmul, ("_grouped_mm", "_scaled_grouped_mm")
    yield _linear, ("linear",)
    for causal_at, heads_at, backward, names in _ATTENTION:
        yield partial(_attention, heads_at=heads_at, causal_at=causal_at, backward=backward), names


_SCALED: Final = "_scaled_dot_product"
_ATTENTION: Final = (
    (5, 1, False, ("scaled_dot_product_attention", f"{_SCALED}_fused_attention_overrideable")),
    (4, 1, False, (f"{_SCALED}_flash_attention",)),
    (6, 1, False, (f"{_SCALED}_efficient_attention", f"{_SCALED}_cudnn_attention")),
    (10, 1, False, ("_cudnn_attention_forward",)),
    (9, 2, False, ("_efficient_attention_forward",)),
    (11, 1, True, (f"{_SCALED}_flash_attention_backward", f"{_SCALED}_efficient_attention_backward")),
    (14, 1, True, (f"{_SCALED}_cudnn_attention_backward", "_cudnn_attention_backward")),
    (14, 2, True, ("_efficient_attention_backward",)),
)
"""Where operators say that they are causal, which dimension is of heads, whether they are backward; their names."""


# What counts an operator's work, by its name; convolutions apart.
COUNTERS: Final[Mapping[str, Callable[[Inputs], Count | None]]] = {
    **{f"aten::{name}": counter for counter, names in _counters() for name in names},
    "aten::_flash_attention_forward": partial(_either_attention, causal_at=8, lengths_at=3),
    "aten::_flash_attention_backward": partial(_either_attention, causal_at=11, lengths_at=6, backward=True),
    "flash_attn::_flash_attn_forward": partial(_attention, heads_at=2, causal_at=5),
    "flash_attn::_flash_attn_backward": partial(_attention, heads_at=2, causal_at=11, backward=True),
    "flash_attn::_flash_attn_varlen_forward": partial(_packed_attention, lengths_at=3, causal_at=9),
    "flash_attn::_flash_attn_varlen_backward": partial(_packed_attention, lengths_at=9, causal_at=15, backward=True),
}

_OTHERS: Final = re.compile(
    r"^(?:triton_tem_|(?!aten::|triton_|autograd::|c10d::|nccl:)\w+::)\w*?(?:(gemm|_?b?mm|linear)(?![a-z])|moe|experts)"
)
"""Products and experts of operators that are not torch's own, and those that its compiler makes."""


def _others_product(name: str, given: Inputs) -> Count | None:
    """Of two matrices that fit, with the result before them or not; where a name says experts, of theirs."""
    match = _OTHERS.match(name)
    matrices = [at for at, shape in enumerate(given.shapes) if len(shape) > 1 and given.kind(at) in ELEMENT_BYTES]
    if match is None or len(matrices) < 2:
        return None
    if match[1] is None:
        return _experts(given, matrices)
    for first in range(min(len(matrices) - 1, 2)):
        rows, weight = (given.shapes[at] for at in matrices[first : first + 2])
        if len(weight) == len(rows) == 3 and (flops := _product(rows, weight)) is not None:
            return _product_count(flops, given, 0, *matrices[first : first + 2])
        if len(weight) != 2 or rows[-1] not in weight:
            continue
        columns = weight[0] if weight[1] == rows[-1] else weight[1]
        if first and (*rows[:-1], columns) != given.shapes[matrices[0]]:
            continue
        flops = 2 * prod(rows) * columns
        return _product_count(flops, given, prod(rows[:-1]), *matrices[first : first + 2])
    return None


def _experts(given: Inputs, matrices: Sequence[int]) -> Count | None:
    """Rows that go to several experts each, through two matrices of each expert."""
    weights = [at for at in matrices if len(given.shapes[at]) == 3][:2]
    chosen = [
        shape for at, shape in enumerate(given.shapes) if len(shape) == 2 and given.kind(at) in ("int", "long int")
    ]
    if len(weights) < 2 or not chosen or weights[0] == matrices[0]:
        return None
    rows, (up, down) = given.shapes[matrices[0]], (given.shapes[at] for at in weights)
    if up[2] != rows[-1] or down[1] != rows[-1] or up[0] != down[0] or chosen[0][0] != prod(rows[:-1]):
        return None
    pairs, size = prod(chosen[0]), ELEMENT_BYTES[given.kind(weights[0]) or ""]
    each = prod(up[1:]) + prod(down[1:])
    moved = size * each * min(up[0], pairs) + 4 * prod(rows)
    return Count(2 * pairs * each, given.kind(weights[0]), is_bound=True, moved_bytes=moved)


def _is_counted(name: str) -> bool:
    return name in COUNTERS or name in _CONV or name in _CONV_BACK or bool(_OTHERS.match(name))


def count_of(name: str, given: Inputs | None, outputs: Outputs) -> Count | None:
    """The operations of one execution; None for an operator that is not counted, or whose shapes do not tell."""
    if given is None or not _is_counted(name):
        return None
    if name in _CONV:
        count = _convolution(given, outputs)
    elif name in _CONV_BACK:
        count = _convolution_back(given, _CONV_BACK[name])
    elif name in COUNTERS:
        count = COUNTERS[name](given)
    else:
        count = _others_product(name, given)
    return None if count is None or not count.flops or (count.kind or "").startswith("c10::complex") else count


def outputs_of(parsed: Sequence[tuple[str, Inputs | None]]) -> Outputs:
    """What backward passes show of the convolutions' outputs."""
    outputs: dict[tuple[Shape, Shape], set[Shape]] = {}
    for name, given in parsed:
        if name in _CONV_BACK and given is not None and len(given.shapes) > 2:
            gradient, images, weight = (given.shapes[position] for position in _CONV_BACK[name])
            outputs.setdefault((images, weight), set()).add(gradient)
    return outputs
