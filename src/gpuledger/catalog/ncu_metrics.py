"""The metrics of Nsight Compute that we use, by what they mean, and how `--page details` labels them.

Names vary between releases and GPUs: each quantity lists its names, the best first.
"""

from __future__ import annotations

from typing import Final

from gpuledger.catalog.gpu_metrics import GpuMetric
from gpuledger.regex import regex

DURATION: Final = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_active.sum")

DRAM_RATE: Final = ("dram__bytes.sum.per_second",)
DRAM_READ_RATE: Final = ("dram__bytes_read.sum.per_second",)
DRAM_WRITE_RATE: Final = ("dram__bytes_write.sum.per_second",)
DRAM_BYTES: Final = ("dram__bytes.sum",)
DRAM_READ_BYTES: Final = ("dram__bytes_read.sum",)
DRAM_WRITE_BYTES: Final = ("dram__bytes_write.sum",)
DRAM_SHARE: Final = (
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes.sum.pct_of_peak_sustained_elapsed",
    "dram__cycles_active.avg.pct_of_peak_sustained_elapsed",
)
DRAM_PEAK_PER_CYCLE: Final = ("dram__bytes.sum.peak_sustained",)
DRAM_CLOCK: Final = ("dram__cycles_elapsed.avg.per_second",)

L2_SHARE: Final = ("lts__throughput.avg.pct_of_peak_sustained_elapsed",)
L2_RATE: Final = ("derived__lts__lts2xbar_bytes.sum.per_second", "lts__t_bytes.sum.per_second")
"""What the L2 cache delivers. The first is how NVIDIA's hierarchical roofline counts it."""
L2_PEAK_PER_CYCLE: Final = ("derived__lts__lts2xbar_bytes.sum.peak_sustained",)
L2_CLOCK: Final = ("lts__cycles_elapsed.avg.per_second",)
L2_HIT: Final = ("lts__t_sector_hit_rate.pct", "lts__average_t_sector_hit_rate.pct")

L1_SHARE: Final = ("l1tex__throughput.avg.pct_of_peak_sustained_elapsed",)
L1_SHARE_OF_ACTIVE: Final = ("l1tex__throughput.avg.pct_of_peak_sustained_active",)
"""Of the cycles in which the multiprocessor was at work only: the details page has no other."""
L1_RATE: Final = ("derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second", "l1tex__t_bytes.sum.per_second")
L1_PEAK_PER_CYCLE: Final = ("derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained",)
L1_CLOCK: Final = ("l1tex__cycles_elapsed.avg.per_second",)
L1_HIT: Final = ("l1tex__t_sector_hit_rate.pct",)

SECTOR_BYTES: Final = 32
GLOBAL_SECTORS: Final = ("memory_l2_theoretical_sectors_global",)
EXCESSIVE_SECTORS: Final = ("derived__memory_l2_theoretical_sectors_global_excessive",)
"""Of them, those that coalesced accesses would not need."""
USED_OF_SECTOR: Final = (
    ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",),
    ("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",),
)
"""Bytes that threads use of each sector that they load, and store."""

_OF_PEAK: Final = "pct_of_peak_sustained_elapsed"
USE: Final = {
    GpuMetric.SM_ACTIVE: (f"sm__cycles_active.avg.{_OF_PEAK}",),
    GpuMetric.SM_ISSUE: (f"sm__inst_issued.avg.{_OF_PEAK}", f"sm__inst_executed.avg.{_OF_PEAK}"),
    GpuMetric.TENSOR: (f"sm__pipe_tensor_cycles_active.avg.{_OF_PEAK}",),
    GpuMetric.WARPS: (f"sm__warps_active.avg.{_OF_PEAK}",),
    GpuMetric.DRAM_READ: (f"dram__bytes_read.sum.{_OF_PEAK}",),
    GpuMetric.DRAM_WRITE: (f"dram__bytes_write.sum.{_OF_PEAK}",),
    GpuMetric.DRAM: DRAM_SHARE,
}
"""What Nsight Systems samples, as Nsight Compute counts it."""

MEMORY_SHARE: Final = ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",)
SM_SHARE: Final = ("sm__throughput.avg.pct_of_peak_sustained_elapsed",)
SM_BUSY: Final = (
    "sm__instruction_throughput.avg.pct_of_peak_sustained_active",
    "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
)
"""Seed of the report's "SM efficiency": instructions where they were counted, else the SM's busiest unit."""

OCCUPANCY: Final = ("sm__warps_active.avg.pct_of_peak_sustained_active",)
OCCUPANCY_LIMIT: Final = ("sm__maximum_warps_per_active_cycle_pct",)
WAVES: Final = ("launch__waves_per_multiprocessor",)
SM_COUNT: Final = ("launch__sm_count", "device__attribute_multiprocessor_count")
REGISTERS: Final = ("launch__registers_per_thread",)
SHARED_BYTES: Final = ("launch__shared_mem_per_block",)
BLOCK_LIMITS: Final = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
}
"""Blocks that fit on a multiprocessor as far as each resource goes; the smallest is the limit."""

