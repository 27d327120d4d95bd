"""What `ncu --page details` calls a metric: section and label in, NVIDIA's own name of the metric out.

Labels are unique within a section only: "Memory Throughput" is a share of the peak in one and bytes per second in
another. Checked against a report and the page that ncu 2025.3 printed of it: every label leads to the same numbers.
"""

from __future__ import annotations

from typing import Final

_PEAK: Final = "avg.pct_of_peak_sustained_elapsed"
_ACTIVE: Final = "avg.pct_of_peak_sustained_active"

_SPEED_OF_LIGHT: Final = {
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "Memory Throughput": f"gpu__compute_memory_throughput.{_PEAK}",
    "DRAM Throughput": f"gpu__dram_throughput.{_PEAK}",
    "Duration": "gpu__time_duration.sum",
    "L1/TEX Cache Throughput": f"l1tex__throughput.{_ACTIVE}",
    "L2 Cache Throughput": f"lts__throughput.{_PEAK}",
    "SM Active Cycles": "sm__cycles_active.avg",
    "Compute (SM) Throughput": f"sm__throughput.{_PEAK}",
    # releases of 2019 to 2021
    "Memory Frequency": "dram__cycles_elapsed.avg.per_second",
    "Memory [%]": f"gpu__compute_memory_throughput.{_PEAK}",
    "SOL Memory": f"gpu__compute_memory_throughput.{_PEAK}",
    "SOL DRAM": f"dram__throughput.{_PEAK}",
    "SOL TEX": f"l1tex__throughput.{_ACTIVE}",
    "SOL L1/TEX Cache": f"l1tex__throughput.{_ACTIVE}",
    "SOL L2": f"lts__throughput.{_PEAK}",
    "SOL L2 Cache": f"lts__throughput.{_PEAK}",
    "SM [%]": f"sm__throughput.{_PEAK}",
    "SOL SM": f"sm__throughput.{_PEAK}",
    "Compute (SM) [%]": f"sm__throughput.{_PEAK}",
}

