"""A side from a trace: the steady steps of one GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuledger.analyse.diff.range_contents import functions_of, ranges_of
from gpuledger.analyse.diff.run_side import (
    NO_SHAPE,
    STEP,
    WINDOW,
    Call,
    Copied,
    RunKernel,
    RunSide,
    RunUse,
    StepLaunches,
    median_of,
)
from gpuledger.analyse.host_stretch import begins_in, host_stretch, of_this_gpu
from gpuledger.analyse.kernels.step_kernels import overview
from gpuledger.analyse.memory.copies import CopiesOfKind, copies_by_kind
from gpuledger.analyse.memory.in_use import memory_totals
from gpuledger.catalog.call_kinds import CallKind, call_kind
from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.catalog.kernel_names import parse
from gpuledger.ledger.activity import GRAPH_FAMILY, State
from gpuledger.ledger.device import Device
from gpuledger.trace.health import NotMeasured, Severity
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, shares_in_order
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows, Table

MOST_BY_STEP = 200
"""Of so many kernels, and so many ranges, times are kept step by step."""

WHOLE_GRAPH = "(whole CUDA graph)"
"""What a graph is called whose kernels were not recorded."""

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
    from gpuledger.analyse.use.stretches import use_of_device

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
            way,
            before.count + copied.count,
            (before.bytes or 0) + copied.total_bytes,
            before.time_ns + copied.total_ns,
        )
    return tuple(sums.values())
