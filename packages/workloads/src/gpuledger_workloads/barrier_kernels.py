"""Barriers between kernels, in Triton: pointers to rows of the board in, nothing out but what they write there.

All accesses are atomic, at the scope of the system: a peer's memory holds the board where ranks have a GPU each. A
kernel is one block of one warp. It looks at the board a bounded number of times, so that a barrier which nobody else
reaches ends; that is written on the board, and from then on every barrier looks once.

Arguments that change from call to call are not specialised on: a kernel compiled anew would wait for a device on which
another one waits for it.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]


@triton.jit(do_not_specialize=["rank", "ranks", "phase", "polls"])  # type: ignore[untyped-decorator, unused-ignore]
def pass_barrier(  # type: ignore[no-untyped-def]
    reached, gave_up, rank, ranks, phase, polls, line: tl.constexpr, room: tl.constexpr, is_tag: tl.constexpr
):
    """Write how far `rank` is, and look until all are as far. `phase` is the host's; a tag is counted on the board."""
    if is_tag:
        goal = tl.atomic_add(reached + rank * line, 1, sem="acq_rel", scope="sys") + 1
    else:
        goal = phase
        tl.atomic_xchg(reached + rank * line, phase, sem="acq_rel", scope="sys")
    others = tl.arange(0, room)
    is_rank = others < ranks
    missing = ranks
    left = tl.where(tl.atomic_add(gave_up, 0, sem="relaxed", scope="sys") == 0, polls, 1)
    while (missing > 0) & (left > 0):
        seen = tl.atomic_add(reached + others * line, 0, mask=is_rank, sem="acquire", scope="sys")
        missing = tl.sum(tl.where(is_rank & (seen < goal), 1, 0))
        left -= 1
    if missing > 0:
        tl.atomic_add(gave_up, 1, sem="relaxed", scope="sys")


@triton.jit(do_not_specialize=["rank"])  # type: ignore[untyped-decorator, unused-ignore]
def arrive(arrived, rank, line: tl.constexpr):  # type: ignore[no-untyped-def]
    """Begin a round of the check."""
    tl.atomic_add(arrived + rank * line, 1, sem="release", scope="sys")


@triton.jit(do_not_specialize=["rank", "ranks"])  # type: ignore[untyped-decorator, unused-ignore]
def look(arrived, missed, rank, ranks, line: tl.constexpr, room: tl.constexpr):  # type: ignore[no-untyped-def]
    """Count the ranks that have not begun the round which `rank` is in."""
    others = tl.arange(0, room)
    is_rank = others < ranks
    mine = tl.atomic_add(arrived + rank * line, 0, sem="acquire", scope="sys")
    seen = tl.atomic_add(arrived + others * line, 0, mask=is_rank, sem="acquire", scope="sys")
    tl.atomic_add(missed + rank * line, tl.sum(tl.where(is_rank & (seen < mine), 1, 0)), sem="relaxed", scope="sys")
