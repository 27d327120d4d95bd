"""The timeline and Nsight Compute together: which profiled launch speaks for which kernel of the step.

Matched by name and launch shape, and within that by place in the program or in the sequence, else by time. The level
of each match is kept, and only the first three count as covered. Nsight Compute measures under other clocks and with
cold caches, so times are always the timeline's; of the profiled launch only shares of a peak are used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from gpuledger.analyse.kernels.judgement import OTHER_SIZE, JudgedKernel, JudgedLaunch, saving, severity
from gpuledger.analyse.kernels.step_kernels import StepKernel, StepOverview
from gpuledger.catalog.kernel_names import parse
from gpuledger.catalog.name_likeness import normalised
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.kernel_report import Dim3

LEVELS: Final = ("order", "range", "shape", "size", "name", "function", "none")
"""How well a launch matches, the best first: name, shape and its place in the sequence; name, shape and NVTX range;
name and shape; the same, but it took so much longer or shorter that the problem must be another; the name in another
shape; the function with other template arguments; not at all."""

COVERED: Final = LEVELS[:3]
"""A launch at one of these levels speaks for the kernel."""

FEWEST_IN_ORDER: Final = 4
"""So many launches in a row that follow the timeline's sequence are taken to be in order."""

MOST_PAIRS: Final = 4_000_000
"""Longer sequences are not laid over each other: it would take longer than it is worth."""

OTHER_PROBLEM: Final = 2.5
"""A launch that takes so many times longer or shorter is another problem: clocks and caches explain less."""

TINY_NS: Final = 5_000
"""Times this short do not tell problems apart."""

CANDIDATES: Final = ("order", "range", "shape", "name", "function")
"""Levels at which launches are looked for, the best first."""

Key = tuple[str, Dim3, Dim3]


@dataclass(frozen=True, slots=True)
class KernelMatch:
    """A kernel of the step, and the launch that speaks for it."""

    entry: StepKernel
    level: str
    launch: JudgedLaunch | None
    alike: tuple[JudgedLaunch, ...]
    """All launches that match as well and took about as long."""
    share: float
    """Of the GPU's compute in the steady steps."""

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
    def severity(self) -> str:
        """By what it would save of the GPU's compute."""
        if isinstance(self.headroom, NotMeasured) or not self.share:
            return "unknown"
        return severity(self.saving_ns, round(self.entry.time_ns / self.share))


@dataclass(frozen=True, slots=True)
class MatchedTimeline:
    """The kernels of the steady steps in the order of execution, each with its match."""

    overview: StepOverview
    matches: tuple[KernelMatch, ...]
    unused: tuple[JudgedLaunch, ...]
    """Profiled launches that speak for no kernel of the steady steps."""

    @property
    def coverage(self) -> float:
        """The share of compute in kernels that a profiled launch speaks for."""
        total = self.overview.time_ns
        return sum(match.entry.time_ns for match in self.matches if match.covered) / total if total else 0.0

    def share_at(self, level: str) -> float:
        """The share of compute matched at one level."""
        total = self.overview.time_ns
        return sum(match.entry.time_ns for match in self.matches if match.level == level) / total if total else 0.0


def matched_timeline(overview: StepOverview, launches: Sequence[JudgedLaunch]) -> MatchedTimeline:
    """Match every kernel of the steady steps."""
    by_key: dict[Key, list[JudgedLaunch]] = defaultdict(list)
    by_name: dict[str, list[JudgedLaunch]] = defaultdict(list)
    by_function: dict[str, list[JudgedLaunch]] = defaultdict(list)
    for judged in launches:
        name = parse(judged.launch.name)
        by_name[name.bare].append(judged)
        by_function[name.short].append(judged)
        if (key := _key(judged)) is not None:
            by_key[key].append(judged)
    in_order = _in_order(overview, launches)
    total = overview.time_ns
    matches = []
    for index, entry in enumerate(overview.entries):
        exact = by_key.get((entry.bare, entry.grid, entry.block), [])
        here = [judged for judged in exact if judged.launch.nvtx and _same_place(entry.place, judged.launch.nvtx)]
        others = by_name.get(entry.bare, []), by_function.get(parse(entry.name).short, [])
        candidates = dict(zip(CANDIDATES, (in_order.get(index, []), here, exact, *others), strict=True))
        level = next((level for level, alike in candidates.items() if alike), "none")
        matches.append(_match(entry, level, candidates.get(level, []), entry.time_ns / total if total else 0.0))
    spoken = {(match.entry.bare, match.entry.grid, match.entry.block) for match in matches if match.covered}
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
    if level in COVERED and _is_another_problem(entry, launch):
        level = "size"
    return KernelMatch(entry, level, launch, alike, share)


def _is_another_problem(entry: StepKernel, launch: JudgedLaunch) -> bool:
    """Whether a launch of the same shape took so much longer or shorter that it must have had other work.

    Of very short ones cold caches alone may double the time.
    """
    far = _distance(launch.duration_ns, entry.mean_ns) > OTHER_PROBLEM
    return far and launch.duration_ns > 0 and max(launch.duration_ns, entry.mean_ns) >= TINY_NS


def _distance(first_ns: int, second_ns: int) -> float:
    """How many times longer the longer one takes."""
    shorter, longer = sorted((max(first_ns, 1), max(second_ns, 1)))
    return longer / shorter


def _same_place(place: tuple[str, ...], nvtx: tuple[str, ...]) -> bool:
    """Whether the innermost ranges are the same, numbers aside."""
    return bool(place) and place[-1] == normalised(nvtx[-1]) and set(map(normalised, nvtx)) >= set(place[-2:])


def _in_order(overview: StepOverview, launches: Sequence[JudgedLaunch]) -> dict[int, list[JudgedLaunch]]:
    """For each entry the launches that stand where it stands in the sequence of a step.

    The launches may begin anywhere in a step and go on into the next one, so they are laid over two of them.
    """
    if len(overview.sequence) * len(launches) > MOST_PAIRS:
        return {}
    keys: list[Key | None] = [
        (entry.bare, entry.grid, entry.block) for index in overview.sequence * 2 for entry in (overview.entries[index],)
    ]
    profiled = [_key(judged) for judged in launches]
    placed: dict[int, list[JudgedLaunch]] = defaultdict(list)
    twice = overview.sequence * 2
    for block in SequenceMatcher(None, keys, profiled, autojunk=False).get_matching_blocks():
        if block.size >= FEWEST_IN_ORDER:
            for offset in range(block.size):
                placed[twice[block.a + offset]].append(launches[block.b + offset])
    return placed
