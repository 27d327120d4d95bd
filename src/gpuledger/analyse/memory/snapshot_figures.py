"""All that a memory snapshot says of one GPU.

Who holds the peak, and whose gradients its blocks without a stack may be (backward runs on autograd's threads, which
record none); what grows step by step, allocated again and again by the same stack and never freed; what is allocated
only to be freed again, by the program, which torch's cache makes cheap, and by torch from CUDA; and what each
out-of-memory was made of: what was asked for, what was held by whom, what was free, and what would help.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.memory.allocations import (
    Holder,
    Lifetimes,
    MemoryLevels,
    MemoryMoment,
    NoPlace,
    holders,
    lifetimes,
    line_and_path,
    memory_levels,
    memory_moment,
    stacks_of,
    user_path,
)
from gpuledger.attribution.lines import frames_of_loop
from gpuledger.trace import sweep
from gpuledger.trace.measured import GpuMemory, MemoryAction, MemorySnapshot
from gpuledger.trace.spans import Ints, Span


class ShortLived(Struct, frozen=True):
    """Allocations of one path that were freed again within the history."""

    path: tuple[str, ...]
    size_bytes: int
    allocations: int
    median_life_ns: int | None  # None where torch noted no times


class SegmentChurn(Struct, frozen=True):
    """Segments that were taken from CUDA and given back, in the second half of the history."""

    taken: int
    given_back: int
    taken_bytes: int
    path: tuple[str, ...]  # whose allocations took the most bytes
    giving_path: tuple[str, ...]  # who gave back the most


def short_lived(
    snapshot: MemorySnapshot, memory: GpuMemory, lives: Lifetimes, most: int = 10
) -> tuple[ShortLived, ...]:
    """By path, the most bytes first."""
    rows = np.flatnonzero((lives.born >= 0) & (lives.gone < lives.events))
    if not len(rows):
        return ()
    stacks, number = np.unique(lives.stack[rows], return_inverse=True)
    size, count = sweep.sums(number, lives.size_bytes[rows], len(stacks)), np.bincount(number)
    time_ns = memory.history.time_ns
    has_times = bool(len(time_ns)) and int(time_ns[0]) >= 0
    by_path: dict[tuple[str, ...], list[int]] = {}
    for place in np.argsort(-size, kind="stable")[: 4 * most].tolist():
        by_path.setdefault(user_path(snapshot, int(stacks[place])), []).append(place)
    churned = []
    for path, places in by_path.items():
        mine = rows[np.isin(number, places)]
        life = int(np.median(time_ns[lives.gone[mine]] - time_ns[lives.born[mine]])) if has_times else None
        churned.append(ShortLived(path, int(size[places].sum()), int(count[places].sum()), life))
    return tuple(sorted(churned, key=lambda churn: (-churn.size_bytes, churn.path)))[:most]


def segment_churn(snapshot: MemorySnapshot, memory: GpuMemory) -> SegmentChurn:
    """Of the second half: warm-up is over."""
    history, half = memory.history, len(memory.history) // 2
    taken = history.at(MemoryAction.SEGMENT_ALLOC, MemoryAction.SEGMENT_MAP)
    given = history.at(MemoryAction.SEGMENT_FREE, MemoryAction.SEGMENT_UNMAP)
    taken, given = taken[taken >= half], given[given >= half]

    def most(rows: NDArray[np.intp]) -> tuple[str, ...]:
        if not len(rows):
            return ()
        stacks, number = np.unique(history.stack[rows], return_inverse=True)
        sums = sweep.sums(number, history.size_bytes[rows], len(stacks))
        return user_path(snapshot, int(stacks[int(sums.argmax())]))

    return SegmentChurn(len(taken), len(given), int(history.size_bytes[taken].sum()), most(taken), most(given))


LEAST_BYTES: Final = 1 << 20  # smaller blocks are of a few common sizes
MOST_SIZES: Final = 16  # so many are looked for, those with the most bytes first


def likely_gradients(snapshot: MemorySnapshot, lives: Lifetimes, rows: NDArray[np.intp]) -> tuple[Holder, ...]:
    """The blocks without a stack among these by the function that alone allocates their size, the most bytes first."""
    size, stack = lives.size_bytes, lives.stack
    unnamed = rows[(stack[rows] < 0) & ~lives.is_early[rows] & (size[rows] >= LEAST_BYTES)]
    blocks_of: dict[tuple[str, ...], list[int]] = {}
    sizes, counts = np.unique(size[unnamed], return_counts=True)
    for row in np.argsort(-sizes * counts, kind="stable")[:MOST_SIZES].tolist():
        stacks, times = np.unique(stack[(size == sizes[row]) & (stack >= 0)], return_counts=True)
        paths: Counter[tuple[str, ...]] = Counter()
        for number, count in zip(stacks.tolist(), times.tolist(), strict=True):
            paths[user_path(snapshot, number)] += count
        del paths[()]
        functions = {path[0].rpartition(":")[0] or path[0] for path in paths}  # without the line: `function (file.py`
        if len(functions) == 1:
            [(most, _)] = paths.most_common(1)
            blocks_of.setdefault(most, []).extend([int(sizes[row])] * int(counts[row]))
    held = (Holder(path[0], path, sum(blocks), len(blocks)) for path, blocks in blocks_of.items())
    return tuple(sorted(held, key=lambda holder: (-holder.size_bytes, holder.path)))


LEAST_STEPS: Final = 5  # fewer steps after warm-up prove nothing
WARM_UP: Final = 2  # steps at the start that set up what stays: gradients, the optimizer's state
PARTS: Final = 10  # of a history without marks
MOST_STEPS_LEAK: Final = 0.8  # a stack that leaves something behind in this share of the steps leaks


class Leak(Struct, frozen=True):
    """One path of the user's functions whose allocations are never freed."""

    path: tuple[str, ...]
    size_bytes: int  # allocated after warm-up and never freed
    allocations: int
    steps: int  # in how many steps something was left behind


