"""Steps: which launches belong together, and where that cuts the device's time; and which of them are prefill.

A range, a marker kernel or a graph launch only says which activities belong to step i. The step ends when the last of
them ends, the next one begins there. The first begins where its range opens on the host, without a range with its first
launch call; or when the device is done with what came before. So steps tile the device's time and their lengths sum to
it. Other host times of ranges are never used as device times.

A range counts what any thread of its process launches while it is open: autograd launches from threads of its own.
Where several processes share a GPU, the steps are those of the process that launched the most.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.catalog.range_names import chooses_token, is_matrix_vector
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.launched_in import launched_in, matching_ranges, nothing_matches, range_names
from gpuledger.ledger.levels import FEWEST, LevelFinder, index_of_next_mark, source_words
from gpuledger.ledger.lost_work import waits_for_unrecorded
from gpuledger.ledger.ranges import spans_of_time
from gpuledger.messages import say
from gpuledger.regex import NamePattern, regex
from gpuledger.selection import Selection
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group, is_among, same
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Spans, covered, furthest, holds, pairs_inside
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import Codes
from gpuledger.trace.tables import Rows

WARM_UP_RATIO: Final = 1.25  # a leading step that takes this many times the median of the rest is warm-up


class Steps(Struct, frozen=True):
    """The steps of one GPU. `edges_ns` has one more entry than there are steps."""

    gpu: int
    source: str  # in words: what the steps were found by
    edges_ns: Ints
    warm_up: int  # how many leading steps are left out of the statistics
    stretches: Spans | None = None  # what counts of the time between the edges; None: all of it

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
        return self.length_ns[self.warm_up :]


def steps(trace: Trace, work: Activities, host: Host, levels: LevelFinder, wanted: Selection) -> Steps | None:
    """The steps of one GPU; None where nothing that repeats covers the window."""
    own, ranges = work.of(levels.gpu), None
    if wanted.range_pattern is not None:
        source = say("marked by ranges matching '{pattern}'", pattern=wanted.range_pattern)
        ranges = matching_ranges(trace, NamePattern(wanted.range_pattern))
        member = launched_in(own, host, ranges) if len(ranges) else None
        if member is None:
            raise nothing_matches(wanted.range_pattern, "range", range_names(trace))
    elif wanted.kernel_pattern is not None:
        source = say("ended by kernels matching '{pattern}'", pattern=wanted.kernel_pattern)
        names = {code: trace.strings.text(code) or "" for code in distinct(own.name).tolist()}
        pattern = NamePattern(wanted.kernel_pattern, re.IGNORECASE)
        ending = [code for code, name in names.items() if code >= 0 and pattern.search(name)]
        marks = np.flatnonzero(is_among(own.name, ending))
        if not len(marks):
            shown = sorted(set(names.values()))
            raise nothing_matches(wanted.kernel_pattern, "kernel", shown, lambda name: cut_label(label(name)))
        member = index_of_next_mark(marks, len(own))
    else:
        level = levels.step() if wanted.level is None else levels.named(wanted.level)
        if level is None and wanted.any_level:
            level = levels.outermost()
        if level is None:
            return None
        source, member, ranges = source_words(level.source, level.name), levels.member(level), level.ranges
    return _cut_into_steps(own, host, levels.gpu, source, member, ranges)


def _cut_into_steps(
    work: Activities, host: Host, gpu: int, source: str, member: Positions, ranges: Rows | None
) -> Steps | None:
    """Edges from which activity belongs to which step, and which ranges mark them."""
    count = int(member.max()) + 1
    ends = sweep.fold("most", member, work.end_ns, np.full(count, np.iinfo(np.int64).min))
    of_first = np.flatnonzero(member == member.min(where=member >= 0, initial=count))
    first, call = of_first[0], work.launch[of_first]
    if waits_for_unrecorded(work, host, of_first[:1])[0]:
        start = int(work.start_ns[first])
    else:
        start = int(host.calls["start_ns"][call[call >= 0]].min(initial=work.start_ns[of_first].min()))
        if ranges is not None and call[0] >= 0:
            began, ended, pid = (int(host.calls[name][call[0]]) for name in ("start_ns", "end_ns", "pid"))
            around = (ranges["start_ns"] <= began) & (ranges["end_ns"] >= ended) & (ranges["pid"] == pid)
            start = int(ranges["start_ns"][around].min(initial=start))
        start = min(int(work.end_ns[:first].max(initial=start)), int(work.start_ns[first]))
    edges = distinct(np.append(start, furthest(ends)[ends > start]))
    return Steps(gpu, source, edges, warm_up(np.diff(edges))) if len(edges) > 1 else None


def warm_up(lengths: Ints) -> int:
    """How many leading steps are clearly slower than what follows: two, of few steps a third, of many a tenth."""
    most = max(len(lengths) // 10, min(len(lengths) // FEWEST, 2))
    count = 0
    while count < most and lengths[count] > WARM_UP_RATIO * median(lengths[count + 1 :]):
        count += 1
    return count


PHASES: Final = ("", "prefill", "decode", say("mixed"))  # positions in it are phases; the first is: cannot be told

PREFILL, DECODE, _MIXED = 1, 2, 3
MIXED_SHARE: Final = 0.1  # a step is mixed when the lesser phase has this share of the work that says anything

_ALONE, _ENDED = r"(?<![a-z])", r"(?![a-z])"
"""Around a word that stands alone: `decode_step`, `bench:decode[3]`, but neither `decoder` nor `extended`."""

_RANGES: Final = (
    regex(rf"{_ALONE}(prefill(ing)?|extend){_ENDED}|context_[1-9]|execute_new_[1-9]|(?<!\d)[1-9]\d* ctx reqs"),
    regex(rf"{_ALONE}decod(e|ing){_ENDED}|generation_[1-9]|_cached_[1-9]|(?<!\d)[1-9]\d* gen reqs"),
)
_KERNELS: Final = (
    regex(r"flash_fwd_kernel(?!_traits)|prefill|context_attention|extend_attention|fmha_v2_flash|^_fwd_kernel$"),
    regex(r"splitkv|paged_attention|decode|masked_multihead|mmha|xqa|fwd_(grouped_)?kernel_stage"),
)
_TRAINING_RANGE: Final = regex(rf"{_ALONE}backward{_ENDED}|autograd::engine|optimizer\.step")
_TRAINING_KERNEL: Final = regex(r"backward|_bwd_|multi_tensor_apply|fused_?adam")
"""All of them are looked for in lower case, which is far quicker than leaving case to the expression."""


class Phases(Struct, frozen=True):
    """The phase of each step, of what came before the steps and of what came after, as positions in PHASES."""

    before: int
    of_step: tuple[int, ...]
    after: int

    @property
    def known(self) -> bool:
        return any((self.before, *self.of_step, self.after))


def phases(trace: Trace, work: Activities, host: Host, gpu: int, edges_ns: Ints, window: Spans | None = None) -> Phases:
    """The phases of one GPU's steps, which `edges_ns` bound; of a window of several stretches, what begins in them."""
    own = work.of(gpu)
    votes, mixed_share = _votes_by_range(trace, own, host), MIXED_SHARE
    if not votes.any():  # by what kernels are called, where decode's occur at all
        votes = _votes(trace, own.name, _KERNELS)
        votes = np.where((votes == _MIXED) | (not (votes == DECODE).any()), np.int8(0), votes)
    if not votes.any():
        votes, mixed_share = _votes_by_products(trace, own), 1.0
    if votes.any() and not _trains(trace, own.name):
        if window is not None and len(window) > 1:
            votes = np.where(holds(window, own.start_ns), votes, np.int8(0))
        amounts = np.zeros((len(edges_ns) + 1) * len(PHASES), np.int64)
        stretch = sweep.search(edges_ns, own.start_ns, "right")
        sweep.fold("sum", stretch * len(PHASES) + votes, own.end_ns - own.start_ns, amounts)
        rows = amounts.reshape(-1, len(PHASES))[:, 1:].tolist()
        before, *of_step, after = (_phase(prefill, decode, mixed, mixed_share) for prefill, decode, mixed in rows)
        if mixed_share < 1 or DECODE in of_step:
            return Phases(before, tuple(of_step), after)
    names = (trace.strings.text(code) or "" for code in trace.strings.distinct(own.name))
    if len(edges_ns) > FEWEST and any(map(chooses_token, names)) and not _trains(trace, own.name):
        return Phases(0, _phases_by_launches(own, edges_ns), 0)
    return Phases(0, (0,) * (len(edges_ns) - 1), 0)


