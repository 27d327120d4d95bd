"""The report: one trace's books, steps and findings together. `to_dict` is the document gpuledger.report/1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from gpuledger.findings.finding import Finding
from gpuledger.findings.rules import findings
from gpuledger.ledger.device import Device, analysed
from gpuledger.ledger.phases import PHASES
from gpuledger.ledger.step_variation import variation
from gpuledger.ledger.steps import Wanted
from gpuledger.trace.health import Note, NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from gpuledger.trace.tables import Table

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.timeline_match import Match, MatchedTimeline
    from gpuledger.trace.kernel_report import KernelReport

_NEVER_READ: Final = {
    Table.KERNELS: {"short_name", "mangled_name", "registers", "smem_static_bytes", "smem_dynamic_bytes"},
    Table.CALLS: {"result"},
}
_SHAPES: Final = {"grid", "block"}


def columns_for(*, profiled: bool) -> dict[Table, frozenset[str]]:
    """What a report reads of a trace; the shapes of launches only to find those that Nsight Compute `profiled`."""
    return {
        table: frozenset(column.name for column in table.schema.columns)
        - _NEVER_READ.get(table, set())
        - (set() if profiled else _SHAPES)
        for table in Table
    }


@dataclass(frozen=True, slots=True)
class Report:
    """What one profile says."""

    name: str
    trace: Trace
    window: Span
    devices: tuple[Device, ...]
    findings: tuple[Finding, ...]
    kernels: Mapping[int, MatchedTimeline] = field(default_factory=dict)
    """What Nsight Compute says of the kernels of each GPU, where reports of it were given."""
    kernel_health: tuple[Note, ...] = ()
    """What was lost on reading those reports."""

    draw: ClassVar[Callable[[Report], str] | None] = None
    """Draws a report for a notebook. Set by the package, as a report knows nothing of how it is shown."""

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None: it shows the usual text."""
        return None if Report.draw is None else Report.draw(self)

    @property
    def main_device(self) -> Device:
        """The one to show first: where the most would be saved, else the busiest."""
        gpus = [found.gpu for found in self.findings if found.gpu >= 0]
        if gpus:
            return next(device for device in self.devices if device.gpu == gpus[0])
        return max(self.devices, key=lambda device: device.device_floor_ns)

    def to_dict(self) -> dict[str, Any]:
        """The versioned JSON document."""
        origin = self.trace.origin
        return {
            "schema": "gpuledger.report/1",
            "profile": self.name,
            "origin": {
                "tool": origin.tool,
                "tool_version": origin.tool_version,
                "schema_version": origin.schema_version,
                "gpus": [gpu.name for gpu in origin.gpus],
            },
            "health": [
                {"severity": n.severity.value, "code": n.code, "count": n.count, "sentence": n.sentence}
                for n in (*self.trace.health, *self.kernel_health)
            ],
            "window_ns": self.window.end_ns - self.window.start_ns,
            "devices": [_device(device) for device in self.devices],
            "steps": _steps(self.main_device),
            "findings": [finding_dict(found) for found in self.findings],
            **self._kernels(),
        }

    def _kernels(self) -> dict[str, Any]:
        if not self.kernels:
            return {}
        by_gpu = {device.gpu: device for device in self.devices}
        return {"kernels": [_joined(found, by_gpu[gpu]) for gpu, found in self.kernels.items()]}


def build_report(trace: Trace, name: str, wanted: Wanted, profiled: KernelReport | None = None) -> Report:
    """Analyse a trace together with what Nsight Compute measured of its kernels. It holds what `columns_for` names."""
    made = analysed(trace, name, wanted)
    if profiled is None:
        return Report(name, trace, made[0].ledger.window, made, findings(trace, made))
    from gpuledger.analyse.kernels.judgement import judged
    from gpuledger.analyse.kernels.step_kernels import overview
    from gpuledger.analyse.kernels.timeline_match import joined

    launches = [judged(each) for each in profiled.launches]
    kernels = {device.gpu: joined(overview(trace, device, wanted.scope_pattern), launches) for device in made}
    found = findings(trace, made, kernels)
    return Report(name, trace, made[0].ledger.window, made, found, kernels, profiled.health)


def _device(device: Device) -> dict[str, Any]:
    window_ns = device.ledger.window_ns
    return {
        "device": device.gpu,
        "window_ns": window_ns,
        "ledger": [
            {"line": line, "ns": amount, "share": amount / window_ns if window_ns else 0.0}
            for line, amount in device.ledger.total().items()
        ],
        "hidden_comm_ns": device.ledger.busy.hidden_comm_ns,
        "hidden_copy_ns": device.ledger.busy.hidden_copy_ns,
        "triggers": [
            {"trigger": trigger, "call": call, "ns": time, "gaps": count}
            for (trigger, call), (time, count) in device.triggers.items()
        ],
    }


def _steps(device: Device) -> dict[str, Any] | None:
    found = variation(device)
    if found is None:
        return None
    return {
        "device": device.gpu,
        "source": found.steps.source,
        "count": len(found.steps),
        "warm_up": found.steps.warm_up,
        "median_ns": found.median_ns,
        "p10_ns": found.p10_ns,
        "p90_ns": found.p90_ns,
        "drift_share": found.drift_share,
        "phases": {
            name: device.phases.of_step[found.steps.warm_up :].count(at) for at, name in enumerate(PHASES) if name
        },
        "outliers": [
            {"step": each.step, "length_ns": each.length_ns, "line": each.line, "excess_ns": each.excess_ns}
            for each in found.outliers
        ],
    }


def finding_dict(found: Finding) -> dict[str, Any]:
    """A finding as every JSON document holds it; `device` is null where it is about no single one."""
    return {
        "code": found.code,
        "claim": found.claim,
        "saving_ns_per_step": found.saving_ns_per_step,
        "saving_low_ns_per_step": found.saving_low_ns_per_step,
        "saving_ns": found.saving_ns,
        "assumption": found.assumption,
        "confidence": found.confidence,
        "device": None if found.gpu < 0 else found.gpu,
        "evidence": list(found.evidence),
        "next": found.next,
    }


def _joined(found: MatchedTimeline, device: Device) -> dict[str, Any]:
    """Every kernel of the step with its match, in the order of execution."""
    from gpuledger.analyse.kernels.timeline_match import LEVELS

    return {
        "device": device.gpu,
        "coverage_share": found.coverage,
        "levels": {level: found.share_at(level) for level in LEVELS},
        "unused_launches": len(found.unused),
        "layers": found.overview.layers,
        "kernels": [_match(each, device) for each in found.matches],
    }


def _match(each: Match, device: Device) -> dict[str, Any]:
    entry, launch = each.entry, each.launch
    verdict = launch.verdict if launch is not None and each.covered else None
    roof = None if verdict is None else verdict.roof_share
    return {
        "name": entry.name,
        "grid": list(entry.grid),
        "block": list(entry.block),
        "place": list(entry.place),
        "in_layer": entry.in_layer,
        "calls": entry.calls,
        "time_ns": entry.time_ns,
        "time_ns_per_step": entry.time_ns // device.step_count,
        "share": each.share,
        "match": each.level,
        "launch": None if launch is None else {"file": launch.launch.file, "order": launch.launch.order},
        "bound": None if verdict is None else verdict.bound,
        "limiter": None if verdict is None else verdict.limiter,
        "roof_share": None if roof is None or isinstance(roof, NotMeasured) else roof,
        "saving_ns": each.saving_ns,
        "severity": each.severity,
    }
