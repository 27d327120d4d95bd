"""Which phase of which layer each activity belongs to: a device and what the user calls phases in, columns out.

An activity is of the phase that the innermost range around its launch is called after, on the thread of the launch, or
where that has none on any thread of its process (autograd launches from threads of its own). Where no range tells, as
for work in a graph, its own name does; a GEMM or an activation between a dispatch and a combine is the experts'; and
then the order of its stream (`layer_structure`). What the user says comes first, by ranges and then by names. A range
of a whole mixture tells only where nothing else does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.phases.layer_structure import PART_OF_GEMM, PART_OF_NORM, LayerStructure
from gpuledger.attribution.launch_places import place_of_work
from gpuledger.attribution.ranges import naming_ranges
from gpuledger.catalog.kernel_names import cut_label, without_ids
from gpuledger.catalog.range_names import (
    ATTENTION,
    COMBINE,
    DISPATCH,
    EXPERTS,
    MIXTURE,
    NORM,
    PHASES,
    is_backward,
    is_sum_of_product,
    is_unfused_norm,
    layer_of_range,
    phase_of_kernel,
    phase_of_range,
    plans_attention,
)
from gpuledger.ledger.activity import GRAPH_FAMILY, Activities
from gpuledger.ledger.device import Device
from gpuledger.ledger.launched_in import nothing_matches
from gpuledger.ledger.ranges import innermost
from gpuledger.regex import NamePattern
from gpuledger.trace.keys import by_row, distinct, group, same
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Rows

Numbers = NDArray[np.signedinteger]  # as narrow as they can be: there is one for each activity
NOWHERE: Final = -1  # the phase of work that is of none, and the layer of work that is in none
_NUMBER: Final = {name: number for number, name in enumerate(PHASES)}
_BETWEEN: Final = ("gemm", "activation")  # families of kernels that are the experts' between a dispatch and a combine


class ToldBy(IntEnum):
    """What says which phase an activity is of; the first that does is taken."""

    NOTHING = 0
    USER = 1
    RANGE = 2
    KERNEL = 3
    ORDER = 4


class WorkPhases(Struct, frozen=True, eq=False):
    """Columns for the activities of one GPU, in their order."""

    phases: tuple[str, ...]  # those that occur, in the order of a layer, the user's own first
    phase: Numbers  # position in `phases`; NOWHERE for none
    told_by: NDArray[np.int8]
    instance: Numbers
    """The layer's range that the launch lies in, as a number that no other layer of any step has; NOWHERE for none."""
    layer: Numbers  # that layer's own number; NOWHERE for none
    rank: Numbers
    """Which rank's it is, of those that share the GPU: a process, or a stream where several run layers side by side."""


Asked = Sequence[tuple[str, str]]  # phases of the user's own: name and regular expression


