"""Work that need not be done, by what operators were given: each a way of doing without.

- activations that backward makes again, though forward had them
- passes of an optimizer over all rows of a table of which few were looked up
- results of which a slice is read, and gradients of what no optimizer updates
- tensors that are cleared, and then written as a whole
- lookups that are products with ones and zeros
"""

from __future__ import annotations

import re
from math import prod
from typing import Final

import numpy as np

from gpuledger.analyse.light.kernel_light import KernelLight, kernel_light
from gpuledger.analyse.light.reachable import product_ns, stream_ns
from gpuledger.analyse.operators.arithmetic import COUNTERS, Inputs, Shape
from gpuledger.analyse.steady_kernels import Mask, Shortened, SteadyKernels
from gpuledger.catalog.kernel_types import attends_forward, is_backward
from gpuledger.trace.keys import RowsByKey, is_among, occurrences

BACKWARD: Final = "autograd::engine::evaluate_function"
"""How the operators begin in which backward passes run."""

FORWARD_ONLY: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_flash_attention_forward", "_efficient_attention_forward", "_cudnn_attention_forward", "native_layer_norm"),
        *("native_batch_norm", "cudnn_batch_norm", "_fused_rms_norm", "gelu", "silu", "relu", "_softmax", "rsqrt"),
        *("native_dropout", "cudnn_convolution", "convolution", "embedding", "native_group_norm", "miopen_convolution"),
    )
)
"""What no backward pass calls: where one does, it makes again what forward had."""


def kept_activations(kernels: SteadyKernels) -> Shortened:
    """Kernels of forward operators that backward runs again do not run."""
    light = kernels.once(kernel_light)
    nobody = np.zeros(len(kernels), np.bool_)
    operators = light.operators
    if operators is None or not len(operators):
        return kernels.gone(_again_by_names(kernels))
    names = [name for name, _ in operators.kinds]
    is_backward = np.array([name.startswith(BACKWARD) for name in names], np.bool_)[operators.kind]
    if not is_backward.any():
        return kernels.gone(nobody)
    around = operators.nest.handed_down(np.where(is_backward, np.arange(len(operators)), -1))
    is_forward = np.array([name in FORWARD_ONLY for name in names], np.bool_)[operators.kind]
    again = np.zeros(len(operators) + 1, np.bool_)
    again[around[is_forward & (around >= 0)]] = True  # the parts of backward that call what is forward's
    again[-1] = False
    in_forward = np.zeros(len(names), np.bool_)
    in_forward[operators.kind[around < 0]] = True
    is_again = again[around] & in_forward[operators.kind] & (around >= 0) & ~is_backward
    first = operators.nest.handed_down(np.where(is_again, np.arange(len(operators)), -1))
    rows = operators.row
    return kernels.gone((rows >= 0) & (first[rows] >= 0))


def _again_by_names(kernels: SteadyKernels) -> Mask:
    """Kernels that ran before backward began, and run again in it, where attention's forward does so as often."""
    again = np.zeros(len(kernels), np.bool_)
    attends, turns = kernels.named(attends_forward), kernels.named(is_backward)
    if not attends.any() or not turns.any():
        return again
    for _, here in RowsByKey.of(kernels.part):
        begins = np.flatnonzero(turns[here])
        if not len(begins):
            continue
        before, behind = here[: begins[0]], here[begins[0] :]
        if not 0 < attends[before].sum() <= 1.1 * attends[behind].sum():
            continue
        often = dict(zip(*(side.tolist() for side in occurrences(kernels.names[before])), strict=True))
        for name, places in RowsByKey.of(kernels.names[behind]):
            again[behind[places[: often.get(name, 0)]]] = True
    return again


FEW_ROWS: Final = 0.25
"""A pass over a table of which fewer rows than this share were looked up is one too many."""

LOOKUP_BACK: Final = "aten::embedding_dense_backward"


