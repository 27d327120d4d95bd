"""Work that need not be done, by what operators were given: each a way of doing without.

- activations that backward makes again, though forward had them
- passes of an optimizer over all rows of a table of which few were looked up
- results of which a slice is read, and gradients of what no optimizer updates
- tensors that are cleared, and then written as a whole
- lookups that are products with ones and zeros
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np

from gpuledger.analyse.light.kernel_light import KernelLight, kernel_light
from gpuledger.analyse.light.reachable import product_ns, stream_ns
from gpuledger.analyse.light.steady_kernels import KernelSavings, Mask, SteadyKernels
from gpuledger.analyse.operators.arithmetic import COUNTERS, Inputs, Shape
from gpuledger.catalog.kernel_types import attends_backward, attends_forward, is_backward
from gpuledger.trace.keys import RowsByKey, distinct, is_among, occurrences

BACKWARD: Final = "autograd::engine::evaluate_function"  # how the operators begin in which backward passes run

FORWARD_ONLY: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_flash_attention_forward", "_efficient_attention_forward", "_cudnn_attention_forward", "native_layer_norm"),
        *("native_batch_norm", "cudnn_batch_norm", "_fused_rms_norm", "gelu", "silu", "relu", "_softmax", "rsqrt"),
        *("native_dropout", "cudnn_convolution", "convolution", "embedding", "native_group_norm", "miopen_convolution"),
    )
)
"""What no backward formula of torch calls: where one does, it makes again what forward had."""

REMAKES: Final = re.compile(r": (?:\w*CheckpointFunctionBackward|\w+(?<!Backward)Backward\d+)$")
"""Parts of backward in which that holds: checkpoints, and torch's own formulas, but for those of second derivatives.
Functions that a program wrote itself may call anything."""

COMPILED: Final = f"{BACKWARD}: CompiledFunctionBackward"
"""A whole backward pass in one part, in which products are its own, though shaped as forward's."""


def keep_activations(kernels: SteadyKernels) -> KernelSavings:
    """Kernels of forward operators that backward runs again do not run."""
    operators = kernels.once(kernel_light).operators
    if operators is None or not len(operators):
        return kernels.gone(_again_by_names(kernels))
    names = [name for name, _ in operators.kinds]

    def named(test: Callable[[str], object]) -> Mask:
        mask: Mask = np.array([bool(test(name)) for name in names], np.bool_)[operators.kind]
        return mask

    is_backward, is_forward = named(lambda name: name.startswith(BACKWARD)), named(FORWARD_ONLY.__contains__)
    if not is_backward.any():
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    around = operators.nest.handed_down(np.where(is_backward, np.arange(len(operators)), -1))
    again = np.zeros(len(operators) + 1, np.bool_)
    again[around[is_forward & (around >= 0)]] = True  # the parts of backward that call what is forward's
    again[:-1] &= named(REMAKES.search)
    again[-1] = False
    in_forward = np.zeros(len(names), np.bool_)
    in_forward[operators.kind[around < 0]] = True
    compiled = np.append(named(COMPILED.__eq__), False)
    is_again = (again[around] | (compiled[around] & is_forward)) & in_forward[operators.kind] & ~is_backward
    first = operators.nest.handed_down(np.where(is_again, np.arange(len(operators)), -1))
    rows = operators.row
    return kernels.gone((rows >= 0) & (first[rows] >= 0))


def _again_by_names(kernels: SteadyKernels) -> Mask:
    """Kernels that ran before backward began, and run again in it, where attention's forward does so as often. Each
    attention has one backward pass: forward runs twice as often. Of micro-batches, forward runs behind the first
    backward pass as well, but once for each."""
    again = np.zeros(len(kernels), np.bool_)
    attends, turns = kernels.named(attends_forward), kernels.named(is_backward)
    returns = kernels.named(attends_backward)
    if not attends.any() or not turns.any():
        return again
    for _, here in RowsByKey.of(kernels.part):
        begins = np.flatnonzero(turns[here])
        if not len(begins):
            continue
        before, behind = here[: begins[0]], here[begins[0] :]
        if not 0 < attends[before].sum() <= 1.1 * attends[behind].sum():
            continue
        if not 0 < MIN_FORWARD_PER_BACKWARD * returns[here].sum() <= attends[here].sum():
            continue
        often = dict(zip(*(side.tolist() for side in occurrences(kernels.names[before])), strict=True))
        for name, places in RowsByKey.of(kernels.names[behind]):
            again[behind[places[: often.get(name, 0)]]] = True
    return again


MIN_FORWARD_PER_BACKWARD: Final = 1.8  # as often, but for a few layers that are kept
FEW_ROWS: Final = 0.25  # a pass over a table of which fewer rows than this share were looked up is one too many

LOOKUP_BACK: Final = "aten::embedding_dense_backward"


