"""Findings about idle time: one rule per way in which a GPU is left without work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from gpuledger.analyse.lost_time import waits_behind
from gpuledger.analyse.memory.copy_flows import TO_DEVICE
from gpuledger.findings.finding import Finding, counted, finding, often, per_step, worth_telling
from gpuledger.findings.fixes import OCCUPATIONS, SMALL_COPY_NS
from gpuledger.findings.host_evidence import gap_evidence
from gpuledger.findings.loops import are_most_of_launching, loop_evidence
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import State
from gpuledger.ledger.causes import TRIGGERS, Cause, QueueTrigger, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import LineKind
from gpuledger.messages import Message, say
from gpuledger.replay.edits import Edit
from gpuledger.trace.columns import distinct

LEAST_LAUNCHES: Final = 10
"""Fewer launches in all, in one step or in many, are no run: each of them was late for a reason of its own."""

MORE_THAN_GAPS: Final = 1.1
"""A saving that exceeds the gaps of its cause by less is not explained."""

_WAITED: Final = (QueueTrigger.DRAINED, Cause.SYNC)
"""Triggers of gaps that a wait of the host leaves behind."""


_UPLOADED: Final = say(
    "make what is copied to the GPU there (`device='cuda'`), or copy it once before the loop; else copy it from pinned "
    "memory with `non_blocking=True`"
)
"""Where the host waits for copies to the device."""


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
    if not worth_telling(device, time):
        return ()
    edit = subject.edit(code)
    saving = _saved_ns(subject, edit, time, _behind_ns(device))
    claim = say("the GPU waits {time} while {doing}", time=per_step(device, time), doing=doing)
    assumption = say("the step shrinks to what the GPU, or the rest of the host, needs")
    evidence, told = gap_evidence(subject, cause), _with_what_follows(device, claim, time, saving)
    return [finding(device, code, told, evidence, saving, assumption, explains=max(time, saving), edit=edit)]


def _saved_ns(subject: OneGpu, edit: Edit, gaps_ns: int, after_ns: int) -> int:
    """What a change saves of the gaps of a cause and, where it is much, of those after them."""
    saving = subject.saved_ns(edit, gaps_ns + after_ns)
    return saving if saving > MORE_THAN_GAPS * gaps_ns else min(saving, gaps_ns)


def _with_what_follows(device: Device, claim: Message, gaps_ns: int, saving: int) -> Message:
    """The claim, and what is lost after its gaps: the host is behind until it has queued enough again."""
    if saving <= gaps_ns:
        return claim
    more = per_step(device, saving - gaps_ns)
    return say("{claim}, and {more} more until the host is ahead again", claim=claim, more=more)


def _device_was_busy(cause: Cause, code: str, doing: Message, subject: OneGpu) -> Sequence[Finding]:
    """Work was queued, and the device did not run it."""
    device = subject.device
    time, _ = _lost_ns(device, cause)
    if not time or not worth_telling(device, time):
        return ()
    claim, edit = say("{doing}: {time}", doing=doing, time=per_step(device, time)), subject.edit(code)
    saving, assumption = subject.saved_ns(edit, time), say("the wait goes away")
    evidence = gap_evidence(subject, cause)
    return [finding(device, code, claim, evidence, saving, assumption, explains=time, edit=edit)]


def _host_waited(subject: OneGpu) -> Sequence[Finding]:
    """The host waits, the queue runs dry, and the device then waits for the host."""
    device = subject.device
    time = _waited_ns(device)
    if 2 * _time_between_copies(device) > time or not worth_telling(device, time):
        return ()
    edit = subject.edit("HOST-SYNC")
    saving = _saved_ns(subject, edit, time, _behind_ns(device) + _longer_waited_ns(device))
    claim = say("syncs drain the queue, and the GPU idles after them: {rounds}", rounds=_rounds(device, time))
    claim = _with_what_follows(device, claim, time, saving)
    assumption = say("no syncs: they go away, with the small copies and the code around them")
    evidence = gap_evidence(subject, QueueTrigger.DRAINED)
    told = finding(device, "HOST-SYNC", claim, evidence, saving, assumption, explains=max(time, saving), edit=edit)
    return [replace(told, fix=_UPLOADED) if _waits_for_uploads(subject) else told]


def _waits_for_uploads(subject: OneGpu) -> bool:
    """Whether most of the time is lost after copies to the device: then nothing is read back."""
    device = subject.device
    gaps, work, drained = device.ledger.gaps, device.work, device.gaps_of(QueueTrigger.DRAINED)
    before = gaps.before[drained]
    upload = [subject.trace.strings.code(label) for label in TO_DEVICE]
    is_upload = (before >= 0) & (work.state[before] == State.COPY) & np.isin(work.name[before], upload)
    lost_ns = gaps.length_ns[drained]
    return bool(2 * lost_ns[is_upload].sum() > lost_ns.sum())


def _behind_ns(device: Device) -> int:
    """The gaps in which the host was behind."""
    return _lost_ns(device, QueueTrigger.BEHIND)[0]


def _waited_ns(device: Device) -> int:
    """The gaps that waits leave behind, with what is read for them."""
    time, count = _lost_ns(device, *_WAITED)
    return time + _read_ns(device) if count else 0


def _longer_waited_ns(device: Device) -> int:
    """Gaps that begin with a wait, though what the host did then set them off: without the wait it was done before."""
    gaps = device.ledger.gaps
    occupied = np.isin(gaps.trigger, [TRIGGERS.index(cause) for cause in OCCUPATIONS])
    return int(gaps.length_ns[device.steady_gaps & occupied & (gaps.by_cause.of(Cause.SYNC) > 0)].sum())


def _read_ns(device: Device) -> int:
    """What small copies that the host waits for take of the device's time, with the gaps before them."""
    gaps, work, chosen = device.ledger.gaps, device.work, device.gaps_of(QueueTrigger.DRAINED)
    read = distinct(gaps.before[chosen])
    read = read[(read >= 0) & (work.state[read] == State.COPY)]
    length = work.end_ns[read] - work.start_ns[read]
    launched_late = np.isin(gaps.trigger, [TRIGGERS.index(trigger) for trigger in (*_WAITED, QueueTrigger.BEHIND)])
    before = np.flatnonzero(np.isin(gaps.after, read[length < SMALL_COPY_NS]) & launched_late & device.steady_gaps)
    return int(length[length < SMALL_COPY_NS].sum() + gaps.length_ns[np.setdiff1d(before, chosen)].sum())


