"""How long each kernel would take at the GPU's roofs: its light, from the best evidence that there is.

In this order: shapes that operators were given, samples of the GPU's counters, what Nsight Compute counted of the same
launches, or what a kernel's name and launch say.
Light is the longer of arithmetic at the peak of its type and bytes at the memory's bandwidth, and never more than the
kernel took. What shapes say of an operator is shared among the kernels that do its work, by their time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.light.moved_bytes import goes_once, moved_bytes
from gpuledger.analyse.light.reachable import MOST_BOUND, SINGLE, LightRoof, product_at_roof_ns
from gpuledger.analyse.light.steady_kernels import SteadyKernels
from gpuledger.analyse.light.unrecorded_products import put_unrecorded
from gpuledger.analyse.operators.arithmetic import Inputs, count_of, outputs_of
from gpuledger.analyse.operators.launching_operators import GraphOperators, LaunchingOperators
from gpuledger.catalog.gpus import peak_bytes_per_s, peak_flops
from gpuledger.catalog.kernel_types import (
    BY_ELEMENT,
    MATRIX_FAMILIES,
    NO_MATRIX,
    element_kernel,
    is_before_hopper,
    list_element_bytes,
    list_kernel,
    needed_share,
    pads_channels,
)
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, RowsByKey, distinct, is_among
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints

Floats = NDArray[np.float64]


class LightSource(IntEnum):
    """Where a kernel's light is known from, the most believed first."""

    SHAPES = 0
    SAMPLES = 1
    NCU = 2
    LAUNCH = 3
    UNKNOWN = 4


NEVER_MATRIX: Final = NO_MATRIX | {"activation", "optimizer", "embedding", "sampling"}
"""Families of which bytes are the roof, whatever an operator that nobody counts does."""

ONE_PASS: Final = BY_ELEMENT | {"norm", "softmax", "optimizer", "memset"}
"""Families whose kernels go through their tensors once or nearly so: sorts and searches go more often."""


