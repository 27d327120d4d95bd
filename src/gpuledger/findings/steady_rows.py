"""The rows of a table that began on one GPU in its steady stretch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.device import Device
from gpuledger.trace.columns import equal
from gpuledger.trace.tables import Rows


def steady_rows(rows: Rows, device: Device, *columns: str) -> Rows:
    """Those rows, with these columns."""
    return rows.only(*columns).where(are_steady(rows, device))


def are_steady(rows: Rows, device: Device) -> NDArray[np.bool_]:
    """Which rows they are."""
    begins: NDArray[np.bool_] = device.begins_steady(rows["start_ns"]) & equal(rows["gpu"], device.gpu)
    return begins
