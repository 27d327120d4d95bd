"""What Nsight Compute measured of single kernels: one `Profiled` per launch, metrics in base units.

Base units: seconds count in ns, sizes in bytes, rates per second, frequencies in Hz, and shares from 0 to 1 where
Nsight Compute prints per cent. A metric that was not collected, or came out as NaN, is `NotMeasured`, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.trace.health import Note, NotMeasured

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Advice:
    """What one of NVIDIA's own rules said about a launch."""

    rule: str
    title: str
    message: str
    speedup_share: float | None = None
    """NVIDIA's estimate of how much of the time would go, from 0 to 1; None where the rule gives none."""
    scope: str = ""
    """`global`: of the kernel's time; `local`: of the part that the rule is about."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """One launch of one kernel as Nsight Compute saw it. None: the report does not say."""

    order: int
    """Position among the launches of its file, from 0."""
    name: str
    """Demangled, with parameters where the report has them."""
    grid: Dim3 | None
    block: Dim3 | None
    metrics: Mapping[str, float]
    """By NVIDIA's name, in base units; what has no value is not in it."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose value is text, such as the device's name."""
    context: int | None = None
    stream: int | None = None
    device: int | None = None
    process: int | None = None
    compute_capability: tuple[int, int] | None = None
    nvtx: tuple[str, ...] = ()
    """The ranges that were open at the launch, outermost first."""
    advice: tuple[Advice, ...] = ()
    file: str = ""

    def metric(self, *names: str) -> float | NotMeasured:
        """The first of these metrics that was measured."""
        for name in names:
            if name in self.metrics:
                return self.metrics[name]
        return NotMeasured(f"{names[0]} was not collected")


@dataclass(frozen=True, slots=True)
class KernelReport:
    """The launches of one or several reports, in the order of the files and within each in order of launch."""

    launches: tuple[Profiled, ...]
    health: tuple[Note, ...] = ()
    tool_version: str | None = None
