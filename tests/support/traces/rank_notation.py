"""Ranks of a job by hand, and at random: `rank(0, "10-50 all_reduce 1024 B in tp")`, in microseconds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.analyse.ranks.matching import Lane
from gpuledger.analyse.ranks.packed import PackedTable
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_collectives import KINDS, Collectives, Group, PackedCollectives
from gpuledger.ledger.books import Line
from gpuledger.trace.spans import Span, Spans, union
from support.traces.trace_notation import run, statements, time_ns

US = 1_000
_LINE = re.compile(r"(?P<start>\d+)-(?P<end>\d+) (?P<kind>\w+)(?: (?P<bytes>\d+) B)?(?: in (?P<group>\w+))?")


def rank(
    number: int | None,
    *lines: str,
    world: int | None = None,
    compute_us: int = 0,
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
        exposed=PackedTable.of(exposed),
        edges_ns=edges,
        warm_up=0,
        steps_source="by hand" if len(edges) else None,
        collectives=PackedCollectives.of(collectives),
        losses=(),
    )


def ranks_of(text: str, **known: Any) -> list[RankSummary]:
    """Ranks as text: `rank 0 world=3 compute=50 edges=0,1000: 0-100 all_reduce 3000 B; 200-300 barrier`."""
    given: list[tuple[str, list[str]]] = []

    def does(line: str, at_ns: int) -> None:
        header, _, rest = line.rpartition(": ") if line.startswith("rank ") else ("", "", line)
        if header or line.startswith("rank "):
            given.append((header or line, []))
        if rest and not rest.startswith("rank "):
            at = at_ns // US
            given[-1][1].append(re.sub(r"^(\d+)-(\d+)", lambda m: f"{int(m[1]) + at}-{int(m[2]) + at}", rest))

    run(statements(text), does, known={"unit_ns": US, **known})
    return [_rank_of(header, lines) for header, lines in given]


def _rank_of(header: str, lines: list[str]) -> RankSummary:
    number, *options = header.removeprefix("rank ").rstrip(":").split()
    option = dict(each.split("=") for each in options)
    made = rank(
        None if number == "-" else int(number),
        *lines,
        world=int(option["world"]) if "world" in option else None,
        compute_us=int(option.get("compute", 0)),
        edges_us=[int(edge) for edge in option["edges"].split(",")] if "edges" in option else (),
        profile=option.get("profile"),
    )
    made = replace(made, losses=tuple(option["lost"].split(",")) if "lost" in option else (), clock=option.get("clock"))
    return moved(made, time_ns(option["moved"], US)) if "moved" in option else made


def _matched(line: str) -> re.Match[str]:
    match = _LINE.fullmatch(line)
    assert match, line
    return match


def unpacked(given: RankSummary) -> Collectives:
    """A rank's collectives, of all groups, in order of their start."""
    parts = [part.unpacked() for _, part in given.collectives.parts]
    names = [name for name in Collectives.__struct_fields__ if name != "groups"]
    columns = {
        name: np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)]) for name in names
    }
    whole = Collectives(**columns, groups=parts[0].groups if parts else ())
    return whole.at(np.argsort(whole.start_ns, kind="stable"))


def with_collectives(given: RankSummary, **columns: Any) -> RankSummary:
    """The same rank with other columns of its collectives."""
    return replace(given, collectives=PackedCollectives.of(replace(unpacked(given), **columns)))


def waits_of(lane: Lane) -> list[list[int]]:
    """What ranks waited: a row for each collective, a column for each rank."""
    rows: list[list[int]] = np.stack([lane.wait_ns(member) for member in lane.members], axis=1).tolist()
    return rows


def moved(given: RankSummary, by: int) -> RankSummary:
    """The same rank with another clock."""
    c, exposed = unpacked(given), given.exposed.unpacked()
    return replace(
        with_collectives(given, start_ns=c.start_ns + by, end_ns=c.end_ns + by),
        window=Span(*(each + by for each in given.window)),
        steady=Span(*(each + by for each in given.steady)),
        exposed=PackedTable.of(Spans(exposed.start_ns + by, exposed.end_ns + by)),
        edges_ns=given.edges_ns + by,
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