def looked_up_rows(kernels: SteadyKernels) -> Shortened:
    """Passes over a whole table take as long as over the rows that were looked up."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    tables: dict[Shape, float] = {}
    for _, name, given in light.told:
        if name == LOOKUP_BACK and (rows := given.argument(2)) and rows.isdecimal():
            count, width = prod(given.shapes[1]), given.shapes[0][-1]
            if 0 < count < FEW_ROWS * int(rows):
                tables[int(rows), width] = count / int(rows)
    which, duration = np.zeros(len(kernels), np.bool_), took.astype(np.float64)
    if not tables:
        return kernels.gone(which)
    for number, name, given in light.told:
        if name in COUNTERS or name == "aten::embedding":
            continue
        lists = [shapes for shapes in given.lists if shapes] or [given.shapes]
        elements = sum(map(prod, lists[0]))
        less = sum(prod(shape) * (1 - tables[shape]) for shape in lists[0] if shape in tables)
        if less and elements:
            here = light.kernels_of(number)
            which[here] = True
            duration[here] = took[here] * (1 - less / elements)
    return kernels.taking(which, duration, was_sampled=True)


LEAST_PART: Final = 0.02
"""Of the steady kernels' time: results that take less are not looked at."""

FEW_READ: Final = 0.25


def read_results(kernels: SteadyKernels) -> Shortened:
    """Products take as long as for the rows that are read; backward ends where the last gradient is that is used."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    which, duration = np.zeros(len(kernels), np.bool_), took.astype(np.float64)
    if light.operators is None or not len(light.operators):
        return kernels.gone(which)
    names = {name for name, _ in light.kinds}
    if any(name.startswith(BACKWARD) for name in names):
        which = _behind_last_gradient(light)
        duration[which] = 0.0
        return kernels.taking(which, duration, was_sampled=True)
    for number, name, given in light.told:
        if name not in ("aten::mm", "aten::addmm", "aten::linear"):
            continue
        here = light.kernels_of(number)
        rows, columns = _product_shape(name, given)
        if not len(here) or took[here].sum() < LEAST_PART * took.sum() or not columns:
            continue
        read = _rows_read(light, number, rows, columns)
        if read is not None and read < FEW_READ * rows:
            which[here] = True
            duration[here] = product_ns(light.light_ns[here] * read / rows)
    return kernels.taking(which, np.minimum(duration, took), was_sampled=True)


def _product_shape(name: str, given: Inputs) -> tuple[int, int]:
    """Rows and columns of a product's result; no columns where its shapes do not say."""
    shapes = [shape for shape in given.shapes[1 if name == "aten::addmm" else 0 :] if shape]
    if len(shapes) < 2 or len(shapes[1]) != 2:
        return 0, 0
    return prod(shapes[0][:-1]), shapes[1][0 if name == "aten::linear" else 1]


def _rows_read(light: KernelLight, product: int, rows: int, columns: int) -> int | None:
    """The most rows of a result of so many columns that anything reads; None where nothing reads such."""
    most = 0
    for number, _, given in light.told:
        if number == product or not len(light.kernels_of(number)):
            continue
        for shape in given.shapes:
            if shape and shape[-1] == columns and len(shape) > 1:
                most = max(most, prod(shape[:-1]))
    return most if 0 < most <= rows else None


ACCUMULATES: Final = "torch::autograd::AccumulateGrad"
TORCHS_OWN: Final = re.compile(r"aten::|autograd::|torch::autograd::|\w+Backward\d+$|Optimizer\.|nccl:|c10d::")


def _behind_last_gradient(light: KernelLight) -> Mask:
    """Kernels of backward passes that run after the last gradient that an optimizer uses was made.

    None where it is not known of every tensor that is written in place, or every gradient, which it is; nor where
    operators that are not torch's own launch kernels: they may use gradients as they come.
    """
    operators = light.operators
    nobody = np.zeros(len(light.took_ns), np.bool_)
    if operators is None:
        return nobody
    updated: set[Shape] = set()
    gradients: list[tuple[int, Shape]] = []
    for number, (name, given) in enumerate(light.kinds):
        if name == ACCUMULATES:
            if given is None or not given.shapes:
                return nobody
            gradients.append((number, given.shapes[0]))
        if name in FILLS or not len(light.kernels_of(number)):
            continue
        if not TORCHS_OWN.match(name):
            return nobody
        is_list = name.startswith(("aten::_fused_", "aten::_foreach_"))
        if is_list or name.endswith("_"):
            lists = () if given is None else given.lists if is_list else (given.shapes[:1],)
            written = {shape for shapes in lists for shape in shapes}
            if not written:
                return nobody
            updated |= written
    used_numbers = [number for number, shape in gradients if shape in updated]
    unused_numbers = [number for number, shape in gradients if shape not in updated]
    if not used_numbers or not unused_numbers:
        return nobody
    start, kind = operators.nest.rows["start_ns"], operators.kind
    used = np.sort(start[is_among(kind, used_numbers)])
    unused = np.sort(start[is_among(kind, unused_numbers)])
    names = np.array([name.startswith(BACKWARD) for name, _ in light.kinds], np.bool_)
    around = operators.nest.handed_down(np.where(names[kind], np.arange(len(operators)), -1))
    rows = operators.row
    is_backward = (rows >= 0) & (around[rows] >= 0)
    at = np.where(rows >= 0, start[rows], 0)
    # of what follows a used gradient, the part that leads to unused ones only: the next used one is a step away
    next_used, next_unused = (
        np.append(marks, np.iinfo(np.int64).max)[np.searchsorted(marks, at)] for marks in (used, unused)
    )
    result: Mask = is_backward & (next_unused < next_used)
    return result


