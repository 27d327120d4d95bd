"""What changes would buy, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.sheet import Cell, Column, Digits, Sheet
from gpuledger.analyse.whatif import WhatIf
from gpuledger.ledger.device import Device

_COLUMNS = (
    Column("change", "If", Digits.TEXT),
    Column("line_ns", "Now (ns)", Digits.WHOLE, detail=2),
    Column("step_ns", "Step (ns)", Digits.WHOLE),
    Column("new_step_ns", "New step (ns)", Digits.WHOLE),
    Column("saving_percent", "Saves (%)", Digits.TENTH),
    Column("speed_up", "Speed-up", Digits.HUNDREDTH),
    Column("limit", "Limit", Digits.HUNDREDTH, detail=1),
    Column("assumption", "Assuming that", Digits.TEXT, detail=3),
)


def whatif_sheet(device: Device, changes: Sequence[WhatIf]) -> Sheet:
    """One row per change, each looked at alone."""
    title = f"What if, per step, GPU {device.gpu}"
    return Sheet("whatif", title, _COLUMNS, tuple(_row(change) for change in changes))


def _row(change: WhatIf) -> tuple[Cell, ...]:
    percent = 100 * change.saving_ns / change.step_ns
    times = (change.line_ns, change.step_ns, change.new_step_ns)
    return (change.change, *times, percent, change.speed_up, change.limit, change.assumption)