SM_ACTIVE: Final = ("sm__cycles_active.avg",)
SM_ACTIVE_MOST: Final = ("sm__cycles_active.max",)
SM_ELAPSED: Final = ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.max", "gpc__cycles_elapsed.max")
SM_CLOCK: Final = (
    "sm__cycles_elapsed.avg.per_second",
    "smsp__cycles_elapsed.avg.per_second",
    "gpc__cycles_elapsed.avg.per_second",
)
ISSUE_ACTIVE: Final = ("smsp__issue_active.avg.pct_of_peak_sustained_active",)
ELIGIBLE: Final = ("smsp__warps_eligible.avg.per_cycle_active",)

PIPES: Final = {
    "tensor": ("sm__pipe_tensor_cycles_active", "sm__inst_executed_pipe_tensor"),
    "fp64": ("sm__pipe_fp64_cycles_active", "sm__inst_executed_pipe_fp64"),
    "fma": ("sm__pipe_fma_cycles_active", "sm__inst_executed_pipe_fma"),
    "alu": ("sm__pipe_alu_cycles_active", "sm__inst_executed_pipe_alu"),
    "fp16": ("sm__inst_executed_pipe_fp16",),
    "special functions": ("sm__inst_executed_pipe_xu",),
    "load/store": ("sm__inst_executed_pipe_lsu",),
    "uniform": ("sm__inst_executed_pipe_uniform",),
    "texture": ("sm__inst_executed_pipe_tex",),
}
"""Pipelines of a multiprocessor, by the counters that tell how busy each is."""

PIPE_SUFFIXES: Final = (".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active")

THREAD_OPS: Final = {
    "fp32": {"fadd": 1, "fmul": 1, "ffma": 2},
    "fp64": {"dadd": 1, "dmul": 1, "dfma": 2},
    "fp16": {"hadd": 2, "hmul": 2, "hfma": 4},
}
"""Floating-point operations per thread instruction, outside tensor cores; half instructions work on two numbers."""

THREAD_OP_PER_CYCLE: Final = "smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed"
THREAD_OP_COUNT: Final = (
    "smsp__sass_thread_inst_executed_op_{op}_pred_on.sum",
    "sm__sass_thread_inst_executed_op_{op}_pred_on.sum",
)
THREAD_OP_PEAK: Final = "sm__sass_thread_inst_executed_op_{op}_pred_on.sum.peak_sustained"

TENSOR_OPS: Final = regex(
    r"sm__ops_path_tensor_op_\w+?_src_(?P<type>[a-z0-9_]+?)(?:_dst_\w+?)?(?:_sparsity_(?P<sparse>on|off))?\.sum"
)
"""Operations that tensor cores did, by type of their input. Their peak: the same name with `.peak_sustained`."""

STALLS: Final = regex(r"smsp__average_warps_issue_stalled_(?P<why>\w+?)_per_issue_active\.ratio")

DEVICE_NAME: Final = "device__attribute_display_name"

_NAMES: Final = frozenset(
    name
    for names in (
        *(DURATION, DRAM_RATE, DRAM_READ_RATE, DRAM_WRITE_RATE, DRAM_BYTES, DRAM_READ_BYTES, DRAM_WRITE_BYTES),
        *(DRAM_SHARE, DRAM_PEAK_PER_CYCLE, DRAM_CLOCK, L2_SHARE, L2_RATE, L2_PEAK_PER_CYCLE, L2_CLOCK, L2_HIT),
        *(L1_SHARE, L1_SHARE_OF_ACTIVE, L1_RATE, L1_PEAK_PER_CYCLE, L1_CLOCK, L1_HIT, MEMORY_SHARE),
        *(SM_SHARE, SM_BUSY, OCCUPANCY, OCCUPANCY_LIMIT, WAVES, SM_COUNT, REGISTERS, SHARED_BYTES, SM_ACTIVE),
        *(GLOBAL_SECTORS, EXCESSIVE_SECTORS, *USED_OF_SECTOR, *USE.values()),
        *(SM_ACTIVE_MOST, SM_ELAPSED, SM_CLOCK, ISSUE_ACTIVE, ELIGIBLE, tuple(BLOCK_LIMITS.values())),
    )
    for name in names
)
_PREFIXES: Final = (
    "device__attribute_",
    "launch__",
    "sm__ops_path_tensor_",
    "sm__pipe_",
    "sm__inst_executed_pipe_",
    "smsp__sass_thread_inst_executed_op_",
    "sm__sass_thread_inst_executed_op_",
    "smsp__average_warps_issue_stalled_",
    "dram__",
    "lts__t_",
    "l1tex__t_bytes",
)


def is_used(name: str) -> bool:
    """Whether an analysis may look at this metric, so that its unit must be understood."""
    return name in _NAMES or (name.startswith(_PREFIXES) and not name.endswith((".max", ".min")))
