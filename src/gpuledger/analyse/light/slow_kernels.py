"""Kernels that take far longer than their light, by the reason that the profile shows: each a way of being faster.

- products whose sizes no fast kernel fits: rows that begin at odd addresses, channels that are padded on the way
- attention that was given a mask, or heads of a size that the fused kernels pad
- kernels by element that go through memory element by element, as their tensors lie across one another
- kernels with one block more than the GPU has room for: a last wave that leaves it nearly empty
- any other kernel far from its roof, for a reason that is not in the profile
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.light.kernel_light import KernelLight, LightSource, kernel_light
from gpuledger.analyse.light.reachable import (
    ATTENTION,
    NEWEST_ATTENTION,
    NEWEST_BACKWARD,
    Floats,
    LightRoof,
    attention_ns,
    product_ns,
    stream_ns,
)
from gpuledger.analyse.light.steady_kernels import KernelSavings, Mask, SteadyKernels
from gpuledger.analyse.light.wasted_work import narrower_types, remove_tensor_copies, use_all_sms
from gpuledger.analyse.operators.arithmetic import Shape
from gpuledger.catalog.kernel_types import (
    BY_ELEMENT,
    aligned_elements,
    copies_tensor,
    is_backward,
    is_flash_attention_2,
    is_masked_attention,
    is_misaligned,
    is_vectorized,
    pads_channels,
)
from gpuledger.trace.keys import Positions, group

FAR: Final = 0.5  # below this share of the roof a kernel is far from it

MISALIGNED_PACE: Final = {1: 0.18, 2: 0.36}
"""What aligned products take of the time of those that read one element at a time (0.13 to 0.18 in six pairs), or two
(one pair), on an H200. Of GPUs before it, whose aligned kernels are of the same kind, it is not known."""

MASKED_PACE: Final = 0.24
"""What fused attention that is told of a causal mask takes of the time of one that reads it: 0.19 to 0.26 (H200)."""

HEADS: Final = (32, 64, 96, 128, 192, 256)
"""Sizes of heads that fused attention has kernels for; others are padded to the next."""

ATTENTION_OPERATOR: Final = "aten::scaled_dot_product_attention"
PADS: Final = "aten::constant_pad_nd"

FIRST_WITH_FLASH: Final = (8, 0)
HOPPER: Final = (9, 0)


def aligned_products(kernels: SteadyKernels) -> KernelSavings:
    """Products of sizes that no fast kernel takes, at the pace of those that one does."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    few = _has_few_channels(kernels, light)
    which = kernels.is_matrix & kernels.named(is_misaligned) & ~few
    pads = kernels.named(pads_channels) & ~few
    if took[pads & ~light.has_inputs].sum() < LEAST_PADDED * took.sum():
        pads &= light.has_inputs
    if not (which | pads).any():
        return kernels.gone(which)
    padded = pads | (kernels.is_matrix & _beside(kernels, pads))
    known = light.is_known & (light.roof != LightRoof.UNKNOWN)
    pace = _misaligned_pace(kernels)
    which &= known | (pace < 1)
    duration = np.where(known, product_ns(light.light_ns), pace * took)
    duration[pads] = 0.0
    which = (which & ~(known & (light.share > FAR))) | padded
    return kernels.taking(which, np.minimum(duration, took), was_sampled=bool(known[which].any()))


def _misaligned_pace(kernels: SteadyKernels) -> NDArray[np.float64]:
    """Of kernels of which nothing but the name is known; 1 where that is not known either."""
    if kernels.capability is None or kernels.capability[0] != HOPPER[0]:
        return np.ones(len(kernels))
    pace = np.array([1.0, *(MISALIGNED_PACE.get(elements, 1.0) for elements in range(1, 5))])
    paces: NDArray[np.float64] = pace[kernels.of_names(aligned_elements)]
    return paces


FEW_CHANNELS: Final = 4
LEAST_PADDED: Final = 0.05  # of the kernels' time: the first layer alone, whose channels are few, takes less to pad


def _has_few_channels(kernels: SteadyKernels, light: KernelLight) -> Mask:
    """Which convolutions go through images of so few channels that padding them would be most of the work. Those of
    which it is not known are taken to be such: the first layer of a network has three."""
    few = kernels.of_families(frozenset({"convolution"})) & ~light.has_inputs
    for number, name, given in light.told:
        if "conv" in name:
            channels = min((shape[1] for shape in given.shapes if len(shape) > 3), default=0)
            few[light.kernels_of(number)] = channels <= FEW_CHANNELS
    return few


