"""Memory as tables: copies by kind and memory, allocation calls, and the memory in use."""

from __future__ import annotations

from gpuledger.analyse.over_time import memory_events
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import summarise
from gpuledger.trace.tables import Table


def memory_sheets(trace: Trace, device: Device) -> list[Sheet]:
    """All tables about memory."""
    gpu = device.gpu
    made = [_copies(trace, device), _calls(device), _in_use(trace, device)]
    return [Sheet(f"{sheet.name}_gpu{gpu}", f"{sheet.title}, GPU {gpu}", sheet.columns, sheet.rows) for sheet in made]


def _copies(trace: Trace, device: Device) -> Sheet:
    every = trace[Table.COPIES]
    copies = every.where(device.begins_steady(every["start_ns"]) & (every["gpu"] == device.gpu))
    keys = [copies.codes(name) for name in ("kind", "src_kind", "dst_kind")]
    first, number = group(*keys)
    labels = list(zip(*(copies.strings.decode(key[first]) for key in keys), strict=True))
    times, sizes = summarise(copies.duration_ns, number), summarise(copies["bytes"], number)
    columns = (
        Column("kind", "Kind", Unit.TEXT),
        Column("from", "From", Unit.TEXT),
        Column("to", "To", Unit.TEXT),
        Column("copies", "Copies", Unit.COUNT),
        Column("per_step", "A step", Unit.MEAN),
        Column("total_bytes", "MB", Unit.MB),
        Column("total_ns", "Time", Unit.NS),
        Column("bytes_per_s", "MB/s", Unit.MB_PER_S, detail=1),
    )
    rows: list[tuple[Cell, ...]] = []
    for (kind, source, target), time, size in zip(labels, times, sizes, strict=True):
        rate = size.total * 1e9 / time.total if time.total else None
        rows.append((kind, source, target, time.count, time.count / device.step_count, size.total, time.total, rate))
    rows.sort(key=lambda row: -int(str(row[6])))
    return Sheet("copies", "Copies, steady steps", columns, tuple(rows))


def _calls(device: Device) -> Sheet:
    is_alloc = device.host.kinds == device.host.kind_names.index("alloc")
    calls = device.host.calls.where(is_alloc & device.steady_calls)
    first, number = group(calls.codes("name"))
    names = calls.strings.decode(calls.codes("name")[first])
    columns = (
        Column("name", "Call", Unit.TEXT),
        Column("calls", "Calls", Unit.COUNT),
        Column("per_step", "A step", Unit.MEAN),
        Column("total_ns", "Time", Unit.NS),
    )
    rows = [
        (shortened(name or ""), each.count, each.count / device.step_count, each.total)
        for name, each in zip(names, summarise(calls.duration_ns, number), strict=True)
    ]
    rows.sort(key=lambda row: -row[3])
    return Sheet("allocation_calls", "Allocation calls, steady steps", columns, tuple(rows))


def _in_use(trace: Trace, device: Device) -> Sheet:
    """Device memory over time, from nsys's memory events: allocations from before the capture count."""
    mine, released, level = memory_events(trace, device.gpu)
    columns = (Column("figure", "Figure", Unit.TEXT), Column("bytes", "MB", Unit.MB))
    if not len(mine):
        return Sheet("memory_in_use", "Device memory", columns)
    rows = (
        ("peak", int(level.max())),
        ("at the end", int(level[-1])),
        ("allocated in all", int(mine["bytes"][~released].sum())),
    )
    return Sheet("memory_in_use", "Device memory", columns, rows)
