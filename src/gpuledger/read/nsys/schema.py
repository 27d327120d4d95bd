"""How Nsight Systems names things, from 2020 to 2026. Data only: which table and column feeds which of ours.

nsys creates a table only when it has something to put in it, adds columns with almost every release, and now and
then renames a table by appending `_V2`, `_V3`. So a column is either required, and its table unusable without it,
or optional.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from gpuledger.regex import regex
from gpuledger.trace.tables import Table


class NsysTable(Struct, frozen=True, eq=False):
    """One table of an export. Both mappings go from our column to theirs."""

    name: str
    required: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)


_TIMES = {"start_ns": "start", "end_ns": "end"}
_ON_GPU = {
    "device": "deviceId",
    "context": "contextId",
    "stream": "streamId",
    "pid": "globalPid",
    "correlation": "correlationId",
}
_ON_THREAD = {"tid": "globalTid"}
LAUNCH_SIZES: Final = {f"{size}_{axis}": f"{size}{axis.upper()}" for size in ("grid", "block") for axis in "xyz"}

KERNEL: Final = NsysTable(
    "CUPTI_ACTIVITY_KIND_KERNEL",
    _TIMES | {"name": "demangledName"},
    _ON_GPU
    | {
        "short_name": "shortName",
        "mangled_name": "mangledName",
        **LAUNCH_SIZES,
        "registers": "registersPerThread",
        "smem_static_bytes": "staticSharedMemory",
        "smem_dynamic_bytes": "dynamicSharedMemory",
        "graph": "graphId",
        "graph_node": "graphNodeId",
    },
)
MEMCPY: Final = NsysTable(
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    _TIMES | {"bytes": "bytes", "kind": "copyKind"},
    _ON_GPU | {"src_kind": "srcKind", "dst_kind": "dstKind", "graph_node": "graphNodeId"},
)
MEMSET: Final = NsysTable(
    "CUPTI_ACTIVITY_KIND_MEMSET",
    _TIMES | {"bytes": "bytes"},
    _ON_GPU | {"dst_kind": "memKind", "graph_node": "graphNodeId"},
)
GRAPH: Final = NsysTable(
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _TIMES, _ON_GPU | {"graph": "graphId", "graph_exec": "graphExecId"}
)
RUNTIME: Final = NsysTable(
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    _TIMES | {"name": "nameId"},
    _ON_THREAD
    | {"correlation": "correlationId", "class": "eventClass", "result": "returnValue", "stack": "callchainId"},
)
OSRT: Final = NsysTable(
    "OSRT_API",
    _TIMES | {"name": "nameId"},
    _ON_THREAD | {"class": "eventClass", "result": "returnValue", "stack": "callchainId"},
)
CUBLAS: Final = NsysTable("CUBLAS_EVENTS", _TIMES | {"name": "nameId"}, _ON_THREAD | {"class": "eventClass"})
CUDNN: Final = NsysTable("CUDNN_EVENTS", _TIMES | {"name": "nameId"}, _ON_THREAD | {"class": "eventClass"})
NVTX: Final = NsysTable(
    "NVTX_EVENTS",
    {"start_ns": "start", "class": "eventType"},
    _ON_THREAD | {"end_ns": "end", "end_tid": "endGlobalTid", "name": "textId", "domain": "domainId"},
)
SYNC: Final = NsysTable("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", _TIMES | {"kind": "syncType"}, _ON_GPU)
ALLOC: Final = NsysTable(
    "CUDA_GPU_MEMORY_USAGE_EVENTS",
    {"start_ns": "start", "bytes": "bytes", "operation": "memoryOperationType"},
    _ON_GPU | {"address": "address", "memory_kind": "memKind"},
)
PROFILER_OVERHEAD: Final = NsysTable("PROFILER_OVERHEAD", _TIMES | {"name": "nameId"}, _ON_THREAD)
CUPTI_OVERHEAD: Final = NsysTable("CUPTI_ACTIVITY_KIND_OVERHEAD", _TIMES, _ON_THREAD | {"name": "nameId"})
SAMPLE: Final = NsysTable("COMPOSITE_EVENTS", {"start_ns": "start", "stack": "id"}, _ON_THREAD)
PYTHON_SAMPLE: Final = NsysTable(NVTX.name, {"start_ns": "start", "class": "eventType"}, _ON_THREAD)
"""nsys keeps its looks at Python's stack as NVTX marks."""
NCCL: Final = NsysTable(
    NVTX.name,
    {"start_ns": "start", "class": "eventType"},
    _ON_THREAD | {"end_ns": "end", "name": "textId", "domain": "domainId"},
)
"""NCCL describes its calls in the payloads of NVTX ranges."""
METRIC: Final = NsysTable(
    "GPU_METRICS", {"start_ns": "timestamp", "name": "metricId", "value": "value"}, {"hardware": "typeId"}
)

