"""Phases of a transformer's layers from the order of its kernels: one stream's families in, phases and layers out.

Where no range tells, as in a CUDA graph, order does. A layer is an attention core between its projections, a norm, and
a feed-forward part up to the next norm; layers repeat. So: a core is a fused attention kernel, or a softmax between two
GEMMs with no norm and no choice of experts between them. What follows a core up to the next norm is its output
projection, and a feed-forward part too where that runs beside attention (two products more, and an activation).
From that norm on as many norms as in most layers lie in the feed-forward part: a mixture where experts are chosen, in
the order router, dispatch, experts, combine, a shared expert before or after. What comes after belongs to the next
core. More norms before a core than in the other layers are those of a step's end: there is the head, and what prepares
the next step; it counts where all steps have as many layers. In a backward pass all this is so from its end.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.range_names import (
    ATTENTION,
    COMBINE,
    DENSE,
    DISPATCH,
    EXPERTS,
    HEAD,
    MIXTURE,
    NORM,
    PHASES,
    ROUTER,
    SAMPLING_PHASE,
    SHARED,
)
from gpuledger.trace.keys import distinct, is_among

FEWEST_LAYERS: Final = 2
MOST_NORMS: Final = 8  # from a core to the next: a layer's own, those of queries, keys and latents, those around parts
REPEATS: Final = 0.5  # at least this share of cores has products around it, between norms
USUAL: Final = 0.25  # so many segments are as the usual one is: of two layers to a step, one comes after its end
_MOST_PRODUCTS: Final = 3  # of experts that are computed together: gate, up and down
PART_OF_NORM, PART_OF_GEMM = "part of a norm", "part of a gemm"
"""What stands for kernels that are only a part: an inverse root, and the sum of a product's parts."""
_KINDS: Final = (
    *("attention", "softmax", "norm", PART_OF_NORM, "gemm", PART_OF_GEMM, "activation", "moe", "sort"),
    *("elementwise", "reduction", "copy"),
)
(_CORE, _SOFTMAX, _NORM, _PART_OF_NORM, _GEMM, _SUM, _ACTIVATION, _MOE, _SORT, _ELEMENTWISE, _REDUCTION, _COPY) = range(
    len(_KINDS)
)
_AFTER_CHOICE: Final = (_SOFTMAX, _ELEMENTWISE, _REDUCTION)  # what normalises the weights of chosen experts
_NOTHING: Final = -1
_PHASE: Final = {name: number for number, name in enumerate(PHASES)}
_NORMS: Final = (_NORM, _PART_OF_NORM)
_IN_NORM: Final = (_ELEMENTWISE, _COPY)  # what a norm of several kernels is made of, besides its mean
_BEFORE_MEAN: Final = 2  # the residual added, and the squares
_MOST_AFTER_ROOT: Final = 3  # times the root, a cast, times the weight

Phases = NDArray[np.int16]
Bound = tuple[int, int]


