"""A launching thread that waits for another one: for launches, for Python's lock, or for what the other one does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from support.trace_notation import called

LAUNCH = "cudaLaunchKernel"


def device_of(trace: Trace) -> Device:
    [device] = analyse_devices(trace, "test", Selection())
    return device


def fed(thread: int, launches: int, at_once: int, wait_us: int = 200) -> Trace:
    """A thread that waits before every few launches; kernels take 5 us."""
    lines, at = [], 0
    for number in range(launches):
        if number % at_once == 0:
            lines.append(f"t{thread}: {at + 3}-{at + wait_us} sem_wait")
            at += wait_us + 2
        lines.append(f"t{thread}: {at}-{at + 2} {LAUNCH} -> s7: {at + 4}-{at + 9}")
        at += 3
    return called(*lines)


# Examples


# A law


@given(st.integers(0, 2), st.integers(1, 60), st.integers(1, 20), st.integers(10, 3_000))
def test_the_books_balance_however_a_thread_is_fed(thread: int, launches: int, at_once: int, wait_us: int) -> None:
    device = device_of(fed(thread, launches, at_once, wait_us))
    assert sum(device.idle_by_trigger.values()) == sum(ns for line, ns in device.line_ns.items() if line.is_idle)


# A source that sets the pace
