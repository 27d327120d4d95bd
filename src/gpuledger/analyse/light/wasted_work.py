"""A GPU that is busy with work it could do without: for each kind of waste, the kernels and how long they would take.

- attention that is not fused: all scores go through memory between its two products
- chains of kernels by element, each of which reads what the last one wrote: one kernel would read and write once
- tensors that are copied within the GPU, and what doing without costs those who read the copy
- kernels that leave most of the GPU idle: too few blocks for its multiprocessors, or too little work for a launch
- tensors that change their layout on the way, and batch norms that suffer from it
- parameters that are updated one by one, in many passes over memory: a fused optimizer reads and writes them once
- kernels in a wider type than they need: single precision where tensor cores could work, double by accident
- sorts of many values, of which a program may want the largest only
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.light.steady_kernels import FEWEST as REPEATED
from gpuledger.analyse.light.steady_kernels import LEAST_NS, KernelSavings, Mask, SteadyKernels, kernel_loops
from gpuledger.catalog.gpus import Peaks, has_bfloat16, narrow_times_fp32, peaks_of
from gpuledger.catalog.kernel_types import (
    BY_ELEMENT,
    changes_layout,
    copies_tensor,
    divides_lists,
    ends_adam_update,
    goes_by_element,
    is_beside_update,
    is_fused_update,
    is_multi_tensor,
    is_of_loss,
    is_vector_product,
    list_passes,
    moves_unnamed,
    names_bfloat16_gpu,
    names_tensor_core_gpu,
    only_moves,
    sorts_values,
    wants_channels_first,
    works_on_floats,
)
from gpuledger.trace.keys import Positions, distinct
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints

MAX_TO_SOFTMAX: Final = 8  # kernels between the softmax and each product: scales, masks, casts
MOST_COPIES: Final = 3  # of queries, keys and values
ON_SCORES: Final = frozenset({"softmax", "elementwise", "activation", "copy", "sampling", "memset"})
"""What may run between the softmax of attention and its second product: casts and dropout. The softmax of a router is
followed by picking the best and gathering their tokens."""


def fuse_attention(kernels: SteadyKernels) -> KernelSavings:
    """Scales, masks, the softmax and casts of all scores do not run, nor do copies for the products' sake. None where
    as many fused kernels run: then that is the attention, and the softmax is something else's."""
    products, softmax, fused = (kernels.of_families(frozenset({family})) for family in ("gemm", "softmax", "attention"))
    if softmax.any():
        softmax &= ~kernels.named(is_of_loss)
    places, middle = np.flatnonzero(products), np.flatnonzero(softmax)
    if len(places) < 2 or not len(middle):
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    next_place = np.searchsorted(places, middle)
    has_both = (next_place > 0) & (next_place < len(places))
    middle, next_place = middle[has_both], next_place[has_both]
    before, after = places[next_place - 1], places[next_place]
    near = (middle - before <= MAX_TO_SOFTMAX) & (after - middle <= MAX_TO_SOFTMAX)
    near &= kernels.part[before] == kernels.part[after]
    others = np.append(0, np.cumsum(~kernels.of_families(ON_SCORES)))
    near &= others[after] == others[middle]
    if np.count_nonzero(fused) >= np.count_nonzero(near):
        near[:] = False
    edges = np.zeros(len(kernels) + 1, np.int64)
    np.add.at(edges, before[near] + 1, 1)
    np.add.at(edges, after[near], -1)
    return kernels.gone((np.cumsum(edges[:-1]) > 0) | _copies_around(kernels, before[near], after[near]))


def _copies_around(kernels: SteadyKernels, first: Positions, second: Positions) -> Mask:
    """Copies right before the first product and right after the second: heads are brought together, and apart again."""
    copies = kernels.named(copies_tensor)
    around = np.zeros(len(kernels), np.bool_)
    for product, way in ((first, -1), (second, 1)):
        place = product + way
        for _ in range(MOST_COPIES):
            place = place[(place >= 0) & (place < len(kernels))]
            place = place[copies[place]]
            around[place] = True
            place = place + way
    return around


