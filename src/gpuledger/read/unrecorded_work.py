"""Work without its calls, or calls without their work, where a profile holds none of one at all: tables in, notes out.

A profile without a table of kernels, or with an empty one, whose calls launch kernels did not record them: their time
looks idle. Launches that are written into a graph, while a stream is captured, run nothing.
Work of which no call was recorded was launched by somebody: why the GPU was idle before it cannot be told. Kernels of a
graph that do not say which node they are look as if the host had launched them one by one.

How long a profile's window took without the profiler: the profile's path in; the time, or why it is not known, out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.capture.output_files import MANIFEST_SCHEMA, manifests_of
from gpuledger.catalog.calls import CAPTURE_BEGINS, CAPTURE_ENDS, NO_OPERATION, DeviceOperation, operation_number
from gpuledger.messages import say
from gpuledger.trace.model import NO_MANIFEST, Note, NotMeasured, Severity
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import count_text

_BEGINS, _ENDS = -2, -3
"""Stand for calls that begin and end to write a graph."""

_KINDS: Final = ("kernels", "copies", "memsets")
"""What is looked for; a call holds its number, or a negative one."""


def unrecorded_work(tables: Mapping[Table, Rows], asked: frozenset[Table]) -> tuple[Note, ...]:
    """What is said of the tables that were read; `asked` are those that would have been, had they been there."""
    calls = tables.get(Table.CALLS)
    if calls is None or "name" not in calls:
        return ()
    return _without_calls(tables, calls) or (*_without_work(tables, calls, asked), *_without_nodes(tables, calls))


def _without_calls(tables: Mapping[Table, Rows], calls: Rows) -> tuple[Note, ...]:
    """Work on the GPU, and among the calls not one that puts any there."""
    work = sum(len(tables.get(table, ())) for table in (Table.KERNELS, Table.COPIES, Table.GRAPHS))
    if not work or (calls.strings.each(calls.codes("name"), _puts_work, np.int8) > 0).any():
        return ()
    sentence = say(
        "the GPU ran {count} operations, and the profile holds no call that launched any: why it was idle is not known",
        count=count_text(work),
    )
    return (Note(Severity.LOSS, "launches-not-recorded", sentence, work),)


def _without_work(tables: Mapping[Table, Rows], calls: Rows, asked: frozenset[Table]) -> tuple[Note, ...]:
    """Calls that put work of a kind on the GPU, and not one record of that kind."""
    operation = calls.strings.each(calls.codes("name"), _operation, np.int8)
    ran = ~_while_capturing(calls, operation)
    if "result" in calls:
        ran &= calls["result"] <= 0
    notes = []
    for number, is_there in enumerate(_kinds_recorded(tables, asked)):
        if not is_there and (count := int(np.count_nonzero(ran & (operation == number)))):
            sentence = say(
                "{count} calls put {table} on the GPU, and the profile holds none: their time looks idle",
                count=count_text(count),
                table=_KINDS[number],
            )
            notes.append(Note(Severity.LOSS, "work-not-recorded", sentence, count))
    return tuple(notes)


def _while_capturing(calls: Rows, operation: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which calls were made while some stream was captured, in whatever process."""
    start_ns = calls["start_ns"]
    edges = np.flatnonzero((operation == _BEGINS) | (operation == _ENDS))
    if not len(edges):
        return np.zeros(len(calls), np.bool_)
    edges = edges[np.argsort(start_ns[edges], kind="stable")]
    depth = np.cumsum(np.where(operation[edges] == _BEGINS, 1, -1))
    open_before = max(0, -int(depth.min()))  # begun before the recording
    inside: NDArray[np.bool_] = np.append(0, depth)[np.searchsorted(start_ns[edges], start_ns)] + open_before > 0
    return inside


