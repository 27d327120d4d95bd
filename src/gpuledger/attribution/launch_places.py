"""Where in the program each GPU activity was launched: the NVTX ranges around its launch, equal layers as one.

`layer0 > mlp` and `layer7 > mlp` are one place, `layer# > mlp`. Where no range tells layers apart, the sequence of
kernels may: a stretch that repeats inside every step is a layer, and a place is a position in it. Work inside graphs
has the places that a second file names, below the ranges around the graph's launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.attribution.ranges import NamePaths
from gpuledger.catalog.kernel_names import without_numbers
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import calls_in_ranges, innermost, spans_of_time, thread
from gpuledger.regex import NamePattern
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group, same, take
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, parents
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import NO_TEXT


def place_of_work(trace: Trace, work: Activities) -> Positions:
    """For each activity the position of its place in the trace's places; -1 for none."""
    if trace.places is None:
        return same(-1, len(work), np.intp)
    place = np.full(len(work), -1, np.intp)
    is_copy = work.state == State.COPY
    is_kernel = ~is_copy & (work.name != NO_TEXT)  # what has no name is a whole graph
    place[is_copy] = trace.places.of_copy[work.row[is_copy]]
    place[is_kernel] = trace.places.of_kernel[work.row[is_kernel]]
    return place


class PlacedPaths(Struct, frozen=True, eq=False):
    """Paths of names, those of places included."""

    paths: NamePaths
    names: list[str]  # what the numbers of names mean
    of_base: Positions  # for each path that there was before its own number now; -1 at the end, for path -1
    of_work: Positions  # for each activity its path: that of its place, or of what is around its launch

    def launches(self, call: Positions) -> Positions:
        """For each path that is only a place, how many launches ran anything there or inside; 0 for the others."""
        is_added = np.ones(len(self.paths) + 1, np.bool_)
        is_added[self.of_base] = False
        path, pairs = self.of_work, [(np.empty(0, np.intp), np.empty(0, np.intp))]
        while len(chosen := np.flatnonzero(is_added[path])):
            path, call = path[chosen], call[chosen]
            once, _ = group(path, call)
            pairs.append((path[once], call[once]))
            path, call = self.paths.parent[path[once]], call[once]
        held, by = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return np.bincount(held[group(held, by)[0]], minlength=len(self.paths))


def placed_paths(
    trace: Trace,
    base: NamePaths,
    names: Sequence[str],
    under: NDArray[np.signedinteger],
    place: Positions,
    called: Callable[[str], str] = str,
) -> PlacedPaths:
    """The paths `base`, and below them those of the places: of each activity the path `under` which it was launched."""
    number_of = {name: number for number, name in enumerate(names)}
    parent, name_of, known = base.parent.tolist(), base.name.tolist(), dict[tuple[int, int], int]()

    def member(above: int, name: str) -> int:
        key = (above, number_of.setdefault(name, len(number_of)))
        if key not in known:
            known[key] = len(parent)
            parent.append(above)
            name_of.append(key[1])
        return known[key]

    places = () if trace.places is None else trace.places.places
    placed = np.flatnonzero(place >= 0)
    first, number = group(under[placed], place[placed])
    leaves = []
    for above, chosen in zip(under[placed[first]].tolist(), place[placed[first]].tolist(), strict=True):
        for name in places[chosen].path:
            above = member(above, called(name))
        leaves.append(above)
    paths = NamePaths(np.array(parent, np.intp), np.array(name_of, np.int64))
    of_base = np.append(paths.of_row[: len(base)], -1)
    of_work = of_base[under]
    of_work[placed] = paths.of_row[np.array(leaves, np.intp)][number]
    return PlacedPaths(paths, list(number_of), of_base, of_work)


FEWEST_LAYERS: Final = 3  # a stretch that repeats less often is no layer


class LaunchPlaces(Struct, frozen=True):
    """The place of each activity that was asked about."""

    of: NDArray[np.signedinteger]  # for each activity a position in `names`
    names: tuple[tuple[str, ...], ...]
    """Ranges from the outermost in, numbers replaced by #; or one text that says where in a layer."""
    layers: int  # how many equal layers there are; 0 where none were found
    layered: tuple[bool, ...]  # for each name whether it lies in a layer


def places(trace: Trace, device: Device, chosen: Positions) -> LaunchPlaces:
    """Where these activities, positions in `device.work`, were launched."""
    by_range = _by_range(trace, device, chosen)
    return by_range if by_range.layers else _by_sequence(device, chosen, by_range)


def launched_inside(trace: Trace, device: Device, chosen: Positions, pattern: str) -> NDArray[np.bool_]:
    """Which of these activities were launched inside a range that matches, on the range's own thread."""
    ranges, wanted = spans_of_time(trace), NamePattern(pattern)
    matching = ranges.where(trace.strings.each(ranges.codes("name"), lambda name: bool(wanted.search(name))) > 0)
    call = device.work.launch[chosen]
    launched = np.flatnonzero(call >= 0)
    _, inner = calls_in_ranges(matching, device.host.calls.at(call[launched]))
    inside = np.zeros(len(chosen), np.bool_)
    inside[launched[inner]] = True
    if trace.places is not None:  # what a second file says of work inside graphs
        matches = [any(map(wanted.search, place.path)) for place in trace.places.places]
        inside |= np.array([*matches, False], np.bool_)[place_of_work(trace, device.work)[chosen]]
    return inside


