"""The rules: a device's figures in, findings out. What each code means is in `explain/`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.analyse.activity import State
from gpuledger.analyse.device import Device
from gpuledger.analyse.ranges import ranges_around
from gpuledger.findings.capture import about_the_capture
from gpuledger.findings.finding import WORTH_TELLING, Finding, finding, per_step, times_each
from gpuledger.findings.work import about_the_work, pageable_loss_ns
from gpuledger.model.names import label
from gpuledger.model.spans import Ints
from gpuledger.model.trace import Trace
from gpuledger.units import count_text, share_text

BLOCKED_SHARE: Final = 0.1
"""A host that waits for this share of its time is blocked by the device, not busy."""

SMALL_COPY_NS: Final = 20_000
"""A copy this short costs the host more than the device: it is worth packing with others."""

HOST_CAUSES: Final = {
    "load": ("HOST-LOAD", "code is loaded, compiled or prepared"),
    "alloc": ("HOST-ALLOC", "the host allocates or frees memory"),
    "os": ("HOST-OS", "the host is in the operating system"),
    "wait_thread": ("HOST-THREAD", "the launching thread waits for another thread"),
    "host_code": ("HOST-CODE", "the host runs its own code"),
}
DEVICE_CAUSES: Final = {
    "device_wait": ("DEVICE-WAIT", "work was queued, but the device waited for something else"),
    "context_switch": ("GPU-SHARED", "the device switched between processes"),
}


def findings(trace: Trace, devices: Sequence[Device]) -> tuple[Finding, ...]:
    """All findings, the most profitable first; each code once, for the device where it costs the most."""
    best: dict[str, Finding] = {}
    for device in devices:
        for found in (*_gap_findings(trace, device), *_exposed(trace, device), *about_the_work(trace, device)):
            if found.code not in best or found.saving_ns > best[found.code].saving_ns:
                best[found.code] = found
    ranked = sorted(best.values(), key=lambda each: (-each.saving_ns, each.code))
    return (*ranked, *about_the_capture(trace, devices))


def _gap_findings(trace: Trace, device: Device) -> list[Finding]:
    """One finding per kind of trigger that is worth telling."""
    totals: dict[str, tuple[int, int]] = {}
    for (trigger, _), (time, count) in device.triggers.items():
        kind = "drained" if trigger == "sync" else trigger
        before = totals.get(kind, (0, 0))
        totals[kind] = (before[0] + time, before[1] + count)
    found = []
    for trigger, (time, count) in totals.items():
        if trigger in HOST_CAUSES:
            made = _host_finding(device, trigger, time)
        elif trigger == "drained":
            made = _sync_finding(device, time, count)
        elif trigger == "behind":
            made = _launch_finding(device, totals)
        elif trigger in DEVICE_CAUSES:
            code, doing = DEVICE_CAUSES[trigger]
            made = (code, f"{doing}: {per_step(device, time)}", time, "the wait goes away")
        else:
            continue
        code, claim, saving, assumption = made
        if saving >= WORTH_TELLING * device.steady_ns:
            found.append(finding(device, code, claim, _evidence(trace, device, trigger), saving, assumption))
    return found


_Made = tuple[str, str, int, str]
"""Code, claim, saving and assumption."""


def _host_finding(device: Device, trigger: str, time: int) -> _Made:
    code, doing = HOST_CAUSES[trigger]
    causes = device.causes_of(trigger)
    # code around a load is the compiler or the plan builder at work, so it goes when the load goes
    gone = causes.get(trigger, 0) + (causes.get("host_code", 0) if trigger == "load" else 0)
    floor = max(device.device_floor_ns, device.host_floor_ns - gone)
    claim = f"the GPU waits {per_step(device, time)} while {doing}"
    return (
        code,
        claim,
        min(time, device.steady_ns - floor),
        "the step falls to what the device, or the rest of the host, needs",
    )


def _sync_finding(device: Device, time: int, count: int) -> _Made:
    """The host waits, the queue runs dry, and the device then waits for the host.

    Without the wait the step takes what the longer of host and device needs. What the host needs is known only
    roughly: it includes what the waiting operations themselves cost. So where the host is really blocked, the gaps
    count as well.
    """
    rounds = f"{times_each(device, count)} times, {per_step(device, time)}"
    between_copies = _time_between_copies(device)
    if 2 * between_copies > time:
        saving = min(time + device.line_ns.get("copy", 0), device.steady_ns - device.compute_ns)
        claim = f"small blocking copies follow each other, and the GPU runs dry between them: {rounds}"
        return "HOST-COPY", claim, saving, "one packed, asynchronous copy takes the place of the small ones"
    saving = device.steady_ns - max(device.host_floor_ns, device.device_floor_ns)
    if _host_is_blocked(device):
        saving = max(saving, min(time, device.steady_ns - device.device_floor_ns))
    claim = f"the host waits for the GPU, which then runs dry: {rounds}"
    return "HOST-SYNC", claim, saving, "without the wait the host runs ahead, and host and device overlap fully"


def _host_is_blocked(device: Device) -> bool:
    """Whether the host spends a notable part of its time waiting for the device."""
    return device.steady_ns - device.host_floor_ns > BLOCKED_SHARE * device.steady_ns


def _time_between_copies(device: Device) -> int:
    """The time of drained gaps that lie between one small copy and the next."""
    gaps, mine, found = device.ledger.gaps, device.gaps_of("drained"), device.found
    mine = mine[(gaps.before[mine] >= 0) & (gaps.after[mine] >= 0)]
    small = (found.state == State.COPY) & (found.end_ns - found.start_ns < SMALL_COPY_NS)
    both = small[gaps.before[mine]] & small[gaps.after[mine]]
    return int(gaps.length_ns[mine][both].sum())


def _launch_finding(device: Device, totals: dict[str, tuple[int, int]]) -> _Made:
    """Gaps in which the host was behind; those after a wait too if it hardly ever waits, as a graph closes both."""
    own = totals["behind"][0]
    saving = own if _host_is_blocked(device) else own + totals.get("drained", (0, 0))[0]
    launches = int((device.host.kinds == device.host.kind_names.index("launch"))[device.steady_calls].sum())
    claim = (
        f"the host cannot launch as fast as the GPU works: {count_text(launches // device.step_count)} launches"
        f"{' a step' if device.steps else ''}, {per_step(device, own)} lost between them"
    )
    saving = min(saving, device.steady_ns - device.device_floor_ns)
    return (
        "LAUNCH-BOUND",
        claim,
        saving,
        "launching costs nothing, as in a CUDA graph or with far fewer, larger kernels",
    )


def _exposed(trace: Trace, device: Device) -> list[Finding]:
    """Copies and communication that compute could hide."""
    found = []
    for line, code, what in (("copy", "COPY-EXPOSED", "copies"), ("comm", "COMM-EXPOSED", "communication")):
        exposed = device.line_ns.get(line, 0)
        # copies of pageable memory cannot overlap at all; what pinning them saves is another finding's
        saving = min(exposed - (pageable_loss_ns(trace, device) if line == "copy" else 0), device.compute_ns)
        if saving >= WORTH_TELLING * device.steady_ns:
            claim = f"{per_step(device, exposed)} of {what} with nothing computing beside it"
            share = (f"{share_text(exposed / device.steady_ns)} of the time",)
            found.append(finding(device, code, claim, share, saving, "compute of the same step could cover it"))
    return found


def _evidence(trace: Trace, device: Device, trigger: str) -> tuple[str, ...]:
    """Where the gaps of one trigger lie: the ranges, the call, the kernel that comes after, and what the host did."""
    gaps, mine = device.ledger.gaps, device.gaps_of(trigger)
    if not len(mine):
        return ()
    length = gaps.length_ns[mine]
    after = [trace.strings.text(code) for code in device.found.name[np.maximum(gaps.after[mine], 0)].tolist()]
    nest = ranges_around(trace, device.host.calls, int(gaps.call[mine[length.argmax()]]))
    lines = [f"in {' > '.join(nest[-3:])}"] if nest else []
    name, share = _costliest([label(name or "a graph") for name in after], length)
    lines.append(f"{share_text(share)} of it before {_short(name)}")
    if trigger == "drained":
        name, share = _costliest([gaps.draining[at] for at in gaps.drained_by[mine].tolist()], length)
        lines.append(f"{share_text(share)} of it after {name}")
    causes = sorted(device.causes_of(trigger).items(), key=lambda each: -each[1])
    total = int(length.sum())
    shown = [f"{cause} {share_text(amount / total)}" for cause, amount in causes if amount * 20 > total]
    return (*lines, f"by cause: {', '.join(shown)}")


def _short(name: str) -> str:
    return name if len(name) <= 48 else f"{name[:28]}…{name[-19:]}"


def _costliest(names: list[str], length: Ints) -> tuple[str, float]:
    """The name with the most time, and its share."""
    sums: dict[str, int] = {}
    for name, time in zip(names, length.tolist(), strict=True):
        sums[name] = sums.get(name, 0) + time
    name, most = max(sums.items(), key=lambda each: each[1])
    return name, most / max(int(length.sum()), 1)
