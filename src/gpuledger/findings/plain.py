"""What would be saved without the profiler: the same edits on a host that it does not slow down.

Tracing makes a host slower, differently in each program. Where the program was also run without the profiler, the
host's pace is known: one scale of all its code and calls, for which the replay takes as long as that run did. A saving
is then told in proportion and at that pace, as a range. Where it was not, it lies between that of the run as profiled
and that at the most that tracing was seen to slow hosts down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from gpuledger.findings.finding import Finding, PlainSaving
from gpuledger.findings.rule import OneGpu
from gpuledger.replay.edits import Edit, host_scaled
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.health import NotMeasured

MOST_SLOWED: Final = 1.8
"""How much slower tracing makes a host that does little but launch, at most: 1.1 to 1.8 times on H200 hosts."""

MOST_SLOWED_BY: Final = {"torch.profiler": 4.0}
"""The same of a tool that notes each operator: 2.5 and 4.0 times in two programs, with the operators' shapes."""

EITHER_WAY: Final = 0.2
"""Without the profiler a saving may be less or more by that share: a host's pace differs from run to run."""

_HALVINGS: Final = 12


def with_plain_savings(told: Sequence[Finding], subjects: Mapping[int, OneGpu]) -> list[Finding]:
    """The findings with what they save without the profiler, where that can be replayed."""
    replayed = {found.gpu for found in told if found.edit is not None}
    hosts = {gpu: PlainHost(subjects[gpu].scenario) for gpu in replayed}
    return [found if found.edit is None else hosts[found.gpu].plainly(found, found.edit) for found in told]


class PlainHost:
    """The host of a scenario, without the profiler."""

    def __init__(self, scene: Scenario) -> None:
        self.scene = scene

    def plainly(self, found: Finding, edit: Edit) -> Finding:
        """A finding with what it saves on this host."""
        plain = self.saving(edit, found.saving_ns, found.explains_ns)
        low = None if found.saving_ns_per_step is None else plain.low_ns // found.steps
        return replace(found, plain=plain, saving_low_ns_per_step=low)

    @cached_property
    def steady_ns(self) -> int | None:
        """What the steady stretch takes without the profiler; None where that is not known."""
        device = self.scene.device
        plain_ns = self.scene.trace.plain_window_ns
        if isinstance(plain_ns, NotMeasured):
            return None
        return round(device.steady_ns * plain_ns / device.ledger.window_ns)

    @cached_property
    def scale(self) -> float:
        """How long the host takes for what takes it 1 under the profiler."""
        if self.steady_ns is None:
            return 1 / MOST_SLOWED_BY.get(self.scene.trace.origin.tool, MOST_SLOWED)
        low, high = 0.05, 1.5
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._takes(middle) < self.steady_ns:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def _takes(self, scale: float, *edits: Edit) -> int:
        return self.scene.steady_ns(lambda graph: host_scaled(graph, scale), *edits)

    @cached_property
    def _at_pace_ns(self) -> int:
        return self._takes(self.scale)

    def saving(self, edit: Edit, saving_ns: int, lost_ns: int) -> PlainSaving:
        """Of a change that saves so much under the profiler, of so much lost."""
        at_pace = min(max(self._at_pace_ns - self._edited_ns(edit), 0), lost_ns)
        if self.steady_ns is None:
            return PlainSaving(None, *_range(at_pace, saving_ns, self.scene.device.steady_ns))
        in_proportion = round(saving_ns * self.steady_ns / self.scene.device.steady_ns)
        return PlainSaving((at_pace + in_proportion) // 2, *_range(at_pace, in_proportion, self.steady_ns))

    def _edited_ns(self, edit: Edit) -> int:
        return self.scene.steady_ns(edit, lambda graph: host_scaled(graph, self.scale))


def _range(one_ns: int, other_ns: int, steady_ns: int) -> tuple[int, int]:
    """What lies between them, and a little beyond; never all that there is."""
    low, high = sorted((one_ns, other_ns))
    return round(low * (1 - EITHER_WAY)), min(round(high * (1 + EITHER_WAY)), max(high, steady_ns))
