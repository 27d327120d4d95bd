"""How many warps of a kernel a multiprocessor has room for: a launch in, a share of its warps and what limits it out.

Limits are those of the CUDA C++ programming guide, by compute capability; registers and shared memory are given out in
the units of NVIDIA's occupancy calculator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from gpuledger.catalog.gpu_metrics import WARPS_PER_SM

_KIB: Final = 1024
_REGISTERS: Final = 65_536
_REGISTER_UNIT: Final = 256
"""Registers that a warp gets are a multiple of this."""
_PARTITIONS: Final = 4
"""Of a multiprocessor: each has its own registers, and as many warps as the others."""
_SHARED_UNIT: Final = 128
_WARP: Final = 32


class _Room(NamedTuple):
    blocks: int
    shared_bytes: int
    reserved_bytes: int
    """Shared memory of each block that is the system's."""


_ROOM: Final = {
    (7, 0): _Room(32, 96 * _KIB, 0),
    (7, 5): _Room(16, 64 * _KIB, 0),
    (8, 0): _Room(32, 164 * _KIB, _KIB),
    (8, 6): _Room(16, 100 * _KIB, _KIB),
    (8, 7): _Room(16, 164 * _KIB, _KIB),
    (8, 9): _Room(24, 100 * _KIB, _KIB),
    (9, 0): _Room(32, 228 * _KIB, _KIB),
    (10, 0): _Room(32, 228 * _KIB, _KIB),
    (12, 0): _Room(24, 100 * _KIB, _KIB),
}


@dataclass(frozen=True, slots=True)
class OccupancyLimit:
    """What a launch allows."""

    share: float
    """Of the warps that a multiprocessor has room for."""
    limited_by: str
    """`registers`, `shared memory`, `warps` (the block's size) or `blocks`."""


def occupancy_limit(
    capability: tuple[int, int] | None, threads: int, registers: int, shared_bytes: int
) -> OccupancyLimit | None:
    """By threads and shared memory of a block, and registers of a thread; None for a GPU or a launch not known."""
    if capability not in _ROOM or capability not in WARPS_PER_SM or threads <= 0 or registers <= 0 or shared_bytes < 0:
        return None
    room, most = _ROOM[capability], WARPS_PER_SM[capability]
    warps = -(-threads // _WARP)
    per_warp = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = _REGISTERS // per_warp // _PARTITIONS * _PARTITIONS
    shared = -(-(shared_bytes + room.reserved_bytes) // _SHARED_UNIT) * _SHARED_UNIT
    blocks = {
        "warps": most // warps,
        "blocks": room.blocks,
        "registers": by_registers // warps,
        "shared memory": room.shared_bytes // shared if shared else room.blocks,
    }
    limited_by = min(blocks, key=lambda resource: blocks[resource])
    fitting = blocks[limited_by]
    return OccupancyLimit(fitting * warps / most, limited_by) if fitting else None