class Leaks(Struct, frozen=True):
    """All of one GPU's, the largest first."""

    leaks: tuple[Leak, ...]
    steps: int  # that were looked at, after warm-up
    step_name: str  # what marks a step; empty where parts of the history stand for steps

    @property
    def size_bytes(self) -> int:
        return sum(leak.size_bytes for leak in self.leaks)

    @property
    def bytes_per_step(self) -> int:
        return self.size_bytes // max(self.steps, 1)


def leaks(snapshot: MemorySnapshot, memory: GpuMemory, lives: Lifetimes, levels: MemoryLevels) -> Leaks:
    """Look for what survives of most steps.

    Where none are marked, two things tell a leak from one pass over layers or parameters, which leaves something behind
    in each part of a history as well: a program with steps comes back to lines that it had left, and memory grows by
    what leaks, where a new state that replaces an old one leaves it as it was.
    """
    name, edges = step_edges(snapshot, memory)
    is_marked = bool(name)
    edges = edges[WARM_UP:] if is_marked else edges
    steps = len(edges) - 1
    if steps < LEAST_STEPS:
        return Leaks((), max(steps, 0), name)
    step = np.searchsorted(edges, lives.born, side="right") - 1
    inside = (step >= 0) & (step < steps) & (lives.born >= 0)
    survives = lives.gone >= lives.events
    freed_bytes, all_bytes = (int(lives.size_bytes[chosen].sum()) for chosen in (inside & ~survives, inside))
    if not is_marked and 2 * freed_bytes < all_bytes:
        return Leaks((), steps, name)
    rows = np.flatnonzero(inside & survives)
    paths: dict[tuple[str, ...], int] = {}
    stacks, number = np.unique(lives.stack[rows], return_inverse=True)
    of_stack = [paths.setdefault(user_path(snapshot, stack), len(paths)) for stack in stacks.tolist()]
    number = np.array(of_stack, np.int64)[number]
    size, count = sweep.sums(number, lives.size_bytes[rows], len(paths)), np.bincount(number, minlength=len(paths))
    in_steps = np.bincount(np.unique(number * steps + step[rows]) // max(steps, 1), minlength=len(paths))
    lasting = [
        Leak(path, int(size[place]), int(count[place]), int(in_steps[place]))
        for path, place in paths.items()
        if in_steps[place] >= MOST_STEPS_LEAK * steps and path
    ]
    found = Leaks(tuple(sorted(lasting, key=lambda leak: (-leak.size_bytes, leak.path))), steps, name)
    if found.leaks and not is_marked:
        floors = [int(levels.allocated_bytes[edges[part] : edges[part + 2] + 1].min()) for part in (0, steps - 2)]
        born = lives.stack[inside][np.argsort(lives.born[inside], kind="stable")]
        if 2 * (floors[1] - floors[0]) < found.size_bytes or _returns(snapshot, born) < LEAST_STEPS:
            return Leaks((), steps, name)
    return found


def _returns(snapshot: MemorySnapshot, stacks: NDArray[np.int32]) -> int:
    """How often the program of these stacks, in their order, came to the line that it came to the most often."""
    kinds, number = np.unique(stacks, return_inverse=True)
    lines: dict[tuple[str, ...], int] = {(): 0}  # autograd's threads have no lines: they may stand between any
    of_kind = [lines.setdefault(frames_of_loop(snapshot.frames(stack)), len(lines)) for stack in kinds.tolist()]
    line = np.array(of_kind, np.int64)[number]
    line = line[line > 0]
    return int(np.bincount(line[np.append(True, line[1:] != line[:-1])[: len(line)]]).max(initial=0))


def step_edges(snapshot: MemorySnapshot, memory: GpuMemory) -> tuple[str, Ints]:
    """What marks a step, and the events at which one begins; the last edge ends the last step."""
    ranges, enough = snapshot.ranges, LEAST_STEPS + WARM_UP
    names = Counter(marked.name for marked in ranges if marked.gpu in (memory.gpu, -1))
    of_steps = {
        name: count
        for name, count in names.items()
        if name.startswith(("Optimizer.step", "ProfilerStep")) and count > enough
    }
    name, ends = "ProfilerStep", [marked.end_ns for marked in ranges if marked.name.startswith("ProfilerStep#")]
    if len(ends) <= enough and of_steps:
        name = max(of_steps, key=of_steps.__getitem__)
        ends = [marked.end_ns for marked in ranges if marked.name == name]
    if len(ends) <= enough:
        events = len(memory.history)
        return "", np.linspace(events // 2, events, PARTS + 1).astype(np.int64)
    return name, np.unique(np.searchsorted(memory.history.time_ns, np.sort(np.array(ends, np.int64)), side="left"))


class OomKind(Enum):
    """Why there was no room."""

    FRAGMENTED = "enough was free, in pieces that are too small"
    HELD = "what is held left no room"


class OutOfMemory(Struct, frozen=True):
    """One of them."""

    moment: int  # after which event
    path: tuple[str, ...]  # who asked
    request_bytes: int
    device_free_bytes: int | None  # what the GPU had left; None where torch did not note it
    layout: MemoryMoment
    held: tuple[Holder, ...]  # by stack, the most first; they sum to what was allocated

    @property
    def is_limited(self) -> bool:
        """Whether the GPU had room, so that a limit of the process was reached."""
        return self.device_free_bytes is not None and self.device_free_bytes >= self.request_bytes

    @property
    def _room_bytes(self) -> int:
        """What could be used if it were in one piece: what is stranded, and what the GPU has left."""
        left = 0 if self.is_limited or self.device_free_bytes is None else self.device_free_bytes
        return self.layout.stranded_bytes + left

    @property
    def kind(self) -> OomKind:
        """Fragmented where that is as much as was asked for."""
        return OomKind.FRAGMENTED if self._room_bytes >= self.request_bytes else OomKind.HELD

    @property
    def short_bytes(self) -> int:
        """How much less would have to be held, at least, if everything free could be used."""
        return max(self.request_bytes - self._room_bytes, 0)


def out_of_memories(
    snapshot: MemorySnapshot, memory: GpuMemory, lives: Lifetimes, most: int = 3
) -> tuple[OutOfMemory, ...]:
    """The last ones, in their order: a program that catches one may run into many."""
    history = memory.history
    events = history.at(MemoryAction.OOM).tolist()
    return tuple(
        OutOfMemory(
            event,
            user_path(snapshot, int(history.stack[event])),
            int(history.size_bytes[event]),
            int(history.device_free_bytes[event]) if history.device_free_bytes[event] >= 0 else None,
            memory_moment(memory, lives, event),
            holders(snapshot, lives, lives.living(event)),
        )
        for event in events[-most:]
    )


class SnapshotFigures(Struct, frozen=True, eq=False):
    """One GPU's."""

    gpu: int
    memory: GpuMemory
    lives: Lifetimes
    levels: MemoryLevels
    peak: MemoryMoment
    end: MemoryMoment
    peak_stacks: tuple[Holder, ...]
    peak_lines: tuple[Holder, ...]  # the same bytes by the line alone. Both sum to the peak.
    peak_gradients: tuple[Holder, ...]
    """Of what has no stack at the peak, the part that may be gradients of what some path allocates."""
    early_bytes: int  # allocated before the history began, nobody knows by whom
    leaks: Leaks
    short_lived: tuple[ShortLived, ...]
    segment_churn: SegmentChurn
    out_of_memories: tuple[OutOfMemory, ...]

    @property
    def has_history(self) -> bool:
        return len(self.memory.history) > 0

    @property
    def peak_bytes(self) -> int:
        return self.peak.allocated_bytes

    @property
    def peak_named(self) -> Holder | None:
        """The path that holds the most of the peak; None where no path is known."""
        return next((holder for holder in self.peak_stacks if holder.path), None)

    @property
    def reserved_peak_bytes(self) -> int:
        return int(self.levels.reserved_bytes.max())

    def instant_ns(self, moment: int) -> int | None:
        """When an event was; None where torch noted no times, or before the first."""
        times = self.memory.history.time_ns
        return int(times[moment]) if 0 <= moment < len(times) and times[moment] >= 0 else None

    @property
    def start_ns(self) -> int | None:
        return self.instant_ns(0)

    @property
    def history_span(self) -> Span | None:
        """When the history was; None where torch noted no times."""
        return None if self.start_ns is None else Span(self.start_ns, self.instant_ns(self.end.moment) or 1)

    def since_start_ns(self, moment: int) -> int | None:
        """How long after the history began an event was; 0 before the first."""
        instant, start = self.instant_ns(max(moment, 0)), self.start_ns
        return None if instant is None or start is None else instant - start


def snapshot_figures(snapshot: MemorySnapshot) -> tuple[SnapshotFigures, ...]:
    """Of each GPU."""
    figures = []
    for memory in snapshot.gpus:
        lives = lifetimes(memory)
        levels = memory_levels(memory, lives)
        at_peak = lives.living(levels.peak)
        figures.append(
            SnapshotFigures(
                memory.gpu,
                memory,
                lives,
                levels,
                memory_moment(memory, lives, levels.peak),
                memory_moment(memory, lives, len(memory.history) - 1),  # BEFORE where there is no event
                holders(snapshot, lives, at_peak),
                holders(snapshot, lives, at_peak, by_line=True),
                likely_gradients(snapshot, lives, at_peak),
                int(lives.size_bytes[lives.is_early & (lives.stack < 0)].sum()),
                leaks(snapshot, memory, lives, levels),
                short_lived(snapshot, memory, lives),
                segment_churn(snapshot, memory),
                out_of_memories(snapshot, memory, lives),
            )
        )
    return tuple(figures)


MOST_BANDS: Final = 8
STACKS_LOOKED_AT: Final = 64
"""Those with the most bytes over the whole curve; all others are one band."""


class MemoryBand(Struct, frozen=True, eq=False):
    """What one path of the user's functions holds in each part of a curve; its holder has the most of it."""

    holder: Holder
    held_bytes: Ints


class MemoryCurve(Struct, frozen=True, eq=False):
    """The most that was allocated and reserved in each of some parts of the history."""

    allocated_bytes: Ints
    reserved_bytes: Ints
    bands: tuple[MemoryBand, ...]  # who holds what is allocated, what is there at the end first; they sum to it


def memory_curve(
    snapshot: MemorySnapshot, figures: SnapshotFigures, start_ns: int, end_ns: int, bins: int = 400
) -> MemoryCurve:
    """Parts of equal time between two instants; outside of the history, levels are those of its ends."""
    times = figures.memory.history.time_ns
    edges = np.linspace(start_ns, max(end_ns, start_ns + 1), bins + 1).astype(np.int64)
    return _curve(snapshot, figures, np.searchsorted(times, edges, side="right"))


def memory_curve_by_event(snapshot: MemorySnapshot, figures: SnapshotFigures, bins: int = 400) -> MemoryCurve:
    """Parts with equally many events: what happens fast is as wide as what takes long."""
    events = len(figures.memory.history)
    return _curve(snapshot, figures, np.linspace(0, events, min(bins, max(events, 1)) + 1).astype(np.int64))


def _curve(snapshot: MemorySnapshot, figures: SnapshotFigures, edges: NDArray[np.integer]) -> MemoryCurve:
    """The most between positions in the levels, each with those at its ends."""
    parts, levels = list(pairwise(edges.tolist())), figures.levels
    most = np.array([begin + int(levels.allocated_bytes[begin : end + 1].argmax()) for begin, end in parts], np.int64)
    reserved = np.array([int(levels.reserved_bytes[begin : end + 1].max()) for begin, end in parts], np.int64)
    allocated = levels.allocated_bytes[most]
    return MemoryCurve(allocated, reserved, _bands(snapshot, figures.lives, most - 1, allocated))


def _bands(snapshot: MemorySnapshot, lives: Lifetimes, moments: Ints, allocated: Ints) -> tuple[MemoryBand, ...]:
    """What is allocated at these moments, by paths: the largest, and all others together."""
    first, last = (np.searchsorted(moments, event) for event in (lives.born, lives.gone))
    rows = np.flatnonzero(last > first)
    stacks, number = stacks_of(lives, rows)
    over_all = sweep.sums(number, lives.size_bytes[rows] * (last - first)[rows], len(stacks))
    places: dict[tuple[str | NoPlace, tuple[str, ...]], int] = {}
    place_of = np.full(len(stacks), -1)
    for stack in np.argsort(-over_all, kind="stable")[:STACKS_LOOKED_AT].tolist():
        place_of[stack] = places.setdefault(line_and_path(snapshot, int(stacks[stack])), len(places))
    place, change = place_of[number], np.zeros((len(places), len(moments) + 1), np.int64)
    rows, place = rows[place >= 0], place[place >= 0]
    np.add.at(change, (place, first[rows]), lives.size_bytes[rows])
    np.subtract.at(change, (place, last[rows]), lives.size_bytes[rows])
    held, count = change.cumsum(axis=1)[:, :-1], np.bincount(place, minlength=len(places))
    stays = sweep.sums(place, lives.size_bytes[rows] * (lives.gone[rows] == lives.events), len(places))
    largest = sorted(places.items(), key=lambda entry: -int(held[entry[1]].max()))[:MOST_BANDS]
    named = [
        MemoryBand(Holder(*name, int(held[row].max()), int(count[row])), held[row])
        for name, row in sorted(largest, key=lambda entry: -int(stays[entry[1]]))
    ]
    rest = allocated - sum(band.held_bytes for band in named)
    count_rest = len(lives) - sum(band.holder.allocations for band in named)
    others = Holder(NoPlace.REST, (), int(rest.max(initial=0)), count_rest)
    return (*named, *([MemoryBand(others, rest)] if rest.any() or not named else []))