class KernelLight(Struct, frozen=True, eq=False, dict=True):
    """Of each of some kernels, in ns. `low` and `high` are what it may be as well."""

    took_ns: Ints
    light_ns: Floats
    low_ns: Floats
    high_ns: Floats
    source: NDArray[np.int8]
    roof: NDArray[np.int8]
    operators: LaunchingOperators | None
    in_graphs: GraphOperators | None
    ns_per_byte: float  # to or from the GPU's memory, at its bandwidth; NaN where that is not known

    @property
    def kinds(self) -> Sequence[tuple[str, Inputs | None]]:
        """The different operators, with what they were given."""
        return () if self.operators is None else self.operators.kinds

    @cached_property
    def told(self) -> Sequence[tuple[int, str, Inputs]]:
        """Those of `kinds` of which it was recorded what they were given, with their number."""
        return [(number, name, given) for number, (name, given) in enumerate(self.kinds) if given is not None]

    @cached_property
    def kind(self) -> Positions:
        """Of each kernel, which of `kinds` launched it; -1 for none."""
        if self.operators is None or not len(self.operators):
            return np.full(len(self.took_ns), -1, np.intp)
        rows = self.operators.row
        return np.where(rows >= 0, self.operators.kind[rows], -1)

    @property
    def operator_names(self) -> tuple[list[str], Positions]:
        """Different names, and of each kernel that of the operator that launched it, or captured it; -1 for none."""
        codes: dict[str, int] = {}
        named = np.array([*(codes.setdefault(name, len(codes)) for name, _ in self.kinds), -1])[self.kind]
        if self.in_graphs is not None:
            row = self.in_graphs.row
            kinds = np.array([codes.setdefault(name, len(codes)) for name, _ in self.in_graphs.kinds] or [-1])
            named = np.where((named < 0) & (row >= 0), kinds[self.in_graphs.kind[row]], named)
        return list(codes), named

    @cached_property
    def _by_kind(self) -> RowsByKey:
        return RowsByKey.of(self.kind)

    def kernels_of(self, number: int) -> Positions:
        """The kernels that operators of one of `kinds` launched by themselves."""
        return self._by_kind.rows(number)

    @cached_property
    def has_inputs(self) -> NDArray[np.bool_]:
        """Which kernels have an operator of which it was recorded what it was given."""
        given = np.array([*(inputs is not None for _, inputs in self.kinds), False], np.bool_)  # the last is for -1
        mask: NDArray[np.bool_] = given[self.kind]
        return mask

    def by_inputs(self, which: NDArray[np.bool_]) -> Iterator[tuple[Inputs, Positions]]:
        """Some of the kernels by what their operators were given, where that was recorded."""
        places = np.flatnonzero(which)
        for number, here in RowsByKey.of(self.kind[places]):
            given = self.kinds[number][1] if number >= 0 else None
            if given is not None:
                yield given, places[here]

    def inside(self, name: str) -> NDArray[np.bool_]:
        """Which kernels were launched anywhere inside operators of a name."""
        numbers = [number for number, (other, _) in enumerate(self.kinds) if other == name]
        if self.operators is None or not numbers:
            return np.zeros(len(self.took_ns), np.bool_)
        mask: NDArray[np.bool_] = self.operators.around(is_among(self.operators.kind, numbers)) >= 0
        return mask

    @property
    def is_known(self) -> NDArray[np.bool_]:
        known: NDArray[np.bool_] = self.source != LightSource.UNKNOWN
        return known

    @property
    def share(self) -> Floats:
        """Of the time that it took; NaN where nothing is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self.took_ns > 0, self.light_ns / self.took_ns, 1.0)
        return np.where(self.is_known, share, np.nan)


def kernel_light(kernels: SteadyKernels) -> KernelLight:
    """Of a device's steady kernels."""
    count, gpu = len(kernels), kernels.gpu
    bandwidth: float | NotMeasured | None = None if gpu is None else gpu.bandwidth_bytes_per_s or peak_bytes_per_s(gpu)
    per_byte = 1e9 / bandwidth if isinstance(bandwidth, (int, float)) and bandwidth else np.nan
    light, low, high = (np.full(count, np.nan) for _ in range(3))
    source, roof = np.full(count, LightSource.UNKNOWN, np.int8), np.full(count, LightRoof.UNKNOWN, np.int8)

    def put(which: NDArray[np.bool_], figures: Sequence[Floats], limited: NDArray[Any], of: LightSource) -> None:
        taken = which & (source == LightSource.UNKNOWN) & ~np.isnan(figures[0])
        for column, figure in zip((light, low, high), figures, strict=True):
            column[taken] = figure[taken]
        source[taken], roof[taken] = of, limited[taken]

    operators, every = kernels.operators, np.ones(count, np.bool_)
    for launching in (operators, kernels.graph_operators):
        if launching is not None and len(launching):
            put(every, *_from_shapes(kernels, launching, per_byte), LightSource.SHAPES)
    if kernels.sampled_roofs is not None:
        sampled = (*kernels.sampled_roofs, kernels.took_ns, kernels.sampled_clock_hz)
        put(every, *_from_counters(kernels, per_byte, *sampled), LightSource.SAMPLES)
    if kernels.counted_roofs is not None:
        put(every, *_from_counters(kernels, per_byte, *kernels.counted_roofs), LightSource.NCU)
    # what kernels by element move, by the size of their launch
    texts, number = kernels.by_text
    of_block = np.array([0 if np.isnan(per_byte) else _bytes_of_block(text) for text in texts], np.int64)
    for block in sweep.parts(count):
        begin = block.start
        moved = kernels.blocks[block] * of_block[number[block]]
        left = np.flatnonzero((moved > 0) & (source[block] == LightSource.UNKNOWN))
        light[begin + left] = high[begin + left] = moved[left] * per_byte
        low[begin + left] = moved[left] * per_byte / 2
        source[begin + left], roof[begin + left] = LightSource.LAUNCH, LightRoof.MEMORY
    for column in (light, low, high):
        np.minimum(column, kernels.took_ns, out=column)
    return KernelLight(kernels.took_ns, light, low, high, source, roof, operators, kernels.graph_operators, per_byte)


def _bytes_of_block(name: str) -> int:
    """What a block moves of a kernel by element, or of one that goes through lists; 0 where the name does not tell."""
    known = element_kernel(name)
    return list_kernel(name) or (0 if known is None else known.elements_per_block * known.bytes_moved)