_LABELS: Final = {
    "GPU Speed Of Light Throughput": _SPEED_OF_LIGHT,
    "GPU Speed Of Light": _SPEED_OF_LIGHT,
    "PM Sampling": {
        "Maximum Buffer Size": "profiler__pmsampler_buffer_size_bytes",
        "Dropped Samples": "profiler__pmsampler_dropped_samples",
        "# Pass Groups": "profiler__pmsampler_pass_groups",
    },
    "Compute Workload Analysis": {
        "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
        "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
        "Issue Slots Busy": f"sm__inst_issued.{_ACTIVE}",
        "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
        "SM Busy": f"sm__instruction_throughput.{_ACTIVE}",
    },
    "Memory Workload Analysis": {
        "Local Memory Spilling Requests": "derived__local_spilling_requests",
        "Local Memory Spilling Request Overhead": "derived__local_spilling_requests_pct",
        "Memory Throughput": "dram__bytes.sum.per_second",
        "Mem Busy": f"gpu__compute_memory_access_throughput.{_PEAK}",
        "Max Bandwidth": f"gpu__compute_memory_request_throughput.{_PEAK}",
        "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
        "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
        "L2 Persisting Size": "launch__persisting_l2_cache_size",
        "Mem Pipes Busy": f"sm__memory_throughput.{_PEAK}",
    },
    "Scheduler Statistics": {
        "One or More Eligible": f"smsp__issue_active.{_ACTIVE}",
        "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
        "No Eligible": f"smsp__issue_inst0.{_ACTIVE}",
        "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
        "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    },
    "Warp State Statistics": {
        "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
        "Warp Cycles Per Executed Instruction": "smsp__average_warps_active_per_inst_executed.ratio",
        "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
        "Avg. Not Predicated Off Threads Per Warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    },
    "Instruction Statistics": {
        "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
        "Executed Instructions": "smsp__inst_executed.sum",
        "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
        "Issued Instructions": "smsp__inst_issued.sum",
    },
    "Launch Statistics": {
        "Block Size": "launch__block_size",
        "Cluster Scheduling Policy": "launch__cluster_scheduling_policy",
        "Cluster Size": "launch__cluster_size",
        "Preferred Cluster Size": "launch__preferred_cluster_size",
        "Function Cache Configuration": "launch__func_cache_config",
        "Grid Size": "launch__grid_size",
        "Registers Per Thread": "launch__registers_per_thread",
        "Shared Memory Configuration Size": "launch__shared_mem_config_size",
        "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
        "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
        "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
        "# SMs": "launch__sm_count",
        "Stack Size": "launch__stack_size",
        "Threads": "launch__thread_count",
        "# TPCs": "launch__tpc_count",
        "Enabled TPC IDs": "launch__tpc_enabled",
        "Uses Green Context": "launch__uses_green_context",
        "Waves Per SM": "launch__waves_per_multiprocessor",
    },
    "Occupancy": {
        "Max Active Clusters": "launch__cluster_max_active",
        "Max Cluster Size": "launch__cluster_max_potential_size",
        "Overall GPU Occupancy": "launch__occupancy_cluster_gpu_pct",
        "Cluster Occupancy": "launch__occupancy_cluster_pct",
        "Block Limit Barriers": "launch__occupancy_limit_barriers",
        "Block Limit SM": "launch__occupancy_limit_blocks",
        "Block Limit Registers": "launch__occupancy_limit_registers",
        "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
        "Block Limit Warps": "launch__occupancy_limit_warps",
        "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
        "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
        "Achieved Occupancy": f"sm__warps_active.{_ACTIVE}",
        "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
    },
    "GPU and Memory Workload Distribution": {
        "Average DRAM Active Cycles": "dram__cycles_active.avg",
        "Total DRAM Elapsed Cycles": "dram__cycles_elapsed.sum",
        "Average L1 Active Cycles": "l1tex__cycles_active.avg",
        "Total L1 Elapsed Cycles": "l1tex__cycles_elapsed.sum",
        "Average L2 Active Cycles": "lts__cycles_active.avg",
        "Total L2 Elapsed Cycles": "lts__cycles_elapsed.sum",
        "Average SM Active Cycles": "sm__cycles_active.avg",
        "Total SM Elapsed Cycles": "sm__cycles_elapsed.sum",
        "Average SMSP Active Cycles": "smsp__cycles_active.avg",
        "Total SMSP Elapsed Cycles": "smsp__cycles_elapsed.sum",
    },
    "Source Counters": {
        "Branch Instructions Ratio": "derived__smsp__inst_executed_op_branch_pct",
        "Branch Instructions": "smsp__inst_executed_op_branch.sum",
        "Branch Efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
        "Avg. Divergent Branches": "smsp__sass_branch_targets_threads_divergent.avg",
    },
}

_HOPPER: Final = {
    "L2 Compression Success Rate": "lts__average_gcomp_input_sector_success_rate.pct",
    "L2 Compression Ratio": "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
    "L2 Compression Input Sectors": "lrc__ilc_input_sectors.sum",
}
"""What Memory Workload Analysis calls compression, where we know which counters those are: it varies with the chip."""

_BY_UNIT: Final = {
    ("Maximum Sampling Interval", "ns"): "profiler__pmsampler_interval_time",
    ("Maximum Sampling Interval", "cycle"): "profiler__pmsampler_interval_cycles",
}
"""A label of PM Sampling that is a time on some chips and a number of cycles on others."""

OVER_ELAPSED: Final = {
    f"{stem}.{_ACTIVE}": f"{stem}.{_PEAK}" for stem in ("sm__inst_issued", "sm__instruction_throughput")
}
"""Two labels changed their meaning: releases that also count spilling of local memory relate them to all cycles,
those before to the cycles in which the multiprocessor was active."""

TELLS_ELAPSED: Final = "derived__local_spilling_requests"


def metric_of(section: str, label: str, base_unit: str, capability: tuple[int, int] | None) -> str | None:
    """NVIDIA's name of the metric; None for a label that we do not know."""
    name = _LABELS.get(section, {}).get(label)
    if name is None and section == "PM Sampling":
        return _BY_UNIT.get((label, base_unit))
    if name is None and section == "Memory Workload Analysis" and capability == (9, 0):
        return _HOPPER.get(label)
    return name