FILLS: Final = frozenset(("aten::fill_", "aten::zero_", "aten::_foreach_zero_"))


def unfilled(kernels: SteadyKernels) -> Shortened:
    """Tensors that are written as a whole are not cleared before; gradients are written, not added to zeros."""
    light = kernels.once(kernel_light)
    gone = np.zeros(len(kernels), np.bool_)
    operators = light.operators
    if operators is None or not len(operators):
        return kernels.gone(gone)
    cleared = {shape for _, name, given in light.told if name == "aten::_foreach_zero_" for shape in given.lists[0]}
    adds = light.inside(ACCUMULATES)
    for number, name, given in light.told:
        if name == "aten::add_" and given.shapes[0] in cleared:
            here = light.kernels_of(number)
            gone[here[adds[here]]] = True
    if cleared and gone.any():
        for number, (name, _) in enumerate(light.kinds):
            if name == "aten::_foreach_zero_":
                gone[light.kernels_of(number)] = True
    gone |= _overwritten(kernels, light)
    return kernels.gone(gone)


def _overwritten(kernels: SteadyKernels, light: KernelLight) -> Mask:
    """Fills of tensors that the next kernel of the stream writes as a whole."""
    operators = light.operators
    over = np.zeros(len(kernels), np.bool_)
    if operators is None:
        return over
    rows = operators.row
    kind = np.where(rows >= 0, operators.kind[rows], -1)
    fills = [number for number, (name, _) in enumerate(light.kinds) if name in ("aten::fill_", "aten::zero_")]
    for place in np.flatnonzero(is_among(kind, fills)).tolist():
        if place + 1 == len(kernels) or kind[place + 1] < 0 or kernels.part[place] != kernels.part[place + 1]:
            continue
        filled, (name, given) = light.kinds[kind[place]][1], light.kinds[kind[place + 1]]
        if filled is None or given is None or not filled.shapes or not filled.shapes[0]:
            continue
        tensors = [shape for shape in given.shapes if shape]
        writes_last = not name.endswith("_") and len(tensors) > 1 and tensors[-1] == filled.shapes[0]
        over[place] = writes_last or (name == "aten::copy_" and given.shapes[0] == filled.shapes[0])
    return over


ONE_HOT: Final = "aten::one_hot"


def looked_up(kernels: SteadyKernels) -> Shortened:
    """Rows are picked: the matrix of ones and zeros is neither made, nor cast, nor multiplied with."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    inside = light.inside(ONE_HOT)
    which, duration = inside.copy(), np.zeros(len(kernels))
    if not inside.any():
        return kernels.gone(which)
    made = {
        shape
        for number, _, given in light.told
        for shape in given.shapes[:1]
        if len(light.kernels_of(number)) and inside[light.kernels_of(number)].any() and len(shape) > 1
    }
    elements, classes = {prod(shape) for shape in made}, {shape[-1] for shape in made}
    for number, name, given in light.told:
        here = light.kernels_of(number)
        tensors = [shape for shape in given.shapes if shape]
        if name == "aten::copy_" and tensors and prod(tensors[0]) in elements:
            which[here] = True
        elif name in COUNTERS and any(
            len(shape) > 1 and prod(shape) in elements and shape[-1] in classes for shape in tensors
        ):
            which[here] = True
            rows, columns = _product_shape(name, given)
            duration[here] = stream_ns(np.full(len(here), 4 * rows * columns * light.ns_per_byte))
    return kernels.taking(which, np.minimum(duration, took), was_sampled=True)
