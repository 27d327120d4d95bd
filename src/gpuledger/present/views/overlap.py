"""Overlap as a table: how long each kind of work ran, and how much of it was exposed."""

from __future__ import annotations

from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.spans import total

_COLUMNS = (
    Column("kind", "Kind", Unit.TEXT),
    Column("running_ns", "Running", Unit.NS, detail=1),
    Column("hidden_ns", "Hidden", Unit.NS),
    Column("exposed_ns", "Exposed", Unit.NS),
    Column("exposed_percent", "Of the window", Unit.SHARE_PERCENT),
)


def overlap_sheets(device: Device) -> list[Sheet]:
    """Compute, communication, copies and idle of the whole window; the exposed times sum to it."""
    work, window = device.ledger.busy, device.ledger.window_ns
    rows: tuple[tuple[str, int, int], ...] = (
        ("compute", 0, work.compute_ns),
        ("communication", work.hidden_comm_ns, total(work.comm)),
        ("copies", work.hidden_copy_ns, total(work.copy)),
        ("idle", 0, total(work.idle)),
    )
    cells: list[tuple[Cell, ...]] = [
        (kind, hidden + exposed, hidden, exposed, 100 * exposed / window) for kind, hidden, exposed in rows
    ]
    cells.append(("window", None, None, window, 100.0))
    return [Sheet(f"overlap_gpu{device.gpu}", f"Overlap, GPU {device.gpu}", _COLUMNS, tuple(cells))]