def work_phases(trace: Trace, device: Device, asked: Asked = (), own: Activities | None = None) -> WorkPhases:
    """The phase and the layer of everything that one GPU did; `own`: of some of it, in its order."""
    own = device.work.of(device.gpu) if own is None else own
    ranges = naming_ranges(trace, "push_pop", "start_end", "op")
    names = tuple(dict.fromkeys((*(name for name, _ in asked), *PHASES)))
    number = {name: position for position, name in enumerate(names)}
    patterns = [(number[name], NamePattern(pattern, re.IGNORECASE)) for name, pattern in asked]

    def by_user(text: str) -> int:
        return next((position for position, pattern in patterns if pattern.search(text)), NOWHERE)

    launches = _LaunchRanges(trace, device, own, ranges)
    phase, told_by = np.full(len(own), NOWHERE, np.int16), np.zeros(len(own), np.int8)

    def settle(said: Numbers, source: ToldBy) -> None:
        fresh = (phase == NOWHERE) & (said != NOWHERE)
        phase[fresh], told_by[fresh] = said[fresh], source

    if patterns:
        _refuse_what_matches_nothing(trace, device.work, ranges, asked)
        settle(launches.around(by_user, with_ids=True)[1], ToldBy.USER)
        settle(trace.strings.each(own.name, by_user), ToldBy.USER)
    _, ranged = launches.around(lambda text: number.get(phase_of_range(text), NOWHERE))
    settle(np.where(ranged == number[MIXTURE], NOWHERE, ranged), ToldBy.RANGE)
    told, numbers = _by_kernel(trace, own), np.array([*(number[name] for name in PHASES), NOWHERE])
    settle(numbers[told], ToldBy.KERNEL)
    settle(_between(own, phase, *(number[name] for name in (DISPATCH, EXPERTS, COMBINE))), ToldBy.KERNEL)
    instance, layer = launches.around(layer_of_range)
    rank = by_row(lambda pid: group(pid)[1].astype(np.int32), own.pid)
    if (phase == NOWHERE).any():
        structure = _by_order(trace, own, told)
        settle(numbers[structure[0]], ToldBy.ORDER)
        if (layer == NOWHERE).all():
            instance, layer = structure[1:]
            rank = _with_streams(own, rank, instance)
    if (phase == number[ATTENTION]).any():  # else batch norms of images
        norms = np.array([*(number[NORM] if name == "norm" else NOWHERE for name in own.families), NOWHERE])
        settle(norms[own.family], ToldBy.KERNEL)
    settle(ranged, ToldBy.RANGE)
    used = [position for position in range(len(names)) if (phase == position).any()]
    place = np.array([*(used.index(at) if at in used else NOWHERE for at in range(len(names))), NOWHERE], np.int16)
    return WorkPhases(tuple(names[position] for position in used), place[phase], told_by, instance, layer, rank)


class _LaunchRanges:
    """The calls that launched a GPU's activities, and the ranges around them."""

    def __init__(self, trace: Trace, device: Device, own: Activities, ranges: Rows) -> None:
        self._trace, self._own = trace, own
        used = distinct(own.launch)  # a graph has one call
        used = used[used >= 0]
        self._number = np.full(len(device.host.calls) + 1, -1, np.int32)  # the last is for work without a call
        self._number[used] = np.arange(len(used))
        self._calls, self._used = device.host.calls, used.astype(np.int32)
        starts = self._calls["start_ns"][self._used]
        begins, ends = starts.min(initial=np.iinfo(np.int64).max), starts.max(initial=0)
        self._ranges = ranges.where((ranges["end_ns"] >= begins) & (ranges["start_ns"] <= ends))
        self._place = place_of_work(trace, own)

    def around(self, says: Callable[[str], int], *, with_ids: bool = False) -> tuple[Numbers, Numbers]:
        """For each activity the innermost range around its launch that says anything, and what; NOWHERE for none.

        Of work in a graph that a second file names, the innermost of those names; a range for each of its launches.
        """
        strings, codes = self._trace.strings, self._ranges.codes("name")
        bare = strings.rewritten(codes, without_ids)
        said = strings.each(codes, says) if with_ids else bare.strings.each(bare.codes, says)
        said = np.append(said, NOWHERE).astype(np.int32)
        telling, around = np.flatnonzero(said != NOWHERE), np.full(len(self._own), NOWHERE, np.int32)
        if len(telling) and len(self._used):
            ranges, calls = self._ranges.at(telling), self._calls
            inner = innermost(ranges, calls, at=self._used)
            alone = np.flatnonzero(inner < 0)
            if len(alone):
                ranges, calls = (rows.replaced("tid", same(0, len(rows))) for rows in (ranges, calls))
                inner[alone] = innermost(ranges, calls, at=self._used[alone])
            of_call = np.append(np.append(telling, NOWHERE)[inner], NOWHERE).astype(np.int32)
            around = of_call[self._number[self._own.launch]]
        told = said[around]
        if self._trace.places is not None:
            paths = [[says(name) for name in reversed(place.path)] for place in self._trace.places.places]
            innermost_of = [next((what for what in path if what != NOWHERE), NOWHERE) for path in paths]
            of_place = np.array([*innermost_of, NOWHERE], np.int32)[self._place]
            placed = np.flatnonzero(of_place != NOWHERE)
            told[placed] = of_place[placed]
            around[placed] = len(said) + group(self._own.launch[placed], of_place[placed])[1]
        return around, told


