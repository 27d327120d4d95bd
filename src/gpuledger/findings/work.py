"""Findings about what ran on the device: pageable copies, needless casts, tiny kernels."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.host_links import link_bytes_per_s
from gpuledger.catalog.kernel_names import label
from gpuledger.findings.finding import WORTH_TELLING, Finding, finding, per_step, times_each
from gpuledger.findings.line_names import line_name
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import variation
from gpuledger.messages import joined, say
from gpuledger.trace.columns import distinct, equal
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Rows, Table
from gpuledger.units import bytes_text, count_text, share_text, time_text

TINY_NS: Final = 5_000
"""A kernel this short takes longer to launch than to run."""

CHURN_PER_STEP: Final = 2
"""From so many allocation calls a step on, memory is churned."""

CASTS: Final = re.compile(r"(b?float16|float8\w*)_copy_kernel|direct_copy_kernel.*WithCast|_cast_kernel|^cast_")
"""Kernels that change a tensor's type."""


def about_the_work(trace: Trace, device: Device) -> list[Finding]:
    """One finding per kind of work that is worth telling."""
    made = (_pageable(trace, device), _casts(trace, device), _tiny(trace, device), _outliers(device), _drift(device))
    worth = [found for found in made if found is not None and found.saving_ns >= WORTH_TELLING * device.steady_ns]
    return [*worth, *_churn(device)]


def _steady(rows: Rows, device: Device, *columns: str) -> Rows:
    """The rows of the steady stretch, with these columns."""
    return rows.only(*columns).where(_in_steady(rows, device))


def _in_steady(rows: Rows, device: Device) -> NDArray[np.bool_]:
    """Which rows began on this GPU in the steady stretch."""
    begins: NDArray[np.bool_] = device.begins_steady(rows["start_ns"]) & equal(rows["gpu"], device.gpu)
    return begins


def _pageable_copies(trace: Trace, device: Device) -> Rows:
    """Copies between the device and pageable host memory."""
    copies = _steady(trace[Table.COPIES], device, "kind", "src_kind", "dst_kind", "bytes")
    pageable = trace.strings.code("Pageable")
    to_host = np.isin(copies.codes("kind"), [trace.strings.code(k) for k in ("Host-to-Device", "Device-to-Host")])
    return copies.where(to_host & ((copies.codes("src_kind") == pageable) | (copies.codes("dst_kind") == pageable)))


def _link_bytes_per_s(trace: Trace, device: Device) -> int:
    known = trace.origin.gpu(device.gpu)
    return link_bytes_per_s("" if known is None else known.name)


