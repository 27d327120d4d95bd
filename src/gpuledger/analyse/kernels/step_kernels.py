"""What ran on a GPU in a step: kernels in the order of execution, like ones together, their times summing to compute.

Kernels are alike if name, grid, block and place in the program are the same and their times are of one size. Where
kernels overlap, an instant belongs to the one that started first, as in the ledger. With Nsight Compute's report, which
profiled launch speaks for which of them, and how many are far below a peak.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from gpuledger.analyse.light.kernel_light import LitTime, lit_times
from gpuledger.analyse.light.steady_kernels import SteadyKernels
from gpuledger.analyse.roofline.judgement import FLOOR_NS, OTHER_SIZE, JudgedKernel, JudgedLaunch, saving, severity
from gpuledger.attribution.launch_places import launched_inside, places
from gpuledger.catalog.kernel_names import parse, without_numbers
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import Device
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, group, same
from gpuledger.trace.measured import Dim3
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints, shares_in_order
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Table

MOST_SHAPES: Final = 5_000
"""Kernels of more names and shapes are not all told apart by shape: sizes that vary by call are no line each."""

Key = tuple[str, Dim3, Dim3]  # what tells kernels apart: bare name, grid and block


class StepKernel(Struct, frozen=True):
    """Like kernels of the steady steps."""

    name: str
    bare: str
    grid: Dim3
    block: Dim3
    place: tuple[str, ...]
    in_layer: bool
    calls: int  # in all steady steps
    time_ns: int  # its own part of compute in all steady steps
    ran_ns: int  # how long all of them run, whatever runs beside them
    lit: LitTime | None = None
    """What they take at the GPU's roofs, of `time_ns`; None where that is not known, or was not asked for."""
    first: int = -1  # the first of them, as a position among the GPU's activities

    @property
    def mean_ns(self) -> int:
        return self.ran_ns // self.calls

    @property
    def key(self) -> Key:
        return self.bare, self.grid, self.block


class StepOverview(Struct, frozen=True, eq=False):
    """All of a GPU's compute kernels in the steady steps, in the order in which each is first launched."""

    entries: tuple[StepKernel, ...]
    sequence: tuple[int, ...]  # one step as positions in `entries`: the steady step with the usual number of kernels
    layers: int
    other_ns: int  # compute that is in no kernel: whole graphs whose kernels were not recorded
    launches: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    """Those of `sequence`, as positions among all activities."""

    @property
    def time_ns(self) -> int:
        return sum(kernel.time_ns for kernel in self.entries) + self.other_ns


def overview(
    trace: Trace, device: Device, scope: str | None = None, kernels: SteadyKernels | None = None
) -> StepOverview:
    """The kernels of one GPU's steady steps; with `scope`, those that were launched inside ranges that match it. With
    all of the device's steady `kernels`, also what they take at its roofs."""
    work = device.work
    chosen, own_ns, elsewhere_ns = _steady_compute(trace, device, scope)
    where = places(trace, device, chosen)
    rows, length = work.row_at(chosen), work.end_ns[chosen] - work.start_ns[chosen]
    bare, name_code = trace.strings.kinds(work.name[chosen], lambda name: parse(name).bare)
    name_code = name_code.astype(np.int32)
    launched = trace[Table.KERNELS].only("grid", "block").at(rows)
    grid, block = launched.stored("grid"), launched.stored("block")
    shape = group(*grid.T, *block.T)[1].astype(np.int32)
    known, alike = telling_shapes(name_code, shape)
    del rows, launched, shape
    number = by_size(group(alike, where.of)[1], length, device.step_count)
    del alike
    # numbered by the first of each: entries come in the order of execution
    first, by_key = group(number)
    number, first = np.argsort(np.argsort(first)).astype(np.int32)[by_key], np.sort(first)
    del by_key
    times, ran = (sweep.sums(number, amounts, len(first)) for amounts in (own_ns, length))
    shapes = (sides[first] * known[first, np.newaxis] for sides in (grid, block))
    columns = (name_code[first], *shapes, where.of[first], np.bincount(number), times, ran)
    names = [trace.strings.text(code) or "" for code in work.name[chosen[first]].tolist()]
    of_step, began = _one_step(device, chosen), chosen[first].tolist()
    sequence, launches = tuple(number[of_step].tolist()), chosen[of_step]
    del name_code, grid, block, known, length  # what follows holds as much again
    lit: list[LitTime | None] = [None] * len(first)
    if kernels is not None:
        lit = lit_times(kernels, kernels.places(chosen), number, len(first), own_ns)
    entries = tuple(
        StepKernel(name, bare[code], tuple(wide), tuple(deep), where.names[place], where.layered[place], *amounts)
        for name, code, wide, deep, place, *amounts in zip(
            names, *(column.tolist() for column in columns), lit, began, strict=True
        )
    )
    return StepOverview(entries, sequence, where.layers, elsewhere_ns, launches)