def _beside(kernels: SteadyKernels, which: Mask) -> Mask:
    """Kernels right before or after these, in one part."""
    place = np.flatnonzero(which)
    beside = np.zeros(len(kernels), np.bool_)
    for way in (-1, 1):
        here = place[(place + way >= 0) & (place + way < len(kernels))]
        beside[(here + way)[kernels.part[here + way] == kernels.part[here]]] = True
    return beside


def fused_attention(kernels: SteadyKernels) -> KernelSavings:
    """Attention with a causal flag for its mask, or with heads of a size that needs no padding."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    attention = kernels.of_families(frozenset({"attention"}))
    masked = attention & kernels.named(is_masked_attention)
    if kernels.capability is not None and kernels.capability < FIRST_WITH_FLASH:
        masked &= False  # theirs have no other fused kernel
    seen = light.is_known & (light.share < FAR)  # without samples or shapes nothing but the name says so
    which, duration = masked & ~light.has_inputs & seen, took * np.where(masked, MASKED_PACE, 1.0)
    for shapes, here in _attention_shapes(light, attention):
        if len(shapes) < 3:
            continue
        head, length = shapes[1][3], max(shapes[1][1:3])
        mask = next((shape for shape in shapes[3:] if shape[-1] == shape[-2] == length), None)
        if mask is not None and masked[here].any():
            which[here] = True
            duration[here] = attention_ns(light.light_ns[here] / 2, length, head)
        wider = next((size for size in HEADS if size >= head), head)
        if wider != head:
            padding = light.inside(ATTENTION_OPERATOR) & light.inside(PADS)
            which |= padding
            duration[padding] = 0.0
            which[here] = True
            duration[here] = took[here] * head / wider
    return kernels.taking(which, np.minimum(duration, took))  # that a mask is causal is not in the profile


def _attention_shapes(light: KernelLight, which: Mask) -> Iterator[tuple[list[Shape], Positions]]:
    """Queries, keys, values and what else has four dimensions of what attention was given, and its kernels."""
    for given, here in light.by_inputs(which):
        shapes: list[Shape] = [shape for shape in given.shapes if len(shape) == 4]
        if len(shapes) > 1:
            yield shapes, here


def _attention_rates(kernels: SteadyKernels, here: Positions) -> Mapping[int, float]:
    """Of the newest kernels that there are for this GPU."""
    if kernels.capability is None or kernels.capability[0] not in HAVE_NEWER:
        return ATTENTION
    return NEWEST_BACKWARD if kernels.named(is_backward)[here].any() else NEWEST_ATTENTION


HAVE_NEWER: Final = (9, 10)
"""GPUs of these generations have instructions that FlashAttention 2 does not use: Hopper and Blackwell of data centres.
Blackwell for desks (12) has those of 2020."""

LEAST_LENGTH: Final = 1024  # shorter inputs were not measured


def newer_attention(kernels: SteadyKernels) -> KernelSavings:
    """Attention by kernels made for the GPUs before this one, at the pace of those made for it."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    older = kernels.of_families(frozenset({"attention"})) & kernels.named(is_flash_attention_2)
    older &= ~kernels.place_of(kernels.once(fused_attention).operations)
    which, duration = np.zeros(len(kernels), np.bool_), took.astype(np.float64)
    for shapes, here in _attention_shapes(light, older & (light.roof == LightRoof.COMPUTE)):
        rates, length = _attention_rates(kernels, here), max(shapes[1][1:3])
        if rates is not ATTENTION and length >= LEAST_LENGTH:
            which[here] = True
            duration[here] = attention_ns(light.light_ns[here], length, shapes[1][3], rates)
    return kernels.taking(which, np.minimum(duration, took), was_sampled=True)


ACROSS: Final = 0.3
"""What tensors that lie across one another reach at most (0.19 and 0.24 of the bandwidth, H200). Slices and broadcasts
also go element by element, and reach 0.3 to 0.5: another layout does not help them."""


def vectorize_elementwise(kernels: SteadyKernels) -> KernelSavings:
    """Kernels by element that go element by element, at the pace of those that read what lies side by side."""
    light = kernels.once(kernel_light)
    single = (kernels.elements > 0) & ~kernels.named(is_vectorized) & ~kernels.named(copies_tensor)
    single &= kernels.of_families(BY_ELEMENT)  # what is gathered or scattered lies where it lies
    which = single & light.is_known & (light.roof == LightRoof.MEMORY) & (light.share < ACROSS)
    duration = np.minimum(stream_ns(light.light_ns), kernels.took_ns)
    return kernels.taking(which, duration, was_sampled=bool((light.source[which] < LightSource.LAUNCH).any()))


