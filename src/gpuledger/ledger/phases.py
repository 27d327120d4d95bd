"""Prefill told from decode: steps in, the phase of each out.

A step's phase is what most of its work says: the ranges that the work was launched in, where any is called prefill or
decode (or context and generation, as vLLM and TensorRT-LLM do), else the attention kernels, where both kinds occur.
Kernels for long queries alone prove nothing: training and encoders use them too. A program that trains has no phases,
whatever its ranges are called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import spans_of_time
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.columns import same
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Spans, holds, pairs_inside
from gpuledger.trace.strings import Codes

PHASES: Final = ("", "prefill", "decode", say("mixed"))
"""Positions in it are phases; the first is: cannot be told."""

PREFILL, DECODE, _MIXED = 1, 2, 3
MIXED_SHARE: Final = 0.1
"""A step is mixed when the lesser phase has this share of the work that says anything."""

_ALONE, _ENDED = r"(?<![a-z])", r"(?![a-z])"
"""Around a word that stands alone: `decode_step`, `bench:decode[3]`, but neither `decoder` nor `extended`."""

_RANGES: Final = (
    re.compile(rf"{_ALONE}(prefill(ing)?|extend){_ENDED}|context_[1-9]"),
    re.compile(rf"{_ALONE}decod(e|ing){_ENDED}|generation_[1-9]"),
)
_KERNELS: Final = (
    re.compile(r"flash_fwd_kernel(?!_traits)|prefill|context_attention|extend_attention|fmha_v2_flash"),
    re.compile(r"splitkv|paged_attention|decode|masked_multihead|mmha|xqa|fwd_(grouped_)?kernel_stage"),
)
_TRAINING_RANGE: Final = re.compile(rf"{_ALONE}backward{_ENDED}|autograd::engine|optimizer\.step")
_TRAINING_KERNEL: Final = re.compile(r"backward|_bwd_|multi_tensor_apply|fused_?adam")
"""All of them are looked for in lower case, which is far quicker than leaving case to the expression."""


@dataclass(frozen=True, slots=True)
class Phases:
    """The phase of each step, of what came before the steps and of what came after, as positions in PHASES."""

    before: int
    of_step: tuple[int, ...]
    after: int

    @property
    def known(self) -> bool:
        return any((self.before, *self.of_step, self.after))


def phases(trace: Trace, work: Activities, host: Host, gpu: int, edges_ns: Ints, window: Spans | None = None) -> Phases:
    """The phases of one GPU's steps, which `edges_ns` bound; of a window of several stretches, what begins in them."""
    here = work.on(gpu)
    votes = _by_range(trace, work, host, here)
    if not votes.any():
        votes = _by_kernel(trace, work.name[here])
    if votes.any() and _trains(trace, work.name[here]):
        votes = np.zeros(len(here), np.int8)
    amounts = np.zeros((len(edges_ns) + 1) * len(PHASES), np.int64)
    if votes.any():
        own = work.of(gpu)
        if window is not None and len(window) > 1:
            votes = np.where(holds(window, own.start_ns), votes, np.int8(0))
        stretch = sweep.search(edges_ns, own.start_ns, "right")
        sweep.fold("sum", stretch * len(PHASES) + votes, own.end_ns - own.start_ns, amounts)
    phase = [_phase(*row) for row in amounts.reshape(-1, len(PHASES))[:, 1:].tolist()]
    return Phases(phase[0], tuple(phase[1:-1]), phase[-1])


def _phase(prefill: int, decode: int, mixed: int) -> int:
    total = prefill + decode + mixed
    if not total:
        return 0
    if mixed or min(prefill, decode) >= MIXED_SHARE * total:
        return _MIXED
    return PREFILL if prefill > decode else DECODE


def _says(text: str, patterns: tuple[re.Pattern[str], re.Pattern[str]]) -> int:
    lower = text.lower()
    prefill, decode = (bool(pattern.search(lower)) for pattern in patterns)
    return _MIXED if prefill and decode else PREFILL if prefill else DECODE if decode else 0


def _by_text(trace: Trace, codes: Ints | Codes, patterns: tuple[re.Pattern[str], re.Pattern[str]]) -> NDArray[np.int8]:
    """What each of these texts says."""
    return trace.strings.each(codes, lambda text: _says(text, patterns), np.int8)


def _by_range(trace: Trace, work: Activities, host: Host, here: Positions) -> NDArray[np.int8]:
    """For each activity what the innermost telling range around its launch says."""
    votes = np.zeros(len(here), np.int8)
    ranges = spans_of_time(trace)
    says = _by_text(trace, ranges.codes("name"), _RANGES)
    if not says.any():
        return votes
    ranges, says = ranges.where(says > 0), says[says > 0]
    call = work.launch[here]
    launched = np.flatnonzero(call >= 0)
    calls = host.calls.at(call[launched])
    outer, inner = pairs_inside(
        ranges["start_ns"], ranges["end_ns"], ranges["pid"], calls["start_ns"], calls["end_ns"], calls["pid"]
    )
    outermost_first = np.argsort(ranges["start_ns"][outer], kind="stable")
    votes[launched[inner[outermost_first]]] = says[outer[outermost_first]]  # the innermost, written last, stands
    return votes


def _trains(trace: Trace, names: Codes) -> bool:
    """Whether gradients are computed: then attention over long queries is a forward pass, and no prompt is read."""
    strings = trace.strings
    for codes, pattern in ((spans_of_time(trace).codes("name"), _TRAINING_RANGE), (names, _TRAINING_KERNEL)):
        if any(pattern.search((strings.text(code) or "").lower()) for code in strings.distinct(codes)):
            return True
    return False


def _by_kernel(trace: Trace, names: Codes) -> NDArray[np.int8]:
    """What each kernel's name says, where decode's kernels occur at all."""
    votes = _by_text(trace, names, _KERNELS)
    if not (votes == DECODE).any():
        return same(0, len(votes), np.int8)
    return np.where(votes == _MIXED, np.int8(0), votes)
