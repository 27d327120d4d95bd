"""What changes would buy, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.whatif import WhatIf
from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Cell, Column, Sheet, Unit

_COLUMNS = (
    Column("change", "If", Unit.TEXT),
    Column("line_ns", "Now", Unit.NS, detail=2),
    Column("step_ns", "Step", Unit.NS),
    Column("new_step_ns", "New step", Unit.NS),
    Column("saving_percent", "Saves", Unit.SHARE_PERCENT),
    Column("speed_up", "Speed-up", Unit.RATIO),
    Column("limit", "Limit", Unit.RATIO, detail=1),
    Column("assumption", "Assuming that", Unit.TEXT, detail=3),
)


def whatif_sheet(device: Device, changes: Sequence[WhatIf]) -> Sheet:
    """One row per change, each looked at alone."""
    title = f"What if, per step, GPU {device.gpu}"
    return Sheet("whatif", title, _COLUMNS, tuple(_row(change) for change in changes))


def _row(change: WhatIf) -> tuple[Cell, ...]:
    percent = 100 * change.saving_ns / change.step_ns
    times = (change.line_ns, change.step_ns, change.new_step_ns)
    return (change.change, *times, percent, change.speed_up, change.limit, change.assumption)
