"""Findings about host memory: copies from and to pageable memory, and memory that is allocated in every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.catalog.call_kinds import CallKind
from gpuledger.catalog.host_links import link_bytes_per_s
from gpuledger.findings.evidence import Evidence
from gpuledger.findings.finding import Finding, finding, per_step, times_each, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.steady_rows import steady_rows
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.device import Device
from gpuledger.messages import joined, say
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Rows, Table
from gpuledger.units import bytes_text

CHURN_PER_STEP: Final = 2
"""From so many allocation calls a step on, memory is churned."""


def _pageable_copies(trace: Trace, device: Device) -> Rows:
    """Copies between the device and pageable host memory."""
    copies = steady_rows(trace[Table.COPIES], device, "kind", "src_kind", "dst_kind", "bytes")
    pageable = trace.strings.code("Pageable")
    to_host = np.isin(copies.codes("kind"), [trace.strings.code(k) for k in ("Host-to-Device", "Device-to-Host")])
    return copies.where(to_host & ((copies.codes("src_kind") == pageable) | (copies.codes("dst_kind") == pageable)))


def _link_bytes_per_s(trace: Trace, device: Device) -> int:
    known = trace.origin.gpu(device.gpu)
    return link_bytes_per_s("" if known is None else known.name)


def pageable_loss_ns(trace: Trace, device: Device) -> int:
    """How much longer pageable copies took than the link would need from pinned memory; never negative."""
    copies = _pageable_copies(trace, device)
    peak = _link_bytes_per_s(trace, device)
    return max(int(copies.duration_ns.sum()) - int(copies["bytes"].sum()) * 1_000_000_000 // peak, 0)


def _pageable(subject: OneGpu) -> Sequence[Finding]:
    """Pageable memory is staged through a buffer, far below the link's rate, and blocks the host."""
    trace, device = subject.trace, subject.device
    copies = _pageable_copies(trace, device)
    time, size = int(copies.duration_ns.sum()), int(copies["bytes"].sum())
    saving = pageable_loss_ns(trace, device)
    if not time or not size or not worth_telling(device, saving):
        return ()
    claim = say(
        "{size} are copied from or to pageable memory: {time}",
        size=bytes_text(size // device.step_count),
        time=per_step(device, time),
    )
    rates = say(
        "at {rate}/s; from pinned memory the link takes about {peak}/s",
        rate=bytes_text(size * 1_000_000_000 // time),
        peak=bytes_text(_link_bytes_per_s(trace, device)),
    )
    assumption = say("pinned memory reaches the link's usual rate")
    return [finding(device, "COPY-PAGEABLE", claim, (Evidence(rates),), saving, assumption)]


def _churn(subject: OneGpu) -> Sequence[Finding]:
    """Memory allocated and freed in every step. What that costs in idle time is another finding's: it saves nothing."""
    device = subject.device
    host = device.host
    calls = np.flatnonzero(device.steady_calls & host.are(CallKind.ALLOC))
    if len(calls) < CHURN_PER_STEP * device.step_count or device.steps is None:
        return ()
    time = int(host.calls.duration_ns[calls].sum())
    names = [shortened(name or "") for name in host.calls.at(calls).texts("name")]
    common = sorted(set(names), key=lambda name: (-names.count(name), name))[:3]
    often = [say("{name} {times} x", name=name, times=times_each(device, names.count(name))) for name in common]
    claim = say(
        "{count} calls a step allocate or free memory, {time} of the host",
        count=times_each(device, len(calls)),
        time=per_step(device, time),
    )
    assumption = say("the host hides it today; it will not in a faster step")
    return [finding(device, "ALLOC-CHURN", claim, (Evidence(joined(say(", "), often)),), 0, assumption)]


RULES: Final = (Rule("COPY-PAGEABLE", _pageable), Rule("ALLOC-CHURN", _churn))