def _by_kernel(trace: Trace, own: Activities) -> NDArray[np.int16]:
    """For each activity what its own name says, in PHASES; kernels of one name are of one family."""
    first, kind = group(own.name)
    said = np.full(len(first), NOWHERE, np.int16)
    for place, (code, family) in enumerate(zip(own.name[first].tolist(), own.family[first].tolist(), strict=True)):
        if family >= 0 and (text := trace.strings.text(code)):
            said[place] = _NUMBER.get(phase_of_kernel(text, own.families[family]), NOWHERE)
    return said[kind]


def _by_order(trace: Trace, own: Activities, told: NDArray[np.int16]) -> tuple[Numbers, Numbers, Numbers]:
    """For each activity the phase, in PHASES, the layer's instance and its number that the order of its stream says."""
    phase, instance, layer = np.full((3, len(own)), NOWHERE, np.int32)
    parts = (is_unfused_norm, is_sum_of_product, plans_attention)  # kernels that are only a part
    families = (*own.families, PART_OF_NORM, PART_OF_GEMM, "")  # what plans attention is of no kind

    def part_of(name: str) -> int:
        return next((number for number, is_part in enumerate(parts) if is_part(name)), NOWHERE)

    part, back = (trace.strings.each(own.name, says, np.int8) for says in (part_of, is_backward))
    family = np.where(part < 0, own.family, np.int16(len(own.families)) + part)
    first, stream = group(own.pid, own.stream)
    edges, layers = np.cumsum(np.bincount(stream, minlength=len(first)))[:-1], 0
    order = np.argsort(stream.astype(np.int32), kind="stable")
    del part, stream
    for rows in np.split(order, edges):
        found = LayerStructure(families, family[rows], told[rows], back[rows] > 0)
        phase[rows] = found.phase
        instance[rows] = np.where(found.instance == NOWHERE, NOWHERE, found.instance + layers)
        layer[rows], layers = found.layer, int(instance.max(initial=NOWHERE)) + 1
    whole_graph = own.family == own.families.index(GRAPH_FAMILY)  # may hold anything
    return np.where(whole_graph, NOWHERE, phase), instance, layer


def _with_streams(own: Activities, rank: Numbers, instance: Numbers) -> Numbers:
    """Ranks, where those streams of a process that have layers are one each if there are several."""
    layered = np.flatnonzero(instance != NOWHERE)
    first, stream = group(rank[layered], own.stream[layered])
    side_by_side = np.bincount(rank[layered[first]], minlength=1)[rank[layered]] > 1
    apart = rank.copy()
    apart[layered[side_by_side]] = rank.max(initial=0) + 1 + stream[side_by_side]
    return apart


def _between(own: Activities, phase: Numbers, dispatch: int, experts: int, combine: int) -> Ints:
    """GEMMs and activations of no phase after a dispatch, or the experts, and before a combine, or the experts."""
    said = np.full(len(own), NOWHERE)
    if not ((phase == dispatch).any() and (phase == combine).any()):
        return said
    known = np.flatnonzero(phase != NOWHERE)
    after = np.searchsorted(known, np.arange(len(own)))
    before = np.append(NOWHERE, phase[known])[after]
    behind = np.append(phase[known], NOWHERE)[after]
    of_family = np.isin(own.family, [number for number, name in enumerate(own.families) if name in _BETWEEN])
    inside = np.isin(before, (dispatch, experts)) & np.isin(behind, (combine, experts))
    said[of_family & inside & (phase == NOWHERE)] = experts
    return said


def _refuse_what_matches_nothing(trace: Trace, work: Activities, ranges: Rows, asked: Asked) -> None:
    """What matches on one GPU need not on another; what matches nowhere is a mistake."""
    texts = {
        trace.strings.text(code) or ""
        for codes in (ranges.codes("name"), work.name)
        for code in trace.strings.distinct(codes)
    }
    for _, pattern in asked:
        compiled = NamePattern(pattern, re.IGNORECASE)
        if not any(map(compiled.search, texts)):
            raise nothing_matches(pattern, "range or kernel name", sorted(texts), cut_label)