_MADE_FROM: Final = {
    **{size: tuple(f"{size}_{axis}" for axis in "xyz") for size in ("grid", "block")},
    "gpu": ("device", "pid"),
    "pid": ("pid", "tid"),
    "layer": ("class",),
}
"""Columns of ours that are not simply one of nsys's."""


def needed(table: Table, feeds: Iterable[NsysTable], wanted: frozenset[str]) -> frozenset[str]:
    """Which of the columns named in `feeds` have to be read for the columns `wanted` of one of our tables."""
    if table not in (Table.KERNELS, Table.CALLS):  # columns depend on each other, and are short beside those two's
        return frozenset(name for feed in feeds for name in (*feed.required, *feed.optional))
    # the class of a call is read in any case: it tells calls from marks
    return frozenset(name for column in wanted for name in _MADE_FROM.get(column, (column,))) | {"class"}


STRING_COLUMNS: Final = frozenset(("demangledName", "shortName", "mangledName", "nameId", "textId"))
"""Columns of the event tables that hold ids into StringIds."""

SMALL_COLUMNS: Final = STRING_COLUMNS | {*LAUNCH_SIZES.values(), "registersPerThread", "streamId", "correlationId"}
"""Those that have 32 bits in our tables: they are read as such where all values fit."""

NVTX_PUSH_POP: Final = (59, 70)
NVTX_START_END: Final = (60, 71)
NVTX_MARK: Final = (34, 65)
NVTX_DOMAIN: Final = 75

CLASS_RUNTIME: Final = 0
CLASS_DRIVER: Final = 1
CLASS_OS_CALL: Final = 27
CLASS_CUDNN_CALL: Final = 28
CLASS_CUBLAS_CALL: Final = 29

LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "ENUM_CUDA_MEMCPY_OPER": (
        *("Unknown", "Host-to-Device", "Device-to-Host", "Host-to-Array", "Array-to-Host", "Array-to-Array"),
        *("Array-to-Device", "Device-to-Array", "Device-to-Device", "Host-to-Host", "Peer-to-Peer"),
        *("Unified Host-to-Device", "Unified Device-to-Host", "Unified Device-to-Device"),
    ),
    "ENUM_CUDA_MEM_KIND": (
        *("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown"),
    ),
    "ENUM_CUPTI_SYNC_TYPE": ("Unknown", "Event sync", "Stream wait sync", "Stream sync", "Context sync"),
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": ("Allocation", "Deallocation"),
}
"""NVIDIA's numbering, for exports from before 2021, which did not bring it along."""

_VERSIONED = regex(r"(?P<base>.+)_V(?P<version>\d+)")


def actual_name(base: str, tables: Iterable[str]) -> str | None:
    """The name under which an export holds `base`: itself or its newest `_V2`, `_V3`; None if it is not there."""
    versions = [(1, name) for name in tables if name == base]
    matches = filter(None, map(_VERSIONED.fullmatch, tables))
    versions += [(int(match["version"]), match[0]) for match in matches if match["base"] == base]
    return max(versions, default=(0, None))[1]


_DESCRIPTIVE = regex(
    r"(ENUM|META_DATA|EXPORT_META_DATA|TARGET_INFO|NVTX_PAYLOAD|ANALYSIS|DIAGNOSTIC|sqlite)_?.*"
    r"|StringIds|PROCESSES|ProcessStreams|ThreadNames|UnwindMethodType|.*_CALLCHAINS"
)


def holds_events(table: str) -> bool:
    """Whether a table of an export records what happened, rather than describe names, hardware or the file itself."""
    return not _DESCRIPTIVE.fullmatch(table)
