"""Which kernel of one side is which of the other: kernels in, pairs out, each with how sure it is.

Levels, the surest first. What a level pairs is taken out before the next one looks. Kernels that a level cannot tell
apart (one name with several shapes, say) are paired together, all of one side with all of the other.

- `place`: the same name, launch shape and place in the program
- `shape`: the same name and launch shape
- `name`: the same name
- `function`: the same function with other template arguments or another tile
- `family`: the same kind of work at the same position of the step, and about as often
- `new`, `vanished`: on one side alone

Which range of one side is which of the other: by name, then by name without numbers, then the
ones left over, if there is one on each side.

May these two be compared? Two sides and their pairs in, reasons against it and remarks out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuledger.analyse.diff.run_side import KERNEL_TIME, NO_SHAPE, STEP, RunKernel, RunRange, RunSide, added_ranges
from gpuledger.catalog.kernel_families import OTHER
from gpuledger.catalog.kernel_names import label, normalised, untiled
from gpuledger.errors import GpuledgerError
from gpuledger.messages import say
from gpuledger.units import count_text, share_text

LEVELS: Final = ("place", "shape", "name", "function", "family", "new", "vanished")

SAME_SHAPE: Final = LEVELS[:2]
"""The levels at which launch shapes are known to be the same; those of tables are not known."""

ABOUT_AS_OFTEN: Final = 2
"""Kernels of one family are the same one only if neither comes more than so many times as often as the other."""

MOST_ALIGNED: Final = 2_000
"""Longer sequences of kernels that found no partner are not aligned: it would take too long, and mean too little."""


@dataclass(frozen=True, slots=True)
class KernelPair:
    """Kernels of both sides that stand for each other; one side is empty for new and vanished ones."""

    level: str
    before: tuple[RunKernel, ...]
    after: tuple[RunKernel, ...]

    @property
    def first(self) -> RunKernel:
        """The kernel that the pair is called after: the one with the most time, of the newer side if it has any."""
        return max(self.after or self.before, key=lambda kernel: kernel.time_ns)


_Key = Callable[[RunKernel], object]


def _function(kernel: RunKernel) -> object:
    """What a kernel does, template arguments aside: for a generic one, what is called in it."""
    short, _, inner = label(kernel.name).partition("…")
    return (untiled(kernel.name) or short, inner, kernel.family)


_BY_LEVEL: Final[tuple[tuple[str, _Key], ...]] = (
    ("place", lambda kernel: (kernel.bare, kernel.grid, kernel.block, kernel.place)),
    ("shape", lambda kernel: (kernel.bare, kernel.grid, kernel.block)),
    ("name", lambda kernel: kernel.bare),
    ("function", _function),
    ("function", lambda kernel: (untiled(kernel.name), kernel.family)),
)


def paired(
    before: Sequence[RunKernel], after: Sequence[RunKernel], steps_before: int = 1, steps_after: int = 1
) -> tuple[KernelPair, ...]:
    """Every kernel of both sides in exactly one pair, in the order of LEVELS."""
    left, right = list(before), list(after)
    pairs: list[KernelPair] = []
    for level, key in _BY_LEVEL:
        same, left, right = _with_equal(level, key, left, right)
        pairs += same
    same, left, right = _in_position(left, right, steps_before, steps_after)
    pairs += same
    pairs += [KernelPair("new", (), (kernel,)) for kernel in right]
    return (*pairs, *(KernelPair("vanished", (kernel,), ()) for kernel in left))


def _with_equal(
    level: str, key: _Key, left: list[RunKernel], right: list[RunKernel]
) -> tuple[list[KernelPair], list[RunKernel], list[RunKernel]]:
    """Pairs of those with equal keys, and who is left of either side."""
    if not left or not right:
        return [], left, right
    groups: tuple[dict[object, list[RunKernel]], dict[object, list[RunKernel]]] = ({}, {})
    for side, held in zip((left, right), groups, strict=True):
        for kernel in side:
            # a shape that is not known is the same as none
            unknown = level in SAME_SHAPE and kernel.grid == NO_SHAPE
            held.setdefault((id(kernel),) if unknown else key(kernel), []).append(kernel)
    both = [shared for shared in groups[0] if shared in groups[1]]
    pairs = [KernelPair(level, tuple(groups[0].pop(shared)), tuple(groups[1].pop(shared))) for shared in both]
    remaining = [[kernel for kernels in held.values() for kernel in kernels] for held in groups]
    return pairs, remaining[0], remaining[1]


def _in_position(
    left: list[RunKernel], right: list[RunKernel], steps_left: int, steps_right: int
) -> tuple[list[KernelPair], list[RunKernel], list[RunKernel]]:
    """Pairs of kernels of one family where the two sequences of families match, and who is left."""
    if not left or not right or max(len(left), len(right)) > MOST_ALIGNED:
        return [], left, right
    families, others = ([kernel.family for kernel in side] for side in (left, right))
    if families > others:  # of matches that are equally long the matcher takes the first, seen from one side
        swapped, right, left = _in_position(right, left, steps_right, steps_left)
        return [KernelPair(pair.level, pair.after, pair.before) for pair in swapped], left, right
    matcher = difflib.SequenceMatcher(None, families, others, autojunk=False)
    pairs, taken_left, taken_right = [], set(), set()
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            ours, theirs = block.a + offset, block.b + offset
            often = (left[ours].calls / steps_left, right[theirs].calls / steps_right)
            if left[ours].family != OTHER and max(often) <= ABOUT_AS_OFTEN * min(often):
                pairs.append(KernelPair("family", (left[ours],), (right[theirs],)))
                taken_left.add(ours)
                taken_right.add(theirs)
    return (
        pairs,
        [kernel for index, kernel in enumerate(left) if index not in taken_left],
        [kernel for index, kernel in enumerate(right) if index not in taken_right],
    )


NAME, NUMBERS, RENAMED, NEW, VANISHED = RANGE_LEVELS = ("name", "numbers", "renamed", "new", "vanished")

TOLERANCE: Final = 0.02
"""Counts per instance that differ by less than this share are the same: a capture may begin or end inside a step."""


@dataclass(frozen=True, slots=True)
class RangePair:
    """A kind of range on both sides; None where one side has none."""

    level: str
    before: RunRange | None
    after: RunRange | None
    unchanged: bool = False
    """Whether the same calls were made and the same work launched in each instance, as far as is known."""

    @property
    def name(self) -> str:
        """What to call it: the name on both sides where it changed."""
        names = [run_range.name for run_range in (self.before, self.after) if run_range is not None]
        return " -> ".join(dict.fromkeys(names))


def paired_ranges(
    before: Sequence[RunRange], after: Sequence[RunRange], steps_before: int, steps_after: int
) -> tuple[RangePair, ...]:
    """Every range of both sides in exactly one pair: the shared ones first."""
    left, right = (
        {run_range.name: run_range for run_range in before},
        {run_range.name: run_range for run_range in after},
    )

    def pair(level: str, old: RunRange, new: RunRange) -> RangePair:
        often = _alike(old.instances / steps_before, new.instances / steps_after)
        return RangePair(level, old, new, often and _holds_the_same(old, new))

    pairs = [pair(NAME, left.pop(name), right.pop(name)) for name in [*left] if name in right]
    olds, news = _without_numbers(left.values()), _without_numbers(right.values())
    shared = [name for name in olds if name in news]
    pairs += [pair(NUMBERS, olds[name], news[name]) for name in shared]
    old_left = [run_range for run_range in left.values() if normalised(run_range.name) not in shared]
    new_left = [run_range for run_range in right.values() if normalised(run_range.name) not in shared]
    old_top, new_top = _outermost(old_left), _outermost(new_left)
    if len(old_top) == len(new_top) == 1:
        pairs.append(RangePair(RENAMED, old_top[0], new_top[0]))
        old_left.remove(old_top[0])
        new_left.remove(new_top[0])
    pairs += [RangePair(NEW, None, run_range) for run_range in new_left]
    return (*pairs, *(RangePair(VANISHED, run_range, None) for run_range in old_left))


def _outermost(ranges: Sequence[RunRange]) -> list[RunRange]:
    """Those that lie in none of the others."""
    names = {run_range.name for run_range in ranges}
    return [run_range for run_range in ranges if names.isdisjoint(run_range.inside)]


def _without_numbers(ranges: Iterable[RunRange]) -> dict[str, RunRange]:
    """Ranges that differ in their numbers alone, together."""
    groups: dict[str, RunRange] = {}
    for run_range in ranges:
        name = normalised(run_range.name)
        groups[name] = added_ranges(groups[name], run_range) if name in groups else replace(run_range, name=name)
    return groups


def _holds_the_same(old: RunRange, new: RunRange) -> bool:
    """Whether an instance makes the same calls and launches the same work; where that is not known, it is believed."""
    for held_before, held_after in ((old.calls, new.calls), (old.work, new.work)):
        if held_before is None or held_after is None:
            continue
        for name in {*held_before, *held_after}:
            if not _alike(held_before.get(name, 0) / old.instances, held_after.get(name, 0) / new.instances):
                return False
    return True


def _alike(first: float, second: float) -> bool:
    return abs(first - second) <= TOLERANCE * max(first, second)


LEAST_OVERLAP: Final = 0.2  # kernels that find a partner must hold this share of compute on both sides

LEAST_RANGES: Final = 2
"""So many ranges must have the same names, and half of all, for two to be one program with other kernels. Ranges of
libraries (`cub::...`, `aten::...`) say nothing: they are in any program."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The share of kernel time, before and after, in kernels that found a partner."""

    before_share: float
    after_share: float


