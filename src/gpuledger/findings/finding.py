"""One finding: a claim that a user can act on, with the evidence and what it would save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpuledger.findings.evidence import LEAST_SHARE, Evidence
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.trace.spans import Span
from gpuledger.units import count_text, time_text

WORTH_TELLING: Final = 0.005
"""Findings that would save less than this share of the steady stretch are left out."""

MANY_A_STEP: Final = 10
"""From so many a step on, the mean is told as a whole number, though steps may differ by a few."""

TRACE_COST_NS: Final = 1_000
WAIT_COST_NS: Final = 10_000
"""What tracing costs the host per CUDA call, and more per call that waits, where nothing was measured.

Seen on an H200 host with nsys 2025.3 and OS calls traced: 1 us a launch, 4 to 10 us a synchronisation.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, how we know, and what fixing it would save. None: cannot be told."""

    code: str
    claim: str
    """One sentence without a full stop."""
    evidence: tuple[Evidence, ...]
    saving_ns: int
    """Over the whole window, for the run as profiled; 0 where the finding is about the capture."""
    saving_ns_per_step: int | None
    saving_low_ns_per_step: int | None
    """The low end: what remains when the profiler's own cost per call is taken off."""
    assumption: str
    confidence: str
    """high, medium or low."""
    gpu: int
    next: str
    """The command to run next."""
    explains_ns: int = 0
    """Time that is lost to this and to nothing else: of findings that save about the same, the largest comes first."""

    def __post_init__(self) -> None:
        """Evidence that holds too little of its whole proves nothing: here, so that no finding can tell it."""
        shown = tuple(piece for piece in self.evidence if piece.share is None or piece.share >= LEAST_SHARE)
        object.__setattr__(self, "evidence", shown)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The evidence in words."""
        return tuple(piece.sentence for piece in self.evidence)

    @property
    def example(self) -> Span | None:
        """Where to look: the example of the first piece of evidence that has one."""
        return next((piece.span for piece in self.evidence if piece.span is not None), None)


def finding(
    device: Device,
    code: str,
    claim: str,
    evidence: tuple[Evidence, ...],
    saving: int,
    assumption: str,
    *,
    low: int | None = None,
    explains: int | None = None,
) -> Finding:
    """A finding about one device; `low` is the low end of the saving, `explains` the time that it is about.

    Nothing saves more than is lost to it.
    """
    steps = device.step_count
    lost = saving if explains is None else explains
    saving, low = min(saving, lost), None if low is None else min(low, lost)
    has_steps = device.steps is not None
    return Finding(
        code=code,
        claim=claim,
        evidence=evidence,
        saving_ns=saving,
        saving_ns_per_step=saving // steps if has_steps else None,
        saving_low_ns_per_step=(saving if low is None else low) // steps if has_steps else None,
        assumption=assumption,
        confidence=say("high") if saving > 0.1 * device.steady_ns else say("medium"),
        gpu=device.gpu,
        next=explain_command(code),
        explains_ns=lost,
    )


def explain_command(code: str) -> str:
    """The command that shows the page about a code."""
    return f"gpuledger explain {code}"


def worth_telling(device: Device, saving: int) -> bool:
    """Whether a saving is large enough to be told."""
    return saving >= WORTH_TELLING * device.steady_ns


def less_tracing(device: Device, saving: int) -> int:
    """What is left of a saving on the host when what tracing cost it in the steady stretch, roughly, is taken off."""
    traced = device.steady_calls
    waits = int(traced[device.host.blocking].sum())
    return max(saving - int(traced.sum()) * TRACE_COST_NS - waits * WAIT_COST_NS, 0)


def per_step(device: Device, time: int) -> str:
    """A time in words, for one step where there are steps."""
    text = time_text(time // device.step_count)
    return text if device.steps is None else say("{time} a step", time=text)


def often(device: Device, count: int) -> Message:
    """How often something happens: never a fraction."""
    even = device.steps is not None and _is_even(device, count)
    number = round(count / device.step_count) if even else count
    times = say("once") if number == 1 else say("{count} times", count=count_text(number))
    return _in_steps(device, times, even=even)


def counted(device: Device, count: int, one: Message, several: Message) -> Message:
    """How many of something there are: never a fraction."""
    even = device.steps is not None and _is_even(device, count)
    number = round(count / device.step_count) if even else count
    amount = say("{count} {what}", count=count_text(number), what=one if number == 1 else several)
    return _in_steps(device, amount, even=even)


def _in_steps(device: Device, amount: Message, *, even: bool) -> Message:
    """Of each step, of all of them, or of the window where there are none."""
    if device.steps is None:
        return amount
    if even:
        return say("{amount} a step", amount=amount)
    return say("{amount} in {steps} steps", amount=amount, steps=count_text(device.step_count))


def _is_even(device: Device, count: int) -> bool:
    """Whether a number for one step says it: as many in each, or so many that a part of one is no matter."""
    return count % device.step_count == 0 or count >= MANY_A_STEP * device.step_count
