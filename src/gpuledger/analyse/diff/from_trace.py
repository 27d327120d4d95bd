"""A side from a trace: the steady steps of one GPU, and what ranges of each name hold in them.

Of a range: host time, GPU time, waits, the calls made and the work launched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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
    kernel_key,
    median_of,
    pooled,
)
from gpuledger.analyse.kernels.step_kernels import overview
from gpuledger.analyse.light.books import light_books
from gpuledger.analyse.light.steady_kernels import SteadyKernels, use_and_clock
from gpuledger.analyse.memory.figures import CopyRow, copies_by_kind, memory_totals
from gpuledger.analyse.operators.operators import OPERATOR
from gpuledger.analyse.phases.phase_costs import phase_costs
from gpuledger.attribution.lost_time import begins_in, host_stretch, of_this_gpu
from gpuledger.catalog.calls import CallKind, call_kind
from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.catalog.kernel_names import parse, without_ids, without_numbers
from gpuledger.ledger.activity import GRAPH_FAMILY, State
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost, spans_of_time, thread
from gpuledger.replay.scenario import replay_window
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group
from gpuledger.trace.model import NotMeasured, Severity, Trace
from gpuledger.trace.spans import Ints, Span, depths, parents, shares_in_order
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows, Table

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.stretches import SampledUse

MOST_NUMBERED: Final = 32
"""Ranges that differ in their numbers alone are one kind from so many names on; layers stay apart."""

DEEPEST: Final = 64  # ranges nested deeper than this count as part of the one above
_VERSION: Final = re.compile(r"_v\d{4,6}$")

Chains = list[tuple[int, ...]]


def without_version(function: str) -> str:
    """A function's name without the version of CUDA that it has in the profiler: `cudaGraphLaunch_v10000`."""
    return _VERSION.sub("", function)


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
    instances = np.bincount(name[outermost], minlength=len(names)).tolist()
    host = sweep.sums(name[outermost], ranges.duration_ns[outermost], len(names))
    inside: list[set[int]] = [set() for _ in names]
    for names_down in chains:
        inside[names_down[-1]] |= set(names_down[:-1]) - {names_down[-1]}
    contents = _contents(device, ranges, chain, chains, len(names))
    kinds = []
    for index, (gpu_ns, wait_ns, *counters) in enumerate(contents):
        above, counts = (
            tuple(names[one] for one in sorted(inside[index])),
            (dict(sorted(counter.items())) for counter in counters),
        )
        kinds.append(RunRange(names[index], instances[index], int(host[index]), gpu_ns, wait_ns, above, *counts))
    order = sorted(range(len(names)), key=lambda index: (-kinds[index].host_ns, kinds[index].name))
    by_step = {
        names[index]: _host_time_by_step(ranges.where(outermost & (name == index)), edges)
        for index in order[:MOST_BY_STEP]
    }
    return tuple(kinds[index] for index in order), by_step


def _names(ranges: Rows, steps: int) -> tuple[list[str], Positions]:
    """The distinct names of kinds of range, and for each range the position of its own."""
    codes, back, counts = np.unique(ranges.codes("name"), return_inverse=True, return_counts=True)
    texts = [without_ids(ranges.strings.text(code) or "") or "(no name)" for code in codes.tolist()]
    alike: dict[str, Counter[str]] = {}
    for text, count in zip(texts, counts.tolist(), strict=True):
        alike.setdefault(without_numbers(text), Counter())[text] += count
    # names that differ in their numbers alone count steps or the like if none comes in most steps
    running = {
        general
        for general, often in alike.items()
        if len(often) > MOST_NUMBERED or (len(often) > 2 and 2 * max(often.values()) <= max(steps, 2))
    }
    names: dict[str, int] = {}
    kinds = [general if (general := without_numbers(text)) in running else text for text in texts]
    number = np.array([names.setdefault(kind, len(names)) for kind in kinds], np.intp)
    return list(names), number[back.reshape(-1)]


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


