"""What edits are made of: the calls, the host's code and the operations of a device's replayed steps.

Each finding has its edit, the plainest change of the dependency graph that does what it asks for, in its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.light.steady_kernels import LoopedKernels, SteadyKernels, looped_kernels
from gpuledger.analyse.memory.figures import CopyFlow, copy_flows
from gpuledger.analyse.utilization.kernel_use import UseOfKernels
from gpuledger.catalog.calls import CallKind
from gpuledger.ledger.activity import State
from gpuledger.ledger.causes import TRIGGERS, Cause, Trigger
from gpuledger.ledger.host import DISPATCH_NS, Host
from gpuledger.replay.edits import (
    Edit,
    with_call_durations,
    without_calls,
    without_code,
    without_operations,
)
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.keys import Positions, RowsByKey, is_among, leave_out
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.against_counters import CountedUse

Made = TypeVar("Made")
USUAL_LAUNCH_NS: Final = 5_000  # where a run has no launches


def _code_by_cause(graph: DependencyGraph, host: Host) -> Mapping[Cause, Ints]:
    """The host's own code before each call, by cause."""
    recorded, calls = graph.recorded, graph.calls
    causes: dict[Cause, Ints] = {}
    first_ns = int(recorded.call_begin.min(initial=np.iinfo(np.int64).max))
    for number, mine in RowsByKey.of(calls.thread):
        begin = recorded.call_begin[mine]
        ended = np.append(begin[:1], recorded.call_end[mine][:-1])
        if begin[0] == first_ns and graph.opens_ns is not None:
            ended[0] = min(graph.opens_ns, first_ns)
        for cause, amount in host.thread(number).split(ended, begin).items():
            causes.setdefault(cause, np.zeros(len(calls), np.int64))[mine] = amount
    return causes