def pageable_loss_ns(trace: Trace, device: Device) -> int:
    """How much longer pageable copies took than the link would need from pinned memory; never negative."""
    mine = _pageable_copies(trace, device)
    peak = _link_bytes_per_s(trace, device)
    return max(int(mine.duration_ns.sum()) - int(mine["bytes"].sum()) * 1_000_000_000 // peak, 0)


def _pageable(trace: Trace, device: Device) -> Finding | None:
    """Pageable memory is staged through a buffer, far below the link's rate, and blocks the host."""
    mine = _pageable_copies(trace, device)
    time, size = int(mine.duration_ns.sum()), int(mine["bytes"].sum())
    if not time or not size:
        return None
    peak = _link_bytes_per_s(trace, device)
    claim = say(
        "{size} are copied from or to pageable memory: {time}",
        size=bytes_text(size // device.step_count),
        time=per_step(device, time),
    )
    rates = say(
        "at {rate}/s; from pinned memory the link takes about {peak}/s",
        rate=bytes_text(size * 1_000_000_000 // time),
        peak=bytes_text(peak),
    )
    saving, assumption = pageable_loss_ns(trace, device), say("pinned memory reaches the link's usual rate")
    return finding(device, "COPY-PAGEABLE", claim, (rates,), saving, assumption)


def _casts(trace: Trace, device: Device) -> Finding | None:
    codes = distinct(trace[Table.KERNELS].codes("name")).tolist()
    casts = [code for code in codes if CASTS.search(trace.strings.text(code) or "")]
    if not casts:
        return None
    kernels = _steady(trace[Table.KERNELS], device, "name")
    mine = kernels.where(np.isin(kernels.codes("name"), casts))
    if not len(mine):
        return None
    # where the host cannot keep up, launches that go away save their share of what is lost between launches
    late = int(device.ledger.gaps.length_ns[device.gaps_of("behind")].sum())
    time = int(mine.duration_ns.sum()) + late * len(mine) // len(kernels)
    claim = say(
        "{count} kernels a step only change a tensor's type: {time}",
        count=count_text(len(mine) // device.step_count),
        time=per_step(device, time),
    )
    names = joined(say(", "), sorted({label(trace.strings.text(code) or "") for code in casts})[:3])
    return finding(device, "CAST", claim, (names,), time, say("the type is kept, or changed inside another kernel"))


def _tiny(trace: Trace, device: Device) -> Finding | None:
    """Where the host cannot keep up because kernels are too short to be worth a launch."""
    behind = device.gaps_of("behind")
    kernels = trace[Table.KERNELS]
    steady = _in_steady(kernels, device)
    if not len(behind) or not steady.any():
        return None
    share = float(np.count_nonzero(steady & (kernels.duration_ns < TINY_NS)) / np.count_nonzero(steady))
    found, gaps = device.found, device.ledger.gaps
    after = gaps.after[behind]
    before_tiny = found.end_ns[after] - found.start_ns[after] < TINY_NS
    time = int(gaps.length_ns[behind][before_tiny].sum())
    if share < 0.5 or 2 * time < int(gaps.length_ns[behind].sum()):
        return None
    claim = say(
        "{share} of the kernels run under 5 us, less than a launch takes: {time} of gaps",
        share=share_text(share),
        time=per_step(device, time),
    )
    advice = say("fuse them, batch them, or capture the step in a CUDA graph")
    assumption = say("the gaps close; do not add it to LAUNCH-BOUND")
    return finding(device, "TINY-KERNELS", claim, (advice,), time, assumption)


def _churn(device: Device) -> list[Finding]:
    """Memory allocated and freed in every step. What that costs in idle time is another finding's: it saves nothing."""
    host = device.host
    calls = np.flatnonzero(device.steady_calls & (host.kinds == host.kind_names.index("alloc")))
    if len(calls) < CHURN_PER_STEP * device.step_count or device.steps is None:
        return []
    time = int(host.calls.duration_ns[calls].sum())
    names = [shortened(name or "") for name in host.calls.at(calls).texts("name")]
    common = sorted(set(names), key=lambda name: (-names.count(name), name))[:3]
    each = [say("{name} {times} x", name=name, times=times_each(device, names.count(name))) for name in common]
    claim = say(
        "{count} calls a step allocate or free memory, {time} of the host",
        count=times_each(device, len(calls)),
        time=per_step(device, time),
    )
    assumption = say("the host hides it today; it will not in a faster step")
    return [finding(device, "ALLOC-CHURN", claim, (joined(say(", "), each),), 0, assumption)]


def _outliers(device: Device) -> Finding | None:
    """Steps that take unusually long."""
    found = variation(device)
    if found is None or not found.outliers:
        return None
    saving = sum(each.length_ns - each.usual_ns for each in found.outliers)
    worst = found.outliers[0]
    claim = say(
        "{count} of {steps} steps take unusually long",
        count=count_text(len(found.outliers)),
        steps=count_text(device.step_count),
    )
    evidence = say(
        "step {step}: {time} against {usual}, most of it {line}",
        step=worst.step,
        time=time_text(worst.length_ns),
        usual=time_text(worst.usual_ns),
        line=line_name(worst.line),
    )
    return finding(device, "STEP-OUTLIERS", claim, (evidence,), saving, say("they take as long as the median step"))


def _drift(device: Device) -> Finding | None:
    """Steps that become slower as the run goes on."""
    found = variation(device)
    if found is None or found.drift is None or not found.drifts or found.drift.share < 0:
        return None
    drift = found.drift
    # none of it in the first third, all of it in the last: on average half. Single long steps are another finding's
    saving = (drift.late_ns - drift.early_ns) * device.step_count // 2
    claim = say(
        "steps become slower as the run goes on: {share} from the first third to the last",
        share=share_text(drift.share),
    )
    evidence = say(
        "from {early} to {late}, most of it {line}",
        early=time_text(drift.early_ns),
        late=time_text(drift.late_ns),
        line=line_name(drift.line),
    )
    return finding(device, "STEP-DRIFT", claim, (evidence,), saving, say("all steps take as long as the early ones"))
