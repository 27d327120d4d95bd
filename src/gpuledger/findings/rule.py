"""What a rule is: a code, the function that looks for it, and what else is known of it.

Each family of rules is a module with a tuple `RULES`; `findings/rules.py` puts them together. A code has a page,
`explain/CODE.md`.

The rows of a table that began on one GPU in its steady stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.memory.figures import CopyFlow, copy_flows
from gpuledger.attribution.ranges import ProgramRanges
from gpuledger.findings.finding import Finding
from gpuledger.findings.fixes import OF_CODE, Fixes
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.causes import Trigger
from gpuledger.ledger.device import Device
from gpuledger.replay.edits import Edit
from gpuledger.replay.scenario import Scenario, scenario
from gpuledger.trace.keys import equal
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Rows

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import MatchedTimeline
    from gpuledger.analyse.utilization.stretches import SampledUse

Subject = TypeVar("Subject")


class LazyScenario:
    """A device's scenario, made when it is first asked for, once, by whichever of several threads comes first."""

    def __init__(self, trace: Trace, device: Device, use: SampledUse | None = None) -> None:
        self._trace, self._device, self._lock = trace, device, Lock()
        self._use = None if use is None else use[0]
        self._made: tuple[Scenario, Fixes] | None = None

    def both(self) -> tuple[Scenario, Fixes]:
        """The scenario, and the edits for it."""
        with self._lock:
            if self._made is None:
                scene = scenario(self._trace, self._device, sampled=True)
                self._made = scene, Fixes(self._trace, scene, copy_flows(self._trace, self._device), self._use)
            return self._made


@dataclass(frozen=True)
class OneGpu:
    """One GPU of a profile, and what Nsight Compute measured of its kernels, where it was asked."""

    trace: Trace
    device: Device
    ranges: ProgramRanges
    replays: LazyScenario
    kernels: MatchedTimeline | None = None
    use: SampledUse | None = None
    """What its counters say, where they were sampled."""

    @property
    def scenario(self) -> Scenario:
        """Its steady stretch, to be replayed with changes."""
        return self.replays.both()[0]

    @property
    def fixes(self) -> Fixes:
        """The changes that findings ask for."""
        return self.replays.both()[1]

    def edit(self, code: str) -> Edit:
        """What stands for acting on a code."""
        return OF_CODE[code](self.fixes)

    def saved_ns(self, edit: Edit, lost_ns: int) -> int:
        """What a change saves of the steady stretch: never more than is lost to what it changes."""
        return min(self.scenario.saved_ns(edit), lost_ns)

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
    is_estimate: bool = False
    """Whether its saving rests on what kernels would take that did not run."""
    is_symptom: bool = False
    """Whether it says when or to what time is lost, not why: a cause that explains it comes first."""


def steady_rows(rows: Rows, device: Device, *columns: str) -> Rows:
    """Those rows, with these columns."""
    return rows.only(*columns).where(are_steady(rows, device))


def are_steady(rows: Rows, device: Device) -> NDArray[np.bool_]:
    """Which rows they are."""
    begins: NDArray[np.bool_] = device.begins_steady(rows["start_ns"]) & equal(rows["gpu"], device.gpu)
    return begins