def _without_nodes(tables: Mapping[Table, Rows], calls: Rows) -> tuple[Note, ...]:
    """Work that launches of graphs started, and of which some kind does not say which node it is."""
    if "correlation" not in calls:
        return ()
    launches = calls.strings.each(calls.codes("name"), _launches_graph, np.int8) > 0
    if not launches.any():
        return ()
    by_graphs = calls["correlation"][launches]
    count = sum(_nodes_lacking(rows, by_graphs) for rows in _by_kind(tables))
    if not count:
        return ()
    sentence = say(
        "{count} kernels or copies of CUDA graphs do not say which node they are: gaps between them look like the "
        "host's",
        count=count_text(count),
    )
    return (Note(Severity.LOSS, "graph-nodes-not-recorded", sentence, count),)


def _by_kind(tables: Mapping[Table, Rows]) -> Iterator[Rows]:
    """What graphs start: kernels, copies and memsets, each by itself, as each is recorded by itself."""
    if (kernels := tables.get(Table.KERNELS)) is not None:
        yield kernels
    if (copies := tables.get(Table.COPIES)) is not None and "kind" in copies:
        is_memset = copies.codes("kind") == copies.strings.code("Memset")
        yield copies.where(is_memset)
        yield copies.where(~is_memset)


def _nodes_lacking(rows: Rows, by_graphs: NDArray[np.int64]) -> int:
    """How many of these were started by launches of graphs, where not one says which node it is."""
    if "graph_node" not in rows or "correlation" not in rows or (rows["graph_node"] != NOT_RECORDED).any():
        return 0
    own = rows["correlation"]
    return int(np.count_nonzero(np.isin(own, by_graphs) & (own != NOT_RECORDED)))


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


def _puts_work(function: str) -> int:
    """1: a launch, a copy or a launch of a graph."""
    return int(operation_number(function.partition("_v")[0]) != NO_OPERATION)


def _launches_graph(function: str) -> int:
    return int(operation_number(function.partition("_v")[0]) == DeviceOperation.GRAPH.number)


def _operation(function: str) -> int:
    """What a function puts on the GPU; its name may end in a version: `cudaLaunchKernel_v7000`."""
    if CAPTURE_BEGINS.search(function):
        return _BEGINS
    if CAPTURE_ENDS.search(function):
        return _ENDS
    number = operation_number(function.partition("_v")[0])
    if number == DeviceOperation.COPY.number:
        return _KINDS.index("memsets" if "Memset" in function else "copies")
    return _KINDS.index("kernels") if number == DeviceOperation.KERNEL.number else -1


MOST_BYTES: Final = 4_000_000
"""A larger file is no manifest of ours."""
_LONGEST_NS: Final = 10**18


def plain_window_ns(profile: Path) -> int | NotMeasured:
    """The mean of the windows that the manifest of this profile holds."""
    reason = NO_MANIFEST
    for path in manifests_of(profile):
        manifest = _manifest(path)
        if manifest is None:
            continue
        if not _is_about(manifest, profile):
            reason = NotMeasured(say("{manifest} describes another profile", manifest=path.name))
            continue
        return _window_ns(manifest.get("plain"))
    return reason


def _manifest(path: Path) -> dict[str, Any] | None:
    if not path.is_file():  # a pipe of that name would be waited for
        return None
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):  # not ours to read, cut, or no JSON: there is none
        return None
    return content if isinstance(content, dict) and content.get("schema") == MANIFEST_SCHEMA else None


def _is_about(manifest: dict[str, Any], profile: Path) -> bool:
    """Whether the capture wrote this very file: its name, and its size."""
    files = manifest.get("files")
    wanted = {"name": profile.name, "bytes": profile.stat().st_size}
    return isinstance(files, list) and wanted in files


def _window_ns(plain: object) -> int | NotMeasured:
    if not isinstance(plain, dict):
        return NotMeasured(say("the program was not run unprofiled before the capture"))
    windows = plain.get("window_ns")
    if isinstance(windows, list) and windows and all(_is_time(window) for window in windows):
        return round(sum(windows) / len(windows))
    reason = plain.get("reason")
    if not isinstance(reason, str) or not reason:
        return NotMeasured(say("the unprofiled run before the capture has no readable time"))
    return NotMeasured(say("no unprofiled run was timed before the capture: {reason}", reason=reason))


def _is_time(window: object) -> bool:
    return isinstance(window, int) and not isinstance(window, bool) and 0 < window < _LONGEST_NS
