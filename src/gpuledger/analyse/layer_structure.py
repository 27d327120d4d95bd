"""Phases of a transformer's layers from the order of its kernels: one stream's families in, phases and layers out.

Where no range tells, as in a CUDA graph, order does. A layer is an attention core between its projections, a norm, and
a feed-forward part up to the next norm; layers repeat. So: a core is a fused attention kernel, or a softmax between two
GEMMs that no choice of experts follows. What follows a core up to the next norm is its output projection. From that
norm to the first one after the last activation or expert is the feed-forward part: a mixture where it has experts, in
the order router, dispatch, experts, combine. What comes after belongs to the next core; how many kernels, other layers
say. What lies between the last norm of a step and the first of the next is the head, and what prepares a step.
"""

from __future__ import annotations

from collections.abc import Callable
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
    NORM,
    ROUTER,
    SAMPLING_PHASE,
)

FEWEST_LAYERS: Final = 2
MOST_NORMS: Final = 8  # from a core to the next: a layer's own, those of queries, keys and latents, those around parts
REPEATS: Final = 0.5  # at least this share of cores comes as many kernels after its layer's norm as it usually is
_WAYS: Final = ("attention", "softmax", "norm", "gemm", "activation", "moe", "sort", "elementwise", "reduction")
(_ATTENTION, _SOFTMAX, _NORM, _GEMM, _ACTIVATION, _MIXTURE, _SORT, _ELEMENTWISE, _REDUCTION) = range(len(_WAYS))
_AFTER_CHOICE: Final = (_SOFTMAX, _SORT, _ELEMENTWISE, _REDUCTION)  # what normalises the weights of chosen experts


class LayerStructure:
    """What the order of one stream's kernels says; columns as long as the stream, None and -1 where it says nothing."""

    def __init__(self, families: tuple[str, ...], family: NDArray[np.signedinteger], told: list[str | None]) -> None:
        """`told`: the phase that each kernel tells by its own name, or None."""
        kinds = np.array([_WAYS.index(name) if name in _WAYS else -1 for name in (*families, "")])
        self._kind = kinds[family]
        self._told = told
        self.phase: list[str | None] = [None] * len(told)
        self.instance: NDArray[np.int32] = np.full(len(told), -1, np.int32)
        """The layer, counted over the whole stream."""
        self.layer: NDArray[np.int32] = np.full(len(told), -1, np.int32)
        """The layer's number in its step."""
        self._norms = np.flatnonzero(self._kind == _NORM)
        cores = self._cores()
        between = np.diff(np.searchsorted(self._norms, [begins for begins, _ in cores]))
        if len(cores) >= FEWEST_LAYERS and 0 < np.median(between) <= MOST_NORMS:
            self._find(cores)

    def _next(self, places: NDArray[np.intp], after: int) -> int:
        """The first of sorted places after one; the end where there is none."""
        at = int(np.searchsorted(places, after, "right"))
        return int(places[at]) if at < len(places) else len(self.phase)

    def _cores(self) -> list[tuple[int, int]]:
        """Where attention cores begin and end: attention kernels with no norm between them."""
        core = np.flatnonzero(self._kind == _ATTENTION)
        if not len(core):
            gemms, sorts = (np.flatnonzero(self._kind == kind) for kind in (_GEMM, _SORT))
            soft = np.flatnonzero(self._kind == _SOFTMAX).tolist()
            core = np.array([at for at in soft if self._next(gemms, at) < self._next(sorts, at)], np.intp)
        found: list[tuple[int, int]] = []
        for at in core.tolist():
            if found and self._next(self._norms, found[-1][1]) > at:
                found[-1] = (found[-1][0], at)
            else:
                found.append((at, at))
        return found

    def _find(self, cores: list[tuple[int, int]]) -> None:
        """Take the stream apart, core by core."""
        fed = np.flatnonzero(
            (self._kind == _ACTIVATION)
            | (self._kind == _MIXTURE)
            | np.array([phase in (EXPERTS, COMBINE) for phase in self._told])
        )
        whole, halves = len(self.phase), list[tuple[int, int]]()  # where each feed-forward part begins and ends: norms
        for (_, ends), (begins, _) in pairwise((*cores, (whole, whole))):
            first = self._next(self._norms, ends)
            last = int(np.searchsorted(fed, begins)) - 1
            inner = int(fed[last]) if last >= 0 and fed[last] > first else first
            halves.append((first, min(self._next(self._norms, inner), begins)))
        ahead = [begins - second for (_, second), (begins, _) in zip(halves, cores[1:], strict=False)]
        usual = max(set(ahead), key=ahead.count)
        if ahead.count(usual) < REPEATS * len(ahead):
            return
        number = -1
        for instance, ((begins, _), (first, second)) in enumerate(zip(cores, halves, strict=True)):
            before = halves[instance - 1][1] if instance else -1
            start = begins - usual
            if start < 0 or self._kind[start] != _NORM or start < before:
                start = before if instance else begins
            opens_step = start != before
            number = 0 if opens_step else number + 1
            if opens_step and instance:
                self._head(before, start)
            self._say(start, min(first, whole), lambda _: ATTENTION)
            self._feed_forward(first, second)
            self.instance[start:second], self.layer[start:second] = instance, number
            for norm in (start, first, second):
                self._norm(norm)
        self._head(halves[-1][1], whole)

    def _norm(self, at: int) -> None:
        """A norm between parts of layers, with the residual added before it, which many kernels do in one."""
        if at < len(self.phase) and self._kind[at] == _NORM:
            self.phase[at] = NORM
            if at and self._kind[at - 1] == _ELEMENTWISE:
                self.phase[at - 1] = NORM

    def _say(self, start: int, end: int, phase_at: Callable[[int], str]) -> None:
        for at in range(start, end):
            self.phase[at] = phase_at(at)

    def _feed_forward(self, first: int, second: int) -> None:
        """The part between two norms: a dense one, or a mixture's phases in their order."""
        if second >= len(self.phase) or self._kind[second] != _NORM:
            return None  # where it ends is not known
        inside = range(first + 1, second)
        experts = [at for at in inside if self._told[at] == EXPERTS or self._kind[at] == _MIXTURE]
        if not experts:
            return self._say(first + 1, second, lambda at: NORM if self._kind[at] == _NORM else DENSE)
        lowest = experts[0]
        highest = max(at for at in inside if self._kind[at] == _GEMM or at == experts[-1])
        choices = [at for at in inside if at < lowest and (self._kind[at] == _SORT or self._told[at] == ROUTER)]
        chosen = choices[0] if choices else first
        while chosen + 1 < lowest and (self._kind[chosen + 1] in _AFTER_CHOICE or self._told[chosen + 1] == ROUTER):
            chosen += 1

        def phase_at(at: int) -> str:
            if self._told[at] in (DISPATCH, COMBINE, ROUTER):
                return self._told[at] or ""
            return ROUTER if at <= chosen else DISPATCH if at < lowest else EXPERTS if at <= highest else COMBINE

        return self._say(first + 1, second, phase_at)

    def _head(self, norm: int, end: int) -> None:
        """What follows the last norm of a step: logits, and the choice of a token."""
        if norm >= end or self._kind[norm] != _NORM:
            return
        gemms = [at for at in range(norm + 1, end) if self._kind[at] == _GEMM]
        sampled = [at for at in range(norm + 1, end) if self._told[at] == SAMPLING_PHASE]
        if gemms:
            self._say(norm + 1, gemms[-1] + 1, lambda _: HEAD)
        if sampled:
            self._say(max(norm, *gemms[-1:]) + 1, sampled[-1] + 1, lambda _: SAMPLING_PHASE)
