"""A trace's dependency graph: its host calls and device work in, nodes and edges with their lags out."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.calls import CallKind
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.replay.edits import GRAPH_TURNAROUND_NS
from gpuledger.replay.graph import NEVER, CallNodes, DependencyGraph, GraphEvent, OperationFlag, OperationNodes, Times
from gpuledger.replay.lags import (
    FEWEST,
    IN_GRAPH,
    KINDS,
    SAMPLE,
    ObservedLags,
    OperationKinds,
    TraceLags,
    look_up_lags,
    middle,
    observed_lags,
    pair_key,
    trimmed_mean,
    usual_by_key,
    wake_up_key,
)
from gpuledger.replay.passes import is_compiled, native
from gpuledger.replay.program_order import OuterCalls, StreamOrder, outer_calls, stream_order
from gpuledger.replay.waits import (
    UNEXPLAINED_NS,
    CrossStreamWaits,
    StallingCalls,
    Waits,
    cross_stream_waits,
    event_edges,
    hand_offs,
    waits,
)
from gpuledger.trace.keys import Positions, RowsByKey, distinct, group, is_same, same, take
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.statistics import median
from gpuledger.trace.sweep import side_by_side

SLOW_LAUNCH: Final = 3  # a launch into a full queue waited if it took this many times as long as usual

LONG_CALL_NS: Final = 100_000
"""Of a call that takes so long, what it put on the device may begin long before it returns."""

ENOUGH: Final = 200_000  # so many operations say what is usual
AHEAD_NS: Final = 1_000  # a launch that returned by so much before its turn came did not hold its operation up

# where a trace shows none: on H200 hosts
USUAL_LAUNCH_NS: Final = 3_000
USUAL_TURNAROUND_NS: Final = 1_200
USUAL_WAKE_UP_NS: Final = 4_000
COPY_CALL_NS: Final = 10_000  # a copy call that waits for its copy takes no more by itself


def dependency_graph(
    trace: Trace, host: Host, work: Activities, *, residuals: bool = True, lags: TraceLags | None = None
) -> DependencyGraph:
    """The graph of a whole trace. Without `residuals` every edge has its usual lag: this trace's, or those given."""
    return _Builder(trace, host, work, residuals, lags or TraceLags()).graph()


class _Queued(Struct, frozen=True, eq=False):
    """Launches into streams that hold many operations. Calls are outer calls."""

    call: Positions  # those that found the queue full, and waited
    oldest: Positions  # what they waited for
    queue: Ints  # for every call what it waits for if it comes sooner; -1 for nothing
    usual_ns: int  # what such a launch takes where there is room


