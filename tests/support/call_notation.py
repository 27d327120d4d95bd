"""Traces with calls that fit on a few lines: `called("0-10 cudaLaunchKernel -> s7: 12-30", "40-50 cudaMalloc")`.

Each line is one call of a thread (`t1:` before it; else t0), and, if it launched one, the kernel on its stream. Calls
without a capital letter are the operating system's.
"""

from __future__ import annotations

import re

from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.trace_notation import of_tables, table

_LINE = re.compile(
    r"(?:t(?P<thread>\d+): )?(?P<begin>\d+)-(?P<finish>\d+) (?P<call>\w+)"
    r"(?: -> s(?P<stream>\d+): (?P<start>\d+)-(?P<end>\d+)(?: (?P<name>\w+))?)?"
)


def called(*lines: str) -> Trace:
    """A trace of one process; times are in microseconds."""
    rows = [match for line in lines if (match := _LINE.fullmatch(line))]
    if len(rows) < len(lines):
        raise ValueError(f"not all of these are calls: {lines}")
    kernels = [(number, row) for number, row in enumerate(rows, 1) if row["stream"]]
    names = [row["name"] or "k" for _, row in kernels]
    strings = Strings(dict.fromkeys(("runtime", "os", *names, *(row["call"] for row in rows))))
    calls = table(
        Table.CALLS,
        strings,
        len(rows),
        start_ns=[1_000 * int(row["begin"]) for row in rows],
        end_ns=[1_000 * int(row["finish"]) for row in rows],
        tid=[int(row["thread"] or 0) for row in rows],
        name=[row["call"] for row in rows],
        correlation=list(range(1, len(rows) + 1)),
        layer=["os" if row["call"].islower() else "runtime" for row in rows],
    )
    work = table(
        Table.KERNELS,
        strings,
        len(kernels),
        start_ns=[1_000 * int(row["start"]) for _, row in kernels],
        end_ns=[1_000 * int(row["end"]) for _, row in kernels],
        stream=[int(row["stream"]) for _, row in kernels],
        graph_node=[-1] * len(kernels),
        correlation=[number for number, _ in kernels],
        name=names,
    )
    return of_tables(strings, {Table.CALLS: calls, Table.KERNELS: work})
