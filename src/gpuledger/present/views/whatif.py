"""What changes would buy, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.whatif import WhatIf
from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Cell, Column, Sheet, Unit


def whatif_sheet(device: Device, changes: Sequence[WhatIf]) -> Sheet:
    """One row per change, each looked at alone."""
    title = f"What if, per step, GPU {device.gpu}"
    return Sheet("whatif", title, _columns("step", "Step"), tuple(_row(change) for change in changes))


def whatif_of_tables_sheet(changes: Sequence[WhatIf]) -> Sheet:
    """The same where sums are all there is: the whole is the time of the program's ranges."""
    title = "What if, of the time in the program's ranges, set-up left out"
    return Sheet("whatif", title, _columns("whole", "Whole"), tuple(_row(change) for change in changes))


def _columns(key: str, whole: str) -> tuple[Column, ...]:
    return (
        Column("change", "If", Unit.TEXT),
        Column("line_ns", "Now", Unit.NS, detail=2),
        Column("line_percent", "Share", Unit.SHARE_PERCENT, detail=2),
        Column(f"{key}_ns", whole, Unit.NS),
        Column(f"new_{key}_ns", f"New {whole.lower()}", Unit.NS),
        Column("saving_percent", "Saves", Unit.SHARE_PERCENT),
        Column("speed_up", "Speed-up", Unit.RATIO),
        Column("limit", "Limit", Unit.RATIO, detail=1),
        Column("assumption", "Assuming that", Unit.TEXT, detail=3),
    )


def _row(change: WhatIf) -> tuple[Cell, ...]:
    whole = change.step_ns or 1
    about, saves = (100 * part / whole for part in (change.line_ns, change.saving_ns))
    return (
        change.change,
        change.line_ns,
        about,
        change.step_ns,
        change.new_step_ns,
        saves,
        change.speed_up,
        change.limit,
        change.assumption,
    )
