"""What of one side is what of the other, and whether the two may be compared: sides in; pairs, reasons, remarks out.

Kernels are paired by levels, the surest first. What a level pairs is taken out before the next one looks. Kernels that
a level cannot tell apart (one name with several shapes, say) are paired together: all of one side, all of the other.

- `place`: the same name, launch shape and place in the program
- `shape`: the same name and launch shape
- `name`: the same name
- `function`: the same function with other template arguments or another tile
- `operator`: launched by the same operator, with inputs of the same shapes where there are such, as on another GPU
- `family`: the same kind of work at the same position of the step, and about as often
- `new`, `vanished`: on one side alone

Ranges are paired by name, then by name without numbers, then the ones left over, if there is one on each side.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.diff.run_side import KERNEL_TIME, NO_SHAPE, STEP, RunKernel, RunRange, RunSide, by_name, pooled
from gpuledger.catalog.kernel_families import OTHER
from gpuledger.catalog.kernel_names import label, without_numbers, without_tile
from gpuledger.errors import GpuledgerError
from gpuledger.messages import say
from gpuledger.rows import LabelledCode
from gpuledger.units import count_text, share_text


class PairLevel(LabelledCode):
    """How kernels and ranges were paired, the surest first."""

    PLACE = "place", say("place")
    SHAPE = "shape", say("shape")
    NAME = "name", say("name")
    FUNCTION = "function", say("function")
    OPERATOR = "operator", say("operator")
    FAMILY = "family", say("family")
    NUMBERS = "numbers", say("numbers")
    RENAMED = "renamed", say("renamed")
    NEW = "new", say("new")
    VANISHED = "vanished", say("vanished")


SAME_SHAPE: Final = (PairLevel.PLACE, PairLevel.SHAPE)
"""The levels at which launch shapes are known to be the same; those of tables are not known."""

ABOUT_AS_OFTEN: Final = 2
"""Kernels of one family are the same one only if neither comes more than so many times as often as the other."""

MOST_ALIGNED: Final = 2_000
"""Longer sequences of kernels that found no partner are not aligned: it would take too long, and mean too little."""


class KernelPair(Struct, frozen=True):
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
    return (without_tile(kernel.name) or short, inner, kernel.family)


_BY_LEVEL: Final[tuple[tuple[str, _Key], ...]] = (
    ("place", lambda kernel: (kernel.bare, kernel.grid, kernel.block, kernel.place)),
    ("shape", lambda kernel: (kernel.bare, kernel.grid, kernel.block)),
    ("name", lambda kernel: kernel.bare),
    ("function", _function),
    ("function", lambda kernel: (without_tile(kernel.name), kernel.family)),
    ("operator", lambda kernel: (kernel.operator, kernel.inputs)),
    ("operator", lambda kernel: kernel.operator),
)


def pair_kernels(
    before: Sequence[RunKernel], after: Sequence[RunKernel], steps_before: int = 1, steps_after: int = 1
) -> tuple[KernelPair, ...]:
    """Every kernel of both sides in exactly one pair, the surest level first."""
    left, right = list(before), list(after)
    pairs: list[KernelPair] = []
    for level, key in _BY_LEVEL:
        if not left or not right:
            break
        groups: tuple[dict[object, list[RunKernel]], dict[object, list[RunKernel]]] = ({}, {})
        for kernels, by_key in zip((left, right), groups, strict=True):
            for kernel in kernels:
                # what is not known is the same as none
                unknown = (
                    kernel.grid == NO_SHAPE if level in SAME_SHAPE else level == "operator" and not kernel.operator
                )
                by_key.setdefault((id(kernel),) if unknown else key(kernel), []).append(kernel)
        old, new = groups
        shared = [like for like in old if like in new]
        for like in shared:
            kernels, others = old.pop(like), new.pop(like)
            if level == "operator" and [kernel.calls for kernel in kernels] == [kernel.calls for kernel in others]:
                pairs += [KernelPair(level, (one,), (other,)) for one, other in zip(kernels, others, strict=True)]
            else:
                pairs.append(KernelPair(level, tuple(kernels), tuple(others)))
        left, right = ([kernel for kernels in by_key.values() for kernel in kernels] for by_key in groups)
    same = _in_position(left, right, steps_before, steps_after)
    taken = {id(kernel) for pair in same for kernel in (*pair.before, *pair.after)}
    pairs += same
    pairs += [KernelPair("new", (), (kernel,)) for kernel in right if id(kernel) not in taken]
    return (*pairs, *(KernelPair("vanished", (kernel,), ()) for kernel in left if id(kernel) not in taken))


def _in_position(left: list[RunKernel], right: list[RunKernel], steps_left: int, steps_right: int) -> list[KernelPair]:
    """Pairs of kernels of one family where the two sequences of families match."""
    if not left or not right or max(len(left), len(right)) > MOST_ALIGNED:
        return []
    families, others = ([kernel.family for kernel in side] for side in (left, right))
    if families > others:  # of matches that are equally long the matcher takes the first, seen from one side
        swapped = _in_position(right, left, steps_right, steps_left)
        return [KernelPair(pair.level, pair.after, pair.before) for pair in swapped]
    pairs = []
    for block in difflib.SequenceMatcher(None, families, others, autojunk=False).get_matching_blocks():
        for old, new in zip(left[block.a : block.a + block.size], right[block.b : block.b + block.size], strict=True):
            often = (old.calls / steps_left, new.calls / steps_right)
            if old.family != OTHER and max(often) <= ABOUT_AS_OFTEN * min(often):
                pairs.append(KernelPair("family", (old,), (new,)))
    return pairs


NAME, NUMBERS, RENAMED, NEW, VANISHED = ("name", "numbers", "renamed", "new", "vanished")

TOLERANCE: Final = 0.02
"""Counts per instance that differ by less than this share are the same: a capture may begin or end inside a step."""


class RangePair(Struct, frozen=True):
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


def pair_ranges(
    before: Sequence[RunRange], after: Sequence[RunRange], steps_before: int, steps_after: int
) -> tuple[RangePair, ...]:
    """Every range of both sides in exactly one pair: the shared ones first."""
    left, right = ({run_range.name: run_range for run_range in side} for side in (before, after))

    def pair(level: str, old: RunRange, new: RunRange) -> RangePair:
        often = _alike(old.instances / steps_before, new.instances / steps_after)
        return RangePair(level, old, new, often and _holds_the_same(old, new))

    pairs = [pair(NAME, left.pop(name), right.pop(name)) for name in [*left] if name in right]
    olds, news = _without_numbers(left.values()), _without_numbers(right.values())
    shared = [name for name in olds if name in news]
    pairs += [pair(NUMBERS, olds[name], news[name]) for name in shared]
    rest = [[part for part in side.values() if without_numbers(part.name) not in shared] for side in (left, right)]
    names = [{part.name for part in side} for side in rest]
    outermost = [[part for part in side if own.isdisjoint(part.inside)] for side, own in zip(rest, names, strict=True)]
    if all(len(top) == 1 for top in outermost):
        pairs.append(RangePair(RENAMED, outermost[0][0], outermost[1][0]))
        for side, top in zip(rest, outermost, strict=True):
            side.remove(top[0])
    pairs += [RangePair(NEW, None, run_range) for run_range in rest[1]]
    return (*pairs, *(RangePair(VANISHED, run_range, None) for run_range in rest[0]))


def _without_numbers(ranges: Iterable[RunRange]) -> dict[str, RunRange]:
    """Ranges that differ in their numbers alone, together."""
    bare = (replace(run_range, name=without_numbers(run_range.name)) for run_range in ranges)
    return {run_range.name: run_range for run_range in pooled(bare, by_name)}


def _holds_the_same(old: RunRange, new: RunRange) -> bool:
    """Whether an instance makes the same calls and launches the same work; where that is not known, it is believed."""
    return all(
        _alike(held_before.get(name, 0) / old.instances, held_after.get(name, 0) / new.instances)
        for held_before, held_after in ((old.calls, new.calls), (old.work, new.work))
        if held_before is not None and held_after is not None
        for name in {*held_before, *held_after}
    )


def _alike(first: float, second: float) -> bool:
    return abs(first - second) <= TOLERANCE * max(first, second)


LEAST_OVERLAP: Final = 0.2  # kernels that find a partner must hold this share of compute on both sides

LEAST_RANGES: Final = 2
"""So many ranges must have the same names, and half of all, for two to be one program with other kernels. Ranges of
libraries (`cub::...`, `aten::...`) say nothing: they are in any program."""


class Overlap(Struct, frozen=True):
    """The share of kernel time, before and after, in kernels that found a partner."""

    before_share: float
    after_share: float


def overlap(pairs: Sequence[KernelPair]) -> Overlap:
    """How much of the two sides is the same program; all of it where neither runs any kernel."""
    shares = []
    for side in ("before", "after"):
        times = [sum(kernel.time_ns for kernel in getattr(pair, side)) for pair in pairs]
        shared = sum(time for time, pair in zip(times, pairs, strict=True) if pair.before and pair.after)
        shares.append(shared / sum(times) if sum(times) else None)
    return Overlap(1.0, 1.0) if shares == [None, None] else Overlap(*(share or 0.0 for share in shares))


def check_kinds(before: RunSide, after: RunSide) -> None:
    """Refuse a table and a profile: one has sums, the other steps, and no option makes them the same."""
    if (before.whole == KERNEL_TIME) != (after.whole == KERNEL_TIME):
        table, profile = (before, after) if before.whole == KERNEL_TIME else (after, before)
        raise GpuledgerError(
            f"{table.name} holds tables of `nsys stats`, which have no steps; {profile.name} is a profile",
            hint=f"make the tables of both: `gpuledger stats {shlex.quote(profile.name)} --format=csv`",
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
        names = {"before": before.gpu_name, "after": after.gpu_name}
        reasons.append(say("they ran on different GPUs: {before}, {after}", **names))
    if before.gpus and after.gpus and len(before.gpus) != len(after.gpus):
        one, other = (
            say("1 GPU") if len(side.gpus) == 1 else say("{count} GPUs", count=len(side.gpus))
            for side in (before, after)
        )
        reasons.append(say("they used {before} and {after}", before=one, after=other))
    if before.ranks is not None and after.ranks is not None and before.ranks != after.ranks:
        counts = {"before": count_text(before.ranks), "after": count_text(after.ranks)}
        reasons.append(say("their jobs have {before} and {after} ranks", **counts))
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
