"""What one rank contributes to a job: its trace in, a summary out that is small enough to travel between processes.

A profile may hold several ranks; each then gets a trace of its own. The figures are those of the rank's GPU, of several
the busiest, from the same books as its report, over the steady stretch. The collectives are that GPU's communication
kernels. Of some steps the dependency graph is kept, to replay the rank with the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace
from numpy.typing import NDArray

from gpuledger.analyse.ranks.packed import PackedTable
from gpuledger.analyse.ranks.rank_collectives import PackedCollectives, rank_collectives
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.errors import GpuledgerError
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import COMM, Line, LineKind
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.ranges import thread
from gpuledger.ledger.window import default_window
from gpuledger.messages import say
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.scenario import Anchor, ReplayWindow, Scenario, replay_window
from gpuledger.selection import Selection
from gpuledger.trace.keys import group
from gpuledger.trace.model import Note, NotMeasured, Severity, Trace, os_pid
from gpuledger.trace.spans import Ints, Span, Spans, covered, intersection, total, union
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import count_text

_SHOWN: Final = 16
_ON_A_GPU: Final = (Table.KERNELS, Table.COPIES, Table.GRAPHS)


class Place(Struct, frozen=True):
    """A process on a GPU."""

    gpu: int
    pid: int

    def __str__(self) -> str:
        return f"process {os_pid(self.pid)} on GPU {self.gpu}"


class RankTrace(Struct, frozen=True, eq=False):
    """One rank of a profile."""

    trace: Trace
    wanted: Selection  # with times that count from where this rank's own work begins
    place: Place | None = None  # None: the profile is this one rank's
    name: str = ""  # what tells it from the profile's other ranks: its GPU, its process, or both


def rank_traces(trace: Trace, wanted: Selection) -> Iterator[RankTrace]:
    """The ranks of a trace that was read whole, by GPU, then process; made one after another, as each takes memory."""
    chosen = rank_places(trace, wanted.families)
    asked = [place for place in chosen if wanted.device in (None, place.gpu)]
    if not asked:  # one rank; or not on that GPU, and whoever analyses it says which ones there are
        yield RankTrace(trace, wanted)
        return
    notes = []
    for place, count in _kernels_at(trace).items():
        if place not in chosen:
            kernels = say("1 kernel") if count == 1 else say("{count} kernels", count=count_text(count))
            sentence = say(
                "{place} ran {kernels} and takes no part in collectives: not counted as a rank",
                place=str(place),
                kernels=kernels,
            )
            notes.append(Note(Severity.LOSS, "not-a-rank", sentence, count))
    whole = replace(trace, health=(*trace.health, *notes), origin=replace(trace.origin, rank=None, world_size=None))
    zero_ns = 0 if wanted.time_ns is None else min(_zero_ns(_at(whole, place)) for place in chosen)
    has_own_gpu, has_own_process = (len(set(ids)) == len(chosen) for ids in zip(*map(astuple, chosen), strict=True))
    for place in asked:
        alone, own_times = _at(whole, place), wanted
        if wanted.time_ns is not None:  # `--time` counts from where the work of the whole profile begins
            later_ns = _zero_ns(alone) - zero_ns
            first, last = (None if instant is None else instant - later_ns for instant in wanted.time_ns)
            own_times = replace(wanted, time_ns=(first, last))
        process = f"process {os_pid(place.pid)}" if has_own_process else str(place)
        yield RankTrace(alone, own_times, place, f"GPU {place.gpu}" if has_own_gpu else process)


def rank_at(trace: Trace, profile: str, rank: int | Place) -> Trace:
    """One rank of a trace, by its number as `rank_places` has them, or by its place."""
    places = rank_places(trace)
    if not places and rank == (trace.origin.rank or 0):
        return trace
    if isinstance(rank, int) and not 0 <= rank < len(places):
        held = "\n".join(f"rank {number}: {place}" for number, place in enumerate(places[:_SHOWN]))
        raise GpuledgerError(
            f"{profile}: no rank {rank} in it",
            found=held or f"it is of one rank: {trace.origin.rank or 0}",
            hint="`gpuledger fleet` lists the ranks of a profile or a folder",
        )
    place = places[rank] if isinstance(rank, int) else rank
    told = say("only one rank of {count}: {place}", count=count_text(len(places)), place=str(place))
    return _at(replace(trace, health=(*trace.health, Note(Severity.INFO, "one-rank", told, 1))), place)


def rank_places(trace: Trace, families: tuple[tuple[str, str], ...] = ()) -> list[Place]:
    """The ranks of a trace that holds several; none where it is one rank's. `families` are the user's own."""
    kernels = trace[Table.KERNELS]
    talks = trace.strings.each(kernels.codes("name"), lambda name: family(name, families) == COMMUNICATION, np.bool_)
    ran, talking = _kernels_at(trace), _places(kernels.only("gpu", "pid").where(talks))
    is_one_of_several = trace.origin.rank is not None and (trace.origin.world_size or 1) > 1
    if len(talking) < 2 and (len(ran) < 2 or is_one_of_several):
        return []
    return sorted(talking if len(talking) > 1 else ran, key=astuple)


def _kernels_at(trace: Trace) -> Counter[Place]:
    """How many kernels and graphs each process ran on each GPU; where there are none at all, how many copies."""
    return _places(trace[Table.KERNELS]) + _places(trace[Table.GRAPHS]) or _places(trace[Table.COPIES])


def _places(rows: Rows) -> Counter[Place]:
    """How many of these rows that took time each process has on each GPU."""
    rows = rows.only("gpu", "pid").where(rows.duration_ns > 0)
    processes, process = group(rows["pid"])
    first, number = group(group(rows["gpu"])[1] * len(processes) + process)
    places = map(Place, rows["gpu"][first].tolist(), rows["pid"][first].tolist())
    return Counter(dict(zip(places, np.bincount(number, minlength=len(first)).tolist(), strict=True)))


def _at(trace: Trace, place: Place) -> Trace:
    """What there would be if only this rank had been recorded.

    What its process does for other GPUs is not its own: calls that launch work there, and threads that launch nothing
    else.
    """
    launched = threads = np.empty(0, np.int64)
    work = [trace[table] for table in _ON_A_GPU]
    mine = [(rows["correlation"], rows["pid"] == place.pid, rows["gpu"] == place.gpu) for rows in work]
    there = np.concatenate([correlation[own & ~here] for correlation, own, here in mine])
    if len(there):
        here_ids = np.concatenate([correlation[own & here] for correlation, own, here in mine])
        launched = np.setdiff1d(there, np.append(here_ids, NOT_RECORDED))
        calls = trace[Table.CALLS].only("pid", "tid", "correlation")
        calls = calls.where(calls["pid"] == place.pid)
        driving, busy = (calls["tid"][np.isin(calls["correlation"], ids)] for ids in (launched, here_ids))
        threads = np.setdiff1d(driving, busy)
    tables = {}
    for table, rows in trace.tables.items():
        own: NDArray[np.bool_] = rows["pid"] == place.pid if "pid" in rows else np.ones(len(rows), np.bool_)
        if "gpu" in rows:  # of synchronisations it may not be known
            own &= (rows["gpu"] == place.gpu) | (rows["gpu"] == NOT_RECORDED) & (table not in _ON_A_GPU)
        if "tid" in rows and len(threads):
            own &= ~np.isin(rows["tid"], threads)
        if table is Table.CALLS and len(launched):
            own &= ~np.isin(rows["correlation"], launched)
        if "parent" in rows:  # ranges point to the one around them, which is of the same thread
            number = np.full(len(rows) + 1, NOT_RECORDED, np.int64)  # the last is for ranges that none is around
            number[:-1][own] = np.arange(int(own.sum()))
            tables[table] = rows.replaced("parent", number[rows["parent"]]).where(own)
        else:
            tables[table] = rows.where(own)
    processes = tuple(process for process in trace.origin.processes if process.pid == place.pid)
    return replace(trace, tables=tables, origin=replace(trace.origin, processes=processes), places=None)


def _zero_ns(trace: Trace) -> int:
    window = default_window(*host_and_activities(trace))
    return 0 if isinstance(window, NotMeasured) else window.start_ns


LONGEST: Final = 25
"""What has no steps, or long ones, is replayed if it has no more than so many times its share of operations."""

_STEPS_AND_LEAD: Final = ((2, 1), (1, 1), (1, 0))
"""How many steps are measured at least, and how many lead up to them: the first that are not too long."""

_COLLECTS: Final = re.compile(r"^(python )?gc\b|garbage.?collect|\bgc\.collect\b", re.IGNORECASE)
"""What ranges around a garbage collection are called: `Python GC` by torch.profiler."""


class WorkPart(IntEnum):
    """What a rank's time between two collectives consists of."""

    COMPUTE = 0
    COMM = 1
    COPY = 2
    HOST = 3  # calls, and the code between them, but for what follows
    GARBAGE = 4
    SYSTEM = 5  # calls of the operating system
    THREAD = 6  # waiting for another thread, such as a loader's


