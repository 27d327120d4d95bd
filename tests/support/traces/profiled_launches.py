"""Launches for tests: a few figures by name, and the rest not measured."""

from __future__ import annotations

from collections.abc import Mapping

from gpuledger.analyse.roofline.judgement import JudgedLaunch, judged
from gpuledger.trace.measured import Advice, Dim3, Profiled

NAMES = {
    "time": "gpu__time_duration.sum",
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "dram": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_rate": "dram__bytes.sum.per_second",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2_hit": "lts__t_sector_hit_rate.pct",
    "l1_hit": "l1tex__t_sector_hit_rate.pct",
    "sectors": "memory_l2_theoretical_sectors_global",
    "excessive": "derived__memory_l2_theoretical_sectors_global_excessive",
    "loaded_of_sector": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "stored_of_sector": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "possible": "sm__maximum_warps_per_active_cycle_pct",
    "waves": "launch__waves_per_multiprocessor",
    "processors": "launch__sm_count",
    "registers_limit": "launch__occupancy_limit_registers",
    "shared_limit": "launch__occupancy_limit_shared_mem",
}


def launch(
    name: str = "k",
    grid: Dim3 | None = (1024, 1, 1),
    block: Dim3 | None = (128, 1, 1),
    *,
    order: int = 0,
    nvtx: tuple[str, ...] = (),
    advice: tuple[Advice, ...] = (),
    gpu: str | None = "NVIDIA H200",
    metrics: Mapping[str, float] | None = None,
    **figures: float,
) -> Profiled:
    """`launch(time=5000, sm=0.9)`: a launch of 5 us at 90 % of the multiprocessors' peak."""
    texts = {} if gpu is None else {"device__attribute_display_name": gpu}
    measured = {NAMES[key]: value for key, value in figures.items()} | dict(metrics or {})
    return Profiled(order, name, grid, block, measured, texts, nvtx=nvtx, advice=advice)


def made(*arguments: object, **figures: object) -> JudgedLaunch:
    """The same, judged."""
    return judged(launch(*arguments, **figures))  # type: ignore[arg-type]
