"""Findings about what moves: copies from pageable memory, copies and communication that compute could hide, copies that
are most of what the GPU does, and pages of unified memory that migrate because somebody touched them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gpuledger.analyse.memory.figures import MEMSET, NS_PER_S, PAGEABLE, TO_DEVICE, TO_HOST, WITHIN_DEVICE, CopyFlow
from gpuledger.attribution.lost_time import longest
from gpuledger.attribution.places import launch_ranges_of
from gpuledger.findings import advice
from gpuledger.findings.finding import (
    LEAST_SHARE,
    Evidence,
    Finding,
    path_in_claim,
    path_text,
    per_step,
    worth_telling,
)
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import UNIFIED, State, short_function_name
from gpuledger.ledger.books import COMM, LineKind
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span, clip, total, union
from gpuledger.units import bytes_text, count_text, share_text, time_text

OVERLAP_COMMUNICATION: Final = say("overlap it with compute: async collectives, prefetch, two micro-batches")
TELL_WAITING_APART: Final = say(
    "give `gpuledger fleet` the profiles of all ranks, which tells waiting from transfer; then balance the ranks, or "
    "send fewer bytes"
)
_WITHIN_DEVICE: Final = say("write results in place, or where they are used, and copy many small tensors in one kernel")

MUCH_COMMUNICATION: Final = 0.1  # of the time: so much is told even where hiding it would save nothing


def _exposed_communication(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Told where it takes long, even if a host that is late would use up all that is saved.

    Compute hides no more than it takes itself; but one rank's communication is transfer and waiting for other ranks,
    and waiting needs nothing to hide it.
    """
    device = subject.device
    exposed = device.exposed_ns(LineKind.COMM)
    lost = max(exposed - device.exposed_beside_lost_ns(LineKind.COMM), 0)
    if not lost or not worth_telling(device, lost):
        return ()
    edit = rule.edit_of(subject)
    saving, assumption = subject.saved_ns(edit, lost), say("compute in the same step hides it, without slowing down")
    time, share = per_step(device, exposed), exposed / device.steady_ns
    claim = say("{time} of {what} not overlapped with compute", time=time, what=say("communication"))
    steady = clip(device.ledger.busy.comm, device.steady)
    part = _share_of_time(device, exposed, longest(steady) if len(steady) else None)
    is_told_anyway = share >= MUCH_COMMUNICATION and not worth_telling(device, saving)
    finding = rule.finding(
        device, claim, (part,), saving, assumption, explains=lost, edit=None if is_told_anyway else edit
    )
    if lost <= device.compute_ns:
        return [finding]
    assumption = say("the other ranks are on time, and compute in the same step hides the transfer")
    hidden = say("compute can hide at most {time} of it", time=per_step(device, device.compute_ns))
    evidence = (part, Evidence(hidden)) if device.compute_ns else (part,)
    return [replace(finding, evidence=evidence, assumption=assumption, is_bound=True, fix=TELL_WAITING_APART)]


_FAULTS: Final = ("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS")
"""Where nsys records page faults, if asked to: those of the host one by one, those of the GPU in groups."""


def migrations(flows: Sequence[CopyFlow]) -> tuple[CopyFlow, ...]:
    """Those of the flows that nobody launched: pages of unified memory."""
    return tuple(flow for flow in flows if flow.kind.startswith(UNIFIED))


