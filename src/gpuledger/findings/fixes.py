"""What would be changed if a finding were acted on: a code in, the edit of the dependency graph that stands for it out.

An edit is the plainest change that does what the finding asks for. Its words are the finding's assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.light.steady_kernels import KernelSavings, LoopedKernels, SteadyKernels, looped_kernels
from gpuledger.analyse.memory.figures import NS_PER_S, TO_DEVICE, TO_HOST, CopyFlow, copy_flows
from gpuledger.analyse.utilization.kernel_use import UseOfKernels
from gpuledger.catalog.calls import CallKind
from gpuledger.findings.finding import OCCUPATIONS
from gpuledger.ledger.activity import GRAPH_FAMILY, State
from gpuledger.ledger.causes import TRIGGERS, Cause, QueueTrigger, Trigger
from gpuledger.ledger.host import DISPATCH_NS, Host
from gpuledger.replay.edits import (
    Edit,
    handed_over_sooner,
    one_after_another,
    run_aside,
    scale_operations,
    with_call_durations,
    with_durations,
    with_free_launches,
    without_calls,
    without_code,
    without_lags,
    without_latency,
    without_operations,
    without_waits,
)
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.keys import Positions, RowsByKey, distinct, is_among, leave_out
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Table

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.against_counters import CountedUse

SMALL_COPY_NS: Final = 20_000  # a copy this short costs the host more than the device: it is worth packing with others

MOST_SERVING: Final = 4
"""So many calls on each side of a wait may serve it: an event is made, recorded, waited for and destroyed."""

BESIDE: Final = 1 / 12
"""What a copy beside compute takes from it, of its own time: a thirtieth to a ninth was seen on H200s."""

USUAL_LAUNCH_NS: Final = 5_000  # where a run has no launches


OtherWay = Callable[[SteadyKernels], KernelSavings]
"""Says which steady kernels would be shorter or gone if their work were done another way."""


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
    """The edits of one device's findings."""

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

    @cached_property
    def copy_flows(self) -> tuple[CopyFlow, ...]:
        return copy_flows(self.trace, self.device)

    # what the host does

    @cached_property
    def _of_threads(self) -> RowsByKey:
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
        before = self._before(launches)
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
    def _last(self) -> Ints:
        """For each call the one before it in its thread; -1 for none."""
        last = np.full(len(self.graph.calls), -1, np.int64)
        for _, mine in self._of_threads:
            last[mine[1:]] = mine[:-1]
        return last

    def _before(self, calls: Positions) -> Ints:
        return self._last[calls]

    def _without(self, calls: Positions) -> Edit:
        """These calls go, with their work and the code around them, down to what is usual between launches."""
        gone = np.zeros(len(self.graph.calls), np.bool_)
        gone[calls] = True
        following = np.flatnonzero((self._last >= 0) & gone[self._last] & ~gone)
        dispatch = self.code_ns(Cause.DISPATCH)
        more = np.maximum(dispatch[following] - self.usual_dispatch_ns, 0)
        return lambda graph: without_code(without_calls(graph, calls, dispatch[calls]), following, more)

    # fixes

    def host_code(self, cause: Cause) -> Edit:
        """Code of this cause takes no time, but for what lies in gaps that something else set off."""
        code = self.code_ns(cause)
        calls = np.flatnonzero(self.steady & (code > 0) & ~self._in_gaps_of_others(cause))
        return lambda graph: without_code(graph, calls, code[calls])

    def thread_waits(self) -> Edit:
        """What another thread is waited for is there: a thread that hands over does so a gap sooner."""
        code = self.host_code(Cause.WAIT_THREAD)
        calls = np.flatnonzero(self.steady & (self.graph.calls.after >= 0) & self._in_gaps(Cause.WAIT_THREAD))
        waits_ns = np.minimum(self.code_ns(Cause.WAIT_THREAD)[calls], self.graph.code_before(calls))
        rest_ns = np.maximum(self.device.ledger.gaps.length_ns[self._gap_of_call[calls]] - waits_ns, 0)
        return lambda graph: handed_over_sooner(code(graph), calls, rest_ns)

    def _in_gaps_of_others(self, cause: Cause) -> NDArray[np.bool_]:
        """Which calls are made in a gap that another occupation of the host set off: their code is part of it."""
        return self._in_gaps(*(other for other in OCCUPATIONS if other is not cause))

    def _in_gaps(self, *triggers: Trigger) -> NDArray[np.bool_]:
        """Which calls are made in a gap that one of these set off."""
        chosen = [TRIGGERS.index(trigger) for trigger in triggers]
        return is_among(np.append(self.device.ledger.gaps.trigger, -1)[self._gap_of_call], chosen)

    @cached_property
    def _gap_of_call(self) -> Ints:
        """The gap that each call is made in; -1 for none."""
        gaps, begin = self.device.ledger.gaps, self.graph.recorded.call_begin
        place = np.searchsorted(gaps.start_ns, begin, side="right") - 1
        return np.where((place >= 0) & (begin <= np.append(gaps.end_ns, 0)[place]), place, -1)

    def calls(self, kind: CallKind) -> Edit:
        """Calls of a kind are not made."""
        return self._without(self.steady_calls(kind))

    def load(self) -> Edit:
        """What is loaded is there, what leads to it is not run, and a launch that loads takes no longer than others."""
        calls, begin = self.steady_calls(CallKind.LOAD), self.graph.recorded.call_begin
        code = self.code_ns(Cause.HOST_CODE, Cause.DISPATCH, Cause.WAIT_THREAD, Cause.OS)
        leads = np.zeros(len(begin), np.bool_)
        for number, mine in self._of_threads:
            leads[mine] = is_among(begin[mine], self.host.leads_to_loads(number).end_ns)
        leading = np.flatnonzero(leads & self._in_gaps(Cause.LOAD) & self.steady)
        _, late = self._ended(Cause.LOAD)
        launching = self.graph.operations.call[late]
        late, launching = late[kept := launching >= 0], launching[kept]
        took = self.graph.calls.duration_ns[launching]
        shorter = np.minimum(took, min(self.usual_launch_ns, USUAL_LAUNCH_NS))  # most launches may be such

        def changed(graph: DependencyGraph) -> DependencyGraph:
            graph = with_call_durations(graph, launching, shorter)
            graph = without_code(without_latency(graph, late, took - shorter), leading, code[leading])
            return without_calls(graph, calls, code[calls])

        return changed

    def compiled(self) -> Edit:
        """What is compiled is there: what is called for it is not, and the code around it is not run."""
        inside, launching = self._in_gaps(QueueTrigger.COMPILE) & self.steady, np.zeros(len(self.graph.calls), np.bool_)
        launching[self.graph.operations.call[self.graph.operations.call >= 0]] = True
        gone, kept = np.flatnonzero(inside & ~launching), np.flatnonzero(inside & launching)
        code = np.maximum(self.graph.code_before(kept) - self.usual_dispatch_ns, 0)
        return lambda graph: without_code(without_calls(graph, gone), kept, code)

    def waits(self) -> Edit:
        """Nothing waits for the device in order to look at a result: the waits go, and the small reads before them."""
        calls = np.flatnonzero(self.steady & (self.graph.calls.blocks > 0) & (self.kinds == CallKind.SYNC.number))
        long = self.graph.launched_by(calls) & (self.work.end_ns - self.work.start_ns >= SMALL_COPY_NS)
        is_kept = is_among(calls, self.graph.operations.call[long])
        gone, kept = calls[~is_kept], calls[is_kept]
        remove = self._without(distinct(np.concatenate((gone, self._serving(gone)))))
        return lambda graph: without_waits(remove(graph), kept)

    def _serving(self, waits: Positions) -> Positions:
        """What is called right around these waits, and for nothing else: small copies before, events on both sides."""
        serving = np.zeros(len(self.graph.calls) + 1, np.bool_)
        serving[waits] = True
        reads = self._copies_little
        for _ in range(MOST_SERVING):
            before = np.append(self._last[serving[:-1]], -1)
            serving[before[reads[before] | self._handles_event[before]]] = True
            serving[:-1] |= self._handles_event & (self._last >= 0) & serving[self._last]
            serving[-1] = False  # before a thread's first call
        serving[waits] = False
        return np.flatnonzero(serving)

    @cached_property
    def _copies_little(self) -> NDArray[np.bool_]:
        work, call = self.work, self.graph.operations.call
        large = np.zeros(len(self.graph.calls) + 1, np.bool_)
        large[call[work.end_ns - work.start_ns >= SMALL_COPY_NS]] = True
        little: NDArray[np.bool_] = (self.kinds == CallKind.COPY_CALL.number) & ~large[:-1]
        return little

    @cached_property
    def _handles_event(self) -> NDArray[np.bool_]:
        """Which calls make, record, look at or destroy an event; none that others wait for it."""
        calls = self.host.calls
        handles = calls.strings.each(
            calls.codes("name"), lambda name: "Event" in name and "WaitEvent" not in name, np.bool_
        )
        return handles[self.graph.call_row]

    def small_copies(self) -> Edit:
        """One copy takes the place of each run of small ones, and nobody waits for it."""
        work = self.work
        copies = self._steady_operations(State.COPY)
        copies = copies[work.end_ns[copies] - work.start_ns[copies] < SMALL_COPY_NS]
        call = self.graph.calls_of(copies)
        run, place = self._until_launch, np.arange(len(self.kinds))
        first, last = np.full(len(run), len(run)), np.full(len(run), -1)
        np.minimum.at(first, run[call], call)
        np.maximum.at(last, run[call], call)
        # whatever else the host does between two copies of a run, or right after one, goes with them
        between = (place > first[run]) & (place <= last[run])
        follows = is_among(self._last, call) & self.steady & (self.kinds != CallKind.LAUNCH.number)
        gone = self._without(np.flatnonzero(between | follows))
        return lambda graph: without_waits(gone(graph), np.flatnonzero(place == first[run]))

    @cached_property
    def _until_launch(self) -> Ints:
        """A number for each launch of a thread with what the thread called since the one before it."""
        number = np.zeros(len(self.graph.calls), np.int64)
        done = 0
        for _, mine in self._of_threads:
            launches = self.kinds[mine] == CallKind.LAUNCH.number
            number[mine] = done + np.cumsum(launches) - launches
            done += int(np.count_nonzero(launches)) + 1
        return number

    def launches(self) -> Edit:
        """Launching costs nothing, nor do the other calls on the way, nor does a thread that hands launches over."""
        return self._free_launches

    @cached_property
    def _free_launches(self) -> Edit:
        calls = self.steady_calls(CallKind.LAUNCH, CallKind.CALL)
        handing_over = np.where(self._in_gaps(QueueTrigger.BEHIND), self.code_ns(Cause.WAIT_THREAD), 0)
        dispatch = self.code_ns(Cause.DISPATCH) + handing_over
        return lambda graph: with_free_launches(graph, calls, dispatch[calls])

    @cached_property
    def looped(self) -> LoopedKernels:
        return looped_kernels(self.device, self.work)

    @cached_property
    def looping(self) -> Positions:
        """The calls that launch what loops repeat, with what is called on the way."""
        launches = self._only_launching(self.looped.repeated)
        calls = self.steady_calls(CallKind.LAUNCH, CallKind.CALL)
        return calls[is_among(self._until_launch[calls], self._until_launch[launches])]

    def loops(self) -> Edit:
        """Of each loop of small kernels only the first round is launched: one kernel does it for all tensors."""
        code = self.graph.code_before(self.looping)
        return lambda graph: with_free_launches(graph, self.looping, code)

    def _only_launching(self, chosen: Positions) -> Positions:
        """The calls that launch these operations and no others: a graph's launch stays."""
        others = np.delete(self.graph.operations.call, chosen)
        return leave_out(self.graph.calls_of(chosen), others)

    # what the device does

    def _steady_operations(self, state: State) -> Positions:
        work = self.work
        mine = (work.state == state) & (work.gpu == self.device.gpu) & self.device.begins_steady(work.start_ns)
        return np.flatnonzero(mine)

    def kernels(self, codes: list[int]) -> Edit:
        """Kernels of these names do not run and are not launched."""
        chosen = self._steady_operations(State.COMPUTE)
        return self.not_launched(chosen[is_among(self.work.name[chosen], codes)])

    def not_launched(self, chosen: Positions) -> Edit:
        """These operations do not run, and calls that launch nothing else are not made.

        A graph's launch stays, and takes as much less as the graph has fewer nodes.
        """
        gone = self._without(self._only_launching(chosen))
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

    def shorter(self, way: OtherWay) -> KernelSavings:
        """Which of them another way of doing their work would make shorter, or leave out."""
        return self.busy.once(way)

    def another_way(self, way: OtherWay) -> Edit:
        """Kernels take as long as another way of doing their work would, or do not run and are not launched."""
        chosen = self.shorter(way)
        stays = chosen.duration_ns > 0
        gone = self.not_launched(np.sort(chosen.operations[~stays]))
        return lambda graph: with_durations(gone(graph), chosen.operations[stays], chosen.duration_ns[stays])

    def gaps(self, trigger: Trigger) -> Edit:
        """What was queued begins as soon as its stream comes to it."""
        chosen, operations = self._ended(trigger)
        less = self.device.ledger.gaps.length_ns[chosen]
        return lambda graph: without_lags(graph, operations, less)

    def _ended(self, trigger: Trigger) -> tuple[Positions, Positions]:
        """The gaps that this set off, and the operation that ended each."""
        chosen, after = self.device.gaps_of(trigger), self.device.ledger.gaps.after
        chosen = chosen[after[chosen] >= 0]
        here, operations = self.part.places(after[chosen])
        return chosen[here], operations

    def faster_kernel(self, name: str, share: float) -> Edit:
        """Kernels of one name take that share of their time less."""
        chosen = self._steady_operations(State.COMPUTE)
        chosen = chosen[self.work.name[chosen] == self.trace.strings.code(name)]
        duration = np.rint((self.work.end_ns - self.work.start_ns)[chosen] * (1 - share)).astype(np.int64)
        return lambda graph: with_durations(graph, chosen, duration)

    def faster_rows(self, chosen_rows: NDArray[np.bool_], share: float) -> Edit:
        """Kernels in these rows of their table take that share of their time less."""
        work = self.work
        chosen = self._steady_operations(State.COMPUTE)
        chosen = chosen[work.family[chosen] != work.families.index(GRAPH_FAMILY)]
        chosen = chosen[chosen_rows[work.row[chosen]]]
        return lambda graph: scale_operations(graph, chosen, 1 - share)

    def fast_and_hidden(self) -> Edit:
        """Copies come at the rate that their way allows, and run beside compute."""
        hidden, fast = self.hidden(State.COPY), self._at_rate(self._steady_operations(State.COPY), self.copy_flows)
        return lambda graph: fast(hidden(graph))

    def hidden(self, state: State) -> Edit:
        """Copies or communication run beside compute, and nobody waits for them; copies slow it down a little."""
        chosen = self._steady_operations(state)
        call = self.graph.calls_of(chosen)
        slower = self._slowed_by(chosen) if state is State.COPY else 1.0
        compute = self._steady_operations(State.COMPUTE)
        return lambda graph: scale_operations(run_aside(without_waits(graph, call), chosen), compute, slower)

    def _slowed_by(self, copies: Positions) -> float:
        """How many times as long compute takes with these copies beside it."""
        duration = self.work.end_ns - self.work.start_ns
        compute_ns = int(duration[self._steady_operations(State.COMPUTE)].sum())
        return 1 + BESIDE * int(duration[copies].sum()) / compute_ns if compute_ns else 1.0

    @cached_property
    def _pageable(self) -> Positions:
        flows = [self.copies_of(flow) for flow in self.copy_flows if flow.is_pageable]
        return np.sort(np.concatenate(flows)) if flows else np.zeros(0, np.intp)

    def copies_of(self, flow: CopyFlow) -> Positions:
        """The copies of a flow, among all operations."""
        copies, chosen = self.trace[Table.COPIES], self._steady_operations(State.COPY)
        row = self.work.row[chosen]

        def are(column: str, text: str) -> NDArray[np.bool_]:
            return is_among(copies.codes(column)[row], [copies.strings.code(text), *([] if text else [NO_TEXT])])

        alike = are("kind", flow.kind)
        if flow.kind in (*TO_DEVICE, *TO_HOST):  # the host has a part in it
            alike &= are("src_kind" if flow.kind in TO_DEVICE else "dst_kind", flow.memory)
        return chosen[alike]

    def pinned(self) -> Edit:
        """Copies of pageable memory come at the link's rate, and nobody waits for them."""
        fast = self._at_rate(self._pageable, [flow for flow in self.copy_flows if flow.is_pageable])
        call = self.graph.calls_of(self._pageable)
        calls = self.graph.calls.duration_ns[call]
        shorter = np.minimum(calls, self.usual_launch_ns)

        # a link carries one copy in each direction at a time, whatever streams they are on
        way, start, end = self.work.name[self._pageable], self.work.start_ns, self.work.end_ns
        ordered = self._pageable[np.lexsort((start[self._pageable], way))]
        before, after = ordered[:-1], ordered[1:]
        apart = (self.work.name[before] == self.work.name[after]) & (end[before] <= start[after])

        def changed(graph: DependencyGraph) -> DependencyGraph:
            in_turn = one_after_another(without_waits(graph, call), after[apart], before[apart])
            return fast(with_call_durations(in_turn, call, shorter))

        return changed

    def _at_rate(self, chosen: Positions, flows: Sequence[CopyFlow]) -> Edit:
        """These copies come at the rate that their way allows, where that is faster."""
        copies, work = self.trace[Table.COPIES], self.work
        rate = {flow.kind: flow.way_bytes_per_s for flow in flows}
        allowed = copies.strings.each(work.name[chosen], lambda kind: rate.get(kind) or 0, np.int64)
        size = np.maximum(copies["bytes"][work.row[chosen]], 0)
        duration = (work.end_ns - work.start_ns)[chosen]
        least = np.where(allowed > 0, size * NS_PER_S // np.maximum(allowed, 1), duration)
        return lambda graph: with_durations(graph, chosen, np.minimum(duration, least))
