"""Figures over time, for curves: one GPU in, instants and values out.

Each function gives when a level changes and what it is from then on. Memory counts from the first event recorded, so
allocations from before the capture that nsys lists count too. A launch waits in the queue from its call's return until
the first of its work begins; a graph launch is one launch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.activity_bins import bin_edges
from gpuledger.ledger.device import Device
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, covered
from gpuledger.trace.tables import Rows, Table

ON_THE_DEVICE = ("Device", "Device Static", "Managed")
"""Kinds of memory that lie on the GPU, in NVIDIA's words."""


def memory_events(trace: Trace, gpu: int) -> tuple[Rows, NDArray[np.bool_], Ints]:
    """Allocations and releases of one GPU's memory in order of time; which are releases; and the bytes in use after."""
    every = trace[Table.ALLOCS]
    kinds = [trace.strings.code(kind) for kind in ON_THE_DEVICE]
    mine = every.where((every["gpu"] == gpu) & np.isin(every.codes("memory_kind"), kinds))
    mine = mine.at(np.argsort(mine["start_ns"], kind="stable"))
    released = mine.codes("operation") == trace.strings.code("Deallocation")
    return mine, released, np.cumsum(np.where(released, -mine["bytes"], mine["bytes"]))


def queue_depth(device: Device) -> tuple[Ints, Ints]:
    """How many launches had returned and had begun nothing yet: from each instant on."""
    activities, calls = device.work, device.host.calls
    here = activities.on(device.gpu)
    call = activities.launch[here]
    here, call = here[call >= 0], call[call >= 0]
    first, number = group(call)
    begun = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(begun, number, activities.start_ns[here])
    returned = calls["end_ns"][call[first]]
    waited = begun > returned
    changes = np.concatenate((returned[waited], begun[waited]))
    change = np.repeat((1, -1), waited.sum())
    instants, place = np.unique(changes, return_inverse=True)
    steps = np.zeros(len(instants), np.int64)
    np.add.at(steps, place.reshape(-1), change)
    return instants, np.cumsum(steps)


def busy_share(device: Device, bins: int) -> tuple[Ints, NDArray[np.float64]]:
    """The share of each of so many equal parts of the window in which the GPU worked: their beginnings, the shares."""
    edges = bin_edges(device.ledger.window, bins)
    idle_ns, looked_at_ns = (
        covered(spans, edges[:-1], edges[1:]) for spans in (device.ledger.busy.idle, device.ledger.busy.stretches)
    )
    return edges[:-1], (looked_at_ns - idle_ns) / np.diff(edges)