def _steady_compute(trace: Trace, device: Device, scope: str | None) -> tuple[Positions, Ints, int]:
    """Compute kernels that begin in the steady stretch, the part of each there that is its own, and what is of none.
    That is of those that began before it and reach into it."""
    work = device.work
    compute = work.on(device.gpu)
    compute = compute[work.state[compute] == State.COMPUTE]
    own_ns = device.steady_part_ns(*shares_in_order(work.start_ns[compute], work.end_ns[compute]))
    wanted = device.begins_steady(work.start_ns[compute]) & (work.name[compute] != NO_TEXT)
    if scope is not None:
        wanted[wanted] = launched_inside(trace, device, compute[wanted], scope)
    elsewhere_ns = int(own_ns[~wanted].sum()) if scope is None else 0
    return compute[wanted], own_ns[wanted], elsewhere_ns


def _one_step(device: Device, chosen: Positions) -> slice | Positions:
    """Which of the kernels are of the first step that has as many as is usual; without steps, all."""
    if device.steps is None or not len(chosen):
        return slice(None)
    step = np.searchsorted(device.steps.edges_ns, device.work.start_ns[chosen], side="right")
    counts = np.bincount(step)
    usual = np.sort(counts[counts > 0])[np.count_nonzero(counts) // 2]
    return np.flatnonzero(step == (counts == usual).argmax())


def telling_shapes(
    name: NDArray[np.signedinteger], shape: NDArray[np.signedinteger]
) -> tuple[NDArray[np.bool_], Positions]:
    """Where the shape of a launch tells it apart from others of its name, and a number for each name with it, in order.
    It does not for the names with the most shapes, where all together are too many."""
    first, alike = group(name, shape)
    if len(first) <= MOST_SHAPES:
        return same(1, len(name), np.bool_), alike
    del alike
    shapes = np.bincount(name[first])
    most_first = np.argsort(-shapes, kind="stable")
    left = len(first) - np.cumsum(np.maximum(shapes[most_first] - 1, 0))  # once so many names have one shape each
    varies = np.zeros(len(shapes), np.bool_)
    varies[most_first[: 1 + int(np.argmax(left <= max(MOST_SHAPES, left[-1])))]] = True
    known = ~varies[name]
    return known, group(name, np.where(known, shape, -1))[1]


def by_size(number: NDArray[np.signedinteger], length: Ints, steps: int) -> NDArray[np.signedinteger]:
    """Split groups whose times fall into classes far apart; a class that most steps do not have is no class."""
    if not len(number):
        return number
    longest = (1 << 62) // (int(number.max()) + 1)
    key = np.empty(len(number), np.int64)
    for begin in range(0, len(key), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        key[part] = number[part].astype(np.int64) * longest + np.clip(length[part], 0, longest - 1)
    ordered, bounds = np.sort(key), [np.zeros(1, np.intp)]
    for begin in range(1, len(ordered), _AT_ONCE):
        near = np.array(np.divmod(ordered[begin - 1 : begin + _AT_ONCE], longest))
        (above, least), (group_of, longer) = near[:, :-1], near[:, 1:]
        bounds.append(begin + np.flatnonzero((group_of != above) | (longer > OTHER_SIZE * np.maximum(least, 1))))
    first = np.concatenate(bounds)  # of each class
    bound, members = ordered[first], np.diff(first, append=len(ordered))
    del ordered
    group_of = bound // longest
    opens = np.append(True, group_of[1:] != group_of[:-1])
    size = np.bincount(number)[group_of]
    apart = ~opens & (2 * members >= steps) & (2 * (size - members) >= steps)
    if not apart.any():
        return number
    renumbered = np.where(apart, number.max() + np.cumsum(apart), group_of)
    of_class: NDArray[np.signedinteger] = renumbered[np.searchsorted(bound, key, side="right") - 1]
    return of_class


_AT_ONCE: Final = 1 << 18  # rows that are taken apart at a time

LEVELS: Final = ("order", "range", "shape", "size", "name", "function", "none")
"""How well a launch matches, the best first: name, shape and its place in the sequence; name, shape and NVTX range;
name and shape; the same, but it took so much longer or shorter that the problem must be another; the name in another
shape; the function with other template arguments; not at all."""

COVERED: Final = LEVELS[:3]  # a launch at one of these levels speaks for the kernel
FEWEST_IN_ORDER: Final = 4  # launches in a row that follow the timeline's sequence taken to be in order
MOST_PAIRS: Final = 4_000_000  # longer sequences are not laid over each other: it would take longer than it is worth

OTHER_PROBLEM: Final = 2.5
"""A launch that takes so many times longer or shorter is another problem: clocks and caches explain less."""

TELLING_NS: Final = 5_000  # shorter times do not tell problems apart

CANDIDATES: Final = ("order", "range", "shape", "name", "function")
"""Levels at which launches are looked for, the best first."""


class KernelMatch(Struct, frozen=True):
    """A kernel of the step, and the launch that speaks for it."""

    entry: StepKernel
    level: str
    launch: JudgedLaunch | None
    alike: tuple[JudgedLaunch, ...]  # all launches that match as well and took about as long
    share: float  # of the GPU's compute in the steady steps

    @property
    def covered(self) -> bool:
        return self.level in COVERED

    @property
    def headroom(self) -> float | NotMeasured:
        """How far the launch that speaks for the kernel is from what it could reach."""
        if self.launch is None or not self.covered:
            return NotMeasured("no profiled launch speaks for it")
        return self.launch.verdict.headroom

    @property
    def judged(self) -> JudgedKernel:
        """The launches that speak for it, as one kernel of its name and shape."""
        return JudgedKernel(self.entry.name, self.entry.grid, self.entry.block, self.alike)

    @property
    def saving_ns(self) -> int:
        """What reaching the nearest roof would save in all steady steps; 0 where nothing is known."""
        saved = saving(self.entry.time_ns, self.entry.calls, self.headroom)
        return 0 if isinstance(saved, NotMeasured) else saved

    @property
    def is_too_short(self) -> bool:
        """Whether a call takes no longer than starting and ending a kernel does, so that no roof is of use to it."""
        return 0 < self.entry.time_ns <= self.entry.calls * FLOOR_NS

    @property
    def severity(self) -> str:
        """By what it would save of the GPU's compute."""
        if isinstance(self.headroom, NotMeasured) or not self.share:
            return "unknown"
        return severity(self.saving_ns, round(self.entry.time_ns / self.share))


class MatchedTimeline(Struct, frozen=True):
    """The kernels of the steady steps in the order of execution, each with its match."""

    overview: StepOverview
    matches: tuple[KernelMatch, ...]
    unused: tuple[JudgedLaunch, ...]  # profiled launches that speak for no kernel of the steady steps

    @property
    def coverage(self) -> float:
        """The share of compute in kernels that a profiled launch speaks for."""
        return self._share([match for match in self.matches if match.covered])

    def share_at(self, level: str) -> float:
        """The share of compute matched at one level."""
        return self._share([match for match in self.matches if match.level == level])

    def _share(self, matches: Sequence[KernelMatch]) -> float:
        total = self.overview.time_ns
        return sum(match.entry.time_ns for match in matches) / total if total else 0.0


def matched_timeline(overview: StepOverview, launches: Sequence[JudgedLaunch]) -> MatchedTimeline:
    """Match every kernel of the steady steps."""
    by_key: dict[Key | None, list[JudgedLaunch]] = defaultdict(list)
    by_name: dict[str, list[JudgedLaunch]] = defaultdict(list)
    by_function: dict[str, list[JudgedLaunch]] = defaultdict(list)
    for judged in launches:
        name = parse(judged.launch.name)
        by_name[name.bare].append(judged)
        by_function[name.short].append(judged)
        by_key[_key(judged)].append(judged)
    in_order = _launches_in_order(overview, launches)
    total = overview.time_ns
    matches = []
    for index, entry in enumerate(overview.entries):
        exact = by_key.get(entry.key, [])
        here = [judged for judged in exact if judged.launch.nvtx and _same_place(entry.place, judged.launch.nvtx)]
        others = by_name.get(entry.bare, []), by_function.get(parse(entry.name).short, [])
        candidates = dict(zip(CANDIDATES, (in_order.get(index, []), here, exact, *others), strict=True))
        level = next((level for level, alike in candidates.items() if alike), "none")
        matches.append(_match(entry, level, candidates.get(level, []), entry.time_ns / total if total else 0.0))
    spoken = {match.entry.key for match in matches if match.covered}
    unused = tuple(judged for judged in launches if _key(judged) not in spoken)
    return MatchedTimeline(overview, tuple(matches), unused)


def _key(judged: JudgedLaunch) -> Key | None:
    """What tells kernels apart; None where the report does not give the launch's shape."""
    grid, block = judged.launch.grid, judged.launch.block
    return None if grid is None or block is None else (parse(judged.launch.name).bare, grid, block)


def _match(entry: StepKernel, level: str, candidates: list[JudgedLaunch], share: float) -> KernelMatch:
    if not candidates:
        return KernelMatch(entry, level, None, (), share)
    launch = min(candidates, key=lambda judged: _distance(judged.duration_ns, entry.mean_ns))
    alike = tuple(judged for judged in candidates if _distance(judged.duration_ns, launch.duration_ns) <= OTHER_SIZE)
    # of one shape, but so much longer or shorter that it had other work; cold caches may double the time of short ones
    is_far = _distance(launch.duration_ns, entry.mean_ns) > OTHER_PROBLEM
    is_long = launch.duration_ns > 0 and max(launch.duration_ns, entry.mean_ns) >= TELLING_NS
    return KernelMatch(entry, "size" if level in COVERED and is_far and is_long else level, launch, alike, share)


def _distance(first_ns: int, second_ns: int) -> float:
    """How many times longer the longer one takes."""
    shorter, longer = sorted((max(first_ns, 1), max(second_ns, 1)))
    return longer / shorter


def _same_place(place: tuple[str, ...], nvtx: tuple[str, ...]) -> bool:
    """Whether the innermost ranges are the same, numbers aside."""
    return bool(place) and place[-1] == without_numbers(nvtx[-1]) and set(map(without_numbers, nvtx)) >= set(place[-2:])


def _launches_in_order(overview: StepOverview, launches: Sequence[JudgedLaunch]) -> dict[int, list[JudgedLaunch]]:
    """Launches by entry, matched by their position in a step's sequence. Launches may start in the middle of a step and
    run into the next, so they are compared with the sequence repeated twice."""
    if len(overview.sequence) * len(launches) > MOST_PAIRS:
        return {}
    twice = overview.sequence * 2
    keys: list[Key | None] = [overview.entries[index].key for index in twice]
    placed: dict[int, list[JudgedLaunch]] = defaultdict(list)
    for block in SequenceMatcher(None, keys, [*map(_key, launches)], autojunk=False).get_matching_blocks():
        if block.size >= FEWEST_IN_ORDER:
            for offset in range(block.size):
                placed[twice[block.a + offset]].append(launches[block.b + offset])
    return placed


HALF: Final = 0.5  # below this share of a peak, or of all accesses, a figure is counted as low

ROOF: Final = "roof_share"
PEAKS: Final = ("sm_busy_share", "dram_share", "occupancy_efficiency")
HITS: Final = ("l2_hit_share", "l1_hit_share")


class LowCount(Struct, frozen=True):
    """How many kernels are below half in one figure, of those that it was measured of."""

    low: int
    of: int


class KernelTally(Struct, frozen=True):
    """The kernels of a report in numbers."""

    kernels: int
    limits: Mapping[str, Mapping[str, int]]
    """Kernels by what binds them, and within that by what limits them; the most first."""
    severities: Mapping[str, int]
    low: Mapping[str, LowCount]  # by ROOF, PEAKS and HITS


def kernels_tally(kernels: Sequence[JudgedKernel]) -> KernelTally:
    """Count kernels whose severity is by what they would save of the time of all of them."""
    whole_ns = sum(kernel.duration_ns for kernel in kernels)
    return _tally([(kernel.typical, kernel, severity(kernel.saving_ns, whole_ns)) for kernel in kernels])


def timeline_tally(timeline: MatchedTimeline) -> KernelTally:
    """Count the kernels of a step that a profiled launch speaks for."""
    covered = ((match.launch, match) for match in timeline.matches if match.covered)
    return _tally([(launch, match.judged, match.severity) for launch, match in covered if launch is not None])


def _tally(judged: Sequence[tuple[JudgedLaunch, JudgedKernel, str]]) -> KernelTally:
    """Kernels, each with the launch that speaks for it and its severity."""
    verdicts = [launch.verdict for launch, _, _ in judged]
    bounds = Counter(verdict.bound for verdict in verdicts)
    low = {ROOF: _low(verdict.roof_share for verdict in verdicts)}
    for key in (*PEAKS, *HITS):
        spreads = (kernel.spread(key) for _, kernel, _ in judged)
        low[key] = _low(spread if isinstance(spread, NotMeasured) else spread.mean for spread in spreads)
    return KernelTally(
        kernels=len(judged),
        limits={
            bound: dict(Counter(verdict.limiter for verdict in verdicts if verdict.bound == bound).most_common())
            for bound, _ in bounds.most_common()
        },
        severities=dict(Counter(severe for _, _, severe in judged)),
        low=low,
    )


def _low(values: Iterable[float | NotMeasured]) -> LowCount:
    known = [value for value in values if not isinstance(value, NotMeasured)]
    return LowCount(sum(value < HALF for value in known), len(known))