def _from_counters(
    kernels: SteadyKernels,
    per_byte: float,
    tensor: Floats,
    memory: Floats,
    issue: Floats,
    took: NDArray[Any],
    hertz: Floats,
) -> tuple[tuple[Floats, Floats, Floats], NDArray[np.int8]]:
    """Light by the nearest roof that has a counter. Percent are of the clock that there was, peaks of the GPU's own.

    `took` and `hertz` are of when they were counted: another run has another clock. Tensor cores are active for
    longer with instructions of older GPUs, what only pads is needed by nobody, and what is read again once.
    Arithmetic outside tensor cores has no counter: the slots in which instructions are issued are what it is at most,
    and of products in single or double precision they are about what it is.
    """
    pace = _clock_share(kernels, hertz)
    if kernels.gpu is not None and kernels.gpu.compute_capability == (9, 0):
        pace[kernels.named(is_before_hopper)] *= OLDER_PACE
    memory = memory * np.where(
        _leaves_cache(kernels, memory * took / per_byte), kernels.of_names(needed_share, float), 1.0
    )
    plain = kernels.multiply_in("fp32") | kernels.multiply_in("fp64")
    arithmetic = pace * np.where(plain, issue, tensor)
    share = np.where(np.isnan(memory), np.nan, np.fmax(arithmetic, memory))  # without its bytes nothing is known
    limited = np.where(memory > arithmetic, LightRoof.MEMORY, LightRoof.COMPUTE).astype(np.int8)
    share = np.where((share < UNSEEN) & (issue > ISSUES), np.nan, share)
    most = np.fmax(share, issue)
    needed = np.where(kernels.named(pads_channels), 0, took)
    point, high = (needed * np.clip(side, 0, 1) for side in (share, most))
    return (point, point, high), limited


def _leaves_cache(kernels: SteadyKernels, moved_bytes: Floats) -> NDArray[np.bool_]:
    """Whether the rows that a GPU's blocks go through at once, one each, are more than its cache holds."""
    gpu = kernels.gpu
    at_once = ROWS_AT_ONCE * (gpu.sm_count or 0) if gpu is not None else 0
    cache = (gpu.l2_bytes if gpu is not None else None) or CACHE_BYTES
    rows: NDArray[np.bool_] = moved_bytes / MOST_PASSES / np.maximum(kernels.blocks, 1) * at_once > cache
    return rows


ROWS_AT_ONCE, MOST_PASSES, CACHE_BYTES = 2, 4, 50 << 20
"""Of a multiprocessor with blocks of 1,024 threads; how often softmax goes through a row; and an H100's cache."""

UNSEEN, ISSUES = 0.1, 0.4
"""A kernel that reaches less of the roofs that are sampled, and issues more than that, works on one that is not. So
does one of a kind that is not known, whose inputs would take less of its time."""

OLDER_PACE: Final = 2 / 3
"""Of Hopper's peak, what its tensor cores do while they are active with instructions of the GPUs before. A loop of
`mma.sync` alone does 0.667 of it (H200), and so do FlashAttention 2's kernels by the operations that were counted;
loops of `wgmma` do 1.000, of any width."""

SHORT_NS: Final = 10_000

TENSOR_PER_CLOCK: Final = {(7, 0): 1024, (8, 0): 2048, (9, 0): 4096, (10, 0): 8192}
"""Operations in 16 bits that a multiprocessor's tensor cores do in a cycle, of GPUs for servers."""


def _clock_share(kernels: SteadyKernels, hertz: Floats) -> Floats:
    """The clock while kernels ran, of the one that the peak is given for; 1 where either is not known."""
    gpu = kernels.gpu
    per_clock = None if gpu is None or gpu.compute_capability is None else TENSOR_PER_CLOCK.get(gpu.compute_capability)
    peak = None if gpu is None else peak_flops(gpu, "fp16")
    if gpu is None or not per_clock or not gpu.sm_count or isinstance(peak, NotMeasured) or not peak:
        return np.ones(len(hertz))
    return np.fmin(np.nan_to_num(hertz * per_clock * gpu.sm_count / peak, nan=1.0), 1.0)


