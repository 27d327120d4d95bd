"""When code was compiled, and graphs were recorded, while a program ran: a trace in, stretches of threads out.

By what was recorded: ranges and Python functions of a compiler; samples of Python's stacks, from the first that found
the thread in one to the next that did not; a module that is loaded before a kernel of Inductor's that had run before,
and so is another version of it. A CUDA graph that is recorded for each time or two that it is launched is recorded
again: from the wait before it, or what else the thread called since its last launch, to the next launch.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.calls import LOADS_MODULE, CallKind
from gpuledger.catalog.compilers import KERNEL_OF_INDUCTOR, NOBODY, Compiler, compiler_in
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import thread
from gpuledger.trace.keys import Positions, distinct, same
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Spans, holds, union
from gpuledger.trace.tables import Table

LEAST_NS: Final = 500_000  # what takes less compiles nothing

ANEW: Final = 2
"""A graph that is launched so often for each time that it is recorded, or less, is recorded anew for its launches."""

BEFORE_CAPTURE: Final = 8
"""So many launches lie at most between the wait that a recording begins with and the recording: they set it up."""

_NEVER: Final = Spans(np.empty(0, np.int64), np.empty(0, np.int64))

_Stretches = tuple[Ints, Ints, Ints, NDArray[np.int8]]  # thread, start, end, compiler
_NOTHING: Final[_Stretches] = (*(np.empty(0, np.int64),) * 3, np.empty(0, np.int8))


class Compilations(Struct, frozen=True, eq=False):
    """Stretches in which threads compiled, in no order; none is told twice by the same source."""

    thread: Ints  # as `ledger.ranges.thread` numbers it
    start_ns: Ints
    end_ns: Ints
    compiler: NDArray[np.int8]  # as `Compiler.number`

    def of(self, thread_number: int, compiler: Compiler | None = None) -> Spans:
        """When one thread compiled."""
        mine = self.thread == thread_number
        if compiler is not None:
            mine &= self.compiler == compiler.number
        return union(self.start_ns[mine], self.end_ns[mine])


def compilations(host: Host, work: Activities) -> Compilations:
    """All that is known of them."""
    trace, calls = host.trace, host.calls
    parts = [_recorded(trace), _sampled(trace)]
    records_anew = 0 < host.launches_per_capture <= ANEW
    loads = calls.strings.each(calls.codes("name"), lambda name: bool(LOADS_MODULE.search(name)), np.bool_)
    for number, identity in enumerate(host.threads.tolist() if records_anew or loads.any() else ()):
        own = host.calls_of(number)
        for compiler, spans in (
            (Compiler.CUDA_GRAPHS, _graphs(host, own) if records_anew else _NEVER),
            (Compiler.TORCH, _loaded(host, work, own, np.flatnonzero(loads[own]))),
        ):
            rows = len(spans)
            parts.append((same(identity, rows), spans.start_ns, spans.end_ns, same(compiler.number, rows, np.int8)))
    return Compilations(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _recorded(trace: Trace) -> _Stretches:
    """By ranges and Python's functions."""
    if Table.RANGES not in trace.tables:
        return _NOTHING
    ranges = trace[Table.RANGES]
    long = np.flatnonzero(ranges.duration_ns >= LEAST_NS)
    compiler = trace.strings.each(ranges.codes("name")[long], compiler_in, np.int8)
    ranges = ranges.at(long[compiler != NOBODY])
    return thread(ranges), ranges["start_ns"], ranges["end_ns"], compiler[compiler != NOBODY]


