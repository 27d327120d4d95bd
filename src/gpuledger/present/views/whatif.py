"""What changes would buy, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.whatif import WhatIf
from gpuledger.ledger.device import Device
from gpuledger.messages import say, uncapitalised
from gpuledger.present.sheet import Cell, Column, Sheet, Unit


def whatif_sheet(device: Device, changes: Sequence[WhatIf]) -> Sheet:
    """One row per change, each looked at alone."""
    title = say("What if, per step, GPU {gpu}", gpu=device.gpu)
    return Sheet("whatif", title, _columns("step", say("Step")), tuple(_row(change) for change in changes))


def whatif_of_tables_sheet(changes: Sequence[WhatIf]) -> Sheet:
    """The same where sums are all there is: the whole is the time of the program's ranges."""
    title = say("What if, of the time in the program's ranges, set-up left out")
    return Sheet("whatif", title, _columns("whole", say("Whole")), tuple(_row(change) for change in changes))


def _columns(key: str, whole: str) -> tuple[Column, ...]:
    return (
        Column("change", say("If"), Unit.TEXT),
        Column("line_ns", say("Now"), Unit.NS, detail=2),
        Column("line_percent", say("Share"), Unit.SHARE_PERCENT, detail=2),
        Column(f"{key}_ns", whole, Unit.NS),
        Column(f"new_{key}_ns", say("New {whole}", whole=uncapitalised(whole)), Unit.NS),
        Column("saving_percent", say("Saves"), Unit.SHARE_PERCENT),
        Column("speed_up", say("Speed-up"), Unit.RATIO),
        Column("limit", say("Limit"), Unit.RATIO, detail=1),
        Column("assumption", say("Assuming that"), Unit.TEXT, detail=3),
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