OF_STATE: Final = {State.COMPUTE: WorkPart.COMPUTE, State.COMM: WorkPart.COMM, State.COPY: WorkPart.COPY}
OF_CODE: Final = (WorkPart.GARBAGE, WorkPart.SYSTEM, WorkPart.THREAD)
"""What is known of the code before a call; the rest of it is the host's own."""


class RankWork(Struct, frozen=True, eq=False):
    """Some steps of a rank, with one step before them where there is one. Times are on the profile's own clock."""

    graph: DependencyGraph
    part: NDArray[np.int8]  # the `WorkPart` of each operation
    step: NDArray[np.int32]  # the number of the step that each operation begins in; -1: in none that was kept
    first_step: int
    edges: tuple[Anchor, ...]  # where the steps that were kept begin and end, one more than there are
    code_ns: Ints  # of the code before each call, a column for each of `OF_CODE`
    synchronises: NDArray[np.bool_]  # which calls wait for the device: what they take is no work of the host's


def rank_work(trace: Trace, device: Device, operations: int) -> PackedTable[RankWork] | NotMeasured:
    """About so many operations of a rank, in whole steps."""
    if len(device.steady_stretches) > 1:
        return NotMeasured(say("only parts of the run are selected, which are not replayed"))
    steps = 1 if device.steps is None else len(device.steps)
    most = LONGEST * operations * steps // max(len(device.work), 1)
    fewest, lead = next((pair for pair in _STEPS_AND_LEAD if sum(pair) <= most), _STEPS_AND_LEAD[-1])
    kept = replay_window(trace, device, enough=operations, fewest=fewest, lead=lead)
    if len(kept.work) > LONGEST * operations:
        return NotMeasured(say("steps are too long to replay all ranks together; --time=FROM:TO looks at less"))
    graph = dependency_graph(trace, kept.host, kept.work)
    first, edges_ns = 0, np.array(device.steady, np.int64) if device.steps is None else device.steps.edges_ns
    if device.steps is not None and kept.rows is not None:
        begin, end = np.searchsorted(edges_ns, (kept.measured.start_ns[0], kept.measured.end_ns[-1])).tolist()
        first, edges_ns = begin - lead, edges_ns[begin - lead : end + 1]
    replayable = Scenario(trace, device, kept, graph)
    step = np.searchsorted(edges_ns, kept.work.start_ns, side="right") - 1
    is_kept = (step >= 0) & (step < len(edges_ns) - 1)
    part = np.array([OF_STATE[state] for state in sorted(OF_STATE)], np.int8)
    work = RankWork(
        graph=graph,
        part=part[kept.work.state],
        step=np.where(is_kept, step + first, -1).astype(np.int32),
        first_step=first,
        edges=tuple(replayable.anchor(int(instant)) for instant in edges_ns),
        code_ns=_code_ns(trace, kept, graph),
        synchronises=kept.host.are(CallKind.SYNC)[graph.call_row],
    )
    return PackedTable.of(work)