class _Builder(Struct, dict=True):
    """What the parts of a graph are made of."""

    trace: Trace
    host: Host
    work: Activities
    residuals: bool
    lags: TraceLags

    @cached_property
    def outer(self) -> OuterCalls:
        return outer_calls(self.host)

    @cached_property
    def streams(self) -> StreamOrder:
        return stream_order(self.work)

    @cached_property
    def launch(self) -> Ints:
        """Each operation's outer call; -1 for none, and where the clocks say that it began before its call."""
        if not len(self.outer):
            return np.full(len(self.work), -1, np.int64)
        node = np.append(self.outer.node_of_call, -1)[self.work.launch].astype(np.int64)
        return np.where(self.outer.begin_ns[node] <= self.work.start_ns, node, -1)

    @cached_property
    def waits(self) -> Waits:
        return waits(self.trace, self.host, self.outer, self.work, self.launch, self.streams)

    @cached_property
    def observed(self) -> ObservedLags:
        holds = self.outer.end_ns - self.outer.begin_ns >= LONG_CALL_NS
        holds[self.waits.call] = True
        holds[self.queued.call] = True
        return observed_lags(self.outer, self.work, self.launch, self.streams, holds)

    @cached_property
    def shared(self) -> NDArray[np.bool_]:
        """Which operations ran on a GPU of several processes, which has them take turns."""
        if not len(self.work) or is_same(self.work.pid):
            return np.zeros(len(self.work), np.bool_)
        (_, gpu), (processes, process) = group(self.work.gpu), group(self.work.pid)
        pairs = distinct(gpu * len(processes) + process)
        return (np.bincount(pairs // len(processes)) > 1)[gpu]

    @cached_property
    def kinds(self) -> OperationKinds:
        return OperationKinds(self.host, self.outer, self.work, self.launch, self.streams.before)

    # what is usual

    @cached_property
    def _some(self) -> slice:
        """Operations from the whole length, as many as are needed to know what is usual."""
        return slice(None, None, max(len(self.work) // ENOUGH, 1))

    @cached_property
    def _stream_bound(self) -> Positions:
        """Operations that were launched long before their stream came to them."""
        some = self._some
        since_call, since_stream = self.observed.since_call[some], self.observed.since_stream[some]
        ahead = (since_call > since_stream + AHEAD_NS) & (self.streams.before[some] >= 0) & (self.launch[some] >= 0)
        ahead &= (since_stream < 10 * UNEXPLAINED_NS) & (since_stream > -UNEXPLAINED_NS)
        return np.flatnonzero(ahead) * (some.step or 1)

    def _names_keys(self, rows: Positions | slice) -> Ints:
        names = self.work.name.astype(np.int64) + 1  # graphs have none
        return (names[self.streams.before[rows]] << 31) + names[rows]

    @cached_property
    def launch_ns(self) -> Ints:
        """The usual lag of each operation's launch: where its stream was empty, so that it waited for nothing else."""
        some, observed = self._some, self.observed
        since_call, since_stream = observed.since_call[some], observed.since_stream[some]
        empty = (self.streams.before[some] < 0) | (since_stream > since_call)
        empty &= (self.launch[some] >= 0) & ~observed.same_launch[some] & (since_call < 10 * UNEXPLAINED_NS)
        usual = self.lags.usual(
            "launch_ns",
            lambda rows: self.kinds.launch_keys(rows, observed.from_begin),
            observed.since_call,
            np.flatnonzero(empty) * (some.step or 1),
            middle,
        )
        otherwise = _usual(usual, USUAL_LAUNCH_NS)
        lags = self.kinds.launch_lags(observed.from_begin, lambda key: usual.get(key, otherwise))
        lags[observed.same_launch] = 0
        return lags

    @cached_property
    def turnaround_ns(self) -> Ints:
        """The usual lag of each operation after the one before it: of their names, else of their kinds."""
        usual = self.lags.usual(
            "turnaround_ns", self.kinds.pair_keys, self.observed.since_stream, self._stream_bound, trimmed_mean
        )
        otherwise = _usual(usual, USUAL_TURNAROUND_NS)
        in_graph = pair_key(KINDS.index(IN_GRAPH), KINDS.index(IN_GRAPH))
        by_kind = self.kinds.turnarounds(
            lambda key: usual.get(key, GRAPH_TURNAROUND_NS if key == in_graph else otherwise)
        )
        if self.residuals:
            return by_kind
        by_names = self.lags.usual(
            "names_ns", self._names_keys, self.observed.since_stream, self._stream_bound, trimmed_mean, FEWEST
        )
        known = look_up_lags(self._names_keys(slice(None)), by_names, NEVER)
        known = np.where(known == NEVER, by_kind, known)
        nodes = np.flatnonzero(self.observed.same_launch & (self.work.graph_node >= 0) & ~self._branches)
        if not len(nodes) or not self.lags.is_own:  # a node is known in its own trace only
            return known
        by_node = usual_by_key(self.observed.since_stream[nodes], self.work.graph_node[nodes], middle)
        usual_ns = look_up_lags(self.work.graph_node[nodes], by_node, 0)
        known[nodes] = np.where(usual_ns < known[nodes] + UNEXPLAINED_NS, usual_ns, known[nodes])
        return known

    # the graph

    def graph(self) -> DependencyGraph:
        side_by_side(len(self.work), lambda: self.outer, lambda: self.streams)
        _ = self.observed  # which both of what follows need
        (calls, wait, wait_ns, order), operations = side_by_side(len(self.work), self._host_side, self._operations)
        none, absent = same(-1, len(calls)), same(-1, len(operations))
        begin, end, start, over = map(
            np.ascontiguousarray, (self.outer.begin_ns, self.outer.end_ns, self.work.start_ns, self.work.end_ns)
        )
        past, bound = np.arange(len(operations)), same(0, len(operations), np.int8)
        recorded = Times(begin, end, none, none, start, over, past, absent, bound)
        return DependencyGraph(
            order=order,
            calls=calls,
            wait=wait,
            wait_ns=wait_ns,
            operations=operations,
            recorded=recorded,
            call_row=self.outer.row,
            node_of_call=self.outer.node_of_call,
            threads=len(self.host.threads),
            streams=len(self.streams.by_stream),
            groups=0,
        )

    def _host_side(self) -> tuple[CallNodes, Ints, Ints, Ints]:
        """The calls, what each waits for and with which lag, and the order of all events. `code_ns` of a thread's first
        call is the time at which it begins."""
        outer, count = self.outer, len(self.outer)
        previous_end = outer.end_ns[np.maximum(outer.before, 0)] if count else 0
        code = outer.begin_ns - np.where(outer.before >= 0, previous_end, 0)
        after, after_ns = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        handed = hand_offs(self.trace, self.host, outer, code)
        after[handed.call], after_ns[handed.call] = handed.after, handed.lag_ns
        waited = handed.call[outer.before[handed.call] >= 0]
        code[waited] = np.minimum(code[waited], after_ns[waited])
        duration, queued = outer.end_ns - outer.begin_ns, self.queued
        duration[queued.call] = np.minimum(duration[queued.call], queued.usual_ns)
        waiting, wait, wait_ns, blocks = self._wait_lags(duration)
        nodes = CallNodes(
            thread=outer.thread,
            code_ns=code,
            duration_ns=duration,
            after=after,
            after_ns=after_ns,
            queue=queued.queue,
            queue_ns=np.zeros(count, np.int64),
            first_wait=np.append(0, np.cumsum(np.bincount(waiting, minlength=count))).astype(np.int64),
            blocks=blocks,
        )
        return nodes, wait, wait_ns, self._order(nodes)

    def _order(self, calls: CallNodes) -> Ints:
        """Every event by its time: of those at one instant first a call's end, then beginnings, then operations."""
        begin, outer = self.outer.begin_ns, self.outer
        ends = np.flatnonzero(calls.blocks)
        ends = ends[np.argsort(outer.end_ns[ends], kind="stable")]
        end, code = outer.end_ns[ends], ends * 4 + GraphEvent.CALL_ENDS
        if is_compiled():
            order = np.empty(len(ends) + len(outer) + len(self.work), np.int64)
            native.order(end, code, begin, np.ascontiguousarray(self.work.start_ns), order)
            return order
        begins = np.arange(len(outer)) * 4 + GraphEvent.CALL_BEGINS
        starts = np.arange(len(self.work)) * 4 + GraphEvent.OPERATION
        key = np.concatenate((end, begin, self.work.start_ns))
        return np.concatenate((code, begins, starts))[np.argsort(key, kind="stable")]

    @cached_property
    def queued(self) -> _Queued:
        """The launches that may meet a full queue, those that did, and what they wait for."""
        outer, node = self.outer, self.work.graph_node
        launch = self.launch if is_same(node) else np.where(node < 0, self.launch, -1)  # a graph's nodes take no place
        calls = launch[np.flatnonzero(launch >= 0)[:: max(len(launch) // SAMPLE, 1)]]
        usual = middle(outer.end_ns[calls] - outer.begin_ns[calls]) if len(calls) else 0
        queue = np.full(len(outer), -1, np.int64)
        if not len(calls):
            return _Queued(calls, calls, queue, usual)
        launches = np.ascontiguousarray(take(self.host.are(CallKind.LAUNCH), outer.row))
        if is_compiled():
            call, oldest = np.empty(len(launch), np.int64), np.empty(len(launch), np.int64)
            count = native.queue(
                *(launch, self.streams.oldest, np.ascontiguousarray(self.work.end_ns)),
                *(launches.view(np.int8), outer.begin_ns, outer.end_ns, queue, call, oldest),
                SLOW_LAUNCH * usual,
            )
            return _Queued(call[:count].copy(), oldest[:count].copy(), queue, usual)
        rows = np.flatnonzero((launch >= 0) & (self.streams.oldest >= 0) & launches[launch])
        call, oldest = launch[rows], self.streams.oldest[rows]
        begin, end, room = outer.begin_ns[call], outer.end_ns[call], self.work.end_ns[oldest]
        has_room = room <= begin
        queue[call[has_room]] = oldest[has_room]
        is_full = ~has_room & (room <= end) & (end - begin > SLOW_LAUNCH * usual)
        return _Queued(call[is_full], oldest[is_full], queue, usual)

    def _wait_lags(self, duration: Ints) -> tuple[Ints, Ints, Ints, NDArray[np.int8]]:
        """The waiting calls, what for, and the lag; `duration` becomes what they take by themselves."""
        waits, outer, queued = self.waits, self.outer, self.queued
        call, operation = np.append(waits.call, queued.call), np.append(waits.operation, queued.oldest)
        order = np.argsort(call, kind="stable")
        call, operation = call[order], operation[order]
        is_queue = (np.arange(len(call)) >= len(waits.call))[order]
        blocks = np.zeros(len(outer), np.int8)
        blocks[call] = 1
        if not len(call):
            return call, operation, np.empty(0, np.int64), blocks
        over = self.streams.reach_ns[operation]
        latest = np.full(len(outer), np.iinfo(np.int64).min)
        np.maximum.at(latest, call, over)
        recorded = outer.end_ns[call] - over
        binds = (over == latest[call]) & (over >= outer.begin_ns[call])
        copies = self.observed.from_begin[operation] & (self.launch[operation] == call)
        duration_ns = self.work.end_ns[operation] - self.work.start_ns[operation]
        name = wake_up_key(self.kinds.names(call), np.where(copies, duration_ns, 0))
        wake_up = self.lags.usual("wake_up_ns", name.__getitem__, recorded, np.flatnonzero(binds), middle)
        usual = look_up_lags(name, wake_up, _usual(wake_up, USUAL_WAKE_UP_NS))
        lag = np.where(binds, recorded, np.minimum(usual, recorded)) if self.residuals else usual
        # calls that waited take by themselves what the shortest of their name does; copies what leads up to them
        alone = np.where(binds, np.maximum(recorded, 0), duration[call])[~is_queue]
        names, shown = self.kinds.names(call[~is_queue]), np.arange(len(alone))
        least = self.lags.usual("shortest_ns", names.__getitem__, alone, shown, lambda values: int(values.min()))
        waited, copied = call[binds & ~is_queue], call[binds & copies]
        duration[waited] = np.minimum(duration[waited], look_up_lags(self.kinds.names(waited), least, 0))
        duration[copied] = np.minimum(duration[copied], COPY_CALL_NS)
        return call, operation.astype(np.int64), lag, blocks

    @cached_property
    def _branches(self) -> NDArray[np.bool_]:
        """Nodes of a graph that begin long before the one before them in their stream ends: on another branch."""
        return self.observed.same_launch & (self.observed.since_stream < -UNEXPLAINED_NS) & (self.work.graph_node >= 0)

    def _operations(self) -> OperationNodes:
        work, follows = self.work, (self.streams.before >= 0) & ~self._branches
        due, call_ns, stream_ns = self._bound()
        events = event_edges(self.trace, self.host, self.outer, work, self.launch, self.streams)
        stalling = StallingCalls.of(self.host, self.outer)
        others = cross_stream_waits(work, self.launch, self.streams, events, stalling, due, self._branches, self.shared)
        self._bound_elsewhere(np.flatnonzero(others.binds | others.keeps), others, call_ns, stream_ns, follows)
        other, other_ns = others.other, self._other_lags(others)
        pages, touched_by = self._migrations()
        if len(pages):
            call_ns, stream_ns, other = call_ns.copy(), stream_ns.copy(), other.copy()
            call_ns[pages] = stream_ns[pages] = NEVER
            other[pages], other_ns[pages] = touched_by, work.start_ns[pages] - work.end_ns[touched_by]
        return OperationNodes(
            call=np.ascontiguousarray(self.launch),
            call_ns=call_ns,
            stream=self.streams.stream,
            stream_ns=stream_ns,
            duration_ns=work.end_ns - work.start_ns,
            other=other,
            other_ns=other_ns,
            group=np.full(len(work), -1, np.int32),
            flags=self.observed.from_begin.view(np.int8) * np.int8(OperationFlag.FROM_BEGIN),
        )

    def _migrations(self) -> tuple[Positions, Positions]:
        """Pages that move, and for each the last work of its GPU that began before: it, or who awaits it, moves them.
        No call launches them; without that they would keep their time, and so would all that ends with them."""
        work = self.work
        pages = np.flatnonzero(work.migrates)
        last = np.full(len(work), -1, np.int64)
        for _, mine in RowsByKey.of(work.gpu) if len(pages) else ():
            last[mine] = furthest(np.where(work.migrates[mine], -1, mine))
        pages = pages[last[pages] >= 0]
        return pages, last[pages]

    def _bound(self) -> tuple[Ints, Ints, Ints]:
        """By how much each operation was due before it began, and its lags after its call and after its stream."""
        launch, before, start = self.launch, self.streams.before, self.work.start_ns
        since_call, since_stream = self.observed.since_call, self.observed.since_stream
        launch_ns, turnaround = self.launch_ns, self.turnaround_ns
        if self.residuals and is_compiled():
            due, call_ns, stream_ns = (np.empty(len(self.work), np.int64) for _ in range(3))
            native.bound(
                *(launch, before, np.ascontiguousarray(start), self._branches.view(np.int8)),
                *(since_call, since_stream, launch_ns, turnaround, due, call_ns, stream_ns),
                NEVER,
            )
            return due, call_ns, stream_ns
        launched, follows = launch >= 0, (before >= 0) & ~self._branches
        by_call = np.where(launched, launch_ns - since_call, NEVER)
        by_stream = np.where(follows, turnaround - since_stream, NEVER)
        call_ns, stream_ns = launch_ns, turnaround
        if self.residuals:
            call_binds = launched & (by_call >= by_stream)
            call_ns = np.where(call_binds, since_call, np.minimum(launch_ns, since_call))
            stream_ns = np.where(call_binds, np.minimum(turnaround, since_stream), since_stream)
        # what no call launched keeps its place in its stream; what follows nothing keeps its time
        call_ns = np.where(launched, call_ns, np.where(follows, NEVER, start))
        stream_ns = np.where(follows, np.where(launched, stream_ns, since_stream), NEVER)
        return np.maximum(by_call, by_stream), call_ns, stream_ns

    def _bound_elsewhere(
        self, rows: Positions, others: CrossStreamWaits, call_ns: Ints, stream_ns: Ints, follows: NDArray[np.bool_]
    ) -> None:
        """The lags of those that waited for something else: no more than usual, or, if they are inputs, as recorded."""
        since_call, since_stream = self.observed.since_call[rows], self.observed.since_stream[rows]
        launch_ns, turnaround = self.launch_ns[rows], self.turnaround_ns[rows]
        launched, follow, binds = self.launch[rows] >= 0, follows[rows], others.binds[rows]
        if self.residuals:
            rows, launched, follow = rows[binds], launched[binds], follow[binds]
            call_ns[rows] = np.where(launched, np.minimum(launch_ns, since_call)[binds], NEVER)
            usual = np.where(launched, np.minimum(turnaround, since_stream)[binds], since_stream[binds])
            stream_ns[rows] = np.where(follow, usual, NEVER)
            return
        call_ns[rows[binds & ~launched]] = NEVER
        keeps = others.keeps[rows] & ~binds
        by_call = launched & (~follow | (launch_ns - since_call >= turnaround - since_stream))
        call_ns[rows[keeps & by_call]] = since_call[keeps & by_call]
        by_stream = keeps & follow & ~by_call
        stream_ns[rows[by_stream]] = since_stream[by_stream]

    def _other_lags(self, others: CrossStreamWaits) -> Ints:
        """From the end of what an operation waits for elsewhere: the usual of its kind, as recorded where it bound."""
        rows = np.flatnonzero(others.other >= 0)
        lag = np.zeros(len(self.work), np.int64)
        if not len(rows):
            return lag
        recorded, keys = others.lag_ns[rows], others.key[rows]
        keeps = others.binds[rows] if self.residuals else others.keeps[rows]
        bound = others.binds[rows] & ~others.keeps[rows]
        known = self.lags.usual("elsewhere_ns", keys.__getitem__, recorded, np.flatnonzero(bound), middle)
        usual = look_up_lags(keys, known, USUAL_TURNAROUND_NS)
        lag[rows] = np.where(keeps, recorded, np.minimum(usual, recorded) if self.residuals else usual)
        return lag


def _usual(known: dict[int, int], default: int) -> int:
    """What to take for a kind that a trace does not show."""
    return round(median(np.array(list(known.values())))) if known else default
