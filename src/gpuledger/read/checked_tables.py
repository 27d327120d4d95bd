"""What every reader does with its tables before they are a trace: refuse what cannot be, and note what is missing.

Times and amounts of bytes have bounds: what no clock shows, and no memory holds, is none at all. Any two times within
the bound differ by less than 63 bits hold, so that a duration or a window is always what it says.

Work without its calls, or calls without their work, is noted where a profile holds none of one at all. A profile
without kernels whose calls launch some did not record them: their time looks idle. Launches that are written into a
graph, while a stream is captured, run nothing. Work of which no call was recorded was launched by somebody: why the GPU
was idle before it cannot be told. Kernels of a graph that do not say which node they are look as if the host had
launched them one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.calls import (
    CAPTURE_BEGINS,
    CAPTURE_ENDS,
    NO_OPERATION,
    CallKind,
    DeviceOperation,
    call_kind,
    operation_number,
)
from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.columns import NULL
from gpuledger.read.request import counted, too_many_gpus
from gpuledger.trace.model import Gpu, Note
from gpuledger.trace.spans import Ints
from gpuledger.trace.sweep import parts
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

LARGEST: Final = 2**62
"""Times are smaller, before and after zero: 146 years; since 1970 that is until 2116."""

LARGEST_BYTES: Final = 2**48
"""No copy and no allocation has as many bytes: 281 TB."""

_YEAR_NS: Final = 31_557_600 * 10**9

_BEGINS, _ENDS = -2, -3
"""Stand for calls that begin and end to write a graph."""

_KINDS: Final = ("kernels", "copies", "memsets")
"""What is looked for; a call holds its number, or a negative one."""


def within_bounds(times: Ints) -> Ints:
    """`times`, NULL where one is too large."""
    if times.max(initial=0) < LARGEST and times.min(initial=0) > -LARGEST:
        return times
    return np.where((times < LARGEST) & (times > -LARGEST), times, NULL)


def refuse_impossible(name: str, tables: Mapping[Table, Rows], gpus: Sequence[Gpu], limits: Limits) -> None:
    """Refuse durations, or bytes, that sum to more than 64 bits hold, as every total would be wrong; and many GPUs."""
    for table, rows in tables.items():
        if not len(rows):
            continue
        if "bytes" in rows:
            _refuse_bytes(name, table, rows["bytes"])
        times = [rows[column][part] for column in ("start_ns", "end_ns") for part in parts(len(rows))]
        bounds = [(int(some.min()), int(some.max())) for some in times]
        if len(rows) * (max(most for _, most in bounds) - min(least for least, _ in bounds)) < LARGEST:
            continue
        length = rows.duration_ns
        longest = max(int(length.max(initial=0)), -int(length.min(initial=0)))
        if longest * len(length) >= 2**63 and np.abs(length).sum(dtype=np.float64) >= LARGEST:
            raise UnreadableProfile(
                f"{name}: its {table.value} last more than 146 years together, which cannot be",
                found=f"the longest takes {longest / _YEAR_NS:,.0f} years",
                hint="export it again; clocks or units are wrong in it",
            )
    if len(gpus) > limits.gpus:
        raise too_many_gpus(name, len(gpus), limits.gpus)


def _refuse_bytes(name: str, table: Table, amounts: Ints) -> None:
    least, most = int(amounts.min()), int(amounts.max())
    if least >= NOT_RECORDED and most < LARGEST_BYTES and len(amounts) * most < LARGEST:
        return
    if least < NOT_RECORDED or most >= LARGEST_BYTES or amounts.sum(dtype=np.float64) >= LARGEST:
        raise UnreadableProfile(
            f"{name}: its {table.value} have more bytes than there can be",
            found=f"{least:,} to {most:,} bytes in each of {len(amounts):,}",
            hint="export it again; the numbers of bytes are wrong in it",
        )


def assumed_gpu(count: int, gpu: int) -> list[Note]:
    """What is said of rows that do not say where they ran."""
    return counted("gpu-not-recorded", count, gpu=f"GPU {gpu}")


def unrecorded_work(tables: Mapping[Table, Rows], asked: frozenset[Table]) -> list[Note]:
    """What is said of the tables that were read; `asked` are those that would have been, had they been there."""
    calls = tables.get(Table.CALLS)
    if calls is None or "name" not in calls:
        return []
    names = [calls.strings.text(code) or "" for code in calls.strings.distinct(calls.codes("name"))]
    put = {_operation(name) for name in names}
    return _without_calls(tables, names, put) or [
        *_without_work(tables, calls, asked),
        *(_without_nodes(tables, calls) if DeviceOperation.GRAPH.number in put else ()),
    ]


def _without_calls(tables: Mapping[Table, Rows], names: Sequence[str], put: set[int]) -> list[Note]:
    """Work on the GPU, and among the calls not one that puts any there: a launch, a copy or a launch of a graph.

    AMD's copies count here, though not every one of them puts something on the GPU.
    """
    work = sum(len(tables.get(table, ())) for table in (Table.KERNELS, Table.COPIES, Table.GRAPHS))
    is_put = put - {NO_OPERATION} or any(call_kind(name) is CallKind.COPY_CALL for name in names)
    return counted("launches-not-recorded", 0 if is_put else work)


def _operation(function: str) -> int:
    """What a call puts on the GPU; a function's name may end in a version: `cudaLaunchKernel_v7000`."""
    return operation_number(function.partition("_v")[0])


