"""Steps: which launches belong together, and where that cuts the device's time.

A range, a marker kernel or a graph launch only says which activities belong to step i. The step ends when the last of
them ends, the next one begins there, and the first begins with its first launch call. So steps tile the device's time
and their lengths sum to it. Host times of a range are never used as device times.

A range counts what any thread of its process launches while it is open: autograd launches from threads of its own.
Where several processes share a GPU, the steps are those of the process that launched the most.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.kernel_periods import FEWEST
from gpuledger.ledger.launched_in import by_range, nothing_matches, range_names
from gpuledger.ledger.levels import LevelFinder, source_words, up_to
from gpuledger.ledger.unrecorded import waits_for_unrecorded
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Spans, covered, furthest
from gpuledger.trace.statistics import median

WARM_UP_RATIO: Final = 1.25
"""A leading step that takes this many times the median of the rest is warm-up."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one GPU. `edges_ns` has one more entry than there are steps."""

    gpu: int
    source: str
    """In words: what the steps were found by."""
    edges_ns: Ints
    warm_up: int
    """How many leading steps are left out of the statistics."""
    stretches: Spans | None = None
    """What counts of the time between the edges; None: all of it."""

    def __len__(self) -> int:
        return len(self.edges_ns) - 1

    @property
    def length_ns(self) -> Ints:
        if self.stretches is None:
            return np.diff(self.edges_ns)
        return covered(self.stretches, self.edges_ns[:-1], self.edges_ns[1:])

    @property
    def start_ns(self) -> Ints:
        """Where what counts of each step begins."""
        if self.stretches is None:
            return self.edges_ns[:-1]
        first = np.searchsorted(self.stretches.end_ns, self.edges_ns[:-1], side="right")
        return np.maximum(self.edges_ns[:-1], self.stretches.start_ns[first])

    @property
    def end_ns(self) -> Ints:
        """Where what counts of each step ends."""
        if self.stretches is None:
            return self.edges_ns[1:]
        last = np.searchsorted(self.stretches.start_ns, self.edges_ns[1:], side="left") - 1
        return np.minimum(self.edges_ns[1:], self.stretches.end_ns[last])

    @property
    def steady_ns(self) -> Ints:
        """The lengths of the steps that count."""
        return self.length_ns[self.warm_up :]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asks for: how steps are found (all None: find out), and kernel families of their own."""

    range_pattern: str | None = None
    kernel_pattern: str | None = None
    level: str | None = None
    """The name of the level that is to be the step, or a part of it."""
    any_level: bool = False
    """Where no level is the step, the outermost that repeats through the window is taken, to compare like with like."""
    families: tuple[tuple[str, str], ...] = ()
    device: int | None = None
    time_ns: tuple[int | None, int | None] | None = None
    """A stretch of the window, from its start."""
    scope_pattern: str | None = None
    """Only what was launched inside ranges that match; see `ledger.window`."""


def steps(trace: Trace, work: Activities, host: Host, levels: LevelFinder, wanted: Wanted) -> Steps | None:
    """The steps of one GPU; None where nothing that repeats covers the window."""
    gpu, own = levels.gpu, work.of(levels.gpu)
    if wanted.range_pattern is not None:
        member = by_range(trace, own, host, re.compile(wanted.range_pattern))
        if member is None:
            raise nothing_matches(wanted.range_pattern, "range", range_names(trace))
        return _tiled(
            own, host, gpu, say("marked by ranges matching '{pattern}'", pattern=wanted.range_pattern), member
        )
    if wanted.kernel_pattern is not None:
        member = _by_kernel(trace, own, re.compile(wanted.kernel_pattern, re.IGNORECASE))
        if member is None:
            names = {trace.strings.text(code) or "" for code in distinct(own.name).tolist()}
            raise nothing_matches(wanted.kernel_pattern, "kernel", sorted(names), lambda name: cut_label(label(name)))
        return _tiled(
            own, host, gpu, say("ended by kernels matching '{pattern}'", pattern=wanted.kernel_pattern), member
        )
    chosen = levels.step() if wanted.level is None else levels.named(wanted.level)
    if chosen is None and wanted.any_level:
        chosen = levels.outermost()
    if chosen is None:
        return None
    return _tiled(own, host, gpu, source_words(chosen.source, chosen.name), levels.member(chosen))


def _tiled(work: Activities, host: Host, gpu: int, source: str, member: Positions) -> Steps | None:
    """Edges from which activity belongs to which step."""
    count = int(member.max()) + 1
    ends = np.full(count, np.iinfo(np.int64).min)
    sweep.fold("most", member, work.end_ns, ends)
    first = np.flatnonzero(member == member.min(where=member >= 0, initial=count))
    start = _begin_ns(work, host, first)
    edges = distinct(np.append(start, furthest(ends)[ends > start]))
    if len(edges) < 2:
        return None
    return Steps(gpu, source, edges, warm_up(np.diff(edges)))


def _begin_ns(work: Activities, host: Host, of_first: Positions) -> int:
    """When the first step begins: with its first launch call, or when the device is done with what came before."""
    call = work.launch[of_first]
    began = host.calls["start_ns"][call[call >= 0]]
    start = (
        min(int(work.start_ns[of_first].min()), *began.tolist()) if len(began) else int(work.start_ns[of_first].min())
    )
    first = of_first[:1]
    if waits_for_unrecorded(work, host, first)[0]:
        return int(work.start_ns[first[0]])
    before = int(work.end_ns[: first[0]].max(initial=start))
    return min(max(start, before), int(work.start_ns[first[0]]))


def warm_up(lengths: Ints) -> int:
    """How many leading steps are clearly slower than what follows: two, of few steps a third, of many a tenth."""
    most = max(len(lengths) // 10, min(len(lengths) // FEWEST, 2))
    count = 0
    while count < most and lengths[count] > WARM_UP_RATIO * median(lengths[count + 1 :]):
        count += 1
    return count


def _by_kernel(trace: Trace, work: Activities, pattern: re.Pattern[str]) -> Positions | None:
    """Each activity whose name matches ends a step."""
    codes = distinct(work.name).tolist()
    matching = [code for code in codes if code >= 0 and pattern.search(trace.strings.text(code) or "")]
    marks = np.flatnonzero(np.isin(work.name, matching))
    return up_to(marks, len(work)) if len(marks) else None
