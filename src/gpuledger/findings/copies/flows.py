"""Flows of copies in words, and their edits: how much of a time each holds, how fast it is, and what its way allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.memory.figures import MEMSET, NS_PER_S, PAGEABLE, TO_DEVICE, TO_HOST, WITHIN_DEVICE, CopyFlow
from gpuledger.attribution.places import launch_ranges_of
from gpuledger.findings.finding import MIN_EVIDENCE_SHARE, Evidence
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu
from gpuledger.findings.words import call_name, path_in_claim, path_text
from gpuledger.ledger.activity import UNIFIED, State
from gpuledger.ledger.books import COMM, LineKind
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.replay.edits import Edit, run_aside, scale_operations, with_durations, without_waits
from gpuledger.trace.keys import Positions, is_among
from gpuledger.trace.spans import Span, clip, total, union
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text, count_text, share_text

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

COMPUTE_SLOWED_BY_COPIES: Final = 1 / 12
"""What a copy beside compute takes from it, of its own time: a thirtieth to a ninth was seen on H200s."""


def migrations(flows: Sequence[CopyFlow]) -> tuple[CopyFlow, ...]:
    """Those of the flows that nobody launched: pages of unified memory."""
    return tuple(flow for flow in flows if flow.kind.startswith(UNIFIED))


def launched_flows(subject: OneGpu) -> tuple[CopyFlow, ...]:
    """The copies that somebody launched; pages of unified memory move by themselves, which is another finding's."""
    if not subject.device.exposed_ns(LineKind.COPY):
        return ()
    moved = migrations(subject.fixes.copy_flows)
    return tuple(flow for flow in subject.fixes.copy_flows if flow not in moved)


def exposed_copies_ns(flows: Sequence[CopyFlow]) -> int:
    """What of them nothing hides."""
    return sum(flow.exposed_ns for flow in flows)


def are_most_of_time(device: Device, flows: Sequence[CopyFlow]) -> bool:
    """Whether exposed copies are the largest part of the stretch, even once they come from pinned memory."""
    left = exposed_copies_ns(flows) - pageable_loss_ns(flows)
    others = [device.compute_ns, *(ns for line, ns in device.line_ns.items() if line.is_idle or line == COMM)]
    return left > max(others)


def pageable_loss_ns(flows: Sequence[CopyFlow]) -> int:
    """The exposed time that goes when pageable memory is pinned."""
    return sum(flow.slow_ns for flow in flows if flow.is_pageable)


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


def share_of_time(device: Device, exposed: int, span: Span | None = None) -> Evidence:
    """How much of the steady stretch is exposed."""
    share = exposed / device.steady_ns
    return Evidence(say("{share} of the time", share=share_text(share)), span, share=share, of=say("the time"))


def exposed_flows(subject: OneGpu, flows: Sequence[CopyFlow]) -> tuple[Evidence, ...]:
    """The flows by their exposed time."""
    return flow_evidence(subject, [(flow, flow.exposed_ns) for flow in flows], say("the copies' time"))


def flow_evidence(subject: OneGpu, flows: Sequence[tuple[CopyFlow, int]], of: str) -> tuple[Evidence, ...]:
    """The flows that hold a notable part of a time, never none, and where the first of them was launched."""
    whole = sum(time_ns for _, time_ns in flows)
    told = [(flow, _rates(subject, flow, time_ns / whole, of)) for flow, time_ns in flows]
    told = [(flow, piece) for flow, piece in told if (piece.share or 0) >= MIN_EVIDENCE_SHARE] or told[:1]
    return (*(piece for _, piece in told), *_place(subject, *told[0]))


def _place(subject: OneGpu, flow: CopyFlow, told: Evidence) -> tuple[Evidence, ...]:
    """In which ranges most of a flow was launched, where its copies lie in any."""
    fixes = subject.fixes
    path, held = launch_ranges_of(subject.ranges, fixes.work.at(copies_of(fixes, flow)), fixes.host.calls)
    if not path:
        return ()
    share = held * (told.share or 0.0)
    sentence = say("{share} of {of} launched in {ranges}", share=share_text(share), of=told.of, ranges=path_text(path))
    place = say("launched in {ranges}", ranges=path_in_claim(path))
    return (replace(told, sentence=sentence, ranges=path, place=place, count=None, moved_bytes=None, share=share),)


