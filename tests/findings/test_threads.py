"""A launching thread that waits for another one: for launches, for Python's lock, or for what the other one does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.findings.finding import Finding
from gpuledger.findings.rules import findings
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.selection import Selection
from gpuledger.trace.model import Process, Trace
from support.trace_notation import called

LAUNCH = "cudaLaunchKernel"


def device_of(trace: Trace) -> Device:
    [device] = analyse_devices(trace, "test", Selection())
    return device


def found(trace: Trace) -> dict[str, Finding]:
    return {finding.code: finding for finding in findings(trace, [device_of(trace)])}


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


def python(trace: Trace, name: str = "python3.12") -> Trace:
    return replace(trace, origin=replace(trace.origin, processes=(Process(0, name),)))


def locked(wait: str, each_us: int, waits: int = 8, other: str = "") -> Trace:
    """Before each of 20 launches a thread waits so many times."""
    lines, at = [], 0
    for _ in range(20):
        lines.append(f"{at}-{at + 2} {LAUNCH} -> s7: {at + 4}-{at + 9}")
        if other:
            lines.append(f"t1: {at + 10}-{at + waits * each_us} {other}")
        for number in range(waits):
            begin = at + 10 + number * each_us
            lines.append(f"{begin}-{begin + each_us - 1} {wait}")
        at += 20 + waits * each_us
    return called(*lines)


# Examples


def test_a_thread_that_is_handed_its_launches_one_by_one_is_bound_by_launching() -> None:
    codes = found(fed(thread=1, launches=100, at_once=1))
    assert "HOST-THREAD" not in codes
    late = codes["LAUNCH-BOUND"]
    assert late.saving_ns == pytest.approx(99 * 198_000, rel=0.1)  # a graph waits for nobody


@pytest.mark.parametrize(("thread", "at_once", "wait_us"), [(0, 1, 200), (1, 50, 200), (1, 1, 2_000)])
def test_a_thread_that_waits_for_something_else_is_not(thread: int, at_once: int, wait_us: int) -> None:
    """The program's own thread waits for results; the others for a batch, or for what takes long."""
    device = device_of(fed(thread, 200, at_once, wait_us))
    assert len(device.gaps_of(Cause.WAIT_THREAD)) >= 3
    lost = {trigger: time for (trigger, _), (time, _) in device.triggers.items()}
    assert lost[Cause.WAIT_THREAD] > lost.get(QueueTrigger.BEHIND, 0)


def test_pythons_lock_is_named() -> None:
    waiting = locked("pthread_cond_timedwait", 5_050)
    thread = found(python(waiting))["HOST-THREAD"]
    assert thread.claim.endswith("waits for Python's lock (GIL), which another thread holds")
    assert "another process" in str(thread.fix)
    for other in (waiting, python(locked("pthread_cond_wait", 5_050)), python(locked("sem_timedwait", 5_050))):
        assert "GIL" not in found(other)["HOST-THREAD"].claim
    assert "GIL" not in found(python(locked("pthread_cond_timedwait", 20_000)))["HOST-THREAD"].claim


def test_what_the_other_thread_does_is_named() -> None:
    thread = found(locked("pthread_cond_wait", 5_050, other="read"))["HOST-THREAD"]
    assert thread.claim.endswith("while the launching thread waits for another thread, which is in read")


# A law


@given(st.integers(0, 2), st.integers(1, 60), st.integers(1, 20), st.integers(10, 3_000))
def test_the_books_balance_however_a_thread_is_fed(thread: int, launches: int, at_once: int, wait_us: int) -> None:
    device = device_of(fed(thread, launches, at_once, wait_us))
    assert sum(device.idle_by_trigger.values()) == sum(ns for line, ns in device.line_ns.items() if line.is_idle)


# A source that sets the pace


def framed(period_us: int, work_us: list[int], *, own_code: bool = False) -> Trace:
    """Work for each frame, which the host waits for in its own code; or as much of that code for each."""
    lines, at = [], 0
    for number, work in enumerate(work_us):
        lines.append(f"{at}-{at + 5} {LAUNCH} -> s7: {at + 10}-{at + 10 + work}")
        lines.append(f"{at + 6}-{at + 12 + work} cudaStreamSynchronize")
        at = at + work + period_us - 5_000 if own_code else period_us * (number + 1)
    return called(*lines)


def test_a_source_of_25_frames_a_second_is_nobodys_fault() -> None:
    """Frames take 3 to 7 ms. The same with 35 ms of host code each, whatever a frame takes, is to be mended."""
    work_us = [5_000 + 500 * (7 * at % 9 - 4) for at in range(30)]
    paced = found(framed(40_000, work_us))["HOST-CODE"]
    assert "work begins evenly, 25 times a second" in paced.claim
    assert paced.saving_ns == 0
    for mended in (framed(40_000, work_us, own_code=True), framed(43_000, work_us), framed(40_000, [5_000] * 30)):
        assert found(mended)["HOST-CODE"].saving_ns > 0