def _from_shapes(
    kernels: SteadyKernels, operators: LaunchingOperators | GraphOperators, per_byte: float
) -> tuple[tuple[Floats, Floats, Floats], NDArray[np.int8]]:
    """Light by what operators were given, with its bounds, and which roof."""
    kinds, seen = operators.kinds, outputs_of(operators.kinds)
    is_matrix, by_bytes = kernels.of_families(MATRIX_FAMILIES), kernels.of_families(NEVER_MATRIX)
    counts = [count_of(name, given, seen) for name, given in kinds]
    # of each kernel, or of a matrix kernel of an operator that is not counted, the nearest around it that is
    around = operators.around(np.array([count is not None for count in counts], np.bool_)[operators.kind])
    rows = np.where(is_matrix & (around >= 0), around, operators.row)
    kind = np.where(rows < 0, -1, operators.kind[rows])
    mine = kind >= 0
    widest, types = np.zeros(len(kinds), np.int64), np.zeros((len(kinds), len(SINGLE)), np.bool_)
    np.maximum.at(widest, kind[mine], kernels.of_names(list_element_bytes)[mine])
    for place, single in enumerate(SINGLE):
        types[kind[mine & kernels.multiply_in(single)], place] = True
    # of each kind of operator: what one takes at its roof and at least, which roof, and whether its arithmetic counts
    whole, least = np.full((2, len(kinds)), np.nan)
    roof = np.full(len(kinds), LightRoof.UNKNOWN, np.int8)
    is_product, in_one_pass, has_matrix = np.zeros((3, len(kinds)), np.bool_)
    has_matrix[kind[mine & is_matrix]] = True
    for number in distinct(kind[mine]).tolist():
        (name, given), count = kinds[number], counts[number]
        in_one_pass[number] = goes_once(name)
        if count is not None:
            is_product[number] = True
            whole[number], roof[number] = product_at_roof_ns(kernels.gpu, count, types[number], per_byte)
            least[number] = whole[number] * (MOST_BOUND if count.is_bound else 1.0)
        elif given is not None and (moved := moved_bytes(name, given, int(widest[number]) or None)) is not None:
            whole[number], least[number], roof[number] = moved * per_byte, moved * per_byte / 2, LightRoof.MEMORY
    does_it = mine & np.where(is_product[kind], is_matrix | ~has_matrix[kind], by_bytes | ~is_matrix)
    in_one = np.bincount(rows[does_it], kernels.took_ns[does_it], len(operators))
    part = np.where(does_it, kernels.took_ns / np.maximum(in_one[rows], 1), 0.0)
    is_told = mine & (does_it | is_product[kind])
    figures = np.where(is_told, np.stack([whole[kind], least[kind], whole[kind]]) * part, np.nan)
    # what may go through its tensors more often: how much more is not known
    is_open = does_it & ~is_product[kind] & ~in_one_pass[kind] & ~kernels.of_families(ONE_PASS)
    figures[2] = np.where(is_open & ~np.isnan(figures[0]), kernels.took_ns, figures[2])
    is_long = kernels.took_ns > SHORT_NS  # others mostly begin and end
    figures[:, is_open & ~by_bytes & is_long & ~(figures[0] >= UNSEEN * kernels.took_ns)] = np.nan
    roof_of = np.where(does_it, roof[kind], LightRoof.UNKNOWN)
    put_unrecorded(kernels, operators, rows, figures, roof_of, per_byte)
    figures[:, is_told & ~does_it] = 0.0  # they do something for a product that is not the product
    return (figures[0], figures[1], figures[2]), roof_of.astype(np.int8)


class LitTime(Struct, frozen=True):
    """Of some kernels, those of which light is known."""

    known_ns: int
    light_ns: int
    source: LightSource  # what most of it is known from

    @property
    def share(self) -> float:
        """Of what they took."""
        return self.light_ns / max(self.known_ns, 1)

    @property
    def beyond_ns(self) -> int:
        """What they took longer; what could be done without is part of it."""
        return self.known_ns - self.light_ns


def lit_times(
    kernels: SteadyKernels,
    places: NDArray[np.signedinteger],
    number: NDArray[np.signedinteger],
    count: int,
    part_ns: Ints,
) -> list[LitTime | None]:
    """Of `count` groups of kernels, by the number of each one's group; None where nothing is known of one's. Kernels
    are given by their places among the steady ones, each with the part of its time that counts."""
    light, counts, lit = kernels.once(kernel_light), np.zeros(count, np.int64), np.zeros(count)
    by_source = np.zeros(count * len(LightSource), np.int64)
    for block in sweep.parts(len(places)):
        known = np.flatnonzero(light.source[places[block]] != LightSource.UNKNOWN)
        place, mine, part = (column[block][known] for column in (places, number, part_ns))
        counts += np.bincount(mine, minlength=count)
        sweep.fold("sum", mine * len(LightSource) + light.source[place], part, by_source)
        np.add.at(lit, mine, np.nan_to_num(light.light_ns[place]) * part / np.maximum(kernels.took_ns[place], 1))
    amounts, lit_ns = by_source.reshape(count, len(LightSource)), np.rint(lit).astype(np.int64)
    figures = zip(*(column.tolist() for column in (counts, amounts.sum(1), lit_ns, amounts.argmax(1))), strict=True)
    return [LitTime(took_ns, lit_ns, LightSource(most)) if some else None for some, took_ns, lit_ns, most in figures]