class Fixes:
    """One device's replayed steps, for the edits of its findings."""

    def __init__(
        self,
        trace: Trace,
        scene: Scenario,
        use: UseOfKernels | None = None,
        hertz: float | None = None,
        counted: CountedUse | None = None,
    ) -> None:
        self.trace, self._use, self._hertz, self._counted = trace, use, hertz, counted
        self.device, self.part, self.graph = scene.device, scene.part, scene.graph
        self.work, self.host = scene.part.work, scene.part.host
        self.steady: NDArray[np.bool_] = self.device.begins_steady(self.graph.recorded.call_begin)
        """Which calls begin in the steady stretch."""
        self._kept: dict[Callable[[Fixes], Any], Any] = {}

    def once(self, make: Callable[[Fixes], Made]) -> Made:
        """What is made of this, such as an edit, made once for all who ask: the same edit is replayed once."""
        if make not in self._kept:
            self._kept[make] = make(self)
        made: Made = self._kept[make]
        return made

    @cached_property
    def copy_flows(self) -> tuple[CopyFlow, ...]:
        return copy_flows(self.trace, self.device)

    # what the host does

    @cached_property
    def calls_of_threads(self) -> RowsByKey:
        return RowsByKey.of(self.graph.calls.thread)

    @property
    def code_by_cause(self) -> Mapping[Cause, Ints]:
        return self.host.once(_code_by_cause, self.graph, self.host)

    def code_ns(self, *causes: Cause) -> Ints:
        nothing = np.zeros(len(self.graph.calls), np.int64)
        return sum((self.code_by_cause.get(cause, nothing) for cause in causes), nothing)

    @cached_property
    def kinds(self) -> NDArray[np.int8]:
        return self.host.kinds[self.graph.call_row]

    def steady_calls(self, *kinds: CallKind) -> Positions:
        return np.flatnonzero(self.steady & is_among(self.kinds, [kind.number for kind in kinds]))

    @cached_property
    def usual_dispatch_ns(self) -> int:
        """What the framework usually needs from one launch to the next."""
        launches = self.steady_calls(CallKind.LAUNCH, CallKind.CALL)
        before = self.previous_call[launches]
        plain = (before >= 0) & is_among(self.kinds[before], [CallKind.LAUNCH.number, CallKind.CALL.number])
        code = self.graph.calls.code_ns[launches[plain]]
        code = code[code < DISPATCH_NS]
        return round(median(code)) if len(code) else 0

    @cached_property
    def usual_launch_ns(self) -> int:
        """What a call that launches something usually takes."""
        launches = self.steady_calls(CallKind.LAUNCH)
        return round(median(self.graph.calls.duration_ns[launches])) if len(launches) else USUAL_LAUNCH_NS

    @cached_property
    def previous_call(self) -> Ints:
        """For each call the one before it in its thread; -1 for none."""
        last = np.full(len(self.graph.calls), -1, np.int64)
        for _, mine in self.calls_of_threads:
            last[mine[1:]] = mine[:-1]
        return last

    def drop_calls(self, calls: Positions) -> Edit:
        """These calls go, with their work and the code around them, down to what is usual between launches."""
        gone = np.zeros(len(self.graph.calls), np.bool_)
        gone[calls] = True
        following = np.flatnonzero((self.previous_call >= 0) & gone[self.previous_call] & ~gone)
        dispatch = self.code_ns(Cause.DISPATCH)
        more = np.maximum(dispatch[following] - self.usual_dispatch_ns, 0)
        return lambda graph: without_code(without_calls(graph, calls, dispatch[calls]), following, more)

    def in_gaps(self, *triggers: Trigger) -> NDArray[np.bool_]:
        """Which calls are made in a gap that one of these set off."""
        chosen = [TRIGGERS.index(trigger) for trigger in triggers]
        return is_among(np.append(self.device.ledger.gaps.trigger, -1)[self.gap_of_call], chosen)

    @cached_property
    def gap_of_call(self) -> Ints:
        """The gap that each call is made in; -1 for none."""
        gaps, begin = self.device.ledger.gaps, self.graph.recorded.call_begin
        place = np.searchsorted(gaps.start_ns, begin, side="right") - 1
        return np.where((place >= 0) & (begin <= np.append(gaps.end_ns, 0)[place]), place, -1)

    @cached_property
    def launch_group(self) -> Ints:
        """A number for each launch of a thread with what the thread called since the one before it."""
        number = np.zeros(len(self.graph.calls), np.int64)
        done = 0
        for _, mine in self.calls_of_threads:
            launches = self.kinds[mine] == CallKind.LAUNCH.number
            number[mine] = done + np.cumsum(launches) - launches
            done += int(np.count_nonzero(launches)) + 1
        return number

    @cached_property
    def looped(self) -> LoopedKernels:
        return looped_kernels(self.device, self.work)

    def launching_only(self, chosen: Positions) -> Positions:
        """The calls that launch these operations and no others: a graph's launch stays."""
        others = np.delete(self.graph.operations.call, chosen)
        return leave_out(self.graph.calls_of(chosen), others)

    # what the device does

    def steady_operations(self, state: State) -> Positions:
        work = self.work
        mine = (work.state == state) & (work.gpu == self.device.gpu) & self.device.begins_steady(work.start_ns)
        return np.flatnonzero(mine)

    def not_launched(self, chosen: Positions) -> Edit:
        """These operations do not run, and calls that launch nothing else are not made.

        A graph's launch stays, and takes as much less as the graph has fewer nodes.
        """
        gone = self.drop_calls(self.launching_only(chosen))
        launched, fewer = (
            np.bincount(call[call >= 0], minlength=len(self.graph.calls))
            for call in (self.graph.operations.call, self.graph.operations.call[chosen])
        )
        smaller = np.flatnonzero((fewer > 0) & (fewer < launched))
        share = 1 - fewer[smaller] / launched[smaller]
        duration = np.rint(self.graph.calls.duration_ns[smaller] * share).astype(np.int64)
        return lambda graph: with_call_durations(without_operations(gone(graph), chosen), smaller, duration)

    @cached_property
    def busy(self) -> SteadyKernels:
        return SteadyKernels(self.trace, self.device, self.host, self.work, self._use, self._hertz, self._counted)

    def gaps_with_ends(self, trigger: Trigger) -> tuple[Positions, Positions]:
        """The gaps that this set off, and the operation that ended each."""
        chosen, after = self.device.gaps_of(trigger), self.device.ledger.gaps.after
        chosen = chosen[after[chosen] >= 0]
        here, operations = self.part.places(after[chosen])
        return chosen[here], operations
