"""One finding: a claim that a user can act on, with the evidence and what it would save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpuledger.findings.evidence import Evidence
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.units import count_text, time_text

WORTH_TELLING: Final = 0.005
"""Findings that would save less than this share of the steady stretch are left out."""

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

    @property
    def sentences(self) -> tuple[str, ...]:
        """The evidence in words."""
        return tuple(piece.sentence for piece in self.evidence)


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
    """A finding about one device; `low` is the low end of the saving, `explains` the time that it is about."""
    steps = device.step_count
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
        explains_ns=saving if explains is None else explains,
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


def times_each(device: Device, count: int) -> str:
    """How often a step."""
    each = count / device.step_count
    return count_text(round(each)) if each >= 1 else f"{each:.2g}"
