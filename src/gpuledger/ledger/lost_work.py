"""Work that the profiler lost: calls and activities in; calls whose work must be there and is not, and when, out.

A launch, a copy or a graph launch that succeeded has at least one record on the device's side of the profile, joined by
process and correlation id. One that has none lost it, unless there is another reason:

- it failed, or it was written into a graph (a stream of its process was being captured);
- it is the same operation as a call around or inside it, which has the record (the driver's call inside the runtime's);
- it is a copy or memset of no bytes, which returns far sooner than any that moves bytes, or is one of several that all
  return sooner;
- it is a copy that returned when all work before it had ended, most of its name are without a record, and whatever else
  was launched among them has its own: the driver made them itself, of a few bytes each (seen with JAX on an H200);
- no call of its name in its process, or none of its thread, has any work: that kind, or that GPU, was not traced;
- its work may lie outside the recording: the call came before the first activity of its process, and on some stream
  nothing that was launched earlier was recorded; or on some stream nothing that was launched later was recorded, and
  the recording ended before its work would have.

Launches of graphs that show fewer nodes than others of their graph lost those. What ran is not known; when, roughly,
is: on its stream, after the work launched before it and before the work launched after it. Gaps there are booked to
`lost`.

Work that is not in the file because the recording began later is no loss: the first recorded activity of a stream that
was queued long before it ran waited for it (`waits_for_unrecorded`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import comb, log, log1p
from typing import Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from gpuledger.catalog.calls import (
    CHANGES_GRAPHS,
    DEVICE_OPERATIONS,
    NO_OPERATION,
    CallKind,
    DeviceOperation,
    operation_number,
)
from gpuledger.ledger.activity import Activities, CallsByKey, short_function_name
from gpuledger.ledger.host import Host
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, RowsByKey, distinct, equal, group, is_among, is_same
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Spans, covered, furthest, holds, union
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import Codes
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

_GRAPH_ID: Final = 32  # bits of a node's id below its graph's

_FAR_MORE: Final = 6.0
_A_FEW: Final = 3
"""A node that is missing from more launches than the median node by so many standard deviations, and a few, is
conditional."""


class LostNodes(Struct, frozen=True):
    """Graph launches that lack nodes, as positions among the host's CUDA calls, and what all launches should show."""

    calls: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    missing: int = 0
    expected: int = 0  # nodes of all launches of graphs that lack some, those that are missing with them


def has_nodes(work: Activities) -> bool:
    """Whether any activity may be a node of a graph."""
    return not (is_same(work.graph_node) and work.graph_node[0] < 0)


def lost_nodes(
    host: Host, work: Activities, launches_graph: NDArray[np.bool_], recorded: Callable[[Positions], Positions]
) -> LostNodes:
    """Which graph launches lack nodes; `recorded` gives those launches whose work lies in the recording."""
    node = work.graph_node
    if not launches_graph.any() or not has_nodes(work):
        return LostNodes()
    names = host.calls.codes("name")
    if host.calls.strings.each(names, lambda name: int(bool(CHANGES_GRAPHS.search(name)))).any():
        return LostNodes()
    rows = np.flatnonzero((node >> _GRAPH_ID > 0) & (work.launch >= 0))
    rows = rows[launches_graph[work.launch[rows]]]
    rows = rows[_is_uneven(host.calls, work.launch[rows], node[rows] >> _GRAPH_ID)]
    calls, missing, expected = [], 0, 0
    first, number = group(work.pid[rows], node[rows] >> _GRAPH_ID)
    for graph in range(len(first)):
        own = rows[number == graph]
        launched = recorded(distinct(work.launch[own]).astype(np.intp))
        own = own[is_among(work.launch[own], launched)]
        lacking = _lacking(work.launch[own], node[own])
        calls.append(lacking.calls)
        missing, expected = missing + lacking.missing, expected + lacking.expected
    return LostNodes(distinct(np.concatenate(calls)), missing, expected) if missing else LostNodes()


