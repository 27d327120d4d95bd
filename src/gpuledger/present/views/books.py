"""A device's ledger as a table: the whole window by line."""

from __future__ import annotations

from gpuledger.analyse.sheet import Column, Digits, Sheet
from gpuledger.ledger.device import Device


def ledger_sheet(device: Device) -> Sheet:
    """Line, time and share; the last row is the window, which the lines sum to."""
    columns = (
        Column("line", "Line", Digits.TEXT),
        Column("time_ns", "Time (ns)", Digits.WHOLE),
        Column("share_percent", "Share (%)", Digits.TENTH),
    )
    whole = device.ledger.window_ns
    rows = tuple((line, amount, 100 * amount / whole) for line, amount in device.ledger.total().items())
    title = f"Ledger, GPU {device.gpu}"
    return Sheet(f"ledger_gpu{device.gpu}", title, columns, (*rows, ("total", whole, 100.0)))