def _rates(subject: OneGpu, flow: CopyFlow, share: float, of: str) -> Evidence:
    """One flow: how much of the whole, how many, how many bytes, how fast, and how fast it could be."""
    count, size = count_text(flow.count), bytes_text(flow.total_bytes // flow.count)
    what = {"share": share_text(share), "of": of, "way": way_words(flow)}
    if flow.bytes_per_s is None:
        sentence = say(
            "{share} of {of} {way}: copies whose bytes were not recorded, {count} of them", **what, count=count
        )
    else:
        copies = say("{count} copies of {size} on average", count=count, size=size)
        what |= {"copies": say("one copy of {size}", size=size) if flow.count == 1 else copies}
        what |= {"rate": bytes_text(flow.bytes_per_s), "limit": _limit(flow)}
        sentence = say("{share} of {of} {way}: {copies}, at {rate}/s; {limit}", **what)
    own, calls = subject.fixes.work.at(copies_of(subject.fixes, flow)), subject.fixes.host.calls
    launch = int(own.launch[(own.end_ns - own.start_ns).argmax()])  # that of the longest
    return Evidence(
        sentence,
        span=flow.longest,
        pid=flow.pid,
        tid=None if launch < 0 else int(calls.stored("tid")[launch]),
        call="" if launch < 0 else call_name(calls, launch),
        copy=flow.kind,
        correlations=flow.correlations,
        count=flow.count,
        moved_bytes=flow.total_bytes if flow.bytes_per_s else None,
        share=min(share, 1.0),
        of=of,
    )


def way_words(flow: CopyFlow) -> str:
    """Its direction, with the host's memory."""
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


def run_beside_compute(fixes: Fixes, state: State) -> Edit:
    """Copies or communication run beside compute, and nobody waits for them; copies slow it down a little."""
    chosen, compute = fixes.steady_operations(state), fixes.steady_operations(State.COMPUTE)
    duration_ns = fixes.work.end_ns - fixes.work.start_ns
    compute_ns, slower = int(duration_ns[compute].sum()), 1.0
    if state is State.COPY and compute_ns:
        slower += COMPUTE_SLOWED_BY_COPIES * int(duration_ns[chosen].sum()) / compute_ns
    call = fixes.graph.calls_of(chosen)
    return lambda graph: scale_operations(run_aside(without_waits(graph, call), chosen), compute, slower)


def copies_of(fixes: Fixes, flow: CopyFlow) -> Positions:
    """The copies of a flow, among all operations."""
    copies, chosen = fixes.trace[Table.COPIES], fixes.steady_operations(State.COPY)
    row = fixes.work.row[chosen]

    def are(column: str, text: str) -> NDArray[np.bool_]:
        return is_among(copies.codes(column)[row], [copies.strings.code(text), *([] if text else [NO_TEXT])])

    alike = are("kind", flow.kind)
    if flow.kind in (*TO_DEVICE, *TO_HOST):  # the host has a part in it
        alike &= are("src_kind" if flow.kind in TO_DEVICE else "dst_kind", flow.memory)
    return chosen[alike]


def at_rate(fixes: Fixes, chosen: Positions, flows: Sequence[CopyFlow]) -> Edit:
    """These copies come at the rate that their way allows, where that is faster."""
    copies, work = fixes.trace[Table.COPIES], fixes.work
    rate = {flow.kind: flow.way_bytes_per_s for flow in flows}
    allowed = copies.strings.each(work.name[chosen], lambda kind: rate.get(kind) or 0, np.int64)
    size = np.maximum(copies["bytes"][work.row[chosen]], 0)
    duration = (work.end_ns - work.start_ns)[chosen]
    least = np.where(allowed > 0, size * NS_PER_S // np.maximum(allowed, 1), duration)
    return lambda graph: with_durations(graph, chosen, np.minimum(duration, least))
