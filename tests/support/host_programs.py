"""Small programs as traces: equal steps of 10 ms, in each one kernel that the host launches late, and what it did.

Times are in microseconds from the beginning of a step. The main thread launches; what it did before is the test's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Stacks, Strings
from gpuledger.trace.tables import Rows, Table
from support.trace_notation import of_tables, table

US = 1_000
STEP = 10_000
STEPS = 4
MAIN = 1
LAUNCH = 8_000
"""When a step's launch begins, if nothing else is said."""


@dataclass(frozen=True)
class Did:
    """One thing that a thread did in every step."""

    name: str
    start: int
    end: int
    thread: int = MAIN
    process: int = 0
    kind: str = "push_pop"
    """Of a range; of a call its layer."""
    stack: tuple[str, ...] = ()
    """The innermost function first."""


def ranged(name: str, start: int, end: int, thread: int = MAIN, kind: str = "push_pop", process: int = 0) -> Did:
    return Did(name, start, end, thread, process, kind)


def called(name: str, start: int, end: int, thread: int = MAIN, layer: str = "os", stack: tuple[str, ...] = ()) -> Did:
    return Did(name, start, end, thread, 0, layer, stack)


def sampled(start: int, end: int, every: int, *stack: str, thread: int = MAIN, process: int = 0) -> list[Did]:
    """A sample every so many microseconds."""
    return [Did("python", at, at, thread, process, "python", stack) for at in range(start, end, every)]


def program(
    ranges: Sequence[Did] = (),
    calls: Sequence[Did] = (),
    samples: Sequence[Did] = (),
    *,
    launch: int = LAUNCH,
    kernel: int | None = None,
) -> Trace:
    """Four such steps; a `kernel` begins 5 us after its launch, if nothing else is said, and ends with the step."""
    every = (*calls, called("cudaLaunchKernel", launch, launch + 3, layer="runtime"))
    texts = [text for did in (*ranges, *every, *samples) for text in (did.name, did.kind, *did.stack)]
    strings = Strings(dict.fromkeys(("k", "", "push_pop", "python", *texts)))
    stacks = list(dict.fromkeys(did.stack for did in (*every, *samples) if did.stack))
    begins = [step * STEP * US for step in range(STEPS)]
    start = LAUNCH + 5 if kernel is None else kernel
    launches = [(1 + step) * len(every) for step in range(STEPS)]
    kernels = table(
        Table.KERNELS,
        strings,
        STEPS,
        start_ns=[begin + start * US for begin in begins],
        end_ns=[begin + STEP * US for begin in begins],
        correlation=launches,
        name=["k"] * STEPS,
        graph_node=[-1] * STEPS,
    )
    trace = of_tables(
        strings,
        {
            Table.KERNELS: kernels,
            Table.CALLS: _table(Table.CALLS, strings, every, stacks, layer=[did.kind for did in every] * STEPS),
            Table.RANGES: _table(Table.RANGES, strings, ranges, stacks, kind=[did.kind for did in ranges] * STEPS),
            Table.SAMPLES: _table(Table.SAMPLES, strings, samples, stacks, source=["python"] * len(samples) * STEPS),
        },
    )
    frames = [strings.code(frame) for stack in stacks for frame in stack]
    offsets = np.cumsum([0, *map(len, stacks)])
    return replace(trace, stacks=Stacks(offsets.astype(np.int64), np.array(frames, np.int32)))


def _table(
    which: Table, strings: Strings, dids: Sequence[Did], stacks: list[tuple[str, ...]], **more: list[str]
) -> Rows:
    begins = [step * STEP * US for step in range(STEPS)]
    return table(
        which,
        strings,
        len(dids) * STEPS,
        start_ns=[begin + did.start * US for begin in begins for did in dids],
        end_ns=[begin + did.end * US for begin in begins for did in dids],
        pid=[did.process for did in dids] * STEPS,
        tid=[did.thread for did in dids] * STEPS,
        name=[did.name for did in dids] * STEPS,
        stack=[stacks.index(did.stack) if did.stack else -1 for did in dids] * STEPS,
        correlation=list(range(1, 1 + len(dids) * STEPS)),
        domain=[""] * len(dids) * STEPS,
        **more,
    )
