"""A side from a trace: the steady steps of one GPU.

What ranges hold in the steady stretch, by name: host time, GPU time, waits, the calls made and the work launched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.diff.run_side import (
    NO_SHAPE,
    STEP,
    WINDOW,
    Call,
    Copied,
    RunKernel,
    RunRange,
    RunSide,
    RunUse,
    StepLaunches,
    median_of,
)
from gpuledger.analyse.kernels.step_kernels import overview
from gpuledger.analyse.memory.figures import CopiesOfKind, copies_by_kind, memory_totals
from gpuledger.attribution.lost_time import begins_in, host_stretch, of_this_gpu
from gpuledger.catalog.calls import CallKind, call_kind
from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.catalog.kernel_names import normalised, parse, unnumbered
from gpuledger.ledger.activity import GRAPH_FAMILY, State
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost, spans_of_time, thread
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import NotMeasured, Severity, Trace
from gpuledger.trace.spans import Ints, Span, depths, parents, shares_in_order
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows, Table

MOST_NUMBERED: Final = 32
"""Ranges that differ in their numbers alone are one kind from so many names on; layers stay apart."""

DEEPEST: Final = 64  # ranges nested deeper than this count as part of the one above
MOST_RANGES_BY_STEP: Final = 200  # of so many kinds of range, times are kept step by step

_VERSION: Final = re.compile(r"_v\d{4,6}$")

Chains = list[tuple[int, ...]]


def without_version(function: str) -> str:
    """A function's name without the version of CUDA that it has in the profiler: `cudaGraphLaunch_v10000`."""
    return _VERSION.sub("", function)


def functions_of(calls: Rows) -> tuple[list[str], Positions]:
    """The names of functions without the version of CUDA behind them, and for each call the position of its own."""
    names: dict[str, int] = {}
    codes, back = np.unique(calls.codes("name"), return_inverse=True)
    texts = [without_version(calls.strings.text(code) or "") for code in codes.tolist()]
    number = np.array([names.setdefault(text, len(names)) for text in texts], np.intp)
    return list(names), number[back.reshape(-1)]


def ranges_of(
    trace: Trace, device: Device, stretch: Span, edges: Ints
) -> tuple[tuple[RunRange, ...], dict[str, tuple[int, ...]]]:
    """The kinds of range that begin in the host's stretch, most host time first; and their host time by step.

    A range whose end was not recorded has no length, and is left out.
    """
    every = spans_of_time(trace)
    ranges = every.where(begins_in(stretch, every) & of_this_gpu(device, every) & ~every["open"])
    if not len(ranges):
        return (), {}
    names, name = _names(ranges, len(edges) - 1)
    chains, chain = _chains(ranges, name)
    once = np.array([names_down[-1] not in names_down[:-1] for names_down in chains])
    outermost: NDArray[np.bool_] = once[chain]
    instances = np.bincount(name[outermost], minlength=len(names))
    host = np.zeros(len(names), np.int64)
    np.add.at(host, name[outermost], ranges.duration_ns[outermost])
    holds = _Holds(len(names), chains)
    _hold_calls(device, ranges, chain, holds)
    inside = _inside(chains, len(names))
    contents = [
        RunRange(
            names[index],
            int(instances[index]),
            int(host[index]),
            holds.gpu_ns[index],
            holds.wait_ns[index],
            tuple(names[above] for above in sorted(inside[index])),
            dict(sorted(holds.calls[index].items())),
            dict(sorted(holds.work[index].items())),
        )
        for index in range(len(names))
    ]
    order = sorted(range(len(names)), key=lambda index: (-contents[index].host_ns, contents[index].name))
    by_step = {
        names[index]: _range_contents_by_step(ranges.where(outermost & (name == index)), edges)
        for index in order[:MOST_RANGES_BY_STEP]
    }
    return tuple(contents[index] for index in order), by_step


