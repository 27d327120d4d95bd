"""One profile's books, steps and findings together: a trace in, everything that is said of it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuledger.findings.finding import Finding
from gpuledger.findings.rules import findings
from gpuledger.ledger.device import Device, analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.stages import BOOKS, FINDINGS, TellStage, tell_nobody
from gpuledger.trace.health import Note, NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from gpuledger.trace.tables import EVENTS, Table

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.timeline_match import MatchedTimeline
    from gpuledger.analyse.use.against_counters import HeldAgainst
    from gpuledger.analyse.use.kernel_use import UseOfKernels
    from gpuledger.analyse.use.stretches import SampledUse
    from gpuledger.trace.kernel_report import KernelReport

_NEVER_READ: Final = {
    Table.KERNELS: {"short_name", "mangled_name", "registers", "smem_static_bytes", "smem_dynamic_bytes"},
    Table.CALLS: {"kernel"},
}
_SHAPES: Final = {"grid", "block"}


def columns_for(*, profiled: bool) -> dict[Table, frozenset[str]]:
    """What a report reads of a trace; the blocks of launches only to find those that another file `profiled` too."""
    return {
        table: frozenset(column.name for column in table.schema.columns)
        - _NEVER_READ.get(table, set())
        - (set() if profiled else {"block"})
        for table in EVENTS
    }


WHERE_SAMPLED: Final = {
    Table.METRICS: frozenset(column.name for column in Table.METRICS.schema.columns),
    Table.KERNELS: frozenset(_SHAPES),
}
"""What a report reads besides where a GPU's counters were sampled."""


@dataclass(frozen=True, slots=True)
class ProfiledRun:
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
    use: Mapping[int, SampledUse] = field(default_factory=dict)
    """What samples say of each GPU that was sampled, and of its kernels in the steady stretch."""
    against: Mapping[int, tuple[HeldAgainst, ...]] = field(default_factory=dict)
    """Those samples against what Nsight Compute counted, where there is both."""

    @property
    def zero_ns(self) -> int:
        """The instant that times are told from."""
        return self.devices[0].zero_ns

    @property
    def lost(self) -> Finding | None:
        """What the profiler lost, if that is worth a warning: then it is the first finding."""
        return self.findings[0] if self.devices[0].lost.is_notable else None

    @property
    def main_device(self) -> Device:
        """The one to show first: where the most would be saved, else the busiest."""
        gpus = [found.gpu for found in self.findings if found.gpu >= 0]
        if gpus:
            return next(device for device in self.devices if device.gpu == gpus[0])
        return max(self.devices, key=lambda device: device.device_floor_ns)


def _window(devices: Sequence[Device]) -> Span:
    """From the first instant that is looked at to the last, on any GPU."""
    windows = [device.ledger.window for device in devices]
    return Span(min(window.start_ns for window in windows), max(window.end_ns for window in windows))


def sampled(trace: Trace, devices: Sequence[Device]) -> dict[int, SampledUse]:
    """What samples say of each GPU that was sampled; nothing where they, or the shapes of launches, were not read."""
    if Table.METRICS not in trace.tables or not all(shape in trace[Table.KERNELS] for shape in _SHAPES):
        return {}
    from gpuledger.analyse.use.stretches import use_of_device

    use = {device.gpu: use_of_device(trace, device, device.steady_stretches) for device in devices}
    return {gpu: told for gpu, told in use.items() if not isinstance(told, NotMeasured)}


def _held_against(use: UseOfKernels, profiled: KernelReport) -> tuple[HeldAgainst, ...]:
    from gpuledger.analyse.use.against_counters import held_against

    return held_against(use, profiled)


def diagnosed(
    trace: Trace,
    name: str,
    wanted: Wanted,
    profiled: KernelReport | None = None,
    *,
    stage: TellStage = tell_nobody,
) -> ProfiledRun:
    """Analyse a trace together with what Nsight Compute measured of its kernels. It holds what `columns_for` names."""
    stage(BOOKS)
    made = analysed(trace, name, wanted)
    stage(FINDINGS)
    use = sampled(trace, made)
    if profiled is None:
        return ProfiledRun(name, trace, _window(made), made, findings(trace, made, use=use), use=use)
    from gpuledger.analyse.kernels.judgement import judged
    from gpuledger.analyse.kernels.step_kernels import overview
    from gpuledger.analyse.kernels.timeline_match import matched_timeline

    launches = [judged(each) for each in profiled.launches]
    kernels = {device.gpu: matched_timeline(overview(trace, device, wanted.scope_pattern), launches) for device in made}
    found = findings(trace, made, kernels, use)
    against = {gpu: _held_against(of_kernels, profiled) for gpu, (of_kernels, _) in use.items()}
    return ProfiledRun(name, trace, _window(made), made, found, kernels, profiled.health, use, against)
