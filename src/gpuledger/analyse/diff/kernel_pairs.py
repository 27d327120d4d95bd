"""Which kernel of one side is which of the other: kernels in, pairs out, each with how sure it is.

Levels, the surest first. What a level pairs is taken out before the next one looks. Kernels that a level cannot tell
apart (one name with several shapes, say) are paired together, all of one side with all of the other.

- `place`: the same name, launch shape and place in the program
- `shape`: the same name and launch shape
- `name`: the same name
- `function`: the same function with other template arguments or another tile
- `family`: the same kind of work at the same position of the step, and about as often
- `new`, `vanished`: on one side alone
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.diff.run_side import NO_SHAPE, RunKernel
from gpuledger.catalog.kernel_families import OTHER
from gpuledger.catalog.kernel_names import label
from gpuledger.catalog.name_likeness import untiled

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
