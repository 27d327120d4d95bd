"""The rules: a device's figures in, findings out. What each code means is in `explain/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpuledger.analyse.call_sites import costliest_call, sites
from gpuledger.analyse.whatif import hide
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.capture import about_the_capture
from gpuledger.findings.finding import WORTH_TELLING, Finding, finding, per_step, times_each
from gpuledger.findings.headroom import about_the_kernels
from gpuledger.findings.line_names import CAUSES
from gpuledger.findings.work import about_the_work, pageable_loss_ns
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import ranges_around
from gpuledger.messages import joined, say
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.timeline_match import Joined

BLOCKED_SHARE: Final = 0.1
"""A host that waits for this share of its time is blocked by the device, not busy."""

FEW_WAITS: Final = 0.25
"""Up to this share of the gaps in which the host is behind, gaps after a wait are taken for part of the same."""

SMALL_COPY_NS: Final = 20_000
"""A copy this short costs the host more than the device: it is worth packing with others."""

HOST_CAUSES: Final = {
    "load": ("HOST-LOAD", say("code is loaded, compiled or prepared")),
    "alloc": ("HOST-ALLOC", say("the host allocates or frees memory")),
    "os": ("HOST-OS", say("the host is in the operating system")),
    "wait_thread": ("HOST-THREAD", say("the launching thread waits for another thread")),
    "host_code": ("HOST-CODE", say("the host runs its own code")),
}
DEVICE_CAUSES: Final = {
    "device_wait": ("DEVICE-WAIT", say("work was queued, but the device waited for something else")),
    "context_switch": ("GPU-SHARED", say("the device switched between processes")),
}


SYMPTOMS: Final = ("STEP-OUTLIERS", "STEP-DRIFT")
"""They say when time is lost, not why: a cause that explains them comes first."""

ALIKE: Final = 0.1
"""Savings that differ by less than this share are taken for equal."""


def findings(
    trace: Trace, devices: Sequence[Device], kernels: Mapping[int, Joined] | None = None
) -> tuple[Finding, ...]:
    """All findings, the most profitable first; each code once, for the device where it costs the most.

    `kernels` holds what Nsight Compute says of each GPU; of slow kernels several are told.
    """
    best: dict[str, tuple[Finding, int]] = {}
    with ThreadPoolExecutor(1) as beside:
        for device in devices:
            profiled = (kernels or {}).get(device.gpu)
            slow = [] if profiled is None else about_the_kernels(device, profiled)
            best |= {found.claim: (found, found.saving_ns) for found in slow}
            about = beside.submit(_about_activities, trace, device)  # both go through all gaps or all kernels
            about_gaps = _gap_findings(trace, device)
            for found, own_ns in (*about_gaps, *((each, each.saving_ns) for each in about.result())):
                if found.code not in best or found.saving_ns > best[found.code][0].saving_ns:
                    best[found.code] = (found, own_ns)
    return (*_ranked(list(best.values())), *about_the_capture(trace, devices))


def _about_activities(trace: Trace, device: Device) -> list[Finding]:
    return [*_exposed(trace, device), *about_the_work(trace, device)]


def _ranked(found: list[tuple[Finding, int]]) -> list[Finding]:
    """By saving; of neighbours that save about the same, the one that explains more idle time itself comes first.

    A symptom comes after the causes that explain half of it.
    """
    found = sorted(found, key=lambda each: (-each[0].saving_ns, each[0].code))
    causes = [each for each in found if each[0].code not in SYMPTOMS]
    for at, ((first, own), (second, more)) in enumerate(pairwise(list(causes))):
        if more > own and second.saving_ns > (1 - ALIKE) * first.saving_ns and own < first.saving_ns / 2:
            causes[at], causes[at + 1] = causes[at + 1], causes[at]
    ranked = [each for each, _ in causes]
    for symptom in (each for each, _ in found if each.code in SYMPTOMS):
        at = sum(2 * each.saving_ns >= symptom.saving_ns for each in ranked)
        ranked.insert(at, symptom)
    return ranked


def _gap_findings(trace: Trace, device: Device) -> list[tuple[Finding, int]]:
    """One finding per kind of trigger that is worth telling, with the time of its own gaps."""
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
            claim = say("{doing}: {time}", doing=doing, time=per_step(device, time))
            made = _Made(code, claim, time, say("the wait goes away"))
        else:
            continue
        if made.saving_ns >= WORTH_TELLING * device.steady_ns:
            evidence = _evidence(trace, device, trigger)
            told = finding(
                device, made.code, made.claim, evidence, made.saving_ns, made.assumption, at_least=made.at_least_ns
            )
            found.append((told, time))
    return found


class _Made(NamedTuple):
    """What a rule says."""

    code: str
    claim: str
    saving_ns: int
    assumption: str
    at_least_ns: int | None = None
    """Where the rule itself knows a low end."""


def _host_finding(device: Device, trigger: str, time: int) -> _Made:
    code, doing = HOST_CAUSES[trigger]
    causes = device.causes_of(trigger)
    # code around a load is the compiler or the plan builder at work, so it goes when the load goes
    gone = causes.get(trigger, 0) + (causes.get("host_code", 0) if trigger == "load" else 0)
    floor = max(device.device_floor_ns, device.host_floor_ns - gone)
    claim = say("the GPU waits {time} while {doing}", time=per_step(device, time), doing=doing)
    saving = min(time, device.steady_ns - floor)
    return _Made(code, claim, saving, say("the step falls to what the device, or the rest of the host, needs"))


def _sync_finding(device: Device, time: int, count: int) -> _Made:
    """The host waits, the queue runs dry, and the device then waits for the host.

    Without the wait the step takes what the longer of host and device needs, and the host no longer does what led up
    to the wait. That is the low end: a host that sleeps wakes slowly, and what an operator does in order to wait is
    only partly known. At best all the gaps close.
    """
    rounds = _rounds(device, time, count)
    between_copies = _time_between_copies(device)
    if 2 * between_copies > time:
        saving = min(time + device.line_ns.get("copy", 0), device.steady_ns - device.compute_ns)
        claim = say(
            "small blocking copies follow each other, and the GPU runs dry between them: {rounds}", rounds=rounds
        )
        assumption = say("one packed, asynchronous copy takes the place of the small ones")
        return _Made("HOST-COPY", claim, saving, assumption)
    sure = device.steady_ns - max(device.host_floor_without_waits_ns, device.device_floor_ns)
    saving = max(sure, min(time, device.steady_ns - device.device_floor_ns))
    claim = say("the host waits for the GPU, which then runs dry: {rounds}", rounds=rounds)
    assumption = say("without the wait the host runs ahead, and host and device overlap fully")
    return _Made("HOST-SYNC", claim, saving, assumption, sure)


def _rounds(device: Device, time: int, count: int) -> str:
    """How often it happens, and what that costs."""
    times, cost = times_each(device, count), time_text(time // device.step_count)
    if device.steps is None:
        return say("{times} times, {time}", times=times, time=cost)
    return say("{times} times, {time} a step", times=times, time=cost)


def _host_is_blocked(device: Device) -> bool:
    """Whether the host spends a notable part of its time waiting for the device."""
    return device.steady_ns - device.host_floor_ns > BLOCKED_SHARE * device.steady_ns


def _time_between_copies(device: Device) -> int:
    """The time of drained gaps that lie between one small copy and the next."""
    gaps, mine, found = device.ledger.gaps, device.gaps_of("drained"), device.found
    mine = mine[(gaps.before[mine] >= 0) & (gaps.after[mine] >= 0)]
    small = (found.state == State.COPY) & (found.end_ns - found.start_ns < SMALL_COPY_NS)
    alike = found.name[gaps.before[mine]] == found.name[gaps.after[mine]]  # not there and back
    both = small[gaps.before[mine]] & small[gaps.after[mine]] & alike
    return int(gaps.length_ns[mine][both].sum())


def _launch_finding(device: Device, totals: dict[str, tuple[int, int]]) -> _Made:
    """Gaps in which the host was behind; those after a wait too if they are few, as a graph closes both."""
    own, drained = totals["behind"][0], totals.get("drained", (0, 0))[0]
    saving = own + drained if drained < FEW_WAITS * own and not _host_is_blocked(device) else own
    launches, lost = len(device.steady_launches) // device.step_count, time_text(own // device.step_count)
    if device.steps:
        what = say("{count} launches a step, {time} a step lost between them", count=count_text(launches), time=lost)
    else:
        what = say("{count} launches, {time} lost between them", count=count_text(launches), time=lost)
    claim = say("the host cannot launch as fast as the GPU works: {what}", what=what)
    saving = min(saving, device.steady_ns - device.device_floor_ns)
    assumption = say("launching costs nothing, as in a CUDA graph or with far fewer, larger kernels")
    return _Made("LAUNCH-BOUND", claim, saving, assumption)


def _exposed(trace: Trace, device: Device) -> list[Finding]:
    """Copies and communication that compute could hide."""
    found = []
    kinds = (("copy", "COPY-EXPOSED", say("copies")), ("comm", "COMM-EXPOSED", say("communication")))
    for line, code, what in kinds:
        exposed = device.line_ns.get(line, 0)
        if not exposed:
            continue
        # copies of pageable memory cannot overlap at all; what pinning them saves is another finding's
        hidden = hide(device, line, but_ns=pageable_loss_ns(trace, device) if line == "copy" else 0)
        saving = hidden.saved_ns
        if saving >= WORTH_TELLING * device.steady_ns:
            time = per_step(device, exposed)
            claim = say("{time} of {what} with nothing computing beside it", time=time, what=what)
            share = say("{share} of the time", share=share_text(exposed / device.steady_ns))
            found.append(finding(device, code, claim, (share,), saving, hidden.assumption))
    return found


def _evidence(trace: Trace, device: Device, trigger: str) -> tuple[str, ...]:
    """Where the gaps of one trigger lie: the ranges, the call, the kernel that comes after, and what the host did."""
    gaps, mine = device.ledger.gaps, device.gaps_of(trigger)
    if not len(mine):
        return ()
    length = gaps.length_ns[mine]
    after = device.found.name[np.maximum(gaps.after[mine], 0)]
    nest = ranges_around(trace, device.host.calls, int(gaps.call[mine[length.argmax()]]))
    lines = [say("in {ranges}", ranges=" > ".join(nest[-3:]))] if nest else []
    name, share = _costliest(*trace.strings.kinds(after, lambda name: label(name or "a graph")), length)
    lines.append(say("{share} of it before {name}", share=share_text(share), name=cut_label(name)))
    if trigger == "drained":
        name, share = _costliest(gaps.draining, gaps.drained_by[mine], length)
        lines.append(say("{share} of it after {name}", share=share_text(share), name=name))
    if held := costliest_call(trace, device, mine, trigger):
        lines.append(say("{share} of it in {name}", share=share_text(held.share), name=held.name))
    for site in sites(trace, device, mine):
        what = say("samples") if site.of_samples else say("time in calls")
        lines.append(say("{share} of the {what} in {name}", share=share_text(site.share), what=what, name=site.name))
    causes = sorted(device.causes_of(trigger).items(), key=lambda each: -each[1])
    total = int(length.sum())
    most = [(CAUSES[cause], share_text(amount / total)) for cause, amount in causes if amount * 20 > total]
    shown = joined(say(", "), (joined(" ", each) for each in most))
    return (*lines, say("by cause: {causes}", causes=shown))


def _costliest(names: Sequence[str], which: Positions, length: Ints) -> tuple[str, float]:
    """The name with the most time, and its share; `which` name each length belongs to."""
    sums = np.bincount(which, weights=length, minlength=len(names))
    return names[int(sums.argmax())], float(sums.max()) / max(int(length.sum()), 1)