class LayerStructure:
    """What the order of one stream's kernels says; columns as long as the stream, -1 where it says nothing."""

    def __init__(
        self,
        families: tuple[str, ...],
        family: NDArray[np.signedinteger],
        told: Phases,
        goes_back: NDArray[np.bool_],
    ) -> None:
        """`told`: what each kernel tells by its own name, in PHASES; `goes_back`: whether it is of a backward pass."""
        kinds = np.array([_KINDS.index(name) if name in _KINDS else _NOTHING for name in (*families, "")], np.int8)
        self._kind, self._told, self._goes_back = kinds[family], told, goes_back
        self.phase: Phases = np.full(len(told), _NOTHING, np.int16)
        self.instance, self.layer = np.full((2, len(told)), _NOTHING, np.int32)
        """The layer, counted over the whole stream, and its number in its step."""
        self._gemms = np.flatnonzero(self._kind == _GEMM)
        self._norm_rows = np.flatnonzero(is_among(self._kind, _NORMS))
        # several with next to nothing between them, as in a backward pass, or after a part and before one, are one norm
        work = np.cumsum(~is_among(self._kind, (*_NORMS, *_IN_NORM, _REDUCTION)))[self._norm_rows]
        opens = np.append(True, np.diff(work) > 0)[: len(work)]
        self._norms, self._norm_ends = self._norm_rows[opens], self._norm_rows[np.append(opens[1:], True)[: len(work)]]
        self._named: dict[tuple[bytes | int, ...], Phases] = {}
        cores = self._cores()
        between = np.diff(np.searchsorted(self._norms, [begins for begins, _ in cores]))
        if len(cores) >= FEWEST_LAYERS and 0 < np.median(between) <= MOST_NORMS:
            self._find(cores)
            self._widen_norms()

    def _next(self, places: NDArray[np.intp], after: int) -> int:
        """The first of sorted places after one; the end where there is none."""
        at = int(np.searchsorted(places, after, "right"))
        return int(places[at]) if at < len(places) else len(self.phase)

    def _cores(self) -> list[Bound]:
        """Where attention cores begin and end: attention kernels with no norm between them."""
        core = np.flatnonzero(self._kind == _CORE)
        if not len(core):
            core = np.flatnonzero(self._kind == _SOFTMAX)
            stops = np.flatnonzero(is_among(self._kind, (_NORM, _PART_OF_NORM, _SORT)))
            for way in (1, -1):  # on both sides a product comes before anything that no attention has
                sides = [np.sort(way * np.append(places, way * len(self._kind))) for places in (self._gemms, stops)]
                product, stop = (side[np.searchsorted(side, way * core)] for side in sides)
                core = core[product < stop]
        opens = np.diff(np.searchsorted(self._norms, core), prepend=_NOTHING) > 0
        ends = core[np.append(opens[1:], True)[: len(core)]]
        return list(zip(core[opens].tolist(), ends.tolist(), strict=True))

    def _find(self, cores: list[Bound]) -> None:
        halves = self._feed_forward_parts(cores)
        ahead = [(second, begins) for (_, second), (begins, _) in zip(halves, cores[1:], strict=False)]
        projected = [
            _count(self._gemms, bound) + _count(self._gemms, (ends, first)) > 0
            for bound, (_, ends), (first, _) in zip(ahead, cores[1:], halves[1:], strict=False)
        ]
        if np.mean(projected) < REPEATS:
            return
        norms = np.array([_count(self._norms, bound) for bound in ahead])
        usual = next((count for count in distinct(norms).tolist() if (norms == count).mean() >= USUAL), None)
        if usual is None:
            return
        own = [
            _count(self._norms, (min(self._next(self._gemms, start), core), core))
            for (start, core), count in zip(ahead, norms.tolist(), strict=True)
            if count == usual
        ]
        behind = max(set(own), key=own.count)  # norms of a core's own, after the first product
        back = self._goes_back[[begins for begins, _ in cores]]
        opened = np.flatnonzero((norms > usual) | np.diff(back)).tolist()
        lengths = np.diff([_NOTHING, *opened])
        layers = int(lengths[-1]) if len(opened) > 1 else 0
        is_regular = not layers or (
            bool((lengths[1:] == layers).all()) and lengths[0] <= layers
        )  # the first may be cut
        starts = [self._start(_NOTHING, cores[0][0], behind), *(second for second, _ in ahead)]
        for at in opened:
            starts[at + 1] = self._start(*ahead[at], behind)
        for begin, end in pairwise([0, *(at + 1 for at in opened), len(cores)]):
            skipped = max(layers - end, 0) if begin == 0 else 0
            for instance in range(begin, end):
                start, (first, second) = starts[instance], halves[instance]
                self._name(start, cores[instance][1], first, second)
                if is_regular:
                    place = instance - begin + skipped
                    named = start + np.flatnonzero(self.phase[start:second] != _NOTHING)
                    self.instance[named] = instance
                    self.layer[named] = (layers or end - begin) - 1 - place if back[instance] else place
            self._head(halves[end - 1][1], starts[end] if end < len(cores) else len(self.phase))

    def _start(self, after: int, core: int, behind: int) -> int:
        """The norm that a step's first layer begins with: as many come after it as in other layers; else the core."""
        place = int(np.searchsorted(self._norms, core)) - 1 - behind
        return int(self._norms[place]) if place >= 0 and self._norms[place] >= after else core

    def _feed_forward_parts(self, cores: list[Bound]) -> list[Bound]:
        """For each core the norm after its projection, and that after its feed-forward part; the same if beside it."""
        experts = is_among(self._told, (_PHASE[EXPERTS], _PHASE[COMBINE]))
        fed = np.flatnonzero((self._kind == _ACTIVATION) | (self._kind == _MOE) | experts)
        whole, norms = len(self.phase), np.append(self._norms, len(self.phase))
        firsts, spans, behind = list[int](), list[int](), (*(begins for begins, _ in cores[1:]), whole)
        for (_, ends), begins in zip(cores, behind, strict=True):
            first = int(np.searchsorted(self._norms, ends, "right"))
            last = int(fed[np.searchsorted(fed, begins) - 1]) if len(fed) and fed[0] < begins else _NOTHING
            is_beside = last < norms[first] and _count(self._gemms, (ends, last)) > 1
            inner = max(last, int(norms[first]))
            firsts.append(first)
            spans.append(0 if is_beside else int(np.searchsorted(self._norms, inner, "right")) - first)
        usual = max(set(spans), key=spans.count)
        seconds = [min(first + min(span, usual), len(norms) - 1) for first, span in zip(firsts, spans, strict=True)]
        return [
            (int(norms[first]), min(int(norms[second]), begins))
            for first, second, begins in zip(firsts, seconds, behind, strict=True)
        ]

    def _name(self, start: int, core: int, first: int, second: int) -> None:
        """The phases of one layer, from its first norm to the one after it; layers of equal kernels are named once."""
        end = self._after_norm(second)
        kind, told = self._kind[start:end], self._told[start:end]
        key = (kind.tobytes(), told.tobytes(), core - start, first - start, second - start)
        if key not in self._named:
            kinds, begins, ends = kind.tolist(), self._after_norm(first) - start, second - start
            phases = _attention(kinds[: first - start], core - start) + [NORM] * (begins - first + start)
            if begins < ends < len(kinds):
                phases += _feed_forward(kinds[begins:ends], told[begins:ends].tolist())
                phases += [NORM] * (len(kinds) - ends)
            phases += [""] * (len(kinds) - len(phases))
            self._named[key] = np.array([_PHASE.get(phase, _NOTHING) for phase in phases[: len(kinds)]], np.int16)
        self.phase[start:end] = self._named[key]

    def _after_norm(self, row: int) -> int:
        """Where what follows the norm begins that begins at a row; that row where none does."""
        place = int(np.searchsorted(self._norms, row))
        return int(self._norm_ends[place]) + 1 if place < len(self._norms) and self._norms[place] == row else row

    def _widen_norms(self) -> None:
        """With a norm between parts goes the residual added before it; one of several kernels is all of them."""
        norm, kind = _PHASE[NORM], self._kind
        named = self._norm_rows[self.phase[self._norm_rows] == norm]
        before = named[(named > 1) & (kind[named] == _NORM)] - 1
        sliced = before[(kind[before] == _COPY) & (kind[before - 1] == _ELEMENTWISE)]
        self.phase[np.concatenate((before[kind[before] == _ELEMENTWISE], sliced, sliced - 1))] = norm
        for root in named[kind[named] == _PART_OF_NORM].tolist():
            start, end, means, sums = root - 1, root + 1, 0, 0
            while start >= 0 and (kind[start] in _IN_NORM or (kind[start] == _REDUCTION and not means)):
                means += int(kind[start] == _REDUCTION)
                sums += int(means > 0 and kind[start] == _ELEMENTWISE)
                if sums > _BEFORE_MEAN:
                    break
                start -= 1
            while end < min(root + 1 + _MOST_AFTER_ROOT, len(kind)) and kind[end] in _IN_NORM:
                end += 1
            self.phase[start + 1 : end] = norm

    def _head(self, norm: int, end: int) -> None:
        """What follows the last norms of a step: logits, and the choice of a token."""
        if norm >= end or self._kind[norm] not in _NORMS:
            return
        begins = self._after_norm(norm)
        stops = np.flatnonzero(is_among(self._kind[begins:end], (_ACTIVATION, _MOE, _CORE, *_NORMS)))
        stop = begins + int(stops[0]) if len(stops) else end
        products = self._gemms[slice(*np.searchsorted(self._gemms, (begins, stop)))]
        if len(products):
            ends = int(products[-1]) + 1
            while ends < end and self._kind[ends] in (_SUM, _COPY):  # of logits
                ends += 1
            self.phase[begins:ends], begins = _PHASE[HEAD], ends
        sampled = np.flatnonzero(self._told[begins:end] == _PHASE[SAMPLING_PHASE])
        if len(sampled):
            self.phase[begins : begins + 1 + int(sampled[-1])] = _PHASE[SAMPLING_PHASE]