def _names(ranges: Rows, steps: int) -> tuple[list[str], Positions]:
    """The distinct names of kinds of range, and for each range the position of its own."""
    codes, back, counts = np.unique(ranges.codes("name"), return_inverse=True, return_counts=True)
    texts = [unnumbered(ranges.strings.text(code) or "") or "(no name)" for code in codes.tolist()]
    alike: dict[str, dict[str, int]] = {}
    for text, count in zip(texts, counts.tolist(), strict=True):
        held = alike.setdefault(normalised(text), {})
        held[text] = held.get(text, 0) + count
    running = {general for general, held in alike.items() if _is_running(held, steps)}
    names: dict[str, int] = {}
    kinds = [general if (general := normalised(text)) in running else text for text in texts]
    number = np.array([names.setdefault(kind, len(names)) for kind in kinds], np.intp)
    return list(names), number[back.reshape(-1)]


def _is_running(held: dict[str, int], steps: int) -> bool:
    """Whether names that differ in their numbers alone count steps or the like: none comes in most steps."""
    return len(held) > MOST_NUMBERED or (len(held) > 2 and 2 * max(held.values()) <= max(steps, 2))


def _chains(ranges: Rows, name: Positions) -> tuple[Chains, Positions]:
    """For each range the chain of names from the outermost down to its own: distinct chains, and which it has."""
    above = parents(ranges["start_ns"], ranges["end_ns"], thread(ranges))
    depth = depths(above)
    chain = np.full(len(ranges), -1, np.intp)
    chains: Chains = []
    for level in range(min(int(depth.max()), DEEPEST) + 1):
        here = np.flatnonzero(depth == level)
        up = np.where(above[here] >= 0, chain[above[here]], -1)
        first, number = group(up, name[here])
        outer = [chains[parent] if parent >= 0 else () for parent in up[first].tolist()]
        own = name[here[first]].tolist()
        chain[here] = len(chains) + number
        chains += [(*around, last) for around, last in zip(outer, own, strict=True)]
    for row in np.flatnonzero(chain < 0)[np.argsort(depth[chain < 0], kind="stable")].tolist():
        chain[row] = chain[above[row]]
    return chains, chain


def _inside(chains: Chains, count: int) -> list[set[int]]:
    """For each name the names that it is found below, its own left out."""
    above: list[set[int]] = [set() for _ in range(count)]
    for chain in chains:
        above[chain[-1]] |= set(chain[:-1]) - {chain[-1]}
    return above


class _Holds:
    """Sums over what the ranges of each name hold."""

    def __init__(self, names: int, chains: Chains) -> None:
        self.calls: list[dict[str, int]] = [{} for _ in range(names)]
        self.work: list[dict[str, int]] = [{} for _ in range(names)]
        self.gpu_ns, self.wait_ns = [0] * names, [0] * names
        self._members = [tuple(dict.fromkeys(chain)) for chain in chains]

    def count(self, into: list[dict[str, int]], chain: int, what: str, count: int) -> None:
        for name in self._members[chain]:
            into[name][what] = into[name].get(what, 0) + count

    def spend(self, into: list[int], chain: int, time_ns: int) -> None:
        for name in self._members[chain]:
            into[name] += time_ns


def _hold_calls(device: Device, ranges: Rows, chain: Positions, holds: _Holds) -> None:
    """Book every call, and what it launched, to the ranges around it."""
    host, work = device.host, device.work
    inner = innermost(ranges, host.calls)
    place = np.where(inner >= 0, chain[inner], -1)
    inside = np.flatnonzero(place >= 0)
    functions, function = functions_of(host.calls)
    waits = host.are(CallKind.SYNC)
    for chain_number, which, count, _ in _sums(place[inside], function[inside], host.calls.duration_ns[inside]):
        holds.count(holds.calls, chain_number, functions[which], count)
    waiting = inside[waits[inside]]
    for chain_number, _, _, time in _sums(
        place[waiting], np.zeros(len(waiting), np.intp), host.calls.duration_ns[waiting]
    ):
        holds.spend(holds.wait_ns, chain_number, time)
    here = work.on(device.gpu)
    call = work.launch[here]
    here, call = here[call >= 0], call[call >= 0]
    here, call = here[place[call] >= 0], call[place[call] >= 0]
    strings = ranges.strings
    names: dict[int, str] = {}
    length = work.end_ns[here] - work.start_ns[here]
    for chain_number, code, count, time in _sums(place[call], work.name[here], length):
        if code not in names:
            names[code] = "(graph)" if code == NO_TEXT else parse(strings.text(code) or "").bare
        holds.count(holds.work, chain_number, names[code], count)
        holds.spend(holds.gpu_ns, chain_number, time)


