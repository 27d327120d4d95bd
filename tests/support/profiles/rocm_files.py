"""One made run of an AMD program as each of AMD's profilers writes it: rocpd, rpd, results.db, JSON and CSV.

Two GPUs (agents 1 and 2 beside the CPU, agent 0); on the first, two kernels that overlap on two streams; a copy to
each; the calls that launched them; a roctx range around all of it.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

KERNELS: Final = (  # name, start, end, GPU, stream, correlation
    ("gemm(float*)", 1_000, 5_000, 0, 1, 11),
    ("softmax", 4_000, 6_000, 0, 2, 12),
    ("gemm(float*)", 9_000, 9_500, 1, 1, 13),
)
COPIES: Final = (  # direction, start, end, GPU, stream, correlation, bytes
    ("HOST_TO_DEVICE", 200, 900, 0, 1, 21, 4096),
    ("DEVICE_TO_HOST", 7_000, 7_100, 1, 1, 22, 64),
)
CALLS: Final = (  # name, start, end, correlation
    ("hipMemcpyAsync", 100, 150, 21),
    ("hipLaunchKernel", 300, 310, 11),
    ("hipLaunchKernel", 320, 330, 12),
    ("hipMemcpyAsync", 400, 410, 22),
    ("hipLaunchKernel", 500, 510, 13),
    ("hipDeviceSynchronize", 600, 9_600, 31),
)
RANGE: Final = ("step 1", 50, 9_700)
PID: Final = 4242
BUSY_NS: Final = {0: 700 + 5_000, 1: 100 + 500}
GPU: Final = "AMD Instinct MI300X"
_AGENT: Final[dict[str, Any]] = {"cu_count": 304, "product_name": GPU, "mem_banks": [{"size_in_bytes": 1 << 37}]}


def database(path: Path, tables: dict[str, list[dict[str, Any]]]) -> Path:
    """A database of these rows."""
    with closing(sqlite3.connect(path)) as made, made:
        for table, rows in tables.items():
            names = ", ".join(f'"{name}"' for name in rows[0])
            made.execute(f'CREATE TABLE "{table}" ({names})')
            made.executemany(
                f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(rows[0]))})', [(*row.values(),) for row in rows]
            )
    return path


def rocpd(path: Path, uuid: str = "_00000a10_7bc0_7bc0_a1ef_6b94d43555c0", pid: int = PID) -> Path:
    """A database of rocprofv3; more sets may be written into one file."""
    texts = ["KERNEL_DISPATCH", "MEMORY_COPY", "HIP_RUNTIME_API", "MARKER_CORE_API", "roctxThreadRangeA"]
    texts += [f"MEMORY_COPY_{copy[0]}" for copy in COPIES] + sorted({call[0] for call in CALLS})
    number = {text: place for place, text in enumerate(texts, 1)}
    names = sorted({kernel[0] for kernel in KERNELS})
    events: list[dict[str, Any]] = []

    def event(category: str, stack: int, extdata: str = "{}") -> int:
        events.append({"id": len(events) + 1, "category_id": number[category], "stack_id": stack, "extdata": extdata})
        return len(events)

    where = {"nid": 7, "pid": 70, "tid": 71}
    kernels = [
        {
            **where,
            "start": start,
            "end": end,
            "agent_id": gpu + 1,
            "kernel_id": names.index(name),
            "queue_id": 1,
            "stream_id": stream,
            "event_id": event("KERNEL_DISPATCH", stack),
            "group_segment_size": 96,
            **{f"grid_size_{axis}": 1000 for axis in "xyz"},
            **{f"workgroup_size_{axis}": 256 for axis in "xyz"},
        }
        for name, start, end, gpu, stream, stack in KERNELS
    ]
    copies = [
        {
            **where,
            "start": start,
            "end": end,
            "size": size,
            "queue_id": 0,
            "stream_id": stream,
            "dst_agent_id": gpu + 1 if way.startswith("H") else 0,
            "src_agent_id": 0 if way.startswith("H") else gpu + 1,
            "name_id": number[f"MEMORY_COPY_{way}"],
            "event_id": event("MEMORY_COPY", stack),
        }
        for way, start, end, gpu, stream, stack, size in COPIES
    ]
    regions = [
        {**where, "start": start, "end": end, "name_id": number[name], "event_id": event("HIP_RUNTIME_API", stack)}
        for name, start, end, stack in CALLS
    ]
    said = event("MARKER_CORE_API", 99, json.dumps({"message": RANGE[0]}))
    regions.append(
        {**where, "start": RANGE[1], "end": RANGE[2], "name_id": number["roctxThreadRangeA"], "event_id": said}
    )
    agents = [
        {"id": place, "nid": 7, "type": "GPU" if place else "CPU", "type_index": max(place - 1, 0)}
        for place in range(3)
    ]
    memory = {"nid": 7, "pid": 70, "level": "REAL", "address": 4096}
    tables: dict[str, list[dict[str, Any]]] = {
        "rocpd_metadata": [{"id": 1, "tag": "schema_version", "value": "3"}],
        "rocpd_string": [{"id": place, "string": text} for text, place in number.items()],
        "rocpd_info_node": [{"id": 7, "machine_id": "m"}],
        "rocpd_info_process": [{"id": 70, "nid": 7, "pid": pid, "command": "/x/train --lr 1"}],
        "rocpd_info_thread": [{"id": 71, "tid": 4243}],
        "rocpd_info_agent": [agent | {"product_name": GPU, "extdata": json.dumps(_AGENT)} for agent in agents],
        "rocpd_info_kernel_symbol": [
            {
                "id": place,
                "kernel_name": f"_Z{name}.kd",
                "display_name": name,
                "group_segment_size": 32,
                "arch_vgpr_count": 24,
                "accum_vgpr_count": 8,
            }
            for place, name in enumerate(names)
        ],
        "rocpd_event": events,
        "rocpd_kernel_dispatch": kernels,
        "rocpd_memory_copy": copies,
        "rocpd_region": regions,
        "rocpd_memory_allocate": [
            {**memory, "start": 60, "type": "ALLOC", "agent_id": 1, "size": 1 << 20},
            {**memory, "start": 9_650, "type": "FREE", "agent_id": None, "size": 0},
        ],
        "rocpd_info_pmc": [{"id": 5, "name": "SQ_WAVES"}],
        "rocpd_pmc_event": [{"event_id": 1, "pmc_id": 5, "value": value} for value in (3.0, 4.0)],
    }
    return database(path, {name + uuid: rows for name, rows in tables.items()})


def rpd(path: Path) -> Path:
    """A database of rocmProfileData."""
    texts = [
        "",
        "KernelExecution",
        "CopyHostToDevice",
        "CopyDeviceToHost",
        "UserMarker",
        RANGE[0],
        "OpTable::writeRows",
    ]
    texts += sorted({row[0] for row in (*KERNELS, *CALLS)})
    number = {text: place for place, text in enumerate(texts, 1)}
    thread = {"pid": PID, "tid": 4243}
    api = [
        {"id": stack, **thread, "start": start, "end": end, "apiName_id": number[name], "args_id": 1}
        for name, start, end, stack in CALLS
    ]
    api.append(
        {
            "id": 1,
            **thread,
            "start": RANGE[1],
            "end": RANGE[2],
            "apiName_id": number["UserMarker"],
            "args_id": number[RANGE[0]],
        }
    )
    api.append(
        {"id": 2, **thread, "start": 9_800, "end": 9_900, "apiName_id": number["OpTable::writeRows"], "args_id": 1}
    )
    done: list[tuple[Any, ...]] = [
        ("KernelExecution", name, start, end, gpu, stream, stack) for name, start, end, gpu, stream, stack in KERNELS
    ]
    done += [("Copy" + way.title().replace("_", ""), "", *rest) for way, *rest, _ in COPIES]
    ops = [
        {
            "id": place,
            "gpuId": gpu + 2,
            "queueId": stream,
            "start": start,
            "end": end,
            "description_id": number[name],
            "opType_id": number[kind],
        }
        for place, (kind, name, start, end, gpu, stream, _) in enumerate(done)
    ]
    sizes = {f"grid{axis}": 1000 for axis in "XYZ"} | {f"workgroup{axis}": 256 for axis in "XYZ"}
    tables: dict[str, list[dict[str, Any]]] = {
        "rocpd_metadata": [{"id": 1, "tag": "schema_version", "value": "2"}],
        "rocpd_string": [{"id": place, "string": text} for text, place in number.items()],
        "rocpd_api": api,
        "rocpd_op": ops,
        "rocpd_api_ops": [{"api_id": row[-1], "op_id": place} for place, row in enumerate(done)],
        "rocpd_kernelapi": [{"api_ptr_id": row[5], **sizes, "groupSegmentSize": 96} for row in KERNELS],
        "rocpd_copyapi": [{"api_ptr_id": row[5], "size": row[6]} for row in COPIES],
        "rocpd_monitor": [{"deviceId": 2, "monitorType": "sclk", "start": 0, "end": 9_000, "value": "1450"}],
    }
    return database(path, tables)


def results_db(path: Path) -> Path:
    """A database of rocprof, the first of AMD's profilers."""
    where = {"pid": PID, "tid": 4243}
    tables: dict[str, list[dict[str, Any]]] = {
        "HIP": [
            {"BeginNs": start, "EndNs": end, **where, "Name": name, "Index": stack} for name, start, end, stack in CALLS
        ],
        "rocTX": [{"BeginNs": RANGE[1], "EndNs": RANGE[2], **where, "Name": RANGE[0], "Index": 1}],
        "OPS": [
            {
                "BeginNs": start,
                "EndNs": end,
                "dev-id": gpu + 2,
                "queue-id": 0,
                "Name": name,
                **where,
                "stream-id": stream,
                "Index": stack,
            }
            for name, start, end, gpu, stream, stack in KERNELS
        ],
        "COPY": [
            {
                "BeginNs": start,
                "EndNs": end,
                "dev-id": gpu + 2,
                "queue-id": 0,
                **where,
                "Name": "Copy" + way.title().replace("_", ""),
                "stream-id": stream,
                "Index": stack,
            }
            for way, start, end, gpu, stream, stack, _ in COPIES
        ],
        "KERN": [{"Index": 1, "KernelName": "gemm"}],
    }
    return database(path, tables)


