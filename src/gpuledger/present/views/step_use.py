"""Every step's use of the GPU as a table: means of the samples in it, idle time included."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.utilization.stretches import SampledUse
from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.messages import say
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.views.kernel_use import NAMES
from gpuledger.units import time_text

_DETAIL: Final = {
    GpuMetric.SM_ISSUE: 2,
    GpuMetric.WARPS: 2,
    GpuMetric.PCIE_IN: 1,
    GpuMetric.PCIE_OUT: 1,
}


def step_use_sheet(use: SampledUse, zero_ns: int) -> Sheet:
    """A row per step, warm-up included."""
    kernels, stretches = use
    columns = (
        Column("step", say("Step"), Unit.ID),
        Column("start_ns", say("Start"), Unit.INSTANT_NS, detail=3),
        Column("end_ns", say("End"), Unit.INSTANT_NS, detail=3),
        *(
            Column(f"{metric}_percent", name, Unit.SHARE_PERCENT, detail=_DETAIL.get(metric, 0))
            for metric, name in NAMES.items()
        ),
        Column("clock_mhz", say("Clock (MHz)"), Unit.COUNT),
    )
    rows = tuple(
        (
            step,
            span.start_ns - zero_ns,
            span.end_ns - zero_ns,
            *map(means.get, NAMES),
            round(means[GpuMetric.SM_CLOCK] / 1e6) if GpuMetric.SM_CLOCK in means else None,
        )
        for step, (span, means) in enumerate(stretches.steps)
    )
    title = say(
        "GPU {gpu} utilization by step, from samples every {period}, idle time included",
        gpu=kernels.gpu,
        period=time_text(kernels.period_ns),
    )
    return Sheet(f"step_use_gpu{kernels.gpu}", title, columns, rows, rounded=True)
