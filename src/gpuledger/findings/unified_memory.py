"""A finding about unified memory: pages that migrate between host and device because somebody touched them.

No call launches a migration, so it is not the host's doing as a copy is: a kernel or the host faults, and waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.memory.copy_flows import NS_PER_S, CopyFlow
from gpuledger.findings.evidence import LEAST_SHARE, Evidence
from gpuledger.findings.finding import Finding, finding, per_step, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import UNIFIED
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.model import Trace
from gpuledger.units import bytes_text, count_text, share_text, time_text

_FAULTS: Final = ("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS")
"""Where nsys records page faults, if asked to: those of the host one by one, those of the GPU in groups."""


def migrations(flows: Sequence[CopyFlow]) -> tuple[CopyFlow, ...]:
    """Those of the flows that nobody launched: pages of unified memory."""
    return tuple(flow for flow in flows if flow.kind.startswith(UNIFIED))


def _pages_migrate(subject: OneGpu) -> Sequence[Finding]:
    """Pages move, and the device has nothing to run meanwhile, or kernels stall until theirs are there."""
    trace, device = subject.trace, subject.device
    flows = migrations(subject.copy_flows)
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
    return [finding(device, "UNIFIED-MEMORY", claim, evidence, saving, assumption, low=low, explains=explains)]


def _claim(device: Device, flows: Sequence[CopyFlow]) -> str:
    steps, count = device.step_count, sum(flow.count for flow in flows)
    size, time = sum(flow.total_bytes for flow in flows), sum(flow.running_ns for flow in flows)
    if device.steps is None or count < steps:
        return say(
            "unified-memory pages migrate between host and device: {count} migrations, {size}, {time} in total",
            count=count_text(count),
            size=bytes_text(size),
            time=time_text(time),
        )
    return say(
        "unified-memory pages migrate between host and device: {count} migrations, {size}, {time} per step",
        count=count_text(count // steps),
        size=bytes_text(size // steps),
        time=time_text(time // steps),
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
    told = say(
        "in the whole profile: {host} host page faults, {gpu} groups of GPU page faults",
        host=count_text(host),
        gpu=count_text(gpu),
    )
    return [Evidence(told, count=host + gpu)]


def _prefetches(device: Device) -> bool:
    names = device.host.calls.strings.distinct(device.host.calls.codes("name"))
    return any("MemPrefetch" in (device.host.calls.strings.text(code) or "") for code in names)


RULES: Final = (Rule("UNIFIED-MEMORY", _pages_migrate, (Cause.PAGE_MIGRATION,)),)