def _sums(place: Positions, what: NDArray[np.signedinteger], time: Ints) -> list[tuple[int, int, int, int]]:
    """(chain, what, how many, time) of each pair that occurs."""
    first, number = group(place, what)
    total = np.zeros(len(first), np.int64)
    np.add.at(total, number, time)
    count = np.bincount(number, minlength=len(first))
    columns = (place[first], what[first], count, total)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _range_contents_by_step(ranges: Rows, edges: Ints) -> tuple[int, ...]:
    """Host time in each step. The host runs ahead, so equal numbers a step go by their order, others by their start."""
    steps, count = len(edges) - 1, len(ranges)
    order = np.argsort(ranges["start_ns"], kind="stable")
    if count % steps:
        step = np.clip(np.searchsorted(edges, ranges["start_ns"][order], side="right") - 1, 0, steps - 1)
    else:
        step = np.arange(count) // (count // steps)
    total = np.zeros(steps, np.int64)
    np.add.at(total, step, ranges.duration_ns[order])
    return tuple(total.tolist())


MOST_BY_STEP = 200  # of so many kernels, and so many ranges, times are kept step by step
WHOLE_GRAPH = "(whole CUDA graph)"  # what a graph is called whose kernels were not recorded

Families = tuple[tuple[str, str], ...]


def busiest(devices: Sequence[Device], gpu: int | None = None) -> Device:
    """The device to compare: GPU `gpu` if it is at work, else the one that works the most."""
    same = [device for device in devices if device.gpu == gpu]
    return same[0] if same else max(devices, key=lambda device: (device.device_floor_ns, -device.gpu))


def side_of(trace: Trace, devices: Sequence[Device], device: Device, name: str, families: Families = ()) -> RunSide:
    """One GPU's steady steps, in comparable form."""
    edges = edges_of(device)
    known = trace.origin.gpu(device.gpu)
    books = device.ledger.books[device.steady_tiles]
    used = np.flatnonzero(books.any(axis=0))
    compute, comm, by_step = _kernels(trace, device, edges, families)
    stretch = host_stretch(trace, device)
    ranges = None if trace.missing(Table.RANGES) else ranges_of(trace, device, stretch, edges)
    use, clock_hz = _use(trace, device)
    lengths, memory = tuple(lengths_of(device).tolist()), memory_totals(trace, device.gpu)
    return RunSide(
        name=name,
        tool=trace.origin.tool,
        whole=WINDOW if device.steps is None else STEP,
        source=None if device.steps is None else device.steps.source,
        run_steps=(len(lengths),),
        length_ns=lengths,
        gpu=device.gpu,
        gpu_name=None if known is None or known.name.startswith("unknown") else known.name,
        clock_hz=None if known is None else known.clock_hz,
        gpus={used_device.gpu: median_of(lengths_of(used_device)) for used_device in devices},
        ranks=trace.origin.world_size,
        lines=tuple(device.ledger.lines[index] for index in used.tolist()),
        books_ns=tuple(map(tuple, books[:, used].tolist())),
        kernels=compute,
        comm=comm,
        calls=None if trace.missing(Table.CALLS) else _calls(device, stretch),
        launches=None if trace.missing(Table.CALLS) else _launches(device, edges),
        ranges=None if ranges is None else ranges[0],
        copies=_copies(copies_by_kind(trace, device)),
        peak_bytes=None if isinstance(memory, NotMeasured) else memory.peak_bytes,
        kernel_steps=by_step,
        range_steps={} if ranges is None else ranges[1],
        losses=tuple(note.sentence for note in trace.health if note.severity is Severity.LOSS),
        use=use,
        busy_clock_hz=clock_hz,
    )


