"""One finding: a claim that a user can act on, with the evidence and what it would save.

A piece of evidence is a sentence for people, and what it was made from for programs, timelines and pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from gpuledger.attribution.lines import LinePlace
from gpuledger.catalog.kernel_names import cut_label
from gpuledger.ledger.causes import Cause, QueueTrigger, Trigger
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.replay.edits import Edit
from gpuledger.trace.spans import Span
from gpuledger.units import count_text, time_text

MOST_EXAMPLES: Final = 20  # so many launches stand for all that a piece of evidence is about
_INNERMOST: Final = 4  # so many ranges of a path are told; the evidence's data has all
_IN_CLAIM: Final = 2  # and so many in a claim
_LONGEST_NAME: Final = 100
LEAST_SHARE: Final = 0.2  # what holds less than this share of what it is a part of proves nothing, and is not told


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
    correlations: tuple[int, ...] = ()  # of up to MOST_EXAMPLES launches or calls, the costliest first
    count: int | None = None  # how many of the thing named there are in the steady stretch
    share: float | None = None
    of: str = ""  # what `share` is a share of
    line: LinePlace | None = None  # the line of code that holds the share, where stacks of Python were recorded


WORTH_TELLING: Final = 0.005  # findings that would save less than this share of the steady stretch are left out

UNSURE: Final = 0.4
"""A saving of which less than that is left without the profiler is unsure: half, and a fifth for the host's pace."""

MANY_A_STEP: Final = 10  # from so many a step on, the mean is told as a whole number, though steps may differ by a few


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
        shown = tuple(piece for piece in self.evidence if piece.share is None or piece.share >= LEAST_SHARE)
        force_setattr(self, "evidence", shown)
        force_setattr(self, "next", self.next or f"gpuledger explain {self.code}")

    @property
    def most_ns(self) -> int:
        """Nothing that is said of it is more: a bound is one, and else nothing saves more than was lost."""
        return self.saving_ns if self.is_bound else max(self.explains_ns, self.saving_ns)

    @property
    def is_recording(self) -> bool:
        """Whether most of its time may be what the profiler took to record events."""
        return self.plain is not None and self.plain.ns is None and self.plain.low_ns < UNSURE * self.saving_ns

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


def worth_telling(device: Device, saving: int) -> bool:
    """Whether a saving is large enough to be told."""
    return saving >= WORTH_TELLING * device.steady_ns


def per_step(device: Device, time: int) -> str:
    """A time in words, for one step where there are steps."""
    text = time_text(time // device.step_count)
    return text if device.steps is None else say("{time} per step", time=text)


OCCUPATIONS: Final[tuple[Trigger, ...]] = (
    *(Cause.LOAD, Cause.ALLOC, Cause.OS, Cause.WAIT_THREAD, Cause.HOST_CODE, QueueTrigger.COMPILE),
)
"""What a host does instead of launching, and sets gaps off with."""

MOSTLY_ONE: Final = 0.9  # a finding that has this share of its time in one gap rests on that gap alone
FEW_STEPS: Final = 6  # of fewer steps nobody can tell whether what one of them has comes again


def only_gap(device: Device, triggers: Sequence[Trigger]) -> int | None:
    """The gap that holds nearly all of what these set off; None where there are several."""
    chosen = np.concatenate([np.empty(0, np.intp), *map(device.gaps_of, triggers)])
    lengths = device.ledger.gaps.length_ns[chosen]
    is_one = len(lengths) and lengths.max() >= MOSTLY_ONE * lengths.sum()
    return int(chosen[lengths.argmax()]) if is_one else None


def is_once(device: Device, triggers: Sequence[Trigger]) -> bool:
    """Whether the host is occupied with this in one of many steps only."""
    has_many = device.steps is not None and device.step_count >= FEW_STEPS
    return has_many and set(triggers) <= set(OCCUPATIONS) and only_gap(device, triggers) is not None


def lost_time_words(device: Device, time: int, triggers: Sequence[Trigger]) -> str:
    """What is lost to these, for one step; of one gap alone the whole."""
    if not is_once(device, triggers):
        seen_once = (
            device.steps is None and set(triggers) <= set(OCCUPATIONS) and only_gap(device, triggers) is not None
        )
        return say("{time}, once,", time=time_text(time)) if seen_once else per_step(device, time)
    return say("{time}, once in {steps} steps,", time=time_text(time), steps=count_text(device.step_count))


def path_text(path: Sequence[str]) -> str:
    """A path of ranges in words, the innermost of a long one; what calls itself by its own name counts once."""
    names = [name for name, around in zip(path, (None, *path), strict=False) if name != around]
    shown = [short_text(name) for name in names[-_INNERMOST:]]
    return " > ".join(("…", *shown) if len(names) > _INNERMOST else shown)


def path_in_claim(path: Sequence[str]) -> str:
    """A path of ranges in a claim, which is short."""
    return path_text(path[-_IN_CLAIM:])


def short_text(name: str) -> str:
    """A name in words; a program may give one of any length."""
    return cut_label(name, _LONGEST_NAME)


def often(device: Device, count: int) -> Message:
    """How often something happens: never a fraction."""
    return _in_steps(
        device, count, lambda number: say("once") if number == 1 else say("{count} times", count=count_text(number))
    )


def count_words(device: Device, count: int, one: Message, several: Message) -> Message:
    """How many of something there are: never a fraction."""

    def amount(number: int) -> Message:
        return say("{count} {what}", count=count_text(number), what=one if number == 1 else several)

    return _in_steps(device, count, amount)


def _in_steps(device: Device, count: int, amount: Callable[[int], Message]) -> Message:
    """For each step where that says it: as many in each, or so many that a part of one is no matter; else in all."""
    steps = device.step_count
    if device.steps is None:
        return amount(count)
    if count % steps == 0 or count >= MANY_A_STEP * steps:
        return say("{amount} per step", amount=amount(round(count / steps)))
    return say("{amount} in {steps} steps", amount=amount(count), steps=count_text(steps))