VIEW_READ_TO_COPY_TIME: Final = 1.1  # of a kernel by element that reads a view, and of copying it (H200)
ALIKE_SIZES: Final = 4  # tensors whose numbers of elements differ by more are not one another's copy


def remove_tensor_copies(kernels: SteadyKernels) -> KernelSavings:
    """Kernels that only copy do not run; those by element that read a copy take as long as it took, at least."""
    copies = kernels.named(copies_tensor)
    reader, copy = _readers(kernels, copies)
    duration = np.zeros(len(kernels))
    np.maximum.at(duration, reader, np.maximum(kernels.took_ns[reader], VIEW_READ_TO_COPY_TIME * kernels.took_ns[copy]))
    which = copies.copy()
    which[reader] = True
    return kernels.taking(which, duration, meant=copies)


def _readers(kernels: SteadyKernels, copies: Mask) -> tuple[Positions, Positions]:
    """Kernels that go through contiguous tensors right after copies, and the copy that each of them reads. The first
    reads the first copy: `silu(gate.contiguous()) * up.contiguous()` is copy, copy, silu, product."""
    by_element = kernels.of_families(BY_ELEMENT)
    is_reader = by_element & ~copies & (kernels.of_elements(lambda kernel: kernel.is_vectorized) > 0)
    is_slow = copies & (kernels.elements > 0)
    run = np.cumsum(np.diff(kernels.part, prepend=-1) != 0) + np.cumsum(~by_element)
    order_of_copy, order_of_reader = _order_in_run(run, is_slow), _order_in_run(run, is_reader)
    copy, reader = np.flatnonzero(is_slow), np.flatnonzero(is_reader)
    width = int(max(order_of_copy.max(initial=0), order_of_reader.max(initial=0))) + 1
    _, of_reader, of_copy = np.intersect1d(
        run[reader] * width + order_of_reader[reader], run[copy] * width + order_of_copy[copy], return_indices=True
    )
    reader, copy = reader[of_reader], copy[of_copy]
    sizes = kernels.elements
    fits = (reader > copy) & (sizes[reader] <= ALIKE_SIZES * sizes[copy]) & (sizes[copy] <= ALIKE_SIZES * sizes[reader])
    return reader[fits], copy[fits]


def _order_in_run(run: Ints, chosen: Mask) -> Ints:
    """How many of the chosen lie before each position in its run."""
    before: Ints = np.cumsum(chosen) - chosen
    starts = np.flatnonzero(np.diff(run, prepend=-1) != 0)
    order: Ints = before - np.repeat(before[starts], np.diff(np.append(starts, len(run))))
    return order


START_NS: Final = 3_500
"""What a kernel takes to start, to fetch the first of its data and to end, however little it does (products of a few
megabytes on an H200)."""

LONG_NS: Final = 7_000  # shorter kernels mostly start and end
MAX_FILLED_SHARE: Final = 0.5  # kernels with blocks for no more of the multiprocessors than this leave the GPU idle

FEWEST_PRODUCTS: Final = 8
"""The same matrix product so many times in a row, with nothing between, is a loop: layers have other kernels, too."""

AT_ROOF: Final = 0.9  # what a kernel that fills the GPU attains of its roof


def use_all_sms(kernels: SteadyKernels) -> KernelSavings:
    """Kernels with few blocks do their work on all multiprocessors."""
    filled = _blocks_per_sm(kernels)
    if filled is None:
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    which = (filled > 0) & (filled <= MAX_FILLED_SHARE) & (kernels.took_ns >= LONG_NS) & kernels.are_alone
    duration = START_NS + np.maximum((kernels.took_ns - START_NS) * filled, kernels.page_ns)  # pages come no faster
    shares = kernels.roof_shares if which.any() else None
    if shares is not None:
        by_roof = kernels.took_ns * shares / AT_ROOF
        duration = np.fmax(duration, by_roof)
    return kernels.taking(which, duration, was_sampled=shares is not None)


