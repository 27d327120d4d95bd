"""Books of a trace, and the laws that they keep."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from gpuledger import Trace, open_trace
from gpuledger.analyse.utilization.kernel_use import CLASSES
from gpuledger.analyse.utilization.stretches import compute_split
from gpuledger.ledger.device import Device, devices
from gpuledger.ledger.gaps import histogram
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.window import default_window
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Span, total


def analysed(path_or_trace: Path | Trace, wanted: Selection | None = None) -> tuple[Device, ...]:
    opened = path_or_trace if isinstance(path_or_trace, Trace) else open_trace(path_or_trace)
    host, found = host_and_activities(opened)
    window = default_window(host, found)
    return () if isinstance(window, NotMeasured) else devices(opened, found, host, window, wanted or Selection())


def idle_by_plain_sweep(device: Device) -> list[tuple[int, int]]:
    """Gaps by walking over sorted activities, stretch by stretch: nothing of `spans` is used."""
    stretches = device.ledger.busy.stretches
    return [gap for stretch in stretches for gap in _idle_in(device, stretch)]


def _idle_in(device: Device, window: Span) -> list[tuple[int, int]]:
    rows = sorted(
        (int(start), int(end))
        for start, end, gpu in zip(device.work.start_ns, device.work.end_ns, device.work.gpu, strict=True)
        if gpu == device.gpu and end > window.start_ns and start < window.end_ns
    )
    gaps, reach = [], window.start_ns
    for start, end in rows:
        if start > reach:
            gaps.append((reach, min(start, window.end_ns)))
        reach = max(reach, end)
    if reach < window.end_ns:
        gaps.append((reach, window.end_ns))
    return gaps


def check_balance(device: Device) -> None:
    books = device.ledger
    assert sum(books.total().values()) == books.window_ns
    stretches = list(books.busy.stretches)
    assert books.window_ns == sum(end - start for start, end in stretches)
    for tile, (start, end) in enumerate(pairwise(books.tiles_ns.tolist())):
        inside = sum(max(min(end, last) - max(start, first), 0) for first, last in stretches)
        assert int(books.books[tile].sum()) == inside
    assert np.array_equal(books.gaps.by_cause.total(), books.gaps.length_ns)
    assert sum(ns for line, ns in books.total().items() if line.startswith("compute")) == books.busy.compute_ns
    compute = sum(ns for line, ns in books.total().items() if line.startswith("compute."))
    assert compute == books.busy.compute_ns
    assert sum(device.line_ns.values()) == device.steady_ns
    assert sum(time for _, _, time in histogram(books.gaps)) == total(books.busy.idle)
    check_split(device)
    assert list(zip(books.gaps.start_ns.tolist(), books.gaps.end_ns.tolist(), strict=True)) == idle_by_plain_sweep(
        device
    )


def check_split(device: Device) -> None:
    """Whatever classes the kernels have, compute by use sums to the lines of compute, in the window and its steps."""
    rows = int(device.work.row.max(initial=0)) + 1
    for classes in (None, np.random.default_rng(rows).integers(0, len(CLASSES), rows).astype(np.int8)):
        split = compute_split(device, classes)
        for by_use, lines in ((split.window, device.ledger.total()), (split.steady, device.line_ns)):
            compute = {line: ns for line, ns in lines.items() if line.is_compute}
            assert {line: sum(times.values()) for line, times in by_use.items()} == compute
            assert all(ns >= 0 for times in by_use.values() for ns in times.values())
