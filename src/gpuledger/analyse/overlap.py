"""What hides under what: one GPU's window in; how long each kind of work ran, and what of it was exposed, out.

Exposed is what runs while nothing more important does: communication without compute, copies without either. The
exposed times and the idle time sum to the window.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.ledger.device import Device
from gpuledger.trace.spans import total


@dataclass(frozen=True, slots=True)
class Exposure:
    """One kind of work."""

    hidden_ns: int
    exposed_ns: int

    @property
    def running_ns(self) -> int:
        return self.hidden_ns + self.exposed_ns


@dataclass(frozen=True, slots=True)
class WorkOverlap:
    """One GPU's window."""

    gpu: int
    window_ns: int
    compute: Exposure
    communication: Exposure
    copies: Exposure
    idle: Exposure


def overlap(device: Device) -> WorkOverlap:
    """How compute, communication and copies of one GPU overlap."""
    work = device.ledger.busy
    return WorkOverlap(
        gpu=device.gpu,
        window_ns=device.ledger.window_ns,
        compute=Exposure(0, work.compute_ns),
        communication=Exposure(work.hidden_comm_ns, total(work.comm)),
        copies=Exposure(work.hidden_copy_ns, total(work.copy)),
        idle=Exposure(0, total(work.idle)),
    )