def overlap(pairs: Sequence[KernelPair]) -> Overlap:
    """How much of the two sides is the same program; all of it where neither runs any kernel."""
    whole = [_time(pair.before for pair in pairs), _time(pair.after for pair in pairs)]
    if not any(whole):
        return Overlap(1.0, 1.0)
    both = [pair for pair in pairs if pair.before and pair.after]
    shared = [_time(pair.before for pair in both), _time(pair.after for pair in both)]
    before, after = (part / all_ if all_ else 0.0 for part, all_ in zip(shared, whole, strict=True))
    return Overlap(before, after)


def _time(groups: Iterable[tuple[RunKernel, ...]]) -> int:
    return sum(kernel.time_ns for group in groups for kernel in group)


def check_kinds(before: RunSide, after: RunSide) -> None:
    """Refuse a table and a profile: one has sums, the other steps, and no option makes them the same."""
    if (before.whole == KERNEL_TIME) != (after.whole == KERNEL_TIME):
        table, profile = (before, after) if before.whole == KERNEL_TIME else (after, before)
        raise GpuledgerError(
            f"{table.name} holds tables of `nsys stats`, which have no steps; {profile.name} is a profile",
            hint=f"make the tables of both: `gpuledger stats {profile.name} --format=csv`",
        )


def unlike(before: RunSide, after: RunSide, pairs: Sequence[KernelPair]) -> list[str]:
    """Why the two should not be compared, in sentences without a full stop; none if they may."""
    reasons = list[str]()
    if (before.whole == STEP) != (after.whole == STEP):
        has, lacks = (before, after) if before.whole == STEP else (after, before)
        reasons.append(
            say("{has} has steps ({source}), {lacks} has none", has=has.name, source=has.source, lacks=lacks.name)
        )
    if before.gpu_name and after.gpu_name and before.gpu_name != after.gpu_name:
        reasons.append(
            say("they ran on different GPUs: {before}, {after}", before=before.gpu_name, after=after.gpu_name)
        )
    if before.gpus and after.gpus and len(before.gpus) != len(after.gpus):
        reasons.append(say("they used {before} and {after}", before=_gpus(before), after=_gpus(after)))
    if before.ranks is not None and after.ranks is not None and before.ranks != after.ranks:
        reasons.append(
            say(
                "their jobs have {before} and {after} ranks",
                before=count_text(before.ranks),
                after=count_text(after.ranks),
            )
        )
    if _rewritten(pairs) and not _marked_alike(before, after):
        reasons.append(say("they have too few kernels in common: {partners}", partners=_partners(pairs)))
    return reasons