def _is_uneven(calls: Rows, launch: Positions, graph: Ints) -> NDArray[np.bool_]:
    """Which nodes are of graphs whose launches do not all show as many; launches of several graphs go by the first."""
    count = np.bincount(launch, minlength=len(calls))
    launched = np.flatnonzero(count)
    of_launch = sweep.fold("least", launch, graph, np.full(len(calls), np.iinfo(np.int64).max))[launched]
    first, number = group(calls["pid"][launched], of_launch)
    fewest = sweep.fold("least", number, count[launched], np.full(len(first), np.iinfo(np.int64).max))
    most = sweep.fold("most", number, count[launched], np.zeros(len(first), np.int64))
    uneven = np.zeros(len(calls), np.bool_)
    uneven[launched] = (fewest < most)[number]
    return uneven[launch]


def _lacking(launch: Positions, node: Ints) -> LostNodes:
    """What the launches of one graph lack."""
    if not len(launch):
        return LostNodes()
    node_first, node_number = group(node)
    launch_first, launch_number = group(launch)
    pairs = node_number * len(launch_first) + launch_number
    if len(distinct(pairs)) < len(pairs):  # a loop runs a node twice
        return LostNodes()
    absent = len(launch_first) - np.bincount(node_number, minlength=len(node_first))
    usual = median(absent)
    in_all = absent <= usual + _FAR_MORE * np.sqrt(usual) + _A_FEW
    nodes = int(np.count_nonzero(in_all))
    lack = nodes - np.bincount(launch_number, weights=in_all[node_number]).astype(np.int64)
    return LostNodes(launch[launch_first[lack > 0]], int(lack.sum()), nodes * len(launch_first))


NOTABLE: Final = 0.001  # from this share of the GPU's work on, what was lost is told before all else

EMPTY_COPY: Final = 0.5
"""A copy call that takes under this share of the shortest one that moved bytes moved none.

Seen on an H200: 0.1 to 0.5 us without bytes, 2 us and more with.
"""

UNLIKELY: Final = 10_000
"""Where calls without a record are all shorter than every one with a record, and chance would choose the shortest of
all that way less than once in so many times, they moved no bytes: a profiler loses long calls as well as short ones.
"""

USUAL_STREAM: Final = 0.1
"""A thread's calls of one name are taken to work on the streams that hold this share of their work."""


