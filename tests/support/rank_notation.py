"""Ranks of a job by hand, and at random: `rank(0, "10-50 all_reduce 1024 B in tp")`, in microseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_collectives import KINDS, Collectives, Group
from gpuledger.ledger.books import Line
from gpuledger.trace.spans import Span, Spans, union

US = 1_000
_LINE = re.compile(r"(?P<start>\d+)-(?P<end>\d+) (?P<kind>\w+)(?: (?P<bytes>\d+) B)?(?: in (?P<group>\w+))?")


def rank(
    number: int | None,
    *lines: str,
    world: int | None = None,
    compute_us: int = 0,
    launched_us: int = 5,
    edges_us: Sequence[int] = (),
    groups: tuple[Group, ...] = (),
    profile: str | None = None,
) -> RankSummary:
    """A rank by hand, in microseconds: `rank(0, "10-50 all_reduce 1024 B in tp")`."""
    found = [_matched(line) for line in lines]
    start, end = (np.array([int(match[side]) for match in found], np.int64) * US for side in ("start", "end"))
    names = [each.name for each in groups]
    collectives = Collectives(
        start_ns=start,
        end_ns=end,
        launched_ns=start - launched_us * US,
        stream=np.zeros(len(found), np.int64),
        kind=np.array([KINDS.index(match["kind"]) for match in found], np.int64),
        dtype=np.full(len(found), -1),
        group=np.array([names.index(match["group"]) if match["group"] else -1 for match in found], np.int64),
        bytes=np.array([int(match["bytes"] or -1) for match in found], np.int64),
        groups=groups,
    )
    edges = np.array(edges_us, np.int64) * US
    window = Span(0, int(end.max(initial=US)))
    exposed = union(start, end)
    comm = int((exposed.end_ns - exposed.start_ns).sum())
    lines_ns = (("compute.gemm", compute_us * US), ("comm", comm))
    return RankSummary(
        profile=profile or f"profile {number}",
        rank=number,
        world_size=world,
        gpu_name="test GPU",
        window=window,
        steady=window if not len(edges) else Span(int(edges[0]), int(edges[-1])),
        lines=tuple((Line(name), ns) for name, ns in lines_ns if ns),
        hidden_comm_ns=0,
        exposed=exposed,
        edges_ns=edges,
        warm_up=0,
        steps_source="by hand" if len(edges) else None,
        collectives=collectives,
        losses=(),
    )


def _matched(line: str) -> re.Match[str]:
    match = _LINE.fullmatch(line)
    assert match, line
    return match


def moved(given: RankSummary, by: int) -> RankSummary:
    """The same rank with another clock."""
    c = given.collectives
    collectives = replace(c, start_ns=c.start_ns + by, end_ns=c.end_ns + by, launched_ns=c.launched_ns + by)
    return replace(
        given,
        window=Span(*(each + by for each in given.window)),
        steady=Span(*(each + by for each in given.steady)),
        exposed=Spans(given.exposed.start_ns + by, given.exposed.end_ns + by),
        edges_ns=given.edges_ns + by,
        collectives=collectives,
    )


@st.composite
def ranks(draw: st.DrawFn, *, jitter_us: int = 0) -> list[RankSummary]:
    """Ranks that do the same collectives, arrive when they like and end together."""
    count, times = draw(st.integers(2, 5)), draw(st.integers(1, 7))
    kinds = draw(st.lists(st.sampled_from(KINDS[:5]), min_size=times, max_size=times))
    sizes = draw(st.lists(st.integers(1, 1000), min_size=times, max_size=times))
    made = []
    for number in range(count):
        starts = draw(st.lists(st.integers(0, 300), min_size=times, max_size=times))
        ends = draw(st.lists(st.integers(350, 350 + jitter_us), min_size=times, max_size=times))
        slots = zip(range(0, 400 * times, 400), kinds, sizes, starts, ends, strict=True)
        lines = [f"{at + start}-{at + end} {kind} {size} B" for at, kind, size, start, end in slots]
        made.append(rank(number, *lines, world=count, compute_us=draw(st.integers(0, 300))))
    return made