def _votes_by_products(trace: Trace, own: Activities) -> NDArray[np.int8]:
    """Of a transformer, what its products say: of a matrix with a vector for one token, of two matrices for many."""
    votes = np.zeros(len(own), np.int8)
    if {"attention", "rope"} & {*own.families} and "gemm" in own.families:
        votes[own.family == own.families.index("gemm")] = PREFILL
        votes[(votes > 0) & trace.strings.each(own.name, is_matrix_vector, np.bool_)] = DECODE
    return votes if (votes == DECODE).any() else np.zeros_like(votes)


def _phases_by_launches(own: Activities, edges_ns: Ints) -> tuple[int, ...]:
    """Where no name tells: most steps launch the same, which is decode; one that launches other work and takes the GPU
    longer than they do reads a prompt. Unknown where fewer than half of the steps are alike."""
    step = sweep.search(edges_ns, own.start_ns, "right") - 1
    step[step == len(edges_ns) - 1] = -1
    count, busy, launched = (
        sweep.sums(step, amounts, len(edges_ns) - 1)
        for amounts in (same(1, len(own)), own.end_ns - own.start_ns, own.name.astype(np.int64) ** 2)
    )
    _, number = group(count, launched)
    alike = np.bincount(number)
    if 2 * alike.max() < len(count):
        return (0,) * len(count)
    usual = number == alike.argmax()
    reads = ~usual & (busy > WARM_UP_RATIO * median(busy[usual]))
    return tuple(np.where(reads, PREFILL, DECODE).tolist()) if reads.any() else (0,) * len(count)