def update_looked_up_rows(kernels: SteadyKernels) -> KernelSavings:
    """Passes over a whole table take as long as over the rows that were looked up, of all lookups of a step. Not of
    tables that a product reads, or one of the same size (tied weights have a gradient in every row), nor of several
    GPUs, whose gradients are summed as a whole."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    which, duration = np.zeros(len(kernels), np.bool_), took.astype(np.float64)
    if light.operators is None or any(name.startswith(COMMUNICATES) for name, _ in light.kinds):
        return kernels.gone(which)
    times = np.bincount(light.operators.kind, minlength=len(light.kinds)) / kernels.step_count
    looked_up_in: dict[Shape, float] = {}
    multiplied: set[Shape] = set()
    for number, name, given in light.told:
        if name == LOOKUP_BACK and (rows := given.argument(2)) and rows.isdecimal() and given.shapes[0]:
            table = (int(rows), given.shapes[0][-1])
            looked_up_in[table] = looked_up_in.get(table, 0.0) + float(times[number]) * prod(given.shapes[1])
        elif name in COUNTERS:
            multiplied.update(shape for given_shape in given.shapes for shape in (given_shape, given_shape[::-1]))
    tables = {
        table: count / table[0]
        for table, count in looked_up_in.items()
        if 0 < count < FEW_ROWS * table[0] and table not in multiplied
    }
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


LEAST_PART: Final = 0.02  # of the steady kernels' time: results that take less are not looked at

FEW_READ: Final = 0.25


def drop_unused_results(kernels: SteadyKernels) -> KernelSavings:
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
        read = _rows_read(light, number, rows, columns) if _is_sliced(light, rows, columns) else None
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


SLICES: Final = frozenset(("aten::select", "aten::slice"))
VIEWS: Final = frozenset(("aten::view", "aten::reshape", "aten::_unsafe_view"))
READS_ALL: Final = frozenset(
    f"aten::{name}"
    for name in ("split", "split_with_sizes", "chunk", "unbind", "transpose", "permute", "unflatten", "unsafe_split")
)


def _is_sliced(light: KernelLight, rows: int, columns: int) -> bool:
    """Whether operators slice rows from a result of this shape and never read it whole. A missing reader of that width
    alone proves nothing: attention heads have another width than their product."""
    if light.operators is None:
        return False
    cut: set[Shape] = set()
    for name, given in light.operators.of_names(SLICES | READS_ALL | VIEWS):
        shape = given.shapes[0] if given.shapes else ()
        if len(shape) < 2 or shape[-1] != columns or prod(shape) != rows * columns:
            continue
        if name in SLICES:
            cut.add(shape)
        elif name in READS_ALL or len(shape) > 2:  # a product's own view is of a matrix
            return False
    read = {shape for _, _, given in light.told for shape in given.shapes if shape}
    # without the dimension of which one is taken, or with a length of one
    parts = {
        (*whole[:at], *one, *whole[at + 1 :]) for whole in cut for at in range(len(whole) - 1) for one in ((), (1,))
    }
    return not parts.isdisjoint(read)


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
COMMUNICATES: Final = ("c10d::", "nccl:", "record_param_comms")
SHARDS: Final = re.compile(r"reduce_scatter|all_?to_?all")
"""Gradients that go to other GPUs, which update their part of flat buffers."""
TORCHS_OWN: Final = re.compile(r"aten::|autograd::|torch::autograd::|\w+Backward\d+$|Optimizer\.|nccl:|c10d::")


def _behind_last_gradient(light: KernelLight) -> Mask:
    """Kernels of backward passes that run after the last gradient that an optimizer uses was made. None where it is not
    known of every tensor that is written in place, or every gradient, which it is; nor where operators that are not
    torch's own launch kernels: they may use gradients as they come."""
    operators = light.operators
    nobody = np.zeros(len(light.took_ns), np.bool_)
    if operators is None or (operators.row < 0).any():  # what no operator launched may update as well
        return nobody
    updated: set[Shape] = set()
    gradients: list[tuple[int, Shape]] = []
    for number, (name, given) in enumerate(light.kinds):
        if SHARDS.search(name):
            return nobody
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


FILLS_LISTS: Final = "aten::_foreach_zero_"
FILLS: Final = frozenset(("aten::fill_", "aten::zero_", FILLS_LISTS))
OUTPUT_AT: Final = {
    f"aten::{name}": position
    for position, names in {
        1: ("exp", "log", "sqrt", "rsqrt", "neg", "abs", "tanh", "sigmoid", "relu"),
        2: ("mul", "div", "mm", "bmm", "matmul", "maximum", "minimum", "pow"),
        3: ("add", "sub", "where"),
        5: ("addmm", "baddbmm"),
    }.items()
    for name in names
}
"""Where operators have the tensor that they write, if they are given one: behind all that they read."""
MAKES_NEW: Final = ("aten::_to_copy", "aten::clone", "aten::contiguous", "aten::cat", "aten::stack")
"""What copies into a tensor of its own."""