def remarks(before: RunSide, after: RunSide, pairs: Sequence[KernelPair]) -> list[str]:
    """What a reader of the comparison should know, in sentences."""
    said = list[str]()
    if _rewritten(pairs) and _marked_alike(before, after):
        said.append(say("Few kernels are the same, but the ranges are: {partners}.", partners=_partners(pairs)))
    if before.whole == STEP and after.whole == STEP and before.source != after.source:
        said.append(
            say(
                "Steps are {before} before and {after} after: are they the same? --step-range defines them.",
                before=before.source,
                after=after.source,
            )
        )
    if before.tool != after.tool:
        said.append(
            say(
                "Recorded with different profilers ({before}, {after}): each slows the host in its own way.",
                before=before.tool,
                after=after.tool,
            )
        )
    if before.clock_hz and after.clock_hz and before.clock_hz != after.clock_hz:
        said.append(
            say(
                "The GPUs' clocks differ: {before} and {after} MHz.",
                before=f"{before.clock_hz / 1e6:.0f}",
                after=f"{after.clock_hz / 1e6:.0f}",
            )
        )
    if KERNEL_TIME not in (before.whole, after.whole) and not (before.gpu_name and after.gpu_name):
        said.append(say("The GPU model was not recorded, so it cannot be compared."))
    if any(side.ranks is not None and side.ranks > 1 and len(side.run_steps) > 1 for side in (before, after)):
        said.append(say("Profiles of several ranks are pooled like runs; `gpuledger fleet` shows who waits for whom."))
    said += [say("Lost before: {loss}.", loss=loss) for loss in before.losses]
    said += [say("Lost after: {loss}.", loss=loss) for loss in after.losses]
    return said


def _rewritten(pairs: Sequence[KernelPair]) -> bool:
    shares = overlap(pairs)
    return min(shares.before_share, shares.after_share) < LEAST_OVERLAP


def _partners(pairs: Sequence[KernelPair]) -> str:
    shares = overlap(pairs)
    before, after = share_text(shares.before_share), share_text(shares.after_share)
    return say(
        "kernels with a partner hold {before} of the kernel time before and {after} after", before=before, after=after
    )


def _marked_alike(before: RunSide, after: RunSide) -> bool:
    """Whether the program's own ranges say that it is the same, although its kernels are others."""
    names = [
        {run_range.name for run_range in side.ranges or () if "::" not in run_range.name} for side in (before, after)
    ]
    both = len(names[0] & names[1])
    return both >= LEAST_RANGES and 2 * both >= min(map(len, names))


def _gpus(side: RunSide) -> str:
    return say("1 GPU") if len(side.gpus) == 1 else say("{count} GPUs", count=len(side.gpus))