def _phase(prefill: int, decode: int, mixed: int, mixed_share: float) -> int:
    total = prefill + decode + mixed
    if not total:
        return 0
    if mixed or min(prefill, decode) >= mixed_share * total:
        return _MIXED
    return PREFILL if prefill > decode else DECODE


def _votes(trace: Trace, codes: Ints | Codes, patterns: tuple[re.Pattern[str], re.Pattern[str]]) -> NDArray[np.int8]:
    """The phase that each of these texts speaks of, as a position in PHASES."""

    def vote(text: str) -> int:
        prefill, decode = (bool(pattern.search(text.lower())) for pattern in patterns)
        return _MIXED if prefill and decode else PREFILL if prefill else DECODE if decode else 0

    return trace.strings.each(codes, vote, np.int8)


def _votes_by_range(trace: Trace, own: Activities, host: Host) -> NDArray[np.int8]:
    """For each activity what the innermost range around its launch that names a phase says."""
    votes, ranges = np.zeros(len(own), np.int8), spans_of_time(trace)
    of_range = _votes(trace, ranges.codes("name"), _RANGES)
    if not of_range.any():
        return votes
    ranges, of_range = ranges.where(of_range > 0), of_range[of_range > 0]
    launched = np.flatnonzero(own.launch >= 0)
    calls = host.calls.at(own.launch[launched])
    outer, inner = pairs_inside(
        ranges["start_ns"], ranges["end_ns"], ranges["pid"], calls["start_ns"], calls["end_ns"], calls["pid"]
    )
    outermost_first = np.argsort(ranges["start_ns"][outer], kind="stable")
    votes[launched[inner[outermost_first]]] = of_range[outer[outermost_first]]  # the innermost, written last, stands
    return votes


def _trains(trace: Trace, names: Codes) -> bool:
    """Whether gradients are computed: then attention over long queries is a forward pass, and no prompt is read."""
    strings = trace.strings
    for codes, pattern in ((spans_of_time(trace).codes("name"), _TRAINING_RANGE), (names, _TRAINING_KERNEL)):
        if any(pattern.search((strings.text(code) or "").lower()) for code in strings.distinct(codes)):
            return True
    return False