class LostWork(Struct, frozen=True):
    """What a profile must hold and does not. Calls are positions among the host's CUDA calls."""

    calls: Positions = field(default_factory=lambda: np.empty(0, np.intp))
    """Calls without any work, in the order of time."""
    counts: Mapping[DeviceOperation, tuple[int, int]] = field(default_factory=dict)
    """Of each operation how many calls lost their work, and how many there are with or without."""
    nodes: LostNodes = field(default_factory=LostNodes)
    share: float = 0.0
    """Of the operations that the device ran, those that are missing. A lost graph counts as the mean graph."""
    spans: Mapping[int, Spans] = field(default_factory=dict)  # when, on each GPU, missing work may have run

    def __len__(self) -> int:
        """How many calls lost all of their work or some of it."""
        return len(self.calls) + len(self.nodes.calls)

    @property
    def is_notable(self) -> bool:
        """Whether so much is missing that it must be told."""
        return self.share >= NOTABLE

    def overlaps(self, gpu: int, start_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
        """In which of these stretches missing work of a GPU may have run."""
        if gpu not in self.spans:
            return np.zeros(len(start_ns), np.bool_)
        inside: NDArray[np.bool_] = covered(self.spans[gpu], start_ns, end_ns) > 0
        return inside


NOTHING_LOST: Final = LostWork()


def lost_work(trace: Trace, host: Host, work: Activities) -> LostWork:
    """What was lost of a trace that was read whole."""
    calls = host.calls
    has_work = sweep.occurrence_flags(work.launch, -1, len(calls) - 1)[1:].astype(np.bool_)
    puts_work = host.are(CallKind.LAUNCH) | host.are(CallKind.COPY_CALL)
    suspects = np.flatnonzero(puts_work & ~has_work)

    def operations(names: Codes) -> NDArray[np.int8]:
        return calls.strings.each(names, lambda name: operation_number(short_function_name(name)), np.int8)

    suspects = suspects[operations(calls.codes("name")[suspects]) != NO_OPERATION]
    if not len(suspects) and not has_nodes(work):
        return NOTHING_LOST
    operation = host.operations
    is_graph = operation == DeviceOperation.GRAPH.number
    suspects = _in_recording(host, work, _Suspects(trace, host, work, operation, has_work).lost(suspects))
    nodes = lost_nodes(host, work, is_graph, lambda launched: _in_recording(host, work, launched))
    if not len(suspects) and not len(nodes.calls):
        return NOTHING_LOST
    lost = suspects[np.argsort(calls["start_ns"][suspects], kind="stable")]
    counts = {
        kind: (missing, missing + int(np.count_nonzero(of_kind & has_work)))
        for kind in DEVICE_OPERATIONS
        if (missing := int(np.count_nonzero((of_kind := operation == kind.number)[lost])))
    }
    launched = work.launch[work.launch >= 0]
    in_graphs = launched[is_graph[launched]]
    of_graph = len(in_graphs) / len(distinct(in_graphs)) if len(in_graphs) else 1.0  # the mean graph launch has so many
    lost_graphs = int(np.count_nonzero(is_graph[lost]))
    lost_operations = len(lost) - lost_graphs + lost_graphs * of_graph + nodes.missing
    share = float(lost_operations / (lost_operations + len(launched))) if lost_operations else 0.0
    return LostWork(lost, counts, nodes, share, _when(host, work, np.concatenate((lost, nodes.calls))))


class _Suspects:
    """Calls without work, and every reason but loss for that."""

    def __init__(
        self, trace: Trace, host: Host, work: Activities, operation: NDArray[np.int8], has_work: NDArray[np.bool_]
    ) -> None:
        self.trace, self.host, self.work, self.calls = trace, host, work, host.calls
        self.operation, self.has_work = operation, has_work
        """`has_work` is filled in: work that took no time is no activity."""

    def lost(self, suspects: Positions) -> Positions:
        """Those of these calls for whose want of work nothing but loss is left."""
        if "result" in self.calls:
            suspects = suspects[self.calls["result"][suspects] <= 0]
        for left_after in (
            self._outside_capture,  # the usual reason, and cheap to see
            self._without_record,
            self._outermost,
            self._of_traced_kinds,
            self._with_bytes,
            self._not_by_driver,
        ):
            if len(suspects):
                suspects = left_after(suspects)
        return suspects

    def _without_record(self, suspects: Positions) -> Positions:
        """No row carries their id, not even one that took no time, or that is another call's of the same id."""
        keys = self.calls.only("pid", "correlation").at(suspects)
        by_key = CallsByKey.of(keys)
        has_record = np.zeros(len(by_key.first) + 1, np.bool_)  # what no call launched is -1, which indexes the last
        for table in (Table.KERNELS, Table.COPIES, Table.GRAPHS):
            has_record[by_key.launched(self.trace[table])] = True
        recorded = has_record[by_key.number]
        self.has_work[suspects[recorded]] = True
        numbered: NDArray[np.bool_] = (keys["correlation"] != NOT_RECORDED) & (keys["pid"] != NOT_RECORDED)
        return suspects[~recorded & numbered]

    def _outside_capture(self, suspects: Positions) -> Positions:
        """No stream of their process was being captured."""
        inside = np.zeros(len(suspects), np.bool_)
        asked = RowsByKey.of(self.calls["pid"][suspects])
        for process, captures in self.host.captures.items():
            mine = asked.rows(process)
            inside[mine] = holds(captures, self.calls["start_ns"][suspects[mine]])
        return suspects[~inside]

    def _outermost(self, suspects: Positions) -> Positions:
        """Of calls inside one another the outermost, where none of them has work."""
        calls = self.calls
        start, end = calls["start_ns"], np.maximum(calls["end_ns"], calls["start_ns"] + 1)
        near = covered(union(start[suspects], end[suspects]), start, end) > 0
        near &= self.operation != NO_OPERATION
        is_suspect = np.zeros(len(calls), np.bool_)
        is_suspect[suspects] = True
        kept = []
        nearby = np.flatnonzero(near)
        by_thread = RowsByKey.of(self.host.thread_of_call[nearby])
        for thread in distinct(self.host.thread_of_call[suspects]).tolist():
            rows = nearby[by_thread.rows(thread)]
            rows = rows[np.lexsort((-end[rows], start[rows]))]
            opens = np.append(True, end[rows][1:] > furthest(end[rows])[:-1])
            number = np.cumsum(opens) - 1
            worked = np.bincount(number, weights=self.has_work[rows]) > 0
            outermost = rows[opens][~worked]
            kept.append(outermost[is_suspect[outermost]])
        return np.concatenate(kept)

    def _of_traced_kinds(self, suspects: Positions) -> Positions:
        """Other calls of their name in their process have work, and other calls of their thread."""
        calls, threads = self.calls, self.host.thread_of_call
        worked = np.flatnonzero(self.has_work & (self.operation != NO_OPERATION))
        _, number = group(
            np.concatenate((calls["pid"][worked], calls["pid"][suspects])),
            np.concatenate((calls.codes("name")[worked], calls.codes("name")[suspects])),
        )
        by_name = np.bincount(number[: len(worked)], minlength=int(number.max(initial=-1)) + 1) > 0
        by_thread = np.bincount(threads[worked], minlength=len(self.host.threads)) > 0
        return suspects[by_name[number[len(worked) :]] & by_thread[threads[suspects]]]

    def _with_bytes(self, suspects: Positions) -> Positions:
        """Copies that took as long as one that moved bytes."""
        calls, names = self.calls, self.calls.codes("name")
        took = calls.duration_ns
        has_bytes = np.ones(len(suspects), np.bool_)
        copies = self.operation[suspects] == DeviceOperation.COPY.number
        for code in distinct(names[suspects[copies]]).tolist() if copies.any() else ():
            mine = names[suspects] == code
            others = took[self.has_work & (names == code)]
            shortest, without = others.min(), int(np.count_nonzero(mine))
            apart = took[suspects[mine]].max() < shortest and comb(len(others) + without, without) >= UNLIKELY
            has_bytes &= ~mine | (took[suspects] >= (1.0 if apart else EMPTY_COPY) * shortest)
        return suspects[has_bytes]

    def _not_by_driver(self, suspects: Positions) -> Positions:
        """A profiler that loses records loses those of kernels too, and of copies that nobody waits for."""
        calls, names, start = self.calls, self.calls.codes("name"), self.calls["start_ns"]
        by_driver = np.zeros(len(suspects), np.bool_)
        copies = suspects[self.operation[suspects] == DeviceOperation.COPY.number]
        for process, code in {*zip(calls["pid"][copies].tolist(), names[copies].tolist(), strict=True)}:
            mine = (names[suspects] == code) & (calls["pid"][suspects] == process)
            rows = suspects[mine]
            among = (start >= start[rows].min()) & (start <= start[rows].max()) & (calls["pid"] == process)
            alike = int(np.count_nonzero(self.has_work & among & (names == code)))
            others = int(np.count_nonzero(self.has_work & among)) - alike
            is_chance = len(rows) * log1p(others / (len(rows) + alike)) < log(UNLIKELY)  # that all are of one name
            is_alone = len(rows) > alike and not (among[suspects] & ~mine).any()
            by_driver[mine] = is_alone and not is_chance and self._waited(rows)
        return suspects[~by_driver]

    def _waited(self, rows: Positions) -> bool:
        """Whether each of these calls returned after all that its thread had launched before had ended."""
        calls, threads, launch = self.calls, self.host.thread_of_call, self.work.launch
        ends = np.zeros(len(calls), np.int64)
        np.maximum.at(ends, launch[launch >= 0], self.work.end_ns[launch >= 0])
        for thread in distinct(threads[rows]).tolist():
            own = np.flatnonzero(threads == thread)
            own = own[np.argsort(calls["start_ns"][own], kind="stable")]
            is_asked = np.isin(own, rows)
            if (calls["end_ns"][own][is_asked] < furthest(ends[own])[is_asked]).any():
                return False
        return True


def _in_recording(host: Host, work: Activities, launched: Positions) -> Positions:
    """Those of these calls whose work, had it run, would lie in the recording of its process, stream by stream."""
    calls, kept = host.calls, np.zeros(len(launched), np.bool_)
    by_process = RowsByKey.of(work.pid)
    for process, of_process in RowsByKey.of(calls["pid"][launched]):
        own, chosen = by_process.rows(process), launched[of_process]
        if not len(own):
            continue
        called, start, end = calls["start_ns"][chosen], work.start_ns[own], work.end_ns[own]
        stream, launched_ns = group(work.gpu[own], work.stream[own])[1], _launched_at(host, work, own)
        streams = int(stream.max()) + 1
        last_launch, last_end, longest = (
            sweep.fold("most", stream, values, np.full(streams, np.iinfo(np.int64).min))
            for values in (launched_ns, end, end - start)
        )
        first_launch = sweep.fold("least", stream, launched_ns, np.full(streams, np.iinfo(np.int64).max))
        # of the streams on which nothing launched later was recorded, the one whose next work would end last
        order = np.argsort(last_launch, kind="stable")
        after_queue = np.append(0, furthest((last_end + longest)[order]))
        after_call = np.append(0, furthest(longest[order]))
        over = np.searchsorted(last_launch[order], called, side="right")
        returned = np.where(over > 0, calls["end_ns"][chosen] + after_call[over], 0)
        begun = (called >= start.min()) | (called > first_launch.max())
        kept[of_process] = begun & (np.maximum(after_queue[over], returned) <= end.max())
    return launched[kept]


def _launched_at(host: Host, work: Activities, rows: Positions) -> Ints:
    """When each of these activities was launched; its start where that was not recorded."""
    launch = work.launch[rows]
    start = work.start_ns[rows]
    return start if not len(host.calls) else np.where(launch >= 0, host.calls["start_ns"][launch], start)


def _when(host: Host, work: Activities, lost: Positions) -> dict[int, Spans]:
    """When the work of these calls may have run on each GPU. Calls of one thread and name are taken to work on the
    streams where such calls usually have their work."""
    calls, names, thread_of = host.calls, host.calls.codes("name"), host.thread_of_call
    first, number = group(thread_of[lost], names[lost])
    launched = np.flatnonzero(work.launch >= 0)
    thread, name = thread_of[work.launch[launched]], names[work.launch[launched]]
    room: dict[int, list[tuple[Ints, Ints]]] = {}
    queues: dict[tuple[int, int, int], tuple[Ints, Ints, Ints]] = {}
    for kind, row in enumerate(lost[first].tolist()):
        alike = launched[(thread == thread_of[row]) & (name == names[row])]
        if not len(alike):
            alike = launched[thread == thread_of[row]]
        shown, stream = group(work.gpu[alike], work.stream[alike])
        counts = np.bincount(stream)
        for place in alike[shown[counts >= USUAL_STREAM * counts.sum()]].tolist():
            key = int(calls["pid"][row]), int(work.gpu[place]), int(work.stream[place])
            if key not in queues:
                queues[key] = _stream_queue(host, work, *key)
            room.setdefault(key[1], []).append(_room(queues[key], calls["start_ns"][lost[number == kind]]))
    return {gpu: union(*map(np.concatenate, zip(*parts, strict=True))) for gpu, parts in room.items()}


def _stream_queue(host: Host, work: Activities, pid: int, gpu: int, stream: int) -> tuple[Ints, Ints, Ints]:
    """A process's work on one stream by launch: when launched, when all up to it is done, the next start from it on."""
    rows = np.flatnonzero(equal(work.pid, pid) & equal(work.gpu, gpu) & equal(work.stream, stream))
    launched = _launched_at(host, work, rows)
    order = np.argsort(launched, kind="stable")
    rows = rows[order]
    next_start = np.minimum.accumulate(work.start_ns[rows][::-1])[::-1]
    return launched[order], furthest(work.end_ns[rows]), next_start


def _room(queue: tuple[Ints, Ints, Ints], called: Ints) -> tuple[Ints, Ints]:
    """From when to when what was launched at these instants may have run: between what came before and after. Where
    nothing came before or after it, there is no room: it then ran on another stream."""
    launched, done, next_start = queue
    before = np.searchsorted(launched, called, side="left")
    after = np.searchsorted(launched, called, side="right")
    known = (before > 0) & (after < len(launched))
    low = np.maximum(called, done[np.maximum(before - 1, 0)])
    high = np.maximum(next_start[np.minimum(after, len(launched) - 1)], low)
    return np.where(known, low, 0), np.where(known, high, 0)


LEAST_NS: Final = 100_000  # a shorter wait is the device's own


LONG_AGO: Final = 10
"""What was launched before the recording does not run for so many times as long as something waits for it."""

LATER: Final = 100_000  # so many later activities tell how long the device takes to begin


def waits_for_unrecorded(work: Activities, host: Host, positions: Positions) -> NDArray[np.bool_]:
    """Which of these activities ran long after they were queued, as the first that was recorded of their stream. A
    stream is one of a process on a GPU. Nothing was launched before a recording that began long before; and where what
    is launched later waits as long on an idle device, that is how long a driver takes to submit it (WDDM, WSL)."""
    call = work.launch[positions]
    waits = call >= 0
    waited_ns = work.start_ns[positions[waits]] - host.calls["end_ns"][call[waits]]
    recorded_ns = host.calls["start_ns"][call[waits]] - host.recorded_from_ns
    waits[waits] = (waited_ns > LEAST_NS) & (recorded_ns <= LONG_AGO * waited_ns)
    if waits.any():
        rows = np.flatnonzero(is_among(work.stream, distinct(work.stream[positions[waits]])))
        first, _ = group(work.pid[rows], work.gpu[rows], work.stream[rows])
        waits[waits] = is_among(positions[waits], rows[first])
    if waits.any():
        waited_ns = work.start_ns[positions[waits]] - host.calls["end_ns"][work.launch[positions[waits]]]
        waits[waits] = waited_ns > _submitted_after_ns(work, host, int(work.start_ns[positions[waits]].max()))
    return waits


def _submitted_after_ns(work: Activities, host: Host, since_ns: int) -> int:
    """The longest that what was launched after an instant lay queued while the device did nothing; of the next few."""
    begin = int(np.searchsorted(work.start_ns, since_ns))
    start, end, call = (column[begin : begin + LATER] for column in (work.start_ns, work.end_ns, work.launch))
    ready_ns = np.maximum(host.calls["end_ns"][call[1:]], furthest(end)[:-1])
    later = (call[1:] >= 0) & (host.calls["start_ns"][call[1:]] > since_ns)
    return int((start[1:] - ready_ns)[later].max(initial=0))