def _pages_migrate(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Pages move, and the device has nothing to run meanwhile, or kernels stall until theirs are there."""
    trace, device = subject.trace, subject.device
    flows = migrations(subject.fixes.copy_flows)
    if not flows:
        return ()
    exposed, waited = sum(flow.exposed_ns for flow in flows), device.idle_ns(Cause.PAGE_MIGRATION)
    # pages that were asked for beforehand do not stall the kernels that they hide under
    to_device = [flow for flow in flows if flow.kind == f"{UNIFIED}Host-to-Device"]
    stalled = 0 if _prefetches(device) else sum(flow.running_ns - flow.exposed_ns for flow in to_device)
    needed = sum(flow.total_bytes * NS_PER_S // flow.way_bytes_per_s for flow in flows if flow.way_bytes_per_s)
    saving = max(exposed + stalled + waited - needed, 0)
    if not worth_telling(device, saving):
        return ()
    evidence = (*_where(device, flows, exposed, stalled, waited), *_direction(flows, to_device), *_faults(trace))
    assumption = say("pages are already resident, or prefetched at the link's rate")
    low, explains = max(exposed - needed, 0), exposed + stalled + waited
    claim = _claim(device, flows)
    return [rule.finding(device, claim, evidence, saving, assumption, low=low, explains=explains)]


def _claim(device: Device, flows: Sequence[CopyFlow]) -> str:
    count = sum(flow.count for flow in flows)
    steps = 1 if device.steps is None or count < device.step_count else device.step_count
    size, time = sum(flow.total_bytes for flow in flows), sum(flow.running_ns for flow in flows)
    amounts = {"count": count_text(count // steps), "size": bytes_text(size // steps), "time": time_text(time // steps)}
    if device.steps is None or count < device.step_count:
        return say(
            "unified-memory pages migrate between host and device: {count} migrations, {size}, {time} in total",
            **amounts,
        )
    return say(
        "unified-memory pages migrate between host and device: {count} migrations, {size}, {time} per step", **amounts
    )


def _where(device: Device, flows: Sequence[CopyFlow], exposed: int, stalled: int, waited: int) -> list[Evidence]:
    """What the device did meanwhile, each part as a share of the time that is lost to pages."""
    lost, whole, most = exposed + stalled + waited, say("the time lost to pages"), flows[0]
    count = sum(flow.count for flow in flows)
    moving, pauses, stalls = (per_step(device, time) for time in (exposed, waited, stalled))
    pieces = (
        (say("{time} of migrations with no kernel running", time=moving), exposed),
        (say("{time} of pauses before the next migration, with nothing running", time=pauses), waited),
        (say("{time} under kernels, which stall until their pages arrive", time=stalls), stalled),
    )
    return [
        Evidence(sentence, most.longest, most.pid, copy=most.kind, count=count, share=time / lost, of=whole)
        for sentence, time in pieces
        if time >= LEAST_SHARE * lost
    ]


def _direction(flows: Sequence[CopyFlow], to_device: Sequence[CopyFlow]) -> list[Evidence]:
    size, whole = sum(flow.total_bytes for flow in flows), say("the bytes that migrate")
    if not size:
        return []
    share = sum(flow.total_bytes for flow in to_device) / size
    if share >= LEAST_SHARE:
        return [Evidence(say("{share} of the bytes go to the device", share=share_text(share)), share=share, of=whole)]
    back = 1 - share
    return [Evidence(say("{share} of the bytes go to the host", share=share_text(back)), share=back, of=whole)]


def _faults(trace: Trace) -> list[Evidence]:
    rows = dict(trace.origin.source_rows)
    host, gpu = (rows.get(table, 0) for table in _FAULTS)
    if not host + gpu:
        return []
    counts = say(
        "in the whole profile: {host} host page faults, {gpu} groups of GPU page faults",
        host=count_text(host),
        gpu=count_text(gpu),
    )
    return [Evidence(counts, count=host + gpu)]


def _prefetches(device: Device) -> bool:
    names = device.host.calls.strings.distinct(device.host.calls.codes("name"))
    return any("MemPrefetch" in (device.host.calls.strings.text(code) or "") for code in names)


WAYS: Final[Mapping[str, str]] = {
    "Host-to-Device": say("host to device"),
    "Host-to-Array": say("host to device"),
    "Device-to-Host": say("device to host"),
    "Array-to-Host": say("device to host"),
    "Device-to-Device": say("device to device"),
    "Array-to-Array": say("device to device"),
    "Array-to-Device": say("device to device"),
    "Device-to-Array": say("device to device"),
    "Peer-to-Peer": say("peer to peer"),
    MEMSET: say("memset"),
}
"""What a direction is called, by NVIDIA's label."""

MEMORIES: Final[Mapping[str, str]] = {
    PAGEABLE: say("pageable memory"),
    "Pinned": say("pinned memory"),
    "Managed": say("managed memory"),
}
"""What the host's memory is called, by NVIDIA's label."""


LEAST_EXPOSED: Final = 0.01  # of the time: inputs have to come from somewhere


def _pageable(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Pageable memory is staged through a buffer, far below the link's rate, and blocks the host."""
    device = subject.device
    flows = [flow for flow in subject.fixes.copy_flows if flow.is_pageable and flow.bytes_per_s]
    if not flows or not worth_telling(device, sum(flow.slow_ns for flow in flows)):
        return ()
    time, size = sum(flow.running_ns for flow in flows), sum(flow.total_bytes for flow in flows)
    claim = say(
        "{size} are copied from or to pageable memory: {time}",
        size=bytes_text(size // device.step_count),
        time=per_step(device, time),
    )
    evidence = _flows(subject, [(flow, flow.running_ns) for flow in flows], say("their time"))
    assumption = say("pinned memory reaches the link's usual rate, and no call blocks")
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, time)
    return [rule.finding(device, claim, evidence, saving, assumption, explains=time, edit=edit)]


def _exposed_copies(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Copies that compute could hide. Where copies are most of the time it cannot: that is COPY-BOUND."""
    device, flows = subject.device, _launched_flows(subject)
    exposed = _exposed_ns(flows)
    if not exposed or _is_bound(device, flows):
        return ()
    # copies of pageable memory cannot overlap at all: that is another finding's
    lost = could_be_hidden_ns(device, exposed - _pageable_loss_ns(flows))
    if lost < LEAST_EXPOSED * device.steady_ns:
        return ()
    edit = rule.edit_of(subject)
    saving, assumption = subject.saved_ns(edit, lost), say("compute in the same step hides it, without slowing down")
    time = per_step(device, exposed)
    claim = say("{time} of {what} not overlapped with compute", time=time, what=say("copies"))
    evidence = (_share_of_time(device, exposed), *_exposed_flows(subject, flows))
    finding = rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)
    is_within = 2 * sum(flow.exposed_ns for flow in flows if flow.kind in WITHIN_DEVICE) > exposed
    return [replace(finding, fix=_WITHIN_DEVICE if is_within else finding.fix)]


def could_be_hidden_ns(device: Device, exposed: int) -> int:
    """How much of exposed copies compute can cover that hides none yet; not what lost work may have hidden."""
    free = max(device.compute_ns - _hidden_ns(device), 0)
    return min(max(exposed - device.exposed_beside_lost_ns(LineKind.COPY), 0), free)


def _hidden_ns(device: Device) -> int:
    """Copies in the steady stretch that something hid."""
    work = device.work.of(device.gpu)
    copies = np.flatnonzero(work.state == State.COPY)
    ran = clip(union(work.start_ns[copies], work.end_ns[copies]), device.steady)
    return total(ran) - device.exposed_ns(LineKind.COPY)


def _copy_bound(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Copies are most of what the GPU does: what counts is their rate and their bytes, not what runs beside them."""
    device, flows = subject.device, _launched_flows(subject)
    if not _is_bound(device, flows):
        return ()
    exposed, slow = _exposed_ns(flows), sum(flow.slow_ns for flow in flows if not flow.is_pageable)
    hidden = could_be_hidden_ns(device, exposed - _pageable_loss_ns(flows) - slow)
    edit = subject.fixes.fast_and_hidden()
    saving = subject.saved_ns(edit, slow + hidden)
    most, share = flows[0], share_text(exposed / device.steady_ns)
    size, rate = bytes_text(most.total_bytes // device.step_count), most.bytes_per_s
    mostly = {"share": share, "way": _way(most)}
    claim = say("copies not overlapped with compute take {share} of the time, mostly {way}", **mostly)
    if rate is not None:
        claim = say(
            "copies not overlapped with compute take {share} of the time, mostly {way}: {size} at {rate}/s",
            **mostly,
            size=size if device.steps is None else say("{size} per step", size=size),
            rate=bytes_text(rate),
        )
    evidence, assumption = _exposed_flows(subject, flows), _assumption(slow, hidden)
    bound = rule.finding(device, claim, evidence, saving, assumption, explains=exposed, edit=edit if saving else None)
    return [replace(bound, fix=_what_helps(most))]


def _launched_flows(subject: OneGpu) -> tuple[CopyFlow, ...]:
    """The copies that somebody launched; pages of unified memory move by themselves, which is another finding's."""
    if not subject.device.exposed_ns(LineKind.COPY):
        return ()
    moved = migrations(subject.fixes.copy_flows)
    return tuple(flow for flow in subject.fixes.copy_flows if flow not in moved)


def _exposed_ns(flows: Sequence[CopyFlow]) -> int:
    return sum(flow.exposed_ns for flow in flows)


def _is_bound(device: Device, flows: Sequence[CopyFlow]) -> bool:
    """Whether exposed copies are the largest part of the stretch, even once they come from pinned memory."""
    left = _exposed_ns(flows) - _pageable_loss_ns(flows)
    others = [device.compute_ns, *(ns for line, ns in device.line_ns.items() if line.is_idle or line == COMM)]
    return left > max(others)


def _pageable_loss_ns(flows: Sequence[CopyFlow]) -> int:
    """The exposed time that goes when pageable memory is pinned."""
    return sum(flow.slow_ns for flow in flows if flow.is_pageable)


def _assumption(slow: int, hidden: int) -> str:
    if slow > hidden:
        return say("copies run at the link's rate, and compute hides as much of them as it can")
    if hidden:
        return say("compute hides as much of the copies as it can; beyond that, only fewer bytes help")
    return say("the copies run at full speed: only fewer bytes help")


def _share_of_time(device: Device, exposed: int, span: Span | None = None) -> Evidence:
    share = exposed / device.steady_ns
    return Evidence(say("{share} of the time", share=share_text(share)), span, share=share, of=say("the time"))


def _exposed_flows(subject: OneGpu, flows: Sequence[CopyFlow]) -> tuple[Evidence, ...]:
    return _flows(subject, [(flow, flow.exposed_ns) for flow in flows], say("the copies' time"))


def _flows(subject: OneGpu, flows: Sequence[tuple[CopyFlow, int]], of: str) -> tuple[Evidence, ...]:
    """The flows that hold a notable part of a time, never none, and where the first of them was launched."""
    whole = sum(time_ns for _, time_ns in flows)
    told = [(flow, _rates(subject, flow, time_ns / whole, of)) for flow, time_ns in flows]
    told = [(flow, piece) for flow, piece in told if (piece.share or 0) >= LEAST_SHARE] or told[:1]
    return (*(piece for _, piece in told), *_place(subject, *told[0]))


def _place(subject: OneGpu, flow: CopyFlow, told: Evidence) -> tuple[Evidence, ...]:
    """In which ranges most of a flow was launched, where its copies lie in any."""
    fixes = subject.fixes
    path, held = launch_ranges_of(subject.ranges, fixes.work.at(fixes.copies_of(flow)), fixes.host.calls)
    if not path:
        return ()
    share = held * (told.share or 0.0)
    sentence = say("{share} of {of} launched in {ranges}", share=share_text(share), of=told.of, ranges=path_text(path))
    place = say("launched in {ranges}", ranges=path_in_claim(path))
    return (replace(told, sentence=sentence, ranges=path, place=place, count=None, moved_bytes=None, share=share),)


def _rates(subject: OneGpu, flow: CopyFlow, share: float, of: str) -> Evidence:
    """One flow: how much of the whole, how many, how many bytes, how fast, and how fast it could be."""
    count, size = count_text(flow.count), bytes_text(flow.total_bytes // flow.count)
    what = {"share": share_text(share), "of": of, "way": _way(flow)}
    if flow.bytes_per_s is None:
        sentence = say(
            "{share} of {of} {way}: copies whose bytes were not recorded, {count} of them", **what, count=count
        )
    else:
        copies = say("{count} copies of {size} on average", count=count, size=size)
        what |= {"copies": say("one copy of {size}", size=size) if flow.count == 1 else copies}
        what |= {"rate": bytes_text(flow.bytes_per_s), "limit": _limit(flow)}
        sentence = say("{share} of {of} {way}: {copies}, at {rate}/s; {limit}", **what)
    own, calls = subject.fixes.work.at(subject.fixes.copies_of(flow)), subject.fixes.host.calls
    launch = int(own.launch[(own.end_ns - own.start_ns).argmax()])  # that of the longest
    return Evidence(
        sentence,
        span=flow.longest,
        pid=flow.pid,
        tid=None if launch < 0 else int(calls.stored("tid")[launch]),
        call="" if launch < 0 else short_function_name(calls.strings.text(int(calls.codes("name")[launch])) or ""),
        copy=flow.kind,
        correlations=flow.correlations,
        count=flow.count,
        moved_bytes=flow.total_bytes if flow.bytes_per_s else None,
        share=min(share, 1.0),
        of=of,
    )


def _way(flow: CopyFlow) -> str:
    way = WAYS.get(flow.kind, flow.kind) or say("direction not recorded")
    return way if flow.memory not in MEMORIES else say("{way}, {memory}", way=way, memory=MEMORIES[flow.memory])


def _limit(flow: CopyFlow) -> str:
    """What the way of a flow allows, in words."""
    if flow.way_bytes_per_s is None:
        return say("the link's rate is unknown")
    rate = bytes_text(flow.way_bytes_per_s)
    if flow.is_own_rate and flow.is_pageable:
        return say("with pinned memory this run's own copies reach {rate}/s", rate=rate)
    if flow.is_own_rate:
        return say("the largest of them reach {rate}/s, taken as the maximum", rate=rate)
    if flow.kind == MEMSET:
        return say("device memory does {rate}/s", rate=rate)
    if flow.kind in WITHIN_DEVICE:
        return say("device memory allows {rate}/s, since a copy reads and writes", rate=rate)
    if flow.kind in (*TO_DEVICE, *TO_HOST):
        return say("with pinned memory the link does about {rate}/s", rate=rate)
    return say("the link does about {rate}/s", rate=rate)


def _what_helps(flow: CopyFlow) -> Message:
    """What to try for the flow with the most time."""
    if flow.is_pageable:
        return say(
            "pin the host memory (COPY-PAGEABLE); then copy in chunks, each while the previous one is computed on"
        )
    if not flow.is_at_rate and flow.are_small:
        return say("the copies are too small for the link: pack them into a few large ones")
    if not flow.is_at_rate:
        return say(
            "large copies below the link's rate: look for other traffic on it, host memory on the wrong "
            "NUMA node, or a narrower slot"
        )
    if flow.kind == MEMSET:
        return say("clear only what is read before it is written, or once instead of every step")
    if flow.kind in WITHIN_DEVICE:
        return say("at full memory bandwidth only fewer bytes help: write results in place, or where they are used")
    return say(
        "at the link's rate only fewer bytes help: keep data where it is used, copy a smaller dtype "
        "or compress; overlap the rest in chunks with compute"
    )


RULES: Final = (
    Rule(
        "COPY-BOUND",
        _copy_bound,
        say("copy fewer bytes, and those at the link's rate"),
        exposed=LineKind.COPY,
        is_symptom=True,
    ),
    Rule(
        "COPY-EXPOSED",
        _exposed_copies,
        say("keep data on the device, or copy one step ahead on a side stream from pinned memory"),
        edit=lambda fixes: fixes.hidden(State.COPY),
        exposed=LineKind.COPY,
    ),
    Rule("COPY-PAGEABLE", _pageable, advice.COPY_PAGEABLE, edit=Fixes.pinned),
    Rule(
        "COMM-EXPOSED",
        _exposed_communication,
        OVERLAP_COMMUNICATION,
        edit=lambda fixes: fixes.hidden(State.COMM),
        exposed=LineKind.COMM,
    ),
    Rule("UNIFIED-MEMORY", _pages_migrate, advice.UNIFIED_MEMORY, triggers=(Cause.PAGE_MIGRATION,)),
)
