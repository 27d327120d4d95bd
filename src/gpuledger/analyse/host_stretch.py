"""When the host worked on the steady steps: a device in, a stretch of the host's time out.

The host runs ahead, so the steady steps' calls may all have been made before the device began them. The stretch begins
when what ran before the steady steps had been launched, and ends when what ran after them began to be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.trace.columns import distinct
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from gpuledger.trace.tables import Rows


def host_stretch(trace: Trace, device: Device) -> Span:
    """Calls and ranges that begin in it belong to the steady steps."""
    work, calls = device.work.of(device.gpu), device.host.calls
    work = work.where(work.launch >= 0)
    start_ns, call = work.start_ns, work.launch
    if device.steps is None or not len(call):
        return Span(min(device.steady.start_ns, _first(trace)), max(device.steady.end_ns, device.ledger.window.end_ns))
    earlier = start_ns < device.steady.start_ns
    later = start_ns >= device.steady.end_ns
    steady = call[~earlier & ~later]
    if not len(steady):
        return device.steady
    began = int(calls["start_ns"][steady].min())
    start = int(calls["end_ns"][call[earlier]].max()) if earlier.any() else _around(trace, device, steady, began)
    end = int(calls["start_ns"][call[later]].min()) if later.any() else device.steady.end_ns
    last = int(calls["end_ns"][steady].max())
    # streams that run out of order may turn the two around
    return Span(min(start, began), max(end, last)) if end <= start else Span(start, end)


def of_this_gpu(device: Device, rows: Rows) -> NDArray[np.bool_]:
    """Which rows are of the processes that use this GPU."""
    is_own: NDArray[np.bool_] = np.isin(rows["pid"], distinct(device.work.of(device.gpu).pid))
    return is_own


def begins_in(stretch: Span, rows: Rows) -> NDArray[np.bool_]:
    """Which rows begin in the stretch."""
    start = rows["start_ns"]
    inside: NDArray[np.bool_] = (start >= stretch.start_ns) & (start < stretch.end_ns)
    return inside


def _first(trace: Trace) -> int:
    """Where a window is the one step, everything recorded belongs to it."""
    span = trace.span
    return span.start_ns if isinstance(span, Span) else np.iinfo(np.int64).max


def _around(trace: Trace, device: Device, steady: NDArray[np.intp], began_ns: int) -> int:
    """Where the first step begins on the host: with the ranges around its first launch, up to a step before it."""
    calls = device.host.calls
    first = int(steady[int(calls["start_ns"][steady].argmin())])
    ranges = spans_of_time(trace)
    usual = (device.steady.end_ns - device.steady.start_ns) // device.step_count
    around = (
        (thread(ranges) == device.host.threads[device.host.thread_of_call[first]])
        & (ranges["start_ns"] <= began_ns)
        & (ranges["end_ns"] >= began_ns)
        & (ranges["start_ns"] >= began_ns - usual)
    )
    return int(ranges["start_ns"][around].min(initial=began_ns))