def batched_products(kernels: SteadyKernels) -> KernelSavings:
    """Equal matrix products that follow each other become one batched product."""
    filled = _blocks_per_sm(kernels)
    which, duration = np.zeros(len(kernels), np.bool_), np.zeros(len(kernels))
    products = kernels.of_families(frozenset({"gemm"}))
    if filled is None or np.count_nonzero(products) < FEWEST_PRODUCTS:
        return kernels.gone(which)
    parts = np.where(products, kernels.part, -np.arange(1, len(kernels) + 1))
    loops = [
        loop for loop in kernel_loops(kernels.names, parts, FEWEST_PRODUCTS) if products[loop.start : loop.end].all()
    ]
    shares = kernels.roof_shares if loops else None
    work = np.maximum(kernels.took_ns - START_NS, 0) * np.minimum(filled, 1.0)
    if shares is not None:
        work = np.where(np.isnan(shares), work, kernels.took_ns * shares / AT_ROOF)
    for loop in loops:
        if kernels.are_alone[loop.start : loop.end].all() and (filled[loop.start : loop.end] > 0).all():
            which[loop.start : loop.end] = True
            duration[loop.start] = START_NS + work[loop.start : loop.end].sum()
    return kernels.taking(which, duration, was_sampled=shares is not None)


def _blocks_per_sm(kernels: SteadyKernels) -> NDArray[np.float64] | None:
    """Blocks for each multiprocessor; None where the GPU is not known."""
    count = None if kernels.gpu is None else kernels.gpu.sm_count
    return kernels.blocks / count if count else None


CHANNELS_LAST: Final = {
    "batch_norm_backward_kernel": 0.30,
    "batch_norm_collect_statistics_kernel": 0.56,
    "batch_norm_transform_input_kernel": 0.57,
}
"""What PyTorch's own batch norm takes with the channels last, of its time with the channels first (a ResNet-50 on an
H200): the channels of a pixel lie together, and all threads read what lies side by side."""


def remove_layout_conversions(kernels: SteadyKernels) -> KernelSavings:
    """Kernels that only change a layout do not run, and batch norms are those of channels last. None where group norms
    run: PyTorch's want the channels first, and copy all that comes otherwise."""
    conversions = kernels.named(changes_layout)
    which, duration = conversions.copy(), np.zeros(len(kernels))
    if kernels.named(wants_channels_first).any():
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    if which.any():
        for name, share in CHANNELS_LAST.items():
            norms = kernels.of_names(lambda text, name=name: name in text, np.bool_)  # type: ignore[misc]
            duration[norms] = share * kernels.took_ns[norms]
            which |= norms
    return kernels.taking(which, duration, meant=conversions)


FEWEST_ROUNDS: Final = 6  # the same kernels so many times in a row are a loop over tensors

LEAST_TENSORS: Final = 2.5
"""What the passes of an update move on average: gradients and moments come in. Chains over one tensor move two."""

ADAM_KERNELS, MOST_ADAM_KERNELS = 8, 16  # PyTorch's passes for one parameter, and the most that are taken for one

FUSED_PACE: Final = {2: 1.4, 4: 1.2}
ADAM_PACE: Final = {2: 1.87, 4: 1.3}
"""How many times as long fused optimizers of PyTorch take for a byte as single passes do, by the bytes of an element:
SGD with momentum, and Adam, which computes more (H200; SGD in float32 was not measured)."""


def updates(kernels: SteadyKernels) -> tuple[Positions, Positions, Mask]:
    """Of each update of a parameter, where its passes begin and where the next kernel is; which of them are Adam's."""
    single = kernels.of_families(BY_ELEMENT) & ~kernels.named(is_multi_tensor) & ~kernels.named(copies_tensor)
    last = np.flatnonzero(single & kernels.named(ends_adam_update))
    length = np.diff(last, prepend=-1)
    usual = int(np.median(length[1:])) if len(last) > 1 else ADAM_KERNELS
    is_first = (length > MOST_ADAM_KERNELS) | (np.diff(kernels.part[last], prepend=-1) != 0)
    length[is_first] = min(usual, MOST_ADAM_KERNELS)
    begin, end = np.maximum(last - length + 1, 0), last + 1
    are_adam = np.zeros(len(kernels), np.bool_)
    for first, behind in zip(begin.tolist(), end.tolist(), strict=True):
        are_adam[first:behind] = True
    others = single & ~are_adam
    parts = np.where(others, kernels.part, -np.arange(1, len(kernels) + 1))
    tensors = kernels.of_elements(lambda kernel: kernel.tensors)
    loops = [
        loop
        for loop in kernel_loops(kernels.names, parts, FEWEST_ROUNDS)
        if loop.period > 1 and tensors[loop.start : loop.end].mean() >= LEAST_TENSORS
    ]
    if loops and not _trains(kernels):
        loops = []
    rounds = [np.arange(loop.start, loop.end - loop.period + 1, loop.period) for loop in loops]
    more = np.concatenate([begin[:0], *rounds])
    periods = np.repeat([loop.period for loop in loops], [len(starts) for starts in rounds]).astype(np.int64)
    is_adam = np.arange(len(begin) + len(more)) < len(begin)
    return np.concatenate((begin, more)), np.concatenate((end, more + periods)), is_adam


