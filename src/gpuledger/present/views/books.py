"""A device's ledger as a table: the whole window by line."""

from __future__ import annotations

from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Column, Sheet, Unit


def ledger_sheet(device: Device) -> Sheet:
    """Line, time and share; the last row is the window, which the lines sum to."""
    columns = (
        Column("line", "Line", Unit.TEXT),
        Column("time_ns", "Time", Unit.NS),
        Column("share_percent", "Share", Unit.SHARE_PERCENT),
    )
    whole = device.ledger.window_ns
    rows = tuple((line, amount, 100 * amount / whole) for line, amount in device.ledger.total().items())
    title = f"Ledger, GPU {device.gpu}"
    return Sheet(f"ledger_gpu{device.gpu}", title, columns, (*rows, ("total", whole, 100.0)))