def drop_redundant_fills(kernels: SteadyKernels) -> KernelSavings:
    """Tensors that are written as a whole are not cleared before; gradients are written, not added to zeros."""
    light = kernels.once(kernel_light)
    if light.operators is None or not len(light.operators):
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    return kernels.gone(_added_to_zeros(kernels, light) | _overwritten(kernels, light))


def _added_to_zeros(kernels: SteadyKernels, light: KernelLight) -> Mask:
    """Clearing of gradients, and the first addition to each; those of further micro-batches are needed."""
    added, first_added = np.zeros(len(kernels), np.bool_), np.zeros(len(kernels), np.bool_)
    clears = [(number, given.lists[0]) for number, name, given in light.told if name == FILLS_LISTS and given.lists]
    cleared = {shape for _, shapes in clears for shape in shapes}
    if not cleared:
        return first_added
    adds = light.inside(ACCUMULATES)
    for number, name, given in light.told:
        if name == "aten::add_" and given.shapes[0] in cleared:
            here = light.kernels_of(number)
            added[here[adds[here]]] = True
    times = np.bincount(light.operators.kind, minlength=len(light.kinds)) if light.operators is not None else ()
    in_step = sum(int(times[number]) * len(shapes) for number, shapes in clears) / kernels.step_count
    place = np.flatnonzero(added)
    place = place[np.lexsort((kernels.operations[place], kernels.step[place]))]  # operations are in order of time
    step = kernels.step[place]
    rank = np.arange(len(place)) - np.searchsorted(step, step)
    first_added[place[rank < round(in_step)]] = True
    if first_added.any():
        for number, _ in clears:
            first_added[light.kernels_of(number)] = True
    return first_added


def _overwritten(kernels: SteadyKernels, light: KernelLight) -> Mask:
    """Fills of tensors that the next kernel of the stream writes as a whole."""
    operators = light.operators
    over = np.zeros(len(kernels), np.bool_)
    if operators is None:
        return over
    rows = operators.row
    kind = np.where(rows >= 0, operators.kind[rows], -1)
    fills = [number for number, (name, _) in enumerate(light.kinds) if name in ("aten::fill_", "aten::zero_")]
    fresh = np.any([light.inside(name) for name in MAKES_NEW], axis=0)
    for place in np.flatnonzero(is_among(kind, fills)).tolist():
        if place + 1 == len(kernels) or kind[place + 1] < 0 or kernels.part[place] != kernels.part[place + 1]:
            continue
        filled, (name, given) = light.kinds[kind[place]][1], light.kinds[kind[place + 1]]
        if filled is None or given is None or not filled.shapes or not filled.shapes[0]:
            continue
        last = OUTPUT_AT.get(name)
        writes_last = last is not None and given.shapes[last : last + 1] == filled.shapes[:1]
        copies = name == "aten::copy_" and given.shapes[0] == filled.shapes[0] and not fresh[place + 1]
        over[place] = writes_last or copies
    return over


ONE_HOT: Final = "aten::one_hot"


def gather_instead_of_onehot_matmul(kernels: SteadyKernels) -> KernelSavings:
    """Rows are picked: the matrix of ones and zeros is neither made, nor cast, nor multiplied with. A matrix that a
    loss compares results with is none of these: backward multiplies gradients of the same size. The product that
    follows the matrix, and is of forward, has to be with it."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    inside, operators = light.inside(ONE_HOT), light.operators
    which, duration = np.zeros(len(kernels), np.bool_), np.zeros(len(kernels))
    if operators is None or not inside.any():
        return kernels.gone(which)
    backward = [number for number, (name, _) in enumerate(light.kinds) if name.startswith(BACKWARD)]
    in_backward = operators.nest.handed_down(np.where(is_among(operators.kind, backward), 0, -1))
    products = np.flatnonzero(kernels.is_matrix & (operators.row >= 0))
    made = {
        (prod(shape), shape[-1])
        for number, _, given in light.told
        for shape in given.shapes[:1]
        if len(light.kernels_of(number)) and inside[light.kernels_of(number)].any() and len(shape) > 1
    }
    behind = np.searchsorted(products, np.flatnonzero(inside))
    multiplies = products[distinct(behind[behind < len(products)])]
    for place in multiplies[in_backward[operators.row[multiplies]] < 0].tolist():
        name, given = light.kinds[light.kind[place]]
        if given is None or name not in COUNTERS:
            continue
        first = given.shapes[1 if name in ("aten::addmm", "aten::baddbmm") else 0]
        if len(first) > 1 and (prod(first), first[-1]) in made:
            which[place] = True
            rows, columns = _product_shape(name, given)
            duration[place] = stream_ns(np.full(1, 4 * rows * columns * light.ns_per_byte))[0]
    if not which.any():
        return kernels.gone(which)
    which |= inside
    elements = {count for count, _ in made}
    for number, name, given in light.told:
        if name == "aten::copy_" and given.kind(1) == "long int" and prod(given.shapes[0]) in elements:
            which[light.kernels_of(number)] = True
    return kernels.taking(which, np.minimum(duration, took), was_sampled=True)