def _trains(kernels: SteadyKernels) -> bool:
    """Whether there is a backward pass; without operators, whether there are products: loops may solve equations."""
    if kernels.operators is not None:
        return any(name.startswith("autograd::") for name, _ in kernels.operators.kinds)
    return bool(kernels.is_matrix.any())


def fused_updates(kernels: SteadyKernels) -> KernelSavings:
    """Of each update one pass is left, which takes its share of a fused one. An update moves two tensors, and one more
    for each that a pass takes in besides; single passes move many twice."""
    begin, end, is_adam = kernels.once(updates)
    which, duration = np.zeros(len(kernels), np.bool_), np.zeros(len(kernels))
    tensors, narrow = (
        kernels.of_elements(figure) for figure in (lambda one: one.tensors, lambda one: one.element_bytes)
    )
    for first, behind, adam in zip(begin.tolist(), end.tolist(), is_adam.tolist(), strict=True):
        passes = tensors[first:behind]
        known = passes[passes > 0]
        if not len(known):
            continue
        share = (2 + np.maximum(known - 2, 0).sum()) / known.sum()
        pace = (ADAM_PACE if adam else FUSED_PACE)[2 if narrow[first:behind].max() <= 2 else 4]
        which[first:behind] = True
        duration[first] = kernels.took_ns[first:behind].sum() * min(share * pace, 1.0)
    _fuse_lists(kernels, which, duration)
    return kernels.taking(which, duration)


FUSED_PASSES: Final = 7  # parameter, gradient and two moments are read, all but the gradient written


def _fuse_lists(kernels: SteadyKernels, which: Mask, duration: NDArray[np.float64]) -> None:
    """Passes over lists of parameters take their share of one that reads and writes all once."""
    lists = kernels.named(is_multi_tensor) & ~kernels.named(is_fused_update) & ~kernels.named(is_beside_update)
    ends = lists & kernels.named(divides_lists)
    if not ends.any():
        return
    passes, blocks = kernels.of_names(list_passes), kernels.blocks
    for part in np.unique(kernels.part[ends]).tolist():
        mine = lists & (kernels.part == part)
        moved, elements = (passes * blocks)[mine].sum(), blocks[ends & mine].sum()
        pace = ADAM_PACE[4 if kernels.named(works_on_floats)[mine].any() else 2]
        which |= mine
        duration[mine] = kernels.took_ns[mine] * min(FUSED_PASSES * elements / max(moved, 1) * pace, 1.0)


USUALLY_FASTER: Final = 2.6
"""Of a GPU that is not known but whose kernels are made for tensor cores: GeForce cards have the least."""

LEAST_FASTER: Final = 2.0  # types whose peaks differ by less are not worth a change

MOSTLY: Final = 0.3
"""From this share of the kernels' time in a wide type on, the tensors are of that type: others would move half."""

BY_ACCIDENT: Final = 0.5  # programs that spend more than this in double precision mean it


