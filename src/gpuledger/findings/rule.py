"""What a rule is: a code, the function that looks for it, and what else is known of it.

Each family of rules is a module with a tuple `RULES`; `findings/rules.py` puts them together. A code has a page,
`explain/CODE.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from gpuledger.analyse.memory.copy_flows import CopyFlow, copy_flows
from gpuledger.analyse.program_ranges import ProgramRanges
from gpuledger.findings.finding import Finding
from gpuledger.ledger.causes import Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import LineKind
from gpuledger.trace.model import Trace

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.timeline_match import MatchedTimeline

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class OneGpu:
    """One GPU of a profile, and what Nsight Compute measured of its kernels, where it was asked."""

    trace: Trace
    device: Device
    ranges: ProgramRanges
    kernels: MatchedTimeline | None = None

    @cached_property
    def copy_flows(self) -> tuple[CopyFlow, ...]:
        """Its copies by direction and memory, which several rules look at."""
        return copy_flows(self.trace, self.device)


@dataclass(frozen=True, slots=True)
class Capture:
    """A profile as a whole."""

    trace: Trace
    devices: Sequence[Device]


@dataclass(frozen=True, slots=True)
class Rule(Generic[Subject]):
    """One thing that can be found."""

    code: str
    find: Callable[[Subject], Sequence[Finding]]
    triggers: tuple[Trigger, ...] = ()
    """The gaps it is about: a timeline marks it at the longest of them."""
    exposed: LineKind | None = None
    """The exposed work it is about, likewise."""
    is_symptom: bool = False
    """Whether it says when or to what time is lost, not why: a cause that explains it comes first."""
