"""A trace as a timeline, what must be on it, and names that try to break it."""

from __future__ import annotations

from collections import Counter

from gpuledger.export.perfetto import PerfettoWriter
from gpuledger.export.sections import earliest_ns, scene, sections
from gpuledger.export.timeline import UniqueNumbers
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace, os_pid
from gpuledger.trace.tables import Table
from support.profiles.perfetto_decoder import Decoded
from support.traces.trace_notation import TraceText

ON_GPU = (Table.KERNELS, Table.COPIES, Table.GRAPHS)


def perfetto(of: Trace, wanted: Selection | None = None) -> bytes:
    made = scene(of, "test", wanted or Selection())
    return b"".join(PerfettoWriter(min(earliest_ns(of), 0)).write(sections(made, UniqueNumbers())))


def launched(of: Trace) -> int:
    """How many activities have a launch call, by a lookup of our own."""
    calls, found = of[Table.CALLS], 0
    layers = [layer in ("runtime", "driver") for layer in calls.texts("layer")]
    owners = zip(calls["pid"].tolist(), calls["correlation"].tolist(), layers, strict=True)
    known = {(pid, correlation) for pid, correlation, is_cuda in owners if is_cuda and correlation >= 0}
    for each in ON_GPU:
        found += sum(
            key in known for key in zip(of[each]["pid"].tolist(), of[each]["correlation"].tolist(), strict=True)
        )
    return found


def counted(decoded: Decoded) -> dict[tuple[str, ...], int]:
    """Slices by the names of their track and the headings over it."""
    return Counter(decoded.path(each.track) for each in decoded.slices)


def expected(of: Trace) -> dict[tuple[str, ...], int]:
    """The same from the tables: per stream and per thread. For one process per name, and one of each stream."""
    names = {each.pid: each.name or "process" for each in of.origin.processes}
    found: Counter[tuple[str, ...]] = Counter()
    for each in ON_GPU:
        for gpu, stream in zip(of[each]["gpu"].tolist(), of[each]["stream"].tolist(), strict=True):
            found[f"GPU {gpu} ({of.origin.gpus[gpu].name})", f"stream {stream}"] += 1
    started = of.strings.code("start_end")
    for each, under in ((Table.RANGES, ""), (Table.CALLS, ""), (Table.OVERHEADS, "profiler overhead")):
        rows = of[each]
        kinds = rows.codes("kind").tolist() if each is Table.RANGES else [-2] * len(rows)
        for pid, tid, kind in zip(rows["pid"].tolist(), rows["tid"].tolist(), kinds, strict=True):
            thread = "main thread" if tid == os_pid(pid) else f"thread {tid}"
            child = "start/end ranges" if kind == started else under
            found[(names.get(pid, "process"), thread, *([child] if child else []))] += 1
    return found


NASTY = (
    "</script><img src=x onerror=alert(1)>",
    "\u202eevil\u202c",
    "x" * 65_536,
    "",
    "lone \ud800 surrogate",
    'quote " back \\ slash',
    "new\nline \x00 nul \x1b[31m",
    "表情 🙂",
)


def nasty_trace() -> Trace:
    named = list(enumerate(NASTY))
    work = (5, 0, -7, 10, 10, 0, -1, 1)
    ends = (100, 0, -5, 100, 50, 20, 20, 0)
    text = TraceText(1)
    text.rows = {
        Table.KERNELS: [
            {"start_ns": 10 * at - 30, "end_ns": 10 * at - 30 + work[at], "name": name, "correlation": at + 1}
            | {"grid": (-1, -1, -1)}
            for at, name in named
        ],
        Table.RANGES: [
            {"start_ns": 0, "end_ns": ends[at], "name": name, "kind": "mark" if at == len(NASTY) - 1 else "push_pop"}
            for at, name in named
        ],
        Table.CALLS: [
            {"start_ns": 5, "end_ns": 6, "correlation": at + 1, "name": name, "layer": "runtime"} for at, name in named
        ],
    }
    return text.trace()


def clean(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