def narrower_types(kernels: SteadyKernels) -> KernelSavings:
    """Single precision in bfloat16 on tensor cores, and what moves such tensors; double precision in single. A product
    with a vector only moves its weights."""
    duration = kernels.took_ns.astype(np.float64)
    saved, of_kind = dict[str, float](), dict[str, Mask]()
    wide = np.zeros(len(kernels), np.bool_)
    for kind in ("fp32", "tf32"):
        chosen = kernels.multiply_in(kind)
        times = _times_as_fast(kernels, kind) if chosen.any() else 0.0
        if times >= LEAST_FASTER:
            duration[chosen] /= times
            wide |= chosen
            saved[kind], of_kind[kind] = float((kernels.took_ns - duration)[chosen].sum()), chosen
    vectors = kernels.is_matrix & kernels.named(is_vector_product) & kernels.named(works_on_floats)
    if vectors.any() and _times_as_fast(kernels, "fp32") >= LEAST_FASTER:
        duration[vectors] /= 2
        wide |= vectors
        saved["fp32 weights"], of_kind["fp32 weights"] = float(duration[vectors].sum()), vectors
    if kernels.took_ns[wide].sum() >= MOSTLY * kernels.took_ns.sum():
        moved = ~kernels.is_matrix & kernels.named(works_on_floats) & (kernels.took_ns >= LEAST_NS)
        duration[moved] /= 2
        wide |= moved
    double = kernels.once(are_double)
    if double.any():
        peaks = _peaks(kernels)
        if peaks is not None and "fp64" in peaks.tera and "fp32" in peaks.plain:  # single precision, no tensor cores
            duration[double & kernels.is_matrix] /= max(peaks.plain["fp32"] / peaks.tera["fp64"], 1.0)
        duration[double & ~kernels.is_matrix] /= 2
        saved["fp64"], of_kind["fp64"] = float((kernels.took_ns - duration)[double].sum()), double
        wide |= double
    kind = max(saved, key=lambda kind: saved[kind], default="")
    meant = of_kind.get(kind)
    knows_bfloat16 = has_bfloat16(kernels.gpu) if kind == "fp32" else True
    if knows_bfloat16 is None:  # kernels that only run on such a GPU tell
        knows_bfloat16 = bool(kernels.named(names_bfloat16_gpu).any())
    if not knows_bfloat16:
        kind = "fp32 to half"
    return kernels.taking(wide, duration, kind, meant=meant)


def are_double(kernels: SteadyKernels) -> Mask:
    """Which kernels are in double precision by accident; none where it is most of the work. By their names, or right
    after one where a name tells only that eight bytes move."""

    def is_integer(name: str) -> bool:
        return "long" in name.replace("unsigned long)", "") or "int64" in name

    matrix = kernels.multiply_in("fp64")
    eight = kernels.of_elements(lambda kernel: kernel.element_bytes == 8) > 0
    double: Mask = matrix | (eight & ~kernels.named(is_integer))
    unnamed = np.flatnonzero(kernels.named(moves_unnamed))
    for place in unnamed[unnamed > 0].tolist() if len(unnamed) and double.any() else ():
        double[place] |= double[place - 1] and kernels.part[place] == kernels.part[place - 1]
    is_little = bool(kernels.took_ns[double].sum() < BY_ACCIDENT * kernels.took_ns.sum())
    return double if is_little else np.zeros(len(kernels), np.bool_)


def _times_as_fast(kernels: SteadyKernels, kind: str) -> float:
    """How many times as fast 16 bits are as a type; 0 where the GPU has no tensor cores, or is not known to."""
    if kind == "fp32":
        times = narrow_times_fp32(kernels.gpu)
        if times is None and kernels.named(names_tensor_core_gpu).any():
            return USUALLY_FASTER
        return times or 0.0
    peaks = _peaks(kernels)
    if peaks is None or "tf32" not in peaks.tera:
        return 0.0
    return peaks.tera.get("bf16", 0.0) / peaks.tera["tf32"]


def _peaks(kernels: SteadyKernels) -> Peaks | None:
    peaks = NotMeasured("no GPU") if kernels.gpu is None else peaks_of(kernels.gpu)
    return None if isinstance(peaks, NotMeasured) else peaks


FEWEST: Final = 3  # a chain has so many kernels at least; copies and casts between them do not count, but go
ALIKE: Final = 4  # a chain goes through one tensor: where the number of elements changes by more, another begins