def _contents(
    device: Device, ranges: Rows, chain: Positions, chains: Chains, names: int
) -> list[tuple[int, int, Counter[str], Counter[str]]]:
    """What ranges of each name hold: GPU time, time in calls that wait, calls by function, and work by name.

    Every call, and what it launched, counts for all ranges around it.
    """
    host, work = device.host, device.work
    calls_of, work_of = ([Counter[str]() for _ in range(names)] for _ in range(2))
    gpu_ns, wait_ns = [0] * names, [0] * names
    members = [tuple(dict.fromkeys(names_down)) for names_down in chains]
    inner = innermost(ranges, host.calls)
    place = np.where(inner >= 0, chain[inner], -1)
    inside = np.flatnonzero(place >= 0)
    functions, function = host.calls.strings.kinds(host.calls.codes("name"), without_version)
    waits = host.are(CallKind.SYNC).astype(np.int64)
    kind, time = 2 * function + waits, host.calls.duration_ns
    for number, which, count, spent_ns in _sums(place[inside], kind[inside], time[inside]):
        for name in members[number]:
            calls_of[name][functions[which // 2]] += count
            wait_ns[name] += spent_ns if which % 2 else 0
    here = work.on(device.gpu)
    here = here[work.launch[here] >= 0]
    here = here[place[work.launch[here]] >= 0]
    length = work.end_ns[here] - work.start_ns[here]
    bare = {
        code: "(graph)" if code == NO_TEXT else parse(ranges.strings.text(code) or "").bare
        for code in distinct(work.name[here]).tolist()
    }
    for number, code, count, spent_ns in _sums(place[work.launch[here]], work.name[here], length):
        for name in members[number]:
            work_of[name][bare[code]] += count
            gpu_ns[name] += spent_ns
    return list(zip(gpu_ns, wait_ns, calls_of, work_of, strict=True))


def _sums(place: Positions, what: NDArray[np.signedinteger], time: Ints) -> list[tuple[int, int, int, int]]:
    """(chain, what, how many, time) of each pair that occurs."""
    first, number = group(place, what)
    total = sweep.sums(number, time, len(first))
    columns = (place[first], what[first], np.bincount(number, minlength=len(first)), total)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _host_time_by_step(ranges: Rows, edges: Ints) -> tuple[int, ...]:
    """Host time in each step. The host runs ahead, so equal numbers a step go by their order, others by their start."""
    steps, count = len(edges) - 1, len(ranges)
    order = np.argsort(ranges["start_ns"], kind="stable")
    if count % steps:
        step = np.clip(np.searchsorted(edges, ranges["start_ns"][order], side="right") - 1, 0, steps - 1)
    else:
        step = np.arange(count) // (count // steps)
    return tuple(sweep.sums(step, ranges.duration_ns[order], steps).tolist())


MOST_BY_STEP: Final = 200  # of so many kernels, and so many kinds of range, times are kept step by step
WHOLE_GRAPH = "(whole CUDA graph)"  # what a graph is called whose kernels were not recorded

Families = tuple[tuple[str, str], ...]


def busiest(devices: Sequence[Device], gpu: int | None = None) -> Device:
    """The device to compare: GPU `gpu` if it is at work, else the one that works the most."""
    same = [device for device in devices if device.gpu == gpu]
    return same[0] if same else max(devices, key=lambda device: (device.device_floor_ns, -device.gpu))


def side_of(trace: Trace, devices: Sequence[Device], device: Device, name: str, families: Families = ()) -> RunSide:
    """One GPU's steady steps, in comparable form."""
    edges = np.array(device.steady) if device.steps is None else device.steps.edges_ns[device.steps.warm_up :]
    known = trace.origin.gpu(device.gpu)
    books = device.ledger.books[device.steady_tiles]
    used = np.flatnonzero(books.any(axis=0))
    compute, comm, by_step, overlap_ns = _kernels(trace, device, edges, families)
    stretch = host_stretch(trace, device)
    ranges = None if trace.missing(Table.RANGES) else ranges_of(trace, device, stretch, edges)
    calls = device.host.calls
    sampled = _sampled(trace, device)
    lengths, memory = tuple(lengths_of(device).tolist()), memory_totals(trace, device.gpu)
    return RunSide(
        name=name,
        tool=trace.origin.tool,
        whole=WINDOW if device.steps is None else STEP,
        source=None if device.steps is None else device.steps.source,
        run_steps=(len(lengths),),
        length_ns=lengths,
        gpu=device.gpu,
        gpu_name=None if known is None else known.known_name,
        clock_hz=None if known is None else known.clock_hz,
        gpus={used_device.gpu: median_of(lengths_of(used_device)) for used_device in devices},
        ranks=trace.origin.world_size,
        lines=tuple(device.ledger.lines[index] for index in used.tolist()),
        books_ns=tuple(map(tuple, books[:, used].tolist())),
        idle_ns={str(trigger): ns for trigger, ns in device.idle_by_trigger.items()},
        kernels=compute,
        comm=comm,
        calls=None
        if trace.missing(Table.CALLS)
        else by_function(calls.where(begins_in(stretch, calls) & of_this_gpu(device, calls))),
        launches=None if trace.missing(Table.CALLS) else _launches(device, edges),
        ranges=None if ranges is None else ranges[0],
        copies=pooled(map(_copied, copies_by_kind(trace, device)), lambda copied: copied.kind),
        peak_bytes=None if isinstance(memory, NotMeasured) else memory.peak_bytes,
        kernel_steps=by_step,
        range_steps={} if ranges is None else ranges[1],
        losses=tuple(note.sentence for note in trace.health if note.severity is Severity.LOSS),
        use=tuple(
            RunUse(
                kernel.full_name,
                kernel.grid,
                kernel.block,
                kernel.time_ns,
                {metric.value: figure for metric, figure in kernel.figures.items()},
            )
            for kernel in (() if sampled is None else sampled[0].kernels)
        ),
        busy_clock_hz=use_and_clock(sampled)[1],
        busy_ns=_busy(trace, device, sampled),
        overlap_ns=overlap_ns,
        phases_ns=phase_costs(trace, device).of_layers_ns,
    )


def _busy(trace: Trace, device: Device, sampled: SampledUse | None) -> tuple[int, int, int, int] | None:
    """What compute was good for, as reports say it: of the steps that are replayed."""
    part = replay_window(trace, device)
    books = light_books(device, SteadyKernels(trace, device, part.host, part.work, *use_and_clock(sampled)))
    if books is None or not books.is_telling:
        return None
    whole = books.whole
    return whole.light_ns, whole.lost_ns, whole.avoidable_ns, whole.unknown_ns


def _sampled(trace: Trace, device: Device) -> SampledUse | None:
    """What samples say of the steady steps; None where there are none."""
    if Table.METRICS not in trace.tables:
        return None
    from gpuledger.analyse.utilization.stretches import use_of_device

    sampled = use_of_device(trace, device, device.steady_stretches)
    return None if isinstance(sampled, NotMeasured) else sampled


def lengths_of(device: Device) -> Ints:
    """How long the steady steps take; where there are none, the window."""
    return np.array([device.steady_ns]) if device.steps is None else device.steps.steady_ns


def _kernels(
    trace: Trace, device: Device, edges: Ints, families: Families
) -> tuple[tuple[RunKernel, ...], tuple[RunKernel, ...], dict[str, tuple[int, ...]], int]:
    """Compute by name, shape and place; communication by name; both by name and step; how much of compute overlaps."""
    work, steps = device.work, len(edges) - 1
    here = work.on(device.gpu)
    here = here[work.state[here] != State.COPY]
    is_compute = work.state[here] == State.COMPUTE
    time = work.end_ns[here] - work.start_ns[here]
    steady = device.begins_steady(work.start_ns[here])
    own = device.steady_part_ns(*shares_in_order(work.start_ns[here[is_compute]], work.end_ns[here[is_compute]]))
    own_ns = int(own[steady[is_compute]].sum())
    here, time, is_compute = here[steady], time[steady], is_compute[steady]
    overlap_ns = int(time[is_compute].sum()) - own_ns
    names: dict[str, int] = {}
    first, number = group(work.name[here])
    codes = work.name[here[first]].tolist()
    bares = [WHOLE_GRAPH if code == NO_TEXT else parse(trace.strings.text(code) or "").bare for code in codes]
    number = np.array([names.setdefault(bare, len(names)) for bare in bares], np.intp)[number]
    kept = np.argsort(-np.bincount(number, weights=time, minlength=len(names)), kind="stable")[:MOST_BY_STEP]
    place = np.full(len(names), -1)
    place[kept] = np.arange(len(kept))
    step = np.clip(np.searchsorted(edges, work.start_ns[here], side="right") - 1, 0, steps - 1)
    chosen = place[number] >= 0
    cell = place[number[chosen]] * steps + step[chosen]
    sums = sweep.sums(cell, time[chosen], len(kept) * steps).reshape(-1, steps)
    listed = list(names)
    by_step = {listed[index]: tuple(row) for index, row in zip(kept.tolist(), sums.tolist(), strict=True)}
    compute = _compute(trace, device, here, time, families)
    return compute, _comm(trace, device, here[~is_compute]), by_step, overlap_ns


def _operators(trace: Trace, device: Device, activities: Positions) -> list[tuple[str, str]]:
    """The innermost operator that each was launched in, and the shapes of what it was given; empty for none."""
    launch = device.work.launch[activities]
    used = distinct(launch[launch >= 0])
    if trace.missing(Table.RANGES) or (code := trace.strings.code(OPERATOR)) == NO_TEXT or not len(used):
        return [("", "")] * len(activities)
    ranges = trace[Table.RANGES]
    rows = ranges.where(ranges.codes("kind") == code)
    around = np.full(len(device.host.calls) + 1, -1, np.intp)  # the last one is for work without a call
    around[used] = innermost(rows, device.host.calls.at(used))
    held = around[launch]
    names, given = (
        rows.strings.decode(np.where(held >= 0, rows.codes(key)[held], NO_TEXT)) if key in rows else [None] * len(held)
        for key in ("name", "inputs")
    )
    return [(name or "", (shapes or "").partition("\n")[0]) for name, shapes in zip(names, given, strict=True)]


def _compute(trace: Trace, device: Device, here: Positions, time: Ints, families: Families) -> tuple[RunKernel, ...]:
    entries = overview(trace, device).entries
    first = np.array([entry.first for entry in entries], np.intp)
    kernels = [
        RunKernel(one.name, *one.key, one.place, family(one.name, families), one.calls, one.ran_ns, *operator)
        for one, operator in zip(entries, _operators(trace, device, first), strict=True)
    ]
    whole = device.work.name[here] == NO_TEXT
    if whole.any():
        counts = int(whole.sum()), int(time[whole].sum())
        kernels.append(RunKernel(WHOLE_GRAPH, WHOLE_GRAPH, NO_SHAPE, NO_SHAPE, (), GRAPH_FAMILY, *counts))
    return pooled(kernels, kernel_key)


def _comm(trace: Trace, device: Device, here: Positions) -> tuple[RunKernel, ...]:
    """Communication kernels by name, with how long they ran: exposed or not."""
    work = device.work
    every = _sums(np.zeros(len(here), np.intp), work.name[here], work.end_ns[here] - work.start_ns[here])
    kernels = (
        RunKernel(name, parse(name).bare, NO_SHAPE, NO_SHAPE, (), COMMUNICATION, count, spent_ns)
        for _, code, count, spent_ns in every
        for name in (trace.strings.text(code) or "",)
    )
    return pooled(kernels, kernel_key)


def by_function(calls: Rows) -> tuple[Call, ...]:
    """Calls by function, the most time first."""
    names, number = calls.strings.kinds(calls.codes("name"), without_version)
    count = np.bincount(number, minlength=len(names)).tolist()
    time = sweep.sums(number, calls.duration_ns, len(names))
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


def _copied(copies: CopyRow) -> Copied:
    """By what people call the way."""
    kind, source, target = copies.kind, copies.source, copies.target
    way = f"{kind}, {source} to {target}" if source and target else kind or "unknown"
    return Copied(way, copies.copies, copies.total_bytes, copies.total_ns)