def _code_ns(trace: Trace, kept: ReplayWindow, graph: DependencyGraph) -> Ints:
    """How much of the code before each call each of `OF_CODE` takes; nothing of what comes before a thread's first."""
    calls, recorded = graph.calls, graph.recorded
    amounts = np.zeros((len(calls), len(OF_CODE)), np.int64)
    ranges = trace[Table.RANGES]
    collects = trace.strings.each(ranges.codes("name"), lambda name: bool(_COLLECTS.search(name)), np.bool_)
    ranges = ranges.where(collects)
    owner = thread(ranges)
    for number, identity in enumerate(kept.host.threads.tolist()):
        own = np.flatnonzero(calls.thread == number)
        begin, end = recorded.call_end[own[:-1]], recorded.call_begin[own[1:]]
        by_cause = kept.host.thread(number).split(begin, end)
        garbage = union(ranges["start_ns"][owner == identity], ranges["end_ns"][owner == identity])
        columns = (covered(garbage, begin, end), *(by_cause.get(cause, 0) for cause in (Cause.OS, Cause.WAIT_THREAD)))
        left = calls.code_ns[own[1:]].copy()  # where another thread hands over, less than lies between the calls
        for column, amount in enumerate(columns):
            amounts[own[1:], column] = np.minimum(amount, left)
            left -= amounts[own[1:], column]
    return amounts


