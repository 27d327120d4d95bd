"""UNIFIED-MEMORY: pages migrate between host and device while the program runs.

The time breakdown has `idle: page migration`, and the copies of kind `Unified Host-to-Device` and `Unified
Device-to-Host` have no launch call. Kernels take many times as long as with the data in place, or the GPU is idle
while the host reads results page by page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.memory.figures import NS_PER_S, CopyFlow
from gpuledger.findings.copies.flows import migrations
from gpuledger.findings.finding import MIN_EVIDENCE_SHARE, Evidence, Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import per_step
from gpuledger.ledger.activity import UNIFIED
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.model import Trace
from gpuledger.units import bytes_text, count_text, share_text, time_text

FIX: Final = FixWords.of(
    say("prefetch pages before they are touched, or use plain device memory"),
    openacc=say("data regions instead of managed memory (`-gpu=managed`, `-stdpar`)"),
    openmp=say("`map` clauses instead of unified shared memory"),
    julia=say("arrays in device memory (`CUDA.DeviceMemory`), not unified"),
    cupy=say("CuPy's default memory pool instead of `malloc_managed`"),
    numba=say("`cuda.device_array` instead of `cuda.managed_array`"),
    cuda=say("`cudaMemPrefetchAsync` before the kernels, or `cudaMalloc` with explicit copies"),
    hip=say("`hipMemPrefetchAsync` before the kernels, or `hipMalloc` with explicit copies"),
)
_FAULTS: Final = ("CUDA_UM_CPU_PAGE_FAULT_EVENTS", "CUDA_UM_GPU_PAGE_FAULT_EVENTS")
"""Where nsys records page faults, if asked to: those of the host one by one, those of the GPU in groups."""


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
    if not is_significant(device, saving):
        return ()
    evidence = (*_where(device, flows, exposed, stalled, waited), *_direction(flows, to_device), *_faults(trace))
    assumption = say("pages are already resident, or prefetched at the link's rate")
    low, explains = max(exposed - needed, 0), exposed + stalled + waited
    claim = _claim(device, flows)
    return [rule.finding(device, claim, evidence, saving, assumption, low=low, explains=explains)]


def _claim(device: Device, flows: Sequence[CopyFlow]) -> str:
    count = sum(flow.count for flow in flows)
    in_each_step = device.steps is not None and count >= device.step_count
    steps = device.step_count if in_each_step else 1
    size, time = sum(flow.total_bytes for flow in flows), sum(flow.running_ns for flow in flows)
    amounts = {"count": count_text(count // steps), "size": bytes_text(size // steps), "time": time_text(time // steps)}
    if in_each_step:
        return say(
            "unified-memory pages migrate between host and device: {count} migrations, {size}, {time} per step",
            **amounts,
        )
    return say(
        "unified-memory pages migrate between host and device: {count} migrations, {size}, {time} in total", **amounts
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
    ]


def _direction(flows: Sequence[CopyFlow], to_device: Sequence[CopyFlow]) -> list[Evidence]:
    size, whole = sum(flow.total_bytes for flow in flows), say("the bytes that migrate")
    if not size:
        return []
    share = sum(flow.total_bytes for flow in to_device) / size
    if share >= MIN_EVIDENCE_SHARE:
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


RULE: Final = Rule("UNIFIED-MEMORY", _pages_migrate, FIX, triggers=(Cause.PAGE_MIGRATION,))