def fused_chains(kernels: SteadyKernels) -> KernelSavings:
    """Of each chain one kernel runs."""
    linked = kernels.of_families(BY_ELEMENT) & ~kernels.named(is_multi_tensor) & kernels.named(goes_by_element)
    linked &= ~kernels.once(are_double)  # reported by themselves, as are updates of parameters
    for first, behind in zip(*(side.tolist() for side in kernels.once(updates)[:2]), strict=True):
        linked[first:behind] = False
    chain = _chains(kernels, linked)
    count = int(chain.max(initial=-1)) + 1
    place = np.flatnonzero(linked)
    number, took = chain[place], kernels.took_ns[place]
    long = (took >= LEAST_NS) & ~kernels.named(only_moves)[place]
    members = np.bincount(number[long], minlength=count)
    total, one = np.bincount(number, took, minlength=count), _one_kernel_ns(kernels, place, number, count)
    kinds = np.bincount(distinct(number << 32 | kernels.names[place]) >> 32, minlength=count)
    # one kernel so often is run again and again, or over many tensors: it does not read what it wrote
    chosen = (members >= FEWEST) & (one < total) & ((kinds > 1) | (members < REPEATED))
    which, duration = np.zeros(len(kernels), np.bool_), np.zeros(len(kernels))
    which[place] = chosen[number]
    order = np.lexsort((-took, number))
    longest = order[np.searchsorted(number[order], np.arange(count))]  # of each chain
    duration[place[longest]] = one
    return kernels.taking(which, duration)


def _chains(kernels: SteadyKernels, linked: Mask) -> NDArray[np.int64]:
    """The number of each linked kernel's chain; -1 for the others."""
    begins = linked & (np.append(True, ~linked[:-1]) | (np.diff(kernels.part, prepend=-1) != 0))
    run = np.cumsum(begins)
    # a kernel that goes through much more or much less than the last one of its run whose size is known begins another
    known = np.flatnonzero(linked & (kernels.elements > 0) & (kernels.took_ns >= LEAST_NS))
    size = kernels.elements[known]
    differs = (size[1:] > ALIKE * size[:-1]) | (size[:-1] > ALIKE * size[1:])
    begins[known[1:][differs & (run[known[1:]] == run[known[:-1]])]] = True
    return np.where(linked, np.cumsum(begins) - 1, -1)


def _one_kernel_ns(
    kernels: SteadyKernels, place: NDArray[np.int64], number: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """How long one kernel in place of each chain takes: by what it moves, else as long as the chain's longest."""
    took = kernels.took_ns[place].astype(np.float64)
    longest = np.zeros(count)
    np.maximum.at(longest, number, took)
    tensors, narrow, moved = (
        kernels.of_elements(figure)[place]
        for figure in (lambda one: one.tensors, lambda one: one.element_bytes, lambda one: one.bytes_moved)
    )
    sums = kernels.of_families(frozenset({"reduction"}))[place]
    passes = np.maximum(np.bincount(number[sums], minlength=count), 1)
    known = np.flatnonzero((moved > 0) & (narrow > 0) & (took >= LEAST_NS) & (kernels.elements[place] > 0))
    size, of = kernels.elements[place[known]], number[known]
    pace, width, bytes_each, most = np.full(count, np.inf), np.zeros(count), np.full(count, 8.0), np.zeros(count)
    np.minimum.at(pace, of, took[known] / (moved[known] * size))
    np.maximum.at(width, of, tensors[known])
    np.minimum.at(bytes_each, of, narrow[known])
    np.maximum.at(most, of, size)
    has_pace = np.isfinite(pace)
    one = np.where(has_pace, pace, 0.0) * width * bytes_each * most * passes
    return np.where(has_pace, one, longest)


PICKED: Final = 0.2
"""What `topk` takes of a sort's time: 441 of 2,072 us for 50 of 128,000 values in each of 256 rows (H200). A radix sort
moves values and indices four times, a radix selection reads values four times."""

LEAST_SORT_NS: Final = 20_000  # shorter sorts are of few values, as of an expert's tokens


def topk_instead_of_sort(kernels: SteadyKernels) -> KernelSavings:
    """Sorts take what picking the largest takes."""
    sorts = kernels.named(sorts_values) & (kernels.took_ns >= LEAST_SORT_NS)
    return kernels.taking(sorts, PICKED * kernels.took_ns)
