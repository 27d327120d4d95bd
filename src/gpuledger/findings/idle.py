"""Findings about idle time: one rule per way in which a GPU is left without work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gpuledger.analyse.lost_time import waits_behind
from gpuledger.findings.finding import Finding, counted, finding, less_tracing, often, per_step, worth_telling
from gpuledger.findings.host_evidence import gap_evidence
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import State
from gpuledger.ledger.causes import Cause, QueueTrigger, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import LineKind
from gpuledger.messages import Message, say

BLOCKED_SHARE: Final = 0.1
"""A host that waits for this share of its time is blocked by the device, not busy."""

FEW_WAITS: Final = 0.25
"""Up to this share of the gaps in which the host is behind, gaps after a wait are taken for part of the same."""

LEAST_LAUNCHES: Final = 10
"""Fewer launches in all, in one step or in many, are no run: each of them was late for a reason of its own."""

SMALL_COPY_NS: Final = 20_000
"""A copy this short costs the host more than the device: it is worth packing with others."""

LAUNCHING_SLOWED: Final = 1.5
"""How much slower tracing makes a host that does little but launch: 1.1 to 1.8 times on H200 hosts."""

_WAITED: Final = (QueueTrigger.DRAINED, Cause.SYNC)
"""Triggers of gaps that a wait of the host leaves behind."""


def _lost_ns(device: Device, *triggers: Trigger) -> tuple[int, int]:
    """Time and number of the steady gaps that these set off."""
    lost = [amounts for (trigger, _), amounts in device.triggers.items() if trigger in triggers]
    return sum(time for time, _ in lost), sum(count for _, count in lost)


def _host_was_busy(cause: Cause, code: str, doing: Message, subject: OneGpu) -> Sequence[Finding]:
    """The host did something else than launching."""
    device = subject.device
    time, count = _lost_ns(device, cause)
    if not count:
        return ()
    causes = device.causes_of(cause)
    # code around a load is the compiler or the plan builder at work, so it goes when the load goes
    gone = causes.get(cause, 0) + (causes.get(Cause.HOST_CODE, 0) if cause is Cause.LOAD else 0)
    floor = max(device.device_floor_ns, device.host_floor_ns - gone)
    saving = min(time, device.steady_ns - floor)
    if not worth_telling(device, saving):
        return ()
    claim = say("the GPU waits {time} while {doing}", time=per_step(device, time), doing=doing)
    assumption = say("the step falls to what the device, or the rest of the host, needs")
    low = less_tracing(device, saving) if cause is Cause.HOST_CODE else None
    return [finding(device, code, claim, gap_evidence(subject, cause), saving, assumption, low=low, explains=time)]


def _device_was_busy(cause: Cause, code: str, doing: Message, subject: OneGpu) -> Sequence[Finding]:
    """Work was queued, and the device did not run it."""
    device = subject.device
    time, _ = _lost_ns(device, cause)
    if not time or not worth_telling(device, time):
        return ()
    claim = say("{doing}: {time}", doing=doing, time=per_step(device, time))
    return [finding(device, code, claim, gap_evidence(subject, cause), time, say("the wait goes away"))]


def _host_waited(subject: OneGpu) -> Sequence[Finding]:
    """The host waits, the queue runs dry, and the device then waits for the host.

    Without the wait the step takes what the longer of host and device needs, and the host no longer does what led up
    to the wait. That is the low end: a host that sleeps wakes slowly, and what an operator does in order to wait is
    only partly known. At best all the gaps close.
    """
    device = subject.device
    time, count = _lost_ns(device, *_WAITED)
    if not count or 2 * _time_between_copies(device) > time:
        return ()
    sure = device.steady_ns - max(device.host_floor_without_waits_ns, device.device_floor_ns)
    saving = max(sure, min(time, device.steady_ns - device.device_floor_ns))
    if not worth_telling(device, saving):
        return ()
    claim = say("the host waits for the GPU, which then runs dry: {rounds}", rounds=_rounds(device, time))
    assumption = say("without the wait the host runs ahead, and host and device overlap fully")
    low = max(min(less_tracing(device, saving), sure), 0)
    evidence = gap_evidence(subject, QueueTrigger.DRAINED)
    return [finding(device, "HOST-SYNC", claim, evidence, saving, assumption, low=low, explains=time)]


def _small_copies(subject: OneGpu) -> Sequence[Finding]:
    """The host waits for one small copy after the other."""
    device = subject.device
    time, count = _lost_ns(device, *_WAITED)
    if not count or 2 * _time_between_copies(device) <= time:
        return ()
    lost = time + device.exposed_ns(LineKind.COPY)
    saving = min(lost, device.steady_ns - device.compute_ns)
    if not worth_telling(device, saving):
        return ()
    rounds = _rounds(device, time)
    claim = say("small blocking copies follow each other, and the GPU runs dry between them: {rounds}", rounds=rounds)
    assumption = say("one packed, asynchronous copy takes the place of the small ones")
    evidence, low = gap_evidence(subject, QueueTrigger.DRAINED), less_tracing(device, saving)
    return [finding(device, "HOST-COPY", claim, evidence, saving, assumption, low=low, explains=lost)]


def _rounds(device: Device, time: int) -> Message:
    """How many calls waited so that the queue ran dry, and what that costs; one wait may leave many gaps behind."""
    waits = len(waits_behind(device, device.gaps_of(QueueTrigger.DRAINED)))
    return say("{often}, {time}", often=often(device, waits), time=per_step(device, time))


def _time_between_copies(device: Device) -> int:
    """The time of drained gaps that lie between one small copy and the next."""
    gaps, drained, work = device.ledger.gaps, device.gaps_of(QueueTrigger.DRAINED), device.work
    drained = drained[(gaps.before[drained] >= 0) & (gaps.after[drained] >= 0)]
    before, after = gaps.before[drained], gaps.after[drained]
    small = (work.state == State.COPY) & (work.end_ns - work.start_ns < SMALL_COPY_NS)
    same_way = work.name[before] == work.name[after]  # not there and back
    return int(gaps.length_ns[drained][small[before] & small[after] & same_way].sum())


def _host_was_behind(subject: OneGpu) -> Sequence[Finding]:
    """Gaps in which the host was behind; those after a wait too if they are few, as a graph closes both."""
    device = subject.device
    own, count = _lost_ns(device, QueueTrigger.BEHIND)
    if not count or len(device.steady_launches) < LEAST_LAUNCHES:
        return ()
    drained, _ = _lost_ns(device, *_WAITED)
    lost = own + drained if drained < FEW_WAITS * own and not _host_is_blocked(device) else own
    saving = min(lost, device.steady_ns - device.device_floor_ns)
    if not worth_telling(device, saving):
        return ()
    launches = counted(device, len(device.steady_launches), say("launch"), say("launches"))
    what = say("{launches}, {time} lost between them", launches=launches, time=per_step(device, lost))
    claim = say("the host cannot launch as fast as the GPU works: {what}", what=what)
    assumption = say("launching costs nothing, as in a CUDA graph or with far fewer, larger kernels")
    low = min(less_tracing(device, saving), round(saving / LAUNCHING_SLOWED))
    evidence = gap_evidence(subject, QueueTrigger.BEHIND)
    return [finding(device, "LAUNCH-BOUND", claim, evidence, saving, assumption, low=low, explains=lost)]


def _host_is_blocked(device: Device) -> bool:
    """Whether the host spends a notable part of its time waiting for the device."""
    return device.steady_ns - device.host_floor_ns > BLOCKED_SHARE * device.steady_ns


def _host_rule(code: str, cause: Cause, doing: Message) -> Rule[OneGpu]:
    return Rule(code, partial(_host_was_busy, cause, code, doing), (cause,))


def _device_rule(code: str, cause: Cause, doing: Message) -> Rule[OneGpu]:
    return Rule(code, partial(_device_was_busy, cause, code, doing), (cause,))


RULES: Final = (
    _host_rule("HOST-LOAD", Cause.LOAD, say("code is loaded, compiled or prepared")),
    _host_rule("HOST-ALLOC", Cause.ALLOC, say("the host allocates or frees memory")),
    _host_rule("HOST-OS", Cause.OS, say("the host is in the operating system")),
    _host_rule("HOST-THREAD", Cause.WAIT_THREAD, say("the launching thread waits for another thread")),
    _host_rule("HOST-CODE", Cause.HOST_CODE, say("the host runs its own code")),
    Rule("HOST-SYNC", _host_waited, _WAITED),
    Rule("HOST-COPY", _small_copies, _WAITED),
    Rule("LAUNCH-BOUND", _host_was_behind, (QueueTrigger.BEHIND,)),
    _device_rule("DEVICE-WAIT", Cause.DEVICE_WAIT, say("work was queued, but the device waited for something else")),
    _device_rule("GPU-SHARED", Cause.CONTEXT_SWITCH, say("the device switched between processes")),
)