def _small_copies(subject: OneGpu) -> Sequence[Finding]:
    """The host waits for one small copy after the other."""
    device = subject.device
    time, count = _lost_ns(device, *_WAITED)
    if not count or 2 * _time_between_copies(device) <= time:
        return ()
    lost = time + device.exposed_ns(LineKind.COPY)
    if not worth_telling(device, lost):
        return ()
    edit = subject.edit("HOST-COPY")
    saving = subject.saved_ns(edit, lost)
    rounds = _rounds(device, time)
    claim = say("back-to-back small blocking copies drain the queue: {rounds}", rounds=rounds)
    assumption = say("one packed, asynchronous copy takes the place of the small ones")
    evidence = gap_evidence(subject, QueueTrigger.DRAINED)
    return [finding(device, "HOST-COPY", claim, evidence, saving, assumption, explains=lost, edit=edit)]


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
    """Gaps in which the host was behind, and those after waits that it would be behind in if it did not wait."""
    device = subject.device
    own, _ = _lost_ns(device, QueueTrigger.BEHIND)
    if len(device.steady_launches) < LEAST_LAUNCHES:
        return ()
    waited = _waited_ns(device)
    if worth_telling(device, waited):
        waited -= subject.saved_ns(subject.edit("HOST-SYNC"), waited)
    lost = own + waited
    if not worth_telling(device, lost):
        return ()
    edit = subject.edit("LAUNCH-BOUND")
    saving = subject.saved_ns(edit, lost)
    launches = counted(device, len(device.steady_launches), say("launch"), say("launches"))
    what = say("{launches}, {time} idle between them", launches=launches, time=per_step(device, lost))
    claim = say("CPU launches can't keep up with the GPU: {what}", what=what)
    assumption = say("launches become free, as in a CUDA graph or with far fewer, larger kernels")
    evidence = gap_evidence(subject, QueueTrigger.BEHIND if own >= waited else QueueTrigger.DRAINED)
    if are_most_of_launching(subject):
        evidence = (*loop_evidence(subject), *evidence)
    told = finding(device, "LAUNCH-BOUND", claim, evidence, saving, assumption, explains=lost, edit=edit)
    return [replace(told, follows="HOST-SYNC") if own < waited else told]


def _host_rule(code: str, cause: Cause, doing: Message) -> Rule[OneGpu]:
    return Rule(code, partial(_host_was_busy, cause, code, doing), (cause,))


def _device_rule(code: str, cause: Cause, doing: Message) -> Rule[OneGpu]:
    return Rule(code, partial(_device_was_busy, cause, code, doing), (cause,))


RULES: Final = (
    _host_rule("HOST-LOAD", Cause.LOAD, say("modules are loaded, compiled or tuned")),
    _host_rule("HOST-ALLOC", Cause.ALLOC, say("the host allocates or frees memory")),
    _host_rule("HOST-OS", Cause.OS, say("the host is in OS calls")),
    _host_rule("HOST-THREAD", Cause.WAIT_THREAD, say("the launching thread waits for another thread")),
    _host_rule("HOST-CODE", Cause.HOST_CODE, say("the host runs its own code")),
    Rule("HOST-SYNC", _host_waited, _WAITED),
    Rule("HOST-COPY", _small_copies, _WAITED),
    Rule("LAUNCH-BOUND", _host_was_behind, (QueueTrigger.BEHIND,)),
    _device_rule(
        "DEVICE-WAIT", Cause.DEVICE_WAIT, say("work was queued but not started: the GPU waited for something else")
    ),
    _device_rule("GPU-SHARED", Cause.CONTEXT_SWITCH, say("the GPU switched between processes")),
)