def rocprof_json(path: Path) -> Path:
    """JSON of rocprofv3."""
    names = sorted({kernel[0] for kernel in KERNELS})
    calls = sorted({call[0] for call in CALLS})
    ways = [f"MEMORY_COPY_{copy[0]}" for copy in COPIES]

    def record(kind: int, operation: int, start: int, end: int, stack: int, **more: Any) -> dict[str, Any]:
        times = {"start_timestamp": start, "end_timestamp": end, "correlation_id": {"internal": stack, "external": 0}}
        return {"kind": kind, "operation": operation, "thread_id": 4243, **times, **more}

    def handle(number: int) -> dict[str, int]:
        return {"handle": number}

    sizes = {"grid_size": dict.fromkeys("xyz", 1000), "workgroup_size": dict.fromkeys("xyz", 256)}
    kernels = [
        record(
            *(3, 0, start, end, stack),
            stream_id=handle(stream),
            dispatch_info={
                "agent_id": handle(900 + gpu),
                "queue_id": handle(1),
                "kernel_id": names.index(name),
                "group_segment_size": 96,
                **sizes,
            },
        )
        for name, start, end, gpu, stream, stack in KERNELS
    ]
    copies = [
        record(
            *(2, place, start, end, stack),
            bytes=size,
            stream_id=handle(stream),
            dst_agent_id=handle(900 + gpu if way.startswith("H") else 899),
            src_agent_id=handle(899 if way.startswith("H") else 900 + gpu),
        )
        for place, (way, start, end, gpu, stream, stack, size) in enumerate(COPIES)
    ]
    process = {
        "metadata": {"pid": PID, "command": ["/x/train", "--lr", "1"]},
        "agents": [
            {"id": handle(899 + place), "type": 2 if place else 1, "logical_node_type_id": max(place - 1, 0), **_AGENT}
            for place in range(3)
        ],
        "counters": [{"id": handle(5), "name": "SQ_WAVES"}],
        "strings": {
            "buffer_records": [
                {"kind": "NONE", "operations": []},
                {"kind": "HIP_RUNTIME_API", "operations": calls},
                {"kind": "MEMORY_COPY", "operations": ways},
                {"kind": "KERNEL_DISPATCH", "operations": [""]},
                {"kind": "MARKER_CORE_API", "operations": ["roctxThreadRangeA"]},
                {"kind": "MEMORY_ALLOCATION", "operations": ["MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE"]},
            ],
            "marker_api": [{"key": 99, "value": RANGE[0]}],
        },
        "kernel_symbols": [
            {
                "kernel_id": place,
                "kernel_name": f"_Z{name}.kd",
                "formatted_kernel_name": name,
                "group_segment_size": 32,
                "arch_vgpr_count": 24,
                "accum_vgpr_count": 8,
            }
            for place, name in enumerate(names)
        ],
        "buffer_records": {
            "kernel_dispatch": kernels,
            "memory_copy": copies,
            "hip_api": [record(1, calls.index(name), start, end, stack) for name, start, end, stack in CALLS],
            "marker_api": [record(4, 0, RANGE[1], RANGE[2], 99)],
            "memory_allocation": [
                record(5, 0, 60, 61, 0, agent_id=handle(900), address="0x1000", allocation_size=1 << 20),
                record(5, 1, 9_650, 9_651, 0, agent_id=handle(0), address="0x1000", allocation_size=0),
            ],
        },
        "callback_records": {
            "counter_collection": [
                {
                    "dispatch_data": {"dispatch_info": {"agent_id": handle(900)}, "end_timestamp": 5_000},
                    "records": [{"counter_id": handle(5), "value": value} for value in (3.0, 4.0)],
                }
            ]
        },
    }
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}, indent=1))
    return path