NOT_KEPT: Final = NotMeasured(say("there is nothing to replay across ranks"))


class RankSummary(Struct, frozen=True, eq=False):
    """One rank's part in a job. Times are on the profile's own clock."""

    profile: str  # the file; ranks of one file have it in common
    rank: int | None  # from the profile's metadata; None where that does not say
    world_size: int | None
    gpu_name: str
    window: Span
    steady: Span  # the steps without warm-up, or the whole window
    lines: tuple[tuple[Line, int], ...]  # the books of the steady stretch, by line; they sum to it
    hidden_comm_ns: int  # communication of the steady stretch that ran while something computed
    exposed: PackedTable[Spans]  # when only communication ran, in the whole window
    edges_ns: Ints  # where steps begin and end, one more than there are steps; empty where none were found
    warm_up: int
    steps_source: str | None
    collectives: PackedCollectives
    losses: tuple[str, ...]  # what the profile lacks, in sentences
    stretches: Spans | None = None  # what is looked at of the window; None: all of it
    zero_ns: int | None = None  # the instant that times are told from; None: where the window begins
    name: str = ""  # what to call it where no rank is recorded; empty: as the profile
    place: Place | None = None  # which process and GPU of its profile it is; None: the profile is this one rank's
    gpu: int | None = None  # the GPU's number in its capture; None where the profile does not say which GPU it is
    clock: str | None = None
    """What its times are counted by; ranks with the same one are on one clock. None: like no other's."""
    work: PackedTable[RankWork] | NotMeasured = NOT_KEPT  # what is replayed of it together with the other ranks
    phases_ns: tuple[tuple[str, int], ...] = ()
    """The steady steps by phase of a layer, where that was asked for and layers are known."""

    @property
    def label(self) -> str:
        return self.name or self.profile if self.rank is None else f"rank {self.rank}"

    @property
    def line_ns(self) -> dict[Line, int]:
        return dict(self.lines)

    @property
    def steady_ns(self) -> int:
        return int(self._looked_at_ns(np.array(self.steady))[0])

    @property
    def length_ns(self) -> Ints:
        return self._looked_at_ns(self.edges_ns)

    def _looked_at_ns(self, edges_ns: Ints) -> Ints:
        """How much of the time from each of these instants to the next is looked at."""
        if self.stretches is None:
            return np.diff(edges_ns)
        return covered(self.stretches, edges_ns[:-1], edges_ns[1:])

    @property
    def begin_ns(self) -> int:
        """The instant that times are told from."""
        return self.window.start_ns if self.zero_ns is None else self.zero_ns

    @property
    def step_count(self) -> int:
        """Steps that count; the steady stretch is one where none were found."""
        return len(self.edges_ns) - 1 - self.warm_up if len(self.edges_ns) else 1

    @property
    def families_ns(self) -> dict[str, int]:
        """Compute of the steady stretch by kernel family."""
        return {line.family: time for line, time in self.lines if line.is_compute}

    @property
    def compute_ns(self) -> int:
        return sum(self.families_ns.values())

    def family_ns(self, family: str | None) -> int:
        """Compute of one kernel family; None: of all."""
        return self.compute_ns if family is None else self.families_ns.get(family, 0)

    @property
    def exposed_comm_ns(self) -> int:
        return self.line_ns.get(COMM, 0)


