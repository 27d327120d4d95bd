"""Ranges as a table: a tree by name, host and GPU time, launches and waits."""

from __future__ import annotations

import numpy as np

from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost, spans_of_time, thread
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, depths, parents
from gpuledger.trace.tables import Rows

_COLUMNS = (
    Column("range", "Range", Unit.TEXT),
    Column("instances", "Instances", Unit.COUNT),
    Column("host_ns", "Host", Unit.NS),
    Column("gpu_ns", "GPU", Unit.NS),
    Column("gpu_own_ns", "GPU, own", Unit.NS, detail=1),
    Column("launches", "Launches", Unit.COUNT),
    Column("syncs", "Waits", Unit.COUNT, detail=2),
)


def ranges_sheets(trace: Trace, device: Device) -> list[Sheet]:
    """The ranges of the whole window by their path in the tree, and what was launched in none."""
    ranges = spans_of_time(trace)
    found = device.found
    here = found.on(device.gpu)
    length = (found.end_ns - found.start_ns)[here]
    call = device.host.launching(found)[here]
    launcher = np.full(len(call), -1, np.intp)
    launcher[call >= 0] = innermost(ranges, device.host.calls.at(call[call >= 0]))
    blocking = device.host.calls.at(device.host.blocking)
    waiting = innermost(ranges, blocking)
    own_gpu, own_launch, own_wait = (np.zeros(len(ranges), np.int64) for _ in range(3))
    np.add.at(own_gpu, launcher[launcher >= 0], length[launcher >= 0])
    np.add.at(own_launch, launcher[launcher >= 0], 1)
    np.add.at(own_wait, waiting[waiting >= 0], 1)
    rows = _tree(ranges, (own_gpu, own_launch, own_wait))
    outside = launcher < 0
    rows.append(
        ("(in no range)", None, None, int(length[outside].sum()), int(length[outside].sum()), int(outside.sum()), None)
    )
    return [Sheet(f"ranges_gpu{device.gpu}", f"Ranges, GPU {device.gpu}", _COLUMNS, tuple(rows))]


def _tree(ranges: Rows, own: tuple[Ints, Ints, Ints]) -> list[tuple[Cell, ...]]:
    """One row per path of names, parents before children, the most GPU time first."""
    duration = ranges.duration_ns.tolist()
    sums: dict[tuple[str, ...], list[int]] = {}
    for at, path in enumerate(_paths(ranges)):
        held = sums.setdefault(path, [0, 0, 0, 0, 0, 0])
        held[0] += 1
        held[1] += duration[at]
        held[3] += int(own[0][at])
        for depth in range(1, len(path) + 1):
            whole = sums.setdefault(path[:depth], [0, 0, 0, 0, 0, 0])
            whole[2] += int(own[0][at])
            whole[4] += int(own[1][at])
            whole[5] += int(own[2][at])
    order = sorted(sums, key=lambda path: [(-sums[path[:d]][2], path[d - 1]) for d in range(1, len(path) + 1)])
    return [("  " * (len(path) - 1) + path[-1], *sums[path]) for path in order]


def _paths(ranges: Rows) -> list[tuple[str, ...]]:
    """For each range the names from its outermost ancestor down to itself."""
    names = [name or "?" for name in ranges.texts("name")]
    above = parents(ranges["start_ns"], ranges["end_ns"], thread(ranges)).tolist()
    outermost_first = np.argsort(depths(np.array(above, np.intp)), kind="stable").tolist()
    paths: list[tuple[str, ...]] = [()] * len(names)
    for at in outermost_first:
        paths[at] = (*(paths[above[at]] if above[at] >= 0 else ()), names[at])
    return paths
