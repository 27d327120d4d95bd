"""A host that records no events: what a change saves without the profiler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from gpuledger.findings.finding import PlainSaving
from gpuledger.ledger.activity import calls_in_layers
from gpuledger.ledger.causes import TRIGGERS, Trigger
from gpuledger.ledger.ranges import thread
from gpuledger.replay.edits import Edit, without_events
from gpuledger.replay.graph import NEVER
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.keys import Positions, is_among, search
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows, Table

CALL_COST_NS: Final = (0, 13_000)
"""What recording one CUDA call costs the host, at least and at most: seen with nsys on H200 hosts."""

OPERATOR_COST_NS: Final = (1_200, 3_300)  # what torch.profiler costs for each operator and CUDA call that it records
SHAPES_COST_NS: Final = (2_800, 4_400)  # the same where it records the shapes of the operators' inputs
STACKS_COST_NS: Final = 4_800  # the most where it records Python's functions too
PACE_ERROR_SHARE: Final = 0.2
"""Without the profiler a saving may be less or more by that share: a host's pace differs from run to run."""

_HALVINGS: Final = 12
_FIT_NS: Final = (-5_000, 50_000)
"""Between these lies what an event costs, by the run without the profiler; below 0 where that was the slower one."""


class PlainHost:
    """The host of a scenario, without the profiler: it does not take the time to record events."""

    def __init__(self, scene: Scenario) -> None:
        self.scene = scene

    @cached_property
    def steady_ns(self) -> int | None:
        """What the steady stretch takes without the profiler; None where that is not known."""
        device = self.scene.device
        plain_ns = self.scene.trace.plain_window_ns
        if isinstance(plain_ns, NotMeasured):
            return None
        return round(device.steady_ns * plain_ns / device.ledger.window_ns)

    @cached_property
    def _noted(self) -> Rows:
        """What was recorded between CUDA calls, and cost time: operators and ranges by torch, else the system's calls.

        Python's functions are in what an operator costs; NVTX ranges cost far less than a call.
        """
        trace = self.scene.trace
        if trace.origin.tool != "torch.profiler":
            return calls_in_layers(trace, "os")
        ranges = trace[Table.RANGES]
        others = [trace.strings.code(kind) for kind in ("mark", "python")]
        return ranges.where(~is_among(ranges.codes("kind"), others))

    @cached_property
    def events(self) -> Ints:
        """For each call how many events were recorded in it, and since the thread's last one."""
        graph, host = self.scene.graph, self.scene.part.host
        events = np.bincount(graph.node_of_call, minlength=len(graph.calls))
        owner, start = thread(self._noted), self._noted["start_ns"]
        by_thread, order = np.argsort(graph.calls.thread, kind="stable"), np.lexsort((start, owner))
        caller, ended = graph.calls.thread[by_thread], graph.recorded.call_end[by_thread]
        since = np.diff(search(owner[order], start[order], host.threads[caller], ended, side="right"), prepend=0)
        is_first = np.diff(caller, prepend=-1) != 0
        events[by_thread] += np.where(is_first, 0, since)
        return events

    @cached_property
    def cost_ns(self) -> tuple[float, float]:
        """What one event cost, at least and at most: as the run without the profiler has it, else as was measured."""
        if self.steady_ns is not None:
            low, high = map(float, _FIT_NS)
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if self._takes(middle) < self.steady_ns else (middle, high)
            return (low + high) / 2, (low + high) / 2
        trace = self.scene.trace
        if trace.origin.tool != "torch.profiler":
            return CALL_COST_NS
        ranges = trace[Table.RANGES]
        least, most = SHAPES_COST_NS if (ranges.codes("inputs") != NO_TEXT).any() else OPERATOR_COST_NS
        has_stacks = (ranges.codes("kind") == trace.strings.code("python")).any()
        return least, STACKS_COST_NS if has_stacks else most

    def _takes(self, cost_ns: float, *edits: Edit) -> int:
        return self.scene.steady_ns(*edits, without_events(self.scene.graph, self.events, cost_ns))

    @cached_property
    def _in_gaps(self) -> tuple[Positions, Positions, Ints]:
        """Calls on the way to the launch that ends a steady gap, the gap, and the host's time in it since the last."""
        graph, device, host = self.scene.graph, self.scene.device, self.scene.device.host
        gaps, begin, end = device.ledger.gaps, graph.recorded.call_begin, graph.recorded.call_end
        gap = np.searchsorted(gaps.start_ns, end) - 1
        if not len(host.calls) or not len(gaps.start_ns):
            return gap[:0], gap[:0], end[:0]
        call = gaps.call[gap]
        launched = np.where(call >= 0, host.calls["start_ns"][call], NEVER)
        awaited = host.threads[host.thread_of_call[call]]
        is_own = awaited == self.scene.part.host.threads[graph.calls.thread]
        here = np.flatnonzero((gap >= 0) & (begin <= launched) & is_own & device.steady_gaps[gap])
        gap, since = gap[here], (begin - graph.calls.code_ns)[here]
        spent = np.minimum(end[here], gaps.end_ns[gap]) - np.maximum(since, gaps.start_ns[gap])
        return here, gap, np.maximum(spent, 0)

    def slowed_share(self, triggers: Sequence[Trigger], cost_ns: float) -> float:
        """How much of the host's time in the gaps that these set off events take, where one costs so much."""
        here, gap, spent = self._in_gaps
        chosen = is_among(self.scene.device.ledger.gaps.trigger[gap], [TRIGGERS.index(trigger) for trigger in triggers])
        events, spent = self.events[here[chosen]], spent[chosen]
        return float(np.minimum(events * cost_ns, spent).sum() / max(int(spent.sum()), 1))

    def saving(self, edit: Edit, saving_ns: int, most_ns: int, triggers: Sequence[Trigger] = ()) -> PlainSaving:
        """Of a change that saves so much of what these set off under the profiler, and never more than `most_ns`."""
        if self.steady_ns is None:
            high, low = (round(saving_ns * (1 - self.slowed_share(triggers, cost))) for cost in self.cost_ns)
            return PlainSaving(None, *_range(low, high, min(most_ns, self.scene.device.steady_ns)))
        at_pace = min(max(self._at_pace_ns - self._takes(self.cost_ns[0], edit), 0), most_ns)
        in_proportion = round(saving_ns * self.steady_ns / self.scene.device.steady_ns)
        bounds = _range(at_pace, in_proportion, min(most_ns, self.steady_ns))
        return PlainSaving(min((at_pace + in_proportion) // 2, bounds[1]), *bounds)

    @cached_property
    def _at_pace_ns(self) -> int:
        return self._takes(self.cost_ns[0])


def _range(one_ns: int, other_ns: int, most_ns: int) -> tuple[int, int]:
    """What lies between them, and a little beyond; never more than there is."""
    low, high = sorted((one_ns, other_ns))
    return min(round(low * (1 - PACE_ERROR_SHARE)), most_ns), min(round(high * (1 + PACE_ERROR_SHARE)), most_ns)