def _count(places: NDArray[np.intp], bound: Bound) -> int:
    """How many of sorted places lie from one on and before another."""
    begins, ends = np.searchsorted(places, bound)
    return int(ends - begins)


def _attention(kind: list[int], core: int) -> list[str]:
    """From a layer's first norm to the one after its projection; a feed-forward part beside attention comes last."""
    product = kind.index(_GEMM) if _GEMM in kind else core
    norms = 1 + max((at for at in range(min(product, core)) if kind[at] in _NORMS), default=_NOTHING)
    phases = [NORM] * norms + [ATTENTION] * (len(kind) - norms)
    products = [at for at in range(core, len(kind)) if kind[at] == _GEMM]
    if len(products) > 2 and _ACTIVATION in kind[products[1] :]:
        phases[products[1] :] = [DENSE] * (len(kind) - products[1])
    return phases


def _feed_forward(kind: list[int], told: list[int]) -> list[str]:
    """Between two norms: a dense part, or a mixture's phases in their order."""
    rows = range(len(kind))
    is_told = [number == _PHASE[EXPERTS] for number in told]
    grouped = [at for at in rows if is_told[at] or (at and is_told[at - 1] and kind[at] == _GEMM)]
    products = [at for at in rows if kind[at] == _GEMM or at in grouped]
    lowest = grouped[0] if grouped else len(kind)
    choices = [at for at in rows if at < lowest and (kind[at] == _SORT or told[at] == _PHASE[ROUTER])]
    if not products:
        return [""] * len(kind)  # as an optimizer's, after the last layer of a backward pass
    if not grouped and not (choices and products[-1] > choices[0]):
        return [NORM if what in _NORMS else DENSE for what in kind]
    chosen = choices[0] if choices else _NOTHING
    for kinds in ((_SORT,), _AFTER_CHOICE):  # a sort after that is of the rows that go to each expert
        while chosen + 1 < lowest and (kind[chosen + 1] in kinds or told[chosen + 1] == _PHASE[ROUTER]):
            chosen += 1
    shared = _shared_expert(kind, products, grouped, chosen) if grouped else set[int]()
    if not grouped:
        grouped = [at for at in products if at > chosen]
        if not 0 < len(grouped) <= _MOST_PRODUCTS or _ACTIVATION not in kind[grouped[0] : grouped[-1]]:
            return [ROUTER if at <= chosen else MIXTURE for at in rows]
    lowest, highest = grouped[0], max(at for at in products if at not in shared)
    named = [
        ROUTER if at <= chosen else DISPATCH if at < lowest else EXPERTS if at <= highest else COMBINE for at in rows
    ]
    return [SHARED if at in shared else named[at] for at in rows]


def _shared_expert(kind: list[int], products: list[int], grouped: list[int], chosen: int) -> set[int]:
    """What a shared expert runs: products that are no group's, with an activation between them."""
    shared = set[int]()
    for at, what in enumerate(kind):
        before, after = [row for row in products if row < at], [row for row in products if row > at]
        if what != _ACTIVATION or not before or not after or {before[-1], after[0]} & {*grouped}:
            continue
        start, end = before[-1], after[0]
        if start <= chosen < end:
            continue  # the choice lies between
        rest = [row for row in before[:-1] if row not in grouped and row not in shared]
        # gate and up apart: the product before is the other one, unless it is all that the router has
        if (
            rest
            and not any(what in (_SORT, _SOFTMAX, _ACTIVATION) for what in kind[rest[-1] : start])
            and (start > chosen or len(rest) > 1)
        ):
            start = rest[-1]
        while end + 1 < len(kind) and kind[end + 1] == _SUM:
            end += 1
        shared.update(range(start, end + 1))
    return shared.difference(grouped)
