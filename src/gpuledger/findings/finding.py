"""One finding: a claim that a user can act on, with the evidence and what it would save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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

LAUNCHING_SLOWED: Final = 1.5
"""How much slower tracing makes a host that does little but launch: 1.1 to 1.8 times on H200 hosts."""

_SLOWED_BY_TRACING: Final = ("LAUNCH-BOUND", "HOST-CODE", "HOST-SYNC", "HOST-COPY")
"""Findings about a host that tracing makes slower; their savings have a low end."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, how we know, and what mending it would save. None: cannot be told."""

    code: str
    claim: str
    """One sentence without a full stop."""
    evidence: tuple[str, ...]
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


def finding(
    device: Device,
    code: str,
    claim: str,
    evidence: tuple[str, ...],
    saving: int,
    assumption: str,
    *,
    at_least: int | None = None,
) -> Finding:
    """A finding about one device; the low end is `at_least`, or less where tracing slows the host."""
    steps = device.step_count
    low = max(saving - _tracing_ns(device), 0) if code in _SLOWED_BY_TRACING else saving
    if code == "LAUNCH-BOUND":
        low = min(low, round(saving / LAUNCHING_SLOWED))
    low = low if at_least is None else max(min(low, at_least), 0)
    has_steps = device.steps is not None
    return Finding(
        code=code,
        claim=claim,
        evidence=evidence,
        saving_ns=saving,
        saving_ns_per_step=saving // steps if has_steps else None,
        saving_low_ns_per_step=low // steps if has_steps else None,
        assumption=assumption,
        confidence=say("high") if saving > 0.1 * device.steady_ns else say("medium"),
        gpu=device.gpu,
        next=f"gpuledger explain {code}",
    )


def _tracing_ns(device: Device) -> int:
    """What tracing cost the host in the steady stretch, roughly."""
    traced = device.steady_calls
    waits = int(traced[device.host.blocking].sum())
    return int(traced.sum()) * TRACE_COST_NS + waits * WAIT_COST_NS


def per_step(device: Device, time: int) -> str:
    """A time in words, for one step where there are steps."""
    text = time_text(time // device.step_count)
    return text if device.steps is None else say("{time} a step", time=text)


def times_each(device: Device, count: int) -> str:
    """How often a step."""
    each = count / device.step_count
    return count_text(round(each)) if each >= 1 else f"{each:.2g}"