def _by_range(trace: Trace, device: Device, chosen: Positions) -> LaunchPlaces:
    ranges = spans_of_time(trace)
    call = device.work.launch[chosen]
    launched = np.flatnonzero(call >= 0).astype(np.int32)
    call = call[launched].astype(np.int32)
    inner = np.full(len(chosen), -1, np.int32)
    inner[launched] = innermost(ranges, device.host.calls, at=call)
    texts, name_of = trace.strings.kinds(ranges.codes("name"), lambda text: text or "?")
    base = NamePaths(parents(ranges["start_ns"], ranges["end_ns"], thread(ranges)), name_of)
    place = take(place_of_work(trace, device.work), chosen)
    del call, launched
    first, number = group(inner, place)  # launches of one range are of one place
    placed = placed_paths(trace, base, texts, base.of_row[inner[first]], place[first])
    folded: dict[str, int] = {}
    fold = np.array([folded.setdefault(without_numbers(name), len(folded)) for name in placed.names], np.int64)
    kinds = list(folded)
    general = NamePaths(placed.paths.parent, fold[placed.paths.name])
    of_launch = general.of_row[placed.of_work]
    names_of = {-1: tuple[str, ...]()}
    for path, (above, name) in enumerate(zip(general.parent.tolist(), general.name.tolist(), strict=True)):
        names_of[path] = (*names_of[above], kinds[name])  # the outer come first
    used = distinct(of_launch).tolist()
    names = sorted(names_of[path] for path in used)
    position = {name: position for position, name in enumerate(names)}
    place_of_path = np.full(len(general) + 1, -1, np.int32)
    place_of_path[used] = [position[names_of[path]] for path in used]
    depth, layer, layers = _layer_depth(placed, fold, kinds)
    layered = tuple(depth >= 0 and len(name) > depth and name[depth] == layer for name in names)
    return LaunchPlaces(place_of_path[of_launch][number], tuple(names), layers, layered)


def _layer_depth(placed: PlacedPaths, fold: Ints, folded: Sequence[str]) -> tuple[int, str, int]:
    """At which depth ranges are numbered through, what they are called and how many there are; -1 for none. `fold` is
    for each name the one with # for its numbers. Of several the outermost, the most, the first to launch."""
    paths, launches = placed.paths, len(placed.of_work)
    first = np.full(len(paths) + 1, launches)  # the first launch under each path; the last is for path -1
    np.minimum.at(first, placed.of_work, np.arange(launches))
    first = paths.least_inner(first[:-1])
    numbered = np.array(
        [folded[kind] != name for kind, name in zip(fold.tolist(), placed.names, strict=True)], np.bool_
    )
    rows = np.flatnonzero((first < launches) & numbered[paths.name])
    depth, kind = paths.depth[rows], fold[paths.name[rows]]
    once, _ = group(depth, kind, paths.name[rows])
    of_kind, number = group(depth, kind)
    count = np.bincount(number[once], minlength=len(of_kind))
    begins = sweep.fold("least", number, first[rows], np.full(len(of_kind), launches))
    enough = np.flatnonzero(count >= FEWEST_LAYERS)
    if not len(enough):
        return -1, "", 0
    best = enough[np.lexsort((begins[enough], -count[enough], depth[of_kind[enough]]))[0]]
    return int(depth[of_kind[best]]), folded[int(kind[of_kind[best]])], int(count[best])


def _by_sequence(device: Device, chosen: Positions, without: LaunchPlaces) -> LaunchPlaces:
    """Layers by what repeats inside the steps, where every step is the same sequence of kernels."""
    if device.steps is None:
        return without
    step = np.searchsorted(device.steps.edges_ns, device.work.start_ns[chosen], side="right") - 1
    counts = np.bincount(step[step >= 0])
    usual = int(median(counts[counts > 0])) if counts.any() else 0
    begins = group(step)[0]
    first = dict(zip(step[begins].tolist(), begins.tolist(), strict=True))
    model_step = next((number for number, count in enumerate(counts.tolist()) if count == usual), None)
    if model_step is None or usual < FEWEST_LAYERS:
        return without
    names = device.work.name[chosen]
    model = names[first[model_step] : first[model_step] + usual]
    repeats = longest_repeat(model)
    if repeats is None:
        return without
    start, period, count = repeats
    slot = np.full(usual, -1)
    slot[start : start + period * count] = np.arange(period * count) % period
    of = np.zeros(len(chosen), np.int64)
    for number, begin in first.items():
        if number >= 0 and np.array_equal(names[begin : begin + usual], model) and counts[number] == usual:
            of[begin : begin + usual] = slot + 1
    places_in_layer = tuple((f"#{position + 1} of {period}",) for position in range(period))
    return LaunchPlaces(of, ((), *places_in_layer), count, (False, *(True for _ in range(period))))


def longest_repeat(names: NDArray[np.signedinteger]) -> tuple[int, int, int] | None:
    """The stretch of a sequence that repeats the most of it: where it begins, its length, how often it comes."""
    best: tuple[int, int, int] | None = None
    for period in range(2, len(names) // FEWEST_LAYERS + 1):
        edges = np.flatnonzero(np.diff(np.concatenate(([False], names[period:] == names[:-period], [False]))))
        begins, lengths = edges[::2], edges[1::2] - edges[::2]
        if not len(lengths):
            continue
        longest = int(lengths.argmax())
        count = int(lengths[longest]) // period + 1
        if count >= FEWEST_LAYERS and (best is None or count * period > best[1] * best[2]):
            best = (int(begins[longest]), period, count)
    return best