def rank_summary(
    trace: Trace,
    profile: str,
    wanted: Selection,
    *,
    name: str = "",
    place: Place | None = None,
    operations: int = 0,
    phases: bool = False,
) -> RankSummary:
    """Analyse one rank's trace, read whole; of several GPUs the busiest, or the one that `wanted` names.

    `place` says that the profile holds other ranks too, and which one this is; about so many `operations` are kept to
    be replayed.
    """
    devices = analyse_devices(trace, profile, wanted)
    activities = devices[0].work
    device = max(devices, key=lambda device: device.device_floor_ns)
    phases_ns: tuple[tuple[str, int], ...] = ()
    if phases:
        from gpuledger.analyse.phases.phase_costs import phase_costs  # asked for by few

        phases_ns = tuple(phase_costs(trace, device).of_layers_ns.items())
    losses = [note.sentence for note in trace.health if note.severity is Severity.LOSS]
    if len(devices) > 1:
        losses.append(
            say(
                "this rank used {count} GPUs; only GPU {gpu}, the busiest, is counted (--device=N picks another)",
                count=len(devices),
                gpu=device.gpu,
            )
        )
    gpus, steps, work = trace.origin.gpus, device.steps, device.ledger.busy
    number, world = trace.origin.rank, trace.origin.world_size
    here = activities.on(device.gpu)
    here = here[activities.state[here] == State.COMM]
    communicating = intersection(union(activities.start_ns[here], activities.end_ns[here]), device.steady_stretches)
    return RankSummary(
        profile=profile,
        rank=number if number is not None and number >= 0 else None,
        world_size=world if world is not None and world >= 1 else None,
        gpu_name=gpus[device.gpu].name if 0 <= device.gpu < len(gpus) else "",
        window=device.ledger.window,
        steady=device.steady,
        lines=tuple(device.line_ns.items()),
        hidden_comm_ns=total(communicating) - device.exposed_ns(LineKind.COMM),
        exposed=PackedTable.of(work.comm),
        edges_ns=np.empty(0, np.int64) if steps is None else steps.edges_ns,
        warm_up=0 if steps is None else steps.warm_up,
        steps_source=None if steps is None else steps.source,
        collectives=PackedCollectives.of(rank_collectives(trace, device)),
        losses=tuple(losses),
        stretches=work.stretches if len(work.stretches) > 1 else None,
        zero_ns=device.zero_ns,
        name=name,
        place=place,
        gpu=None if any(note.code == "gpus-assumed" for note in trace.health) else device.gpu,
        clock=trace.origin.capture or (None if place is None else profile),
        work=rank_work(trace, device, operations) if operations else NOT_KEPT,
        phases_ns=phases_ns,
    )