def _without_work(tables: Mapping[Table, Rows], calls: Rows, asked: frozenset[Table]) -> list[Note]:
    """Calls that put work of a kind on the GPU, and not one record of that kind."""
    recorded = _kinds_recorded(tables, asked)
    if all(recorded):
        return []
    kind = calls.strings.each(calls.codes("name"), _kind, np.int8)
    ran = ~_while_capturing(calls, kind)
    if "result" in calls:
        ran &= calls["result"] <= 0
    notes = list[Note]()
    for number, is_there in enumerate(recorded):
        count = 0 if is_there else int(np.count_nonzero(ran & (kind == number)))
        notes += counted("work-not-recorded", count, table=_KINDS[number])
    return notes


def _kind(function: str) -> int:
    """Which of `_KINDS` a function puts on the GPU, or whether it begins or ends to write a graph."""
    if CAPTURE_BEGINS.search(function):
        return _BEGINS
    if CAPTURE_ENDS.search(function):
        return _ENDS
    number = _operation(function)
    if number == DeviceOperation.COPY.number:
        return _KINDS.index("memsets" if "Memset" in function else "copies")
    return _KINDS.index("kernels") if number == DeviceOperation.KERNEL.number else -1


def _while_capturing(calls: Rows, kind: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which calls were made while some stream was captured, in whatever process."""
    start_ns = calls["start_ns"]
    edges = np.flatnonzero((kind == _BEGINS) | (kind == _ENDS))
    if not len(edges):
        return np.zeros(len(calls), np.bool_)
    edges = edges[np.argsort(start_ns[edges], kind="stable")]
    depth = np.cumsum(np.where(kind[edges] == _BEGINS, 1, -1))
    open_before = max(0, -int(depth.min()))  # begun before the recording
    inside: NDArray[np.bool_] = np.append(0, depth)[np.searchsorted(start_ns[edges], start_ns)] + open_before > 0
    return inside


def _kinds_recorded(tables: Mapping[Table, Rows], asked: frozenset[Table]) -> tuple[bool, bool, bool]:
    """Whether there are records of each of the kinds, or nobody asked for them."""
    kernels = Table.KERNELS not in asked or len(tables.get(Table.KERNELS, ())) > 0
    if Table.COPIES not in asked:
        return kernels, True, True
    copies = tables.get(Table.COPIES)
    if copies is None or "kind" not in copies:
        return kernels, bool(copies), bool(copies)
    is_memset = copies.codes("kind") == copies.strings.code("Memset")
    return kernels, not is_memset.all(), bool(is_memset.any())


def _without_nodes(tables: Mapping[Table, Rows], calls: Rows) -> list[Note]:
    """Work that launches of graphs started, and of which some kind does not say which node it is."""
    if "correlation" not in calls:
        return []
    put = calls.strings.each(calls.codes("name"), _operation, np.int8)
    by_graphs = calls["correlation"][put == DeviceOperation.GRAPH.number]
    by_kind = [rows for rows in (tables.get(Table.KERNELS),) if rows is not None]
    if (copies := tables.get(Table.COPIES)) is not None and "kind" in copies:
        is_memset = copies.codes("kind") == copies.strings.code("Memset")
        by_kind += (copies.where(is_memset), copies.where(~is_memset))
    return counted("graph-nodes-not-recorded", sum(_nodes_lacking(rows, by_graphs) for rows in by_kind))


def _nodes_lacking(rows: Rows, by_graphs: Ints) -> int:
    """How many of these were started by launches of graphs, where not one says which node it is."""
    if "graph_node" not in rows or "correlation" not in rows or (rows["graph_node"] != NOT_RECORDED).any():
        return 0
    own = rows["correlation"]
    return int(np.count_nonzero(np.isin(own, by_graphs) & (own != NOT_RECORDED)))