def rocprof_csv(path: Path) -> Path:
    """CSV of rocprofv3: the file of kernels, and beside it those of copies, calls, markers and agents."""
    run = path.parent / "run"
    sizes = {f"{size}_Size_{axis}": number for size, number in (("Workgroup", 256), ("Grid", 1000)) for axis in "XYZ"}
    times = ("Correlation_Id", "Start_Timestamp", "End_Timestamp")
    kernels = [
        {
            "Kind": "KERNEL_DISPATCH",
            "Agent_Id": f"Agent {gpu + 1}",
            "Queue_Id": 1,
            "Stream_Id": stream,
            "Dispatch_Id": 1,
            "Kernel_Name": name,
            **dict(zip(times, (stack, start, end), strict=True)),
            "LDS_Block_Size": 96,
            "VGPR_Count": 24,
            "Accum_VGPR_Count": 8,
            **sizes,
        }
        for name, start, end, gpu, stream, stack in KERNELS
    ]
    copies = [
        {
            "Kind": "MEMORY_COPY",
            "Direction": f"MEMORY_COPY_{way}",
            "Stream_Id": stream,
            "Source_Agent_Id": "Agent 0" if way.startswith("H") else f"Agent {gpu + 1}",
            "Destination_Agent_Id": f"Agent {gpu + 1}" if way.startswith("H") else "Agent 0",
            **dict(zip(times, (stack, start, end), strict=True)),
        }
        for way, start, end, gpu, stream, stack, _ in COPIES
    ]
    own = {"Process_Id": PID, "Thread_Id": 4243}
    calls = [
        {"Domain": "HIP_RUNTIME_API", "Function": name, **own, **dict(zip(times, (stack, start, end), strict=True))}
        for name, start, end, stack in CALLS
    ]
    marker = {
        "Domain": "MARKER_CORE_API",
        "Function": RANGE[0],
        **own,
        **dict(zip(times, (99, *RANGE[1:]), strict=True)),
    }
    agents = [
        {"Node_Id": place, "Agent_Type": "GPU" if place else "CPU", "Cu_Count": 304, "Product_Name": GPU}
        for place in range(3)
    ]
    files: dict[str, list[dict[str, Any]]] = {
        "memory_copy_trace": copies,
        "hip_api_trace": calls,
        "marker_api_trace": [marker],
        "agent_info": agents,
    }
    for name, rows in files.items():
        Path(f"{run}_{name}.csv").write_text(_csv(rows))
    made = Path(f"{run}_kernel_trace.csv")
    made.write_text(_csv(kernels))
    return made


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


MADE: Final = {"rocpd": rocpd, "rpd": rpd, "results.db": results_db, "json": rocprof_json, "csv": rocprof_csv}