def _sampled(trace: Trace) -> _Stretches:
    """By samples of Python's stacks: each counts until the next of its thread is due."""
    if Table.SAMPLES not in trace.tables:
        return _NOTHING
    samples, stacks = trace[Table.SAMPLES], trace.stacks
    samples = samples.where((samples["stack"] >= 0) & (samples.codes("source") == trace.strings.code("python")))
    samples = samples.at(np.lexsort((samples["start_ns"], thread(samples))))
    if not len(samples):
        return _NOTHING
    compiles, innermost = trace.strings.each(stacks.frames, compiler_in, np.int8), np.full(len(stacks), NOBODY, np.int8)
    frames = np.flatnonzero(compiles != NOBODY)[::-1]
    innermost[np.searchsorted(stacks.offsets, frames, side="right") - 1] = compiles[frames]  # the last one stays
    compiler, owner, end = innermost[samples["stack"]], thread(samples), samples["end_ns"].copy()
    goes_on = owner[1:] == owner[:-1]
    end[:-1][goes_on] = samples["start_ns"][1:][goes_on]
    found = compiler != NOBODY
    return owner[found], samples["start_ns"][found], end[found], compiler[found]


def _graphs(host: Host, own: Positions) -> Spans:
    """When a thread, of which these are the calls, recorded graphs anew, with what it called for it."""
    calls, edge = host.calls, host.capture_edges[own]
    start, end, kinds = calls["start_ns"][own], calls["end_ns"][own], host.kinds[own]
    begins, ends = np.flatnonzero(edge > 0), np.flatnonzero(edge < 0)
    if not len(begins) or len(begins) != len(ends):
        return _NEVER
    launches = (kinds == CallKind.LAUNCH.number) | (kinds == CallKind.COPY_CALL.number)
    captured = holds(host.captures[int(calls["pid"][own[0]])], start)
    launching, waits = np.flatnonzero(launches & ~captured), np.flatnonzero(kinds == CallKind.SYNC.number)
    launched = np.searchsorted(launching, begins)
    waited = np.append(waits, -1)[np.searchsorted(waits, begins) - 1]
    is_near = (waited >= 0) & (launched - np.searchsorted(launching, waited) <= BEFORE_CAPTURE)
    first = np.where(is_near, waited, np.append(launching, -1)[launched - 1] + 1)
    last = np.append(launching, len(own))[np.searchsorted(launching, ends)] - 1
    return union(start[first], end[last])


def _loaded(host: Host, work: Activities, own: Positions, loads: Positions) -> Spans:
    """When a thread loaded a module for a kernel of Inductor's that had run: from its last launch to the next. Inductor
    may load the kernels of a graph before the first of it, which is a library's: then its own is the next that the
    driver launches."""
    calls, strings = host.calls, host.trace.strings
    launching = np.flatnonzero(host.kinds[own] == CallKind.LAUNCH.number)
    following = np.searchsorted(launching, loads)
    inside = (following > 0) & (following < len(launching))
    loads, following = loads[inside], following[inside]
    if not len(following):
        return _NEVER
    activity = np.full(len(calls) + 1, -1, np.int64)  # the last is for no call
    launched = np.flatnonzero(work.launch >= 0)[::-1]
    activity[work.launch[launched]] = launched
    first_run = np.empty(len(strings) + 1, np.int64)  # the last is for work without a name
    first_run[work.name[::-1]] = np.arange(len(work))[::-1]

    def runs_again(launches: Positions) -> NDArray[np.bool_]:
        """Of each load, whether the next of these launches is of a kernel of Inductor's that had run."""
        kernel = activity[np.append(own[launches], -1)[np.searchsorted(launches, loads)]]
        name = work.name[kernel]
        of_inductor = strings.each(name, lambda text: bool(KERNEL_OF_INDUCTOR.search(text)), np.bool_)
        again: NDArray[np.bool_] = (kernel >= 0) & of_inductor & (first_run[name] < kernel)
        return again

    by_driver = launching[host.are_by_driver(own[launching])]
    are_modules = strings.each(calls.codes("name")[own[loads]], lambda name: name.startswith("cuModule"), np.bool_)
    following = distinct(following[runs_again(launching) | (are_modules & runs_again(by_driver))])
    return union(calls["end_ns"][own[launching[following - 1]]], calls["start_ns"][own[launching[following]]])