NEAR_ROOF: Final = 0.7  # kernels from this share of the roof on are not held up by their last wave


MOST_PROCESSORS: Final = 10_000  # no GPU has more, whatever a file says
LEAST_TAIL: Final = 0.05  # of a kernel's time: a shorter tail is no reason


def remove_tail_waves(kernels: SteadyKernels) -> KernelSavings:
    """Kernels whose last blocks run in a nearly empty GPU take as long as if all waves were full. A wave is what the
    GPU has room for at a time. Blocks of the last one have more of a multiprocessor for themselves, and are as much
    faster. Kernels that wait for memory have all of it for the last ones."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    count = 0 if kernels.gpu is None else min(kernels.gpu.sm_count or 0, MOST_PROCESSORS)
    may_be = (took >= LONG_NS) & (kernels.blocks > count)
    may_be &= ~kernels.of_families(frozenset({"attention"}))  # a mask makes blocks of different lengths
    moves = (light.roof == LightRoof.MEMORY) & (light.share > VERY_FAR)
    may_be &= ~(light.is_known & ((light.high_ns > NEAR_ROOF * took) | moves))
    which = np.flatnonzero(may_be)
    room = kernels.blocks_at_once(which)
    waves = kernels.blocks[which] / np.maximum(room * count, 1)
    last = waves - np.floor(waves)
    tail = np.ceil(last * room) / np.maximum(room, 1)  # of a full wave's time
    duration = took.astype(np.float64)
    duration[which] *= np.where((room > 0) & (waves > 1), waves / np.maximum(np.floor(waves) + tail, 1e-9), 1.0)
    return kernels.taking(duration < (1 - LEAST_TAIL) * took, duration)


LEAST_LOST: Final = 0.05  # of the steady kernels' time: what one kernel loses below that is not told by itself

VERY_FAR: Final = 0.25
"""A kernel this far from its roof does something that its roof does not tell; nearer ones may have to be so."""


REASONS: Final = (
    *(remove_tail_waves, newer_attention, aligned_products, fused_attention, vectorize_elementwise),
    *(use_all_sms, remove_tensor_copies, narrower_types),
)
"""Ways that say why a kernel is far from its roof."""


def at_reachable_pace(kernels: SteadyKernels) -> KernelSavings:
    """The kernel that loses the most for a reason that is not in the profile, at the pace that others reach."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    attention = kernels.of_families(frozenset({"attention"}))
    far = light.is_known & (light.source < LightSource.LAUNCH) & (light.high_ns < VERY_FAR * took) & ~attention
    far &= (took > LONG_NS) & (2 * kernels.page_ns < took)  # what waits for pages waits for no roof
    far &= kernels.are_alone  # others have the rest of the GPU
    for way in REASONS:
        far[kernels.place_of(kernels.once(way).operations)] = False
    reached = _paced(light)
    less = np.where(far, np.maximum(took - reached, 0), 0.0)
    first, number = group(kernels.names)
    by_name = np.bincount(number, less, len(first))
    if not len(first) or by_name.max() < LEAST_LOST * took.sum():
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    return kernels.taking(far & (number == by_name.argmax()), np.minimum(reached, took), was_sampled=True)


def _paced(light: KernelLight) -> Floats:
    """What kernels take that reach what others do, of products and of passes over memory."""
    return np.where(light.roof == LightRoof.COMPUTE, product_ns(light.high_ns), stream_ns(light.high_ns))


def reachable_ns(kernels: SteadyKernels) -> Floats:
    """What each kernel takes at a rate that programs reach, and never more than it took; NaN where that is not known.
    Attention has a pace of its own, which depends on the length of its inputs; without shapes it takes what it took."""
    light, took = kernels.once(kernel_light), kernels.took_ns
    reached, attention = _paced(light), kernels.of_families(frozenset({"attention"}))
    reached[attention & light.is_known] = took[attention & light.is_known]
    for shapes, here in _attention_shapes(light, attention & (light.roof == LightRoof.COMPUTE)):
        if min(shapes[1]) > 0:
            rates = _attention_rates(kernels, here)
            reached[here] = attention_ns(light.high_ns[here], max(shapes[1][1:3]), shapes[1][3], rates)
    return np.minimum(reached, took)


LONG_NS: Final = 20_000  # shorter kernels take as long as they take to begin and to end
