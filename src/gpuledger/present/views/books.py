"""A device's ledger as a table: the whole window by line."""

from __future__ import annotations

from typing import Final

from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import TOTAL, line_term

_COLUMNS: Final = (
    Column("line", say("Line"), Unit.TEXT),
    Column("time_ns", say("Time"), Unit.NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
)


def ledger_sheet(device: Device) -> Sheet:
    """Line, time and share; the foot is the window, which the lines sum to."""
    whole = device.ledger.window_ns
    rows = tuple((line_term(line), amount, 100 * amount / whole) for line, amount in device.ledger.total().items())
    title = say("Ledger, GPU {gpu}", gpu=device.gpu)
    return Sheet(f"ledger_gpu{device.gpu}", title, _COLUMNS, rows, foot=((TOTAL, whole, 100.0),))
