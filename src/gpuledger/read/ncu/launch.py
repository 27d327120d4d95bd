"""What the readers of Nsight Compute share: metrics and texts of one launch in, `Profiled` out.

A number comes with its unit, and is kept in base units. What `ncu --page details` calls by a section and a label is
kept under NVIDIA's own name of the metric.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.catalog.ncu_metrics import is_used
from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.read.request import counted
from gpuledger.trace.measured import Dim3, Profiled
from gpuledger.trace.model import Note

_LINK_FIRST: Final = re.compile(r"@url:([^:@]*):[^@]*@")
_LINK_LAST: Final = re.compile(r"@(?:section|sass|source):(?:[^@]*:)?([^:@]*)@")
_ADDRESS: Final = re.compile(r"\s*\(https?://[^\s)]*\)|\s*\bhttps?://\S+")
_OF_NO_USE: Final = re.compile(r"^breakdown:|^pmsampling:|Triage|pcsamp")


class NcuLaunches(Struct, frozen=True):
    """What one file held."""

    launches: tuple[Profiled, ...]
    health: tuple[Note, ...] = ()
    tool_version: str | None = None


def is_wanted(metric: str, every_metric: bool) -> bool:
    """Whether a metric is read: those that an analysis may look at, or all that mean one number."""
    return (every_metric or is_used(metric)) and not _OF_NO_USE.search(metric)


def completed(launch: Profiled) -> Profiled:
    """The same launch; what the report does not say besides its metrics is taken from those where they do."""
    metrics = launch.metrics
    major, minor = (_whole(metrics, f"device__attribute_compute_capability_{part}") for part in ("major", "minor"))
    return replace(
        launch,
        grid=launch.grid or _size(metrics, "grid"),
        block=launch.block or _size(metrics, "block"),
        context=_first(launch.context, _whole(metrics, "launch__context_id")),
        stream=_first(launch.stream, _whole(metrics, "launch__stream_id")),
        device=_first(
            launch.device, _whole(metrics, "launch__device_id"), _whole(metrics, "device__attribute_device_index")
        ),
        compute_capability=launch.compute_capability or (None if major is None or minor is None else (major, minor)),
    )


def plain(message: str) -> str:
    """A rule's message without its links: `@url:Guide:https://…@` and `Guide (https://…)` become `Guide`."""
    return _ADDRESS.sub("", _LINK_LAST.sub(r"\1", _LINK_FIRST.sub(r"\1", message))).strip()


def shown(text: str) -> str:
    """Text out of a file as it may stand in a sentence of ours: short, and nothing that a terminal obeys."""
    return "".join(letter if letter.isprintable() else "." for letter in text[:200])


def unit_refused(file: str, metric: str, unit: str) -> GpuledgerError:
    """The refusal of a file that gives a number we need in a unit that we do not know."""
    return UnreadableProfile(
        f"{file}: {shown(metric)} is given in '{shown(unit)}', a unit that gpuledger does not know",
        hint="print the values in base units: `ncu --import FILE --csv --page raw --print-units base`",
    )


def unit_notes(file: str, unknown: Mapping[str, int]) -> list[Note]:
    """Says which units are not known, for numbers that nothing depends on."""
    return [
        note
        for unit, count in sorted(unknown.items())
        for note in counted("units-unknown", count, file=file, unit=shown(unit))
    ]


def _size(metrics: Mapping[str, float], what: str) -> Dim3 | None:
    x, y, z = (_whole(metrics, f"launch__{what}_dim_{axis}") or 0 for axis in "xyz")
    return (x, y, z) if min(x, y, z) > 0 else None


def _whole(metrics: Mapping[str, float], name: str) -> int | None:
    value = metrics.get(name)
    return None if value is None or value != int(value) else int(value)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


_NS_EXPONENT: Final = {"ns": 0, "us": 3, "ms": 6, "s": 9, "nsecond": 0, "usecond": 3, "msecond": 6, "second": 9}
_PREFIXES: Final = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "m": -3, "u": -6, "n": -9}
_BYTES: Final = re.compile(r"(?P<prefix>[KMGTP]?)bytes?", re.IGNORECASE)
_SHORT_BYTES: Final = re.compile(r"(?P<prefix>[KkMGTP]?)B")
_HERTZ: Final = re.compile(r"(?P<prefix>[KMGT]?)hz", re.IGNORECASE)
_COUNTS: Final = frozenset(
    (
        *("block", "branch", "branches", "cluster", "cycle", "inst", "pass", "register", "request"),
        *("sample", "sector", "SM", "thread", "warp", "wavefront"),
        *("cta", "event", "flop", "instruction", "lookup", "op", "operation", "packet"),
        *("page", "pixel", "primitive", "quad", "query", "slot", "tag", "transaction"),
    )
)
"""Things that NVIDIA counts: first those that we have seen in reports, then those that its lists of metrics name."""
_PREFIXED: Final = re.compile(r"(?P<prefix>[KkMGTPmun])(?P<thing>\w+)")


class UnknownUnit(ValueError):
    """A unit that is none of those that we know; the number beside it means nothing to us."""


def scaled(value: float, exponent: int) -> float:
    """`value` times a power of ten; dividing by a whole power keeps digits that multiplying by 0.01 loses."""
    return value * 10.0**exponent if exponent >= 0 else value / 10.0**-exponent


@lru_cache(maxsize=4096)
def scale(unit: str) -> tuple[int, str]:
    """The power of ten that leads to the base unit, and that unit."""
    top, slash, bottom = unit.strip().partition("/")
    if not slash:
        return (0, "") if not top else (-2, "share") if top == "%" else _simple(top, unit)
    exponent, base = (0, "%") if top == "%" else _simple(top, unit)
    if bottom in _NS_EXPONENT:
        per_second = exponent + 9 - _NS_EXPONENT[bottom]
        return per_second, "hz" if base == "cycle" else f"{base}/s"
    below, base_below = _simple(bottom, unit)
    return exponent - below, f"{base}/{base_below}"


def _simple(word: str, unit: str) -> tuple[int, str]:
    if _is_count(word):
        return 0, word
    if word in _NS_EXPONENT:
        return _NS_EXPONENT[word], "ns"
    for pattern, base in ((_BYTES, "byte"), (_SHORT_BYTES, "byte"), (_HERTZ, "hz")):
        if match := pattern.fullmatch(word):
            return _PREFIXES[match["prefix"].upper()], base  # nobody means a thousandth of a byte by mbyte
    match = _PREFIXED.fullmatch(word)
    if match and _is_count(match["thing"]):
        return _PREFIXES[match["prefix"]], match["thing"]
    raise UnknownUnit(unit)


def _is_count(word: str) -> bool:
    """Whether this is a thing that is counted, one or several of them."""
    return word in _COUNTS or word.removesuffix("s") in _COUNTS


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
