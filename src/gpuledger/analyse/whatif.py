"""What hiding exposed work under compute would buy, from the books."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import LineKind
from gpuledger.messages import say


@dataclass(frozen=True, slots=True)
class Hidden:
    """What it saves of the steady stretch, and what that takes for granted."""

    saved_ns: int
    assumption: str


def hide(device: Device, kind: LineKind, *, but_ns: int = 0) -> Hidden:
    """Exposed communication or copies run under compute, all but `but_ns` of them, and but what lost work may hide."""
    but_ns += device.exposed_beside_lost_ns(kind)
    said = say("compute of the same step covers it, without slowing down")
    return Hidden(min(max(device.exposed_ns(kind) - but_ns, 0), device.compute_ns), said)