def _use(trace: Trace, device: Device) -> tuple[tuple[RunUse, ...], float | None]:
    """What the steady kernels use of the GPU, and its clock while kernels ran, where the trace has samples."""
    if Table.METRICS not in trace.tables:
        return (), None
    from gpuledger.analyse.utilization.stretches import use_of_device

    sampled = use_of_device(trace, device, device.steady_stretches)
    if isinstance(sampled, NotMeasured):
        return (), None
    kernels, stretches = sampled
    use = tuple(
        RunUse(
            kernel.full_name,
            kernel.grid,
            kernel.block,
            kernel.time_ns,
            {metric.value: figure for metric, figure in kernel.figures.items()},
        )
        for kernel in kernels.kernels
    )
    return use, None if stretches.clock is None else stretches.clock.mean_hz


def edges_of(device: Device) -> Ints:
    """Where the steady steps begin and end; where there are none, the window is one."""
    return np.array(device.steady) if device.steps is None else device.steps.edges_ns[device.steps.warm_up :]


def lengths_of(device: Device) -> Ints:
    """How long the steady steps take; where there are none, the window."""
    return np.array([device.steady_ns]) if device.steps is None else device.steps.steady_ns


def _kernels(
    trace: Trace, device: Device, edges: Ints, families: Families
) -> tuple[tuple[RunKernel, ...], tuple[RunKernel, ...], dict[str, tuple[int, ...]]]:
    """Compute by name, shape and place; communication by name; and both by name and step."""
    work = device.work
    here = work.on(device.gpu)
    here = here[work.state[here] != State.COPY]
    is_compute = work.state[here] == State.COMPUTE
    time = work.end_ns[here] - work.start_ns[here]
    own_start, own_end = shares_in_order(work.start_ns[here[is_compute]], work.end_ns[here[is_compute]])
    time[is_compute] = device.steady_part_ns(own_start, own_end)
    steady = device.begins_steady(work.start_ns[here])
    here, time, is_compute = here[steady], time[steady], is_compute[steady]
    names, number = _named(trace, work.name[here])
    step = np.clip(np.searchsorted(edges, work.start_ns[here], side="right") - 1, 0, len(edges) - 2)
    by_step = _by_step(names, number, step, time, len(edges) - 1)
    return _compute(trace, device, here, time, families), _comm(trace, device, here[~is_compute]), by_step


def _named(trace: Trace, codes: Ints) -> tuple[list[str], Positions]:
    """The distinct bare names, and for each kernel the position of its own."""
    names: dict[str, int] = {}
    distinct, back = np.unique(codes, return_inverse=True)
    texts = [WHOLE_GRAPH if code == NO_TEXT else _bare(trace, code) for code in distinct.tolist()]
    number = np.array([names.setdefault(text, len(names)) for text in texts], np.intp)
    return list(names), number[back.reshape(-1)]


def _bare(trace: Trace, code: int) -> str:
    return parse(trace.strings.text(code) or "").bare


def _by_step(
    names: list[str], number: Positions, step: Positions, time: Ints, steps: int
) -> dict[str, tuple[int, ...]]:
    total = np.bincount(number, weights=time, minlength=len(names))
    kept = np.argsort(-total, kind="stable")[:MOST_BY_STEP]
    place = np.full(len(names), -1)
    place[kept] = np.arange(len(kept))
    sums = np.zeros((len(kept), steps), np.int64)
    chosen = place[number] >= 0
    np.add.at(sums, (place[number[chosen]], step[chosen]), time[chosen])
    return {names[index]: tuple(row) for index, row in zip(kept.tolist(), sums.tolist(), strict=True)}


