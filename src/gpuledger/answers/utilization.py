"""What samples say of a GPU's use: its compute by how it uses the GPU, and how far that agrees with counters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpuledger.analyse.utilization.against_counters import Agreement, CounterComparison, agreement
from gpuledger.analyse.utilization.stretches import ComputeSplit, SampledUse, compute_split
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.ledger.device import Device


@dataclass(frozen=True)
class UseAnswer:
    """What one GPU's compute uses of it; `use` is None where nothing was sampled."""

    device: Device
    use: SampledUse | None

    @cached_property
    def split(self) -> ComputeSplit:
        """Compute by how it uses the GPU."""
        return compute_split(self.device, None if self.use is None else self.use[0].class_of_row)


def agreements(held: tuple[CounterComparison, ...]) -> dict[GpuMetric, Agreement]:
    """How far samples agree with Nsight Compute's counters, by counter; without those that nothing was counted of."""
    found = {metric: agreement(held, metric) for metric in OF_KERNELS}
    return {metric: agreed for metric, agreed in found.items() if agreed is not None}
