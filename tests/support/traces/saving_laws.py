"""What no saving may exceed, computed from the books and the recorded calls, not from the finding."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.catalog.calls import CallKind
from gpuledger.findings.about_gaps import ABOUT_GAPS
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.activity import State
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.ledger.device import Device

WAITS: Final = ("HOST-SYNC", "HOST-COPY")
OF_IDLE_TIME: Final = {rule.code for rule in ABOUT_GAPS}


def broken_laws(run: ProfiledRun) -> list[str]:
    """Each saving that claims what cannot be, in words; none where all is well."""
    device_of = {device.gpu: device for device in run.devices}
    broken = []
    for found in run.findings:
        if found.gpu not in device_of or not found.saving_ns:
            continue
        device = device_of[found.gpu]
        limits = {"the time lost": found.explains_ns, "the steady stretch": device.steady_ns}
        if found.code in WAITS:
            limits["the waits with their gaps"] = waits_with_their_gaps_ns(device)
        for saving in (found.saving_ns, found.then_ns or 0):
            broken += [
                f"{found.code} saves {saving} ns of {most}, {what}" for what, most in limits.items() if saving > most
            ]
        broken += _broken_range(found)
    return broken + _broken_bounds(run) + _broken_together(run)


def _broken_range(found: Finding) -> list[str]:
    """What is printed beside a saving: its range without the profiler, what it adds in order, and what `most` is."""
    most = found.saving_ns if found.is_bound else max(found.explains_ns, found.saving_ns)
    beside = {"adds": found.then_ns or 0, "low": found.saving_low_ns_per_step or 0}
    if found.plain is not None:
        beside |= {"plain low": found.plain.low_ns, "plain": found.plain.ns or 0, "plain high": found.plain.high_ns}
    broken = [
        f"{found.code}: {what} {ns} ns beside {most} at most" for what, ns in beside.items() if not 0 <= ns <= most
    ]
    if (
        found.plain is not None
        and not found.plain.low_ns <= (found.plain.ns or found.plain.low_ns) <= found.plain.high_ns
    ):
        broken.append(f"{found.code}: {found.plain} is no range")
    return broken


def _broken_bounds(run: ProfiledRun) -> list[str]:
    """What is part of a bound saves no more, and one change has one finding."""
    saving = {(found.gpu, found.code): found.saving_ns for found in run.findings}
    broken = []
    for (gpu, code), ns in saving.items():
        bound = saving.get((gpu, "LAUNCH-BOUND"))
        if bound is not None and (code == "TINY-KERNELS" or (code == "KERNEL-LOOP" and ns > bound)):
            broken.append(f"{code} saves {ns} ns beside LAUNCH-BOUND, at most {bound}")
    return broken


def _broken_together(run: ProfiledRun) -> list[str]:
    """All findings one after the other save no more than the stretch; those about idle time, what does not compute.

    A read goes with its wait, and what is launched in time may hide communication and copies, and run beside kernels
    of other streams: what one stream computes is left.
    """
    ordered = [found for found in run.findings if found.then_ns is not None]
    if not ordered:
        return []
    [device] = [device for device in run.devices if device.gpu == ordered[0].gpu]
    together = sum(found.then_ns or 0 for found in ordered)
    of_idle = sum(found.then_ns or 0 for found in ordered if found.code in OF_IDLE_TIME)
    not_computing = device.steady_ns - _longest_stream_ns(device)
    broken = [f"together {together} ns of {device.steady_ns}"] if together > device.steady_ns else []
    return [*broken, f"of idle time {of_idle} ns of {not_computing}"] if of_idle > not_computing else broken


def _longest_stream_ns(device: Device) -> int:
    """What the stream that computes the longest computes in the steady stretch."""
    work = device.work
    rows = np.flatnonzero((work.gpu == device.gpu) & (work.state == State.COMPUTE))
    held = device.steady_part_ns(work.start_ns[rows], work.end_ns[rows])
    _, stream = np.unique(work.stream[rows], return_inverse=True)
    by_stream = int(np.bincount(stream, held).max(initial=0))
    return min(by_stream, device.compute_ns)


def waits_with_their_gaps_ns(device: Device) -> int:
    """What the host spends in calls that wait, with the gaps that such calls leave behind."""
    gaps = [
        time for (trigger, _), (time, _) in device.triggers.items() if trigger in (QueueTrigger.DRAINED, Cause.SYNC)
    ]
    calls, waiting = device.host.calls, np.flatnonzero(device.host.are(CallKind.SYNC))
    own = device.steady_part_ns(calls["start_ns"][waiting], calls["end_ns"][waiting])
    return sum(gaps) + int(own.sum())