def _compute(trace: Trace, device: Device, here: Positions, time: Ints, families: Families) -> tuple[RunKernel, ...]:
    sums: dict[object, RunKernel] = {}
    for entry in overview(trace, device).entries:
        key = (entry.bare, entry.grid, entry.block, entry.place)
        held = sums.get(key)
        calls, spent = (held.calls, held.time_ns) if held else (0, 0)
        sums[key] = RunKernel(
            entry.name,
            entry.bare,
            entry.grid,
            entry.block,
            entry.place,
            family(entry.name, families),
            calls + entry.calls,
            spent + entry.time_ns,
        )
    whole = device.work.name[here] == NO_TEXT
    if whole.any():
        calls, spent = int(whole.sum()), int(time[whole].sum())
        graph = RunKernel(WHOLE_GRAPH, WHOLE_GRAPH, NO_SHAPE, NO_SHAPE, (), GRAPH_FAMILY, calls, spent)
        sums[WHOLE_GRAPH] = graph
    return tuple(sums.values())


def _comm(trace: Trace, device: Device, here: Positions) -> tuple[RunKernel, ...]:
    """Communication kernels by name, with how long they ran: exposed or not."""
    work = device.work
    length = work.end_ns[here] - work.start_ns[here]
    codes, number = np.unique(work.name[here], return_inverse=True)
    time = np.zeros(len(codes), np.int64)
    np.add.at(time, number.reshape(-1), length)
    calls = np.bincount(number.reshape(-1), minlength=len(codes))
    sums: dict[str, RunKernel] = {}
    for code, count, spent in zip(codes.tolist(), calls.tolist(), time.tolist(), strict=True):
        bare = _bare(trace, code)
        held = sums.get(bare)
        before = (held.calls, held.time_ns) if held else (0, 0)
        name = trace.strings.text(code) or ""
        sums[bare] = RunKernel(name, bare, NO_SHAPE, NO_SHAPE, (), COMMUNICATION, before[0] + count, before[1] + spent)
    return tuple(sums.values())


def _calls(device: Device, stretch: Span) -> tuple[Call, ...]:
    """The steady steps' CUDA calls by function, of the processes that use this GPU; most time first."""
    every = device.host.calls
    return by_function(every.where(begins_in(stretch, every) & of_this_gpu(device, every)))


def by_function(calls: Rows) -> tuple[Call, ...]:
    """Calls by function, the most time first."""
    names, number = functions_of(calls)
    count = np.bincount(number, minlength=len(names)).tolist()
    time = np.zeros(len(names), np.int64)
    np.add.at(time, number, calls.duration_ns)
    functions = [
        Call(name, call_kind(name), n, ns) for name, n, ns in zip(names, count, time.tolist(), strict=True) if n
    ]
    return tuple(sorted(functions, key=lambda call: (-call.time_ns, call.name)))


def _launches(device: Device, edges: Ints) -> StepLaunches:
    """The launch calls of each step: a call belongs to the step in which the first thing that it launched ran."""
    work, host = device.work, device.host
    here = work.on(device.gpu)
    here = here[device.begins_steady(work.start_ns[here])]
    call = work.launch[here]
    is_launch = call >= 0
    is_launch[is_launch] = host.are(CallKind.LAUNCH)[call[is_launch]]
    launching, first = np.unique(call[is_launch], return_index=True)
    step = np.searchsorted(edges, work.start_ns[here[is_launch][first]], side="right") - 1
    counts = np.bincount(np.clip(step, 0, len(edges) - 2), minlength=len(edges) - 1)
    return StepLaunches(tuple(counts.tolist()), by_function(host.calls.at(launching)))


def _copies(copies: Sequence[CopiesOfKind]) -> tuple[Copied, ...]:
    """Added up by what people call the way."""
    sums: dict[str, Copied] = {}
    for copied in copies:
        kind, source, target = copied.kind, copied.source, copied.target
        way = f"{kind}, {source} to {target}" if source and target else kind or "unknown"
        before = sums.get(way) or Copied(way, 0, 0, 0)
        sums[way] = Copied(
            way, before.count + copied.count, (before.bytes or 0) + copied.total_bytes, before.time_ns + copied.total_ns
        )
    return tuple(sums.values())
