"""One finding: a claim that a user can act on, with the evidence and what it would save.

A piece of evidence is a sentence for people, and what it was made from for programs, timelines and pages.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from gpuledger.attribution.lines import LinePlace
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.replay.edits import Edit
from gpuledger.trace.spans import Span

MAX_EXAMPLES: Final = 20  # so many launches stand for all that a piece of evidence is about
MIN_EVIDENCE_SHARE: Final = (
    0.2  # what holds less than this share of what it is a part of proves nothing, and is not told
)


class Evidence(Struct, frozen=True):
    """What was seen, where, how often, and how much of which whole it is. Empty or None: not known, or of no matter."""

    sentence: str  # without a full stop
    span: Span | None = None  # the best example: where to look
    pid: int | None = None
    tid: int | None = None
    ranges: tuple[str, ...] = ()  # the ranges around it, outermost first
    place: str = ""  # where the share is by ranges, in words that go on a sentence: `in forward > attention`
    call: str = ""
    kernel: str = ""
    copy: str = ""  # the direction of copies, in NVIDIA's words
    moved_bytes: int | None = None  # what they moved in the steady stretch
    correlations: tuple[int, ...] = ()  # of up to MAX_EXAMPLES launches or calls, the costliest first
    count: int | None = None  # how many of the thing named there are in the steady stretch
    share: float | None = None
    of: str = ""  # what `share` is a share of
    line: LinePlace | None = None  # the line of code that holds the share, where stacks of Python were recorded


SIGNIFICANT_SHARE: Final = 0.005  # findings that would save less than this share of the steady stretch are left out
MIN_SURE_SHARE: Final = 0.4
"""A saving of which less than that is left without the profiler is unsure: half, and a fifth for the host's pace."""


class PlainSaving(Struct, frozen=True):
    """What would be saved without the profiler, over the same steps."""

    ns: int | None  # None where the program was not run without it
    low_ns: int  # where each event that was recorded cost the most that was measured
    high_ns: int  # where it cost the least. Never more than `Finding.most_ns`.


class Finding(Struct, frozen=True):
    """What is wrong, how we know, and what fixing it would save. None: cannot be told."""

    code: str
    claim: str  # one sentence without a full stop
    evidence: tuple[Evidence, ...]
    saving_ns: int = 0  # in the steady stretch, for the run as profiled; 0 where the finding is about the capture
    saving_ns_per_step: int | None = None
    saving_low_ns_per_step: int | None = None  # the low end: what would be saved of the run without the profiler
    assumption: str = ""
    confidence: str = say("high")  # high, medium or low
    gpu: int = -1  # -1: of all, or of none
    next: str = ""  # the command to run next: that which explains the code, unless another is given
    explains_ns: int = 0  # time that is lost to this and to nothing else: nothing saves more
    steps: int = 1  # how many steps that is of
    edit: Edit | None = None
    """What stands for acting on it, in the dependency graph of its device; None where nothing does."""
    then_ns: int | None = None  # what it saves once all those before it are mended; None where that cannot be told
    plain: PlainSaving | None = None
    fix: Message | None = None  # what to change first, in one line; None where the claim says it
    is_bound: bool = False  # whether the saving is the most that can be had, and less is usual
    is_slowed: bool = False  # whether it is about the host's own pace, which a profiler slows
    follows: str = ""  # the code that it comes after, as it is mostly about what is left of its time

    def __post_init__(self) -> None:
        """Evidence that holds too little of its whole proves nothing: here, so that no finding can tell it."""
        shown = tuple(piece for piece in self.evidence if piece.share is None or piece.share >= MIN_EVIDENCE_SHARE)
        force_setattr(self, "evidence", shown)
        force_setattr(self, "next", self.next or f"gpuledger explain {self.code}")

    @property
    def most_ns(self) -> int:
        """Nothing that is said of it is more: a bound is one, and else nothing saves more than was lost."""
        return self.saving_ns if self.is_bound else max(self.explains_ns, self.saving_ns)

    @property
    def is_recording(self) -> bool:
        """Whether most of its time may be what the profiler took to record events."""
        return self.plain is not None and self.plain.ns is None and self.plain.low_ns < MIN_SURE_SHARE * self.saving_ns

    @property
    def is_unsure(self) -> bool:
        """Whether most of the saving may be the profiler's own: what waits for the GPU leaves it idle at any pace."""
        return self.is_slowed and self.is_recording

    @property
    def middle_ns(self) -> int:
        """The middle of what it saves without the profiler, where that can be told."""
        return self.saving_ns if self.plain is None else (self.plain.low_ns + self.plain.high_ns) // 2

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(piece.sentence for piece in self.evidence)

    @property
    def example(self) -> Span | None:
        """Where to look: the example of the first piece of evidence that has one."""
        return next((piece.span for piece in self.evidence if piece.span is not None), None)


def is_significant(device: Device, saving: int) -> bool:
    """Whether a saving is large enough to be told."""
    return saving >= SIGNIFICANT_SHARE * device.steady_ns
