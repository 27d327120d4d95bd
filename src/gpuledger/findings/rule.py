"""What a rule is: a code, the function that looks for it, and all else that is known of it, declared in one file.

`rules.py` lists them. A code has a page, whose head is the file's docstring and whose rest is `explain/CODE.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.light.books import light_books
from gpuledger.analyse.light.steady_kernels import use_and_clock
from gpuledger.attribution.lost_time import MOSTLY
from gpuledger.attribution.ranges import ProgramRanges
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.fixes import Fixes
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.replay.edits import Edit
from gpuledger.replay.scenario import Scenario, scenario
from gpuledger.trace.keys import equal
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Rows

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import MatchedTimeline
    from gpuledger.analyse.light.books import LightBooks
    from gpuledger.analyse.utilization.against_counters import CountedUse
    from gpuledger.analyse.utilization.stretches import SampledUse

Subject = TypeVar("Subject")
_MIN_LINE_SHARE: Final = 0.3  # a line that holds less of what was lost is told as evidence, not in the claim


class LazyScenario:
    """A device's scenario, made when it is first asked for, once, by whichever of several threads comes first."""

    def __init__(
        self, trace: Trace, device: Device, use: SampledUse | None = None, counted: CountedUse | None = None
    ) -> None:
        self._trace, self._device, self._counted, self._lock = trace, device, counted, Lock()
        self._use = use_and_clock(use)
        self._made: tuple[Scenario, Fixes] | None = None

    def both(self) -> tuple[Scenario, Fixes]:
        """The scenario, and the edits for it."""
        with self._lock:
            if self._made is None:
                scene = scenario(self._trace, self._device, sampled=True)
                self._made = scene, Fixes(self._trace, scene, *self._use, self._counted)
            return self._made


class OneGpu(Struct, frozen=True, dict=True):
    """One GPU of a profile, and what Nsight Compute measured of its kernels, where it was asked."""

    trace: Trace
    device: Device
    ranges: ProgramRanges
    replays: LazyScenario
    kernels: MatchedTimeline | None = None
    use: SampledUse | None = None  # what its counters say, where they were sampled

    @property
    def scenario(self) -> Scenario:
        """Its steady stretch, to be replayed with changes."""
        return self.replays.both()[0]

    @property
    def fixes(self) -> Fixes:
        return self.replays.both()[1]

    def saved_ns(self, edit: Edit, lost_ns: int) -> int:
        """What a change saves of the steady stretch: never more than is lost to what it changes."""
        return min(self.scenario.saved_ns(edit), lost_ns)

    @cached_property
    def light(self) -> LightBooks | None:
        """What its compute time was good for; None where nothing was computed."""
        return light_books(self.device, self.fixes.busy)


class Capture(Struct, frozen=True):
    """A profile as a whole."""

    trace: Trace
    devices: Sequence[Device]

    def largest_share(self, cause: Cause) -> float:
        """The share of a cause, on the device where it is the largest."""
        return max((device.idle_ns(cause) / device.steady_ns for device in self.devices), default=0.0)


class Rule(Struct, Generic[Subject], frozen=True):
    """One thing that can be found, and all that is known of its code but the page, `explain/CODE.md`."""

    code: str
    find: Callable[[Rule[Subject], Subject], Sequence[Finding]]
    fix: Message | None  # what to change first, in one line. None where the finding itself, or its claim, says it.
    edit: Callable[[Fixes], Edit] | None = None
    """The change of the dependency graph that stands for acting on it; None where `find` makes its own, or none is."""
    triggers: tuple[Trigger, ...] = ()  # the gaps it is about: a timeline marks it at the longest of them
    exposed: LineKind | None = None  # the exposed work it is about, likewise
    is_bound: bool = False
    """Whether no program attains its edit: launching never costs nothing, and power may not allow the highest clock."""
    is_slowed: bool = False  # whether it is about the host's own pace, which a profiler slows
    is_estimate: bool = False  # whether its saving rests on what kernels would take that did not run
    is_symptom: bool = False
    """Whether it says when or to what time is lost, not why: a cause that explains it comes first."""

    def edit_of(self, subject: OneGpu) -> Edit:
        if self.edit is None:
            raise ValueError(f"{self.code} has no edit of its own")
        return subject.fixes.once(self.edit)

    def findings(self, subject: Subject) -> Sequence[Finding]:
        return self.find(self, subject)

    def finding(
        self,
        device: Device,
        claim: str,
        evidence: tuple[Evidence, ...],
        saving: int,
        assumption: str,
        *,
        low: int | None = None,
        explains: int | None = None,
        edit: Edit | None = None,
    ) -> Finding:
        """A finding about one device; `low` is the low end of the saving, `explains` the time that it is about.

        Nothing saves more than is lost to it.
        """
        steps, has_steps = device.step_count, device.steps is not None
        lost = saving if explains is None else explains
        saving, low = min(saving, lost), min(saving if low is None else low, lost)
        line = next((piece.line for piece in evidence if piece.line is not None), None)
        if line is not None and line.share >= MOSTLY:
            claim = say("{claim}, mostly {where}", claim=claim, where=line.where)
        elif line is not None and line.share >= _MIN_LINE_SHARE:
            claim = say("{claim}, most of all {where}", claim=claim, where=line.where)
        return Finding(
            code=self.code,
            claim=claim,
            evidence=evidence,
            saving_ns=saving,
            saving_ns_per_step=saving // steps if has_steps else None,
            saving_low_ns_per_step=low // steps if has_steps else None,
            assumption=assumption,
            confidence=say("high") if saving > 0.1 * device.steady_ns else say("medium"),
            gpu=device.gpu,
            explains_ns=lost,
            steps=steps,
            edit=edit,
            fix=self.fix,
            is_bound=self.is_bound,
            is_slowed=self.is_slowed,
        )


def steady_rows(rows: Rows, device: Device, *columns: str) -> Rows:
    """The rows of a table that began on one GPU in its steady stretch, with these columns."""
    return rows.only(*columns).where(are_steady(rows, device))


def are_steady(rows: Rows, device: Device) -> NDArray[np.bool_]:
    """Which rows they are."""
    begins: NDArray[np.bool_] = device.begins_steady(rows["start_ns"]) & equal(rows["gpu"], device.gpu)
    return begins
