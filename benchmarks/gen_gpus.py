"""Write a small profile of very many GPUs: `gen_gpus.py OUT --gpus 500 --layout threads`, for what grows with GPUs.

OUT ending in .sqlite is an export of Nsight Systems, anything else a trace of torch.profiler. Each GPU runs a few
kernels on its streams, in steps with a copy and an all-reduce each. Who launches them: `one` thread for all GPUs, a
thread of the one process for each (`threads`), or a process for each (`processes`); with `bare` nobody does, and there
are no ranges. Equal arguments give equal bytes.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

LAYOUTS: Final = ("one", "threads", "processes", "bare")
PID: Final = 4000
HOST: Final = 1 << 48
NAMES: Final = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas",
    "softmax_warp_forward",
    "gelu_kernel",
)
NCCL: Final = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class Work:
    """A kernel, or where it has no name a copy, with the call that launched it."""

    gpu: int
    stream: int
    name: str
    start_ns: int
    length_ns: int
    called_ns: int
    pid: int
    tid: int


@dataclass(frozen=True)
class Range:
    """What a thread marks: a step, and its two halves."""

    name: str
    start_ns: int
    length_ns: int
    pid: int
    tid: int


def thread_of(gpu: int, layout: str) -> tuple[int, int]:
    """The process and the thread that launch a GPU's work."""
    if layout == "threads":
        return PID, PID + gpu
    return (PID + gpu, PID + gpu) if layout == "processes" else (PID, PID)


def job(gpus: int, kernels: int, layout: str, *, streams: int, steps: int) -> Iterator[Work | Range]:
    """All that happens, step by step; the GPUs of one thread get their work one after the other."""
    per_step, now_ns = max(kernels // steps, 3), 1_000_000_000
    call_ns, kernel_ns = 4_000, 30_000
    for step in range(steps):
        longest_ns = (gpus if layout == "one" else 1) * per_step * 2 * call_ns + per_step * kernel_ns + 200_000
        for gpu in range(gpus):
            pid, tid = thread_of(gpu, layout)
            called_ns = now_ns + (gpu * per_step * 2 * call_ns if layout == "one" else 40 * (gpu % 97))
            if layout != "bare" and (gpu == 0 or layout != "one"):
                half_ns = longest_ns // 2 - 100
                yield Range(f"ProfilerStep#{step}", now_ns - 1000, longest_ns - 1000, pid, tid)
                yield Range("forward", now_ns - 900, half_ns, pid, tid)
                yield Range("backward", now_ns - 800 + half_ns, half_ns - 2000, pid, tid)
            free_ns = dict.fromkeys(range(streams), 0)
            for kernel in range(per_step):
                stream = kernel % streams
                start_ns = max(called_ns + 6_000, free_ns[stream])
                length_ns = kernel_ns + 7 * ((gpu * 13 + kernel * 5 + step) % 101)
                is_last = kernel == per_step - 1
                name = NCCL if is_last else "" if kernel == 1 else NAMES[kernel % len(NAMES)]
                yield Work(gpu, 7 + stream, name, start_ns, length_ns, called_ns, pid, tid)
                free_ns[stream] = start_ns + length_ns + 900
                called_ns += 2 * call_ns
        now_ns += longest_ns


def torch_events(marked: Iterable[Work | Range], *, bare: bool) -> Iterator[dict[str, Any]]:
    """Events as Kineto writes them, times in microseconds."""
    for number, item in enumerate(marked, 1):
        times = {"ts": item.start_ns / 1000, "dur": item.length_ns / 1000}
        if isinstance(item, Range):
            yield {"ph": "X", "cat": "user_annotation", "name": item.name, "pid": item.pid, "tid": item.tid, **times}
            continue
        args = {"device": item.gpu, "stream": item.stream, "correlation": number}
        kind = ("kernel", item.name) if item.name else ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)")
        args |= {"grid": [64, 1, 1], "block": [128, 1, 1]} if item.name else {"bytes": 1 << 20}
        yield {"ph": "X", "cat": kind[0], "name": kind[1], "pid": item.gpu, "tid": item.stream, **times, "args": args}
        if not bare:
            called = {"ts": item.called_ns / 1000, "dur": 3.5, "args": {"correlation": number}}
            name = "cudaLaunchKernel" if item.name else "cudaMemcpyAsync"
            yield {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": item.pid, "tid": item.tid, **called}


def write_torch(path: Path, marked: Iterable[Work | Range], gpus: int, *, bare: bool) -> None:
    """One rank's file, with all GPUs in it."""
    properties = [{"id": gpu, "name": "NVIDIA H200", "totalGlobalMem": 150754820096, "computeMajor": 9,
                   "computeMinor": 0, "numSms": 132} for gpu in range(gpus)]  # fmt: skip
    events = ",\n".join(json.dumps(event) for event in torch_events(marked, bare=bare))
    head = {"schemaVersion": 1, "deviceProperties": properties, "baseTimeNanoseconds": 1700000000000000000}
    path.write_text(f'{json.dumps(head)[:-1]}, "traceEvents": [\n{events}\n]}}\n')


_WHERE: Final = "start end deviceId contextId streamId correlationId globalPid"
_BOARD: Final = "id name:TEXT busLocation:TEXT totalMemory memoryBandwidth clockRate smCount uuid:TEXT chipName:TEXT"
TABLES: Final = {
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_WHERE} demangledName shortName gridX gridY gridZ blockX blockY blockZ",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_WHERE} bytes copyKind srcKind dstKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue",
    "NVTX_EVENTS": "start end eventType globalTid textId domainId",
    "StringIds": "id value:TEXT",
    "TARGET_INFO_GPU": f"vmId {_BOARD} cuDevice computeMajor computeMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid:TEXT numMultiprocessors",
    "PROCESSES": "globalPid pid name:TEXT",
    "META_DATA_EXPORT": "name:TEXT value:TEXT",
}


def write_nsys(path: Path, marked: Iterable[Work | Range], gpus: int, layout: str) -> None:
    """An export with the tables that such a recording has."""
    codes = dict[str, int]()
    rows: dict[str, list[tuple[object, ...]]] = {table: [] for table in TABLES}
    for number, item in enumerate(marked, 1):
        process = HOST | item.pid << 24
        thread, end_ns = process | item.tid, item.start_ns + item.length_ns
        code = codes.setdefault(item.name, len(codes) + 1)
        if isinstance(item, Range):
            rows["NVTX_EVENTS"].append((item.start_ns, end_ns, 59, thread, code, 0))
            continue
        where = (item.start_ns, end_ns, item.gpu, 1, item.stream, number, process)
        if item.name:
            rows["CUPTI_ACTIVITY_KIND_KERNEL"].append((*where, code, code, 64, 1, 1, 128, 1, 1))
        else:
            rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append((*where, 1 << 20, 1, 1, 2))
        if layout != "bare":
            name = "cudaLaunchKernel_v7000" if item.name else "cudaMemcpyAsync_v3020"
            api = codes.setdefault(name, len(codes) + 1)
            called = (item.called_ns, item.called_ns + 3500, 0, thread, number, api, 0)
            rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(called)
    for gpu in range(gpus):
        pid, _ = thread_of(gpu, layout)
        bus, limits = f"0000:{gpu // 256:02x}:{gpu % 256:02x}.0", (150754820096, 4890000000000, 1980000000, 132)
        rows["TARGET_INFO_GPU"].append((0, gpu, "NVIDIA H200", bus, *limits, f"{gpu:x}", "GH100", gpu, 9, 0))
        rows["TARGET_INFO_CUDA_DEVICE"].append((gpu, gpu, pid, f"{gpu:x}", 132))
    processes = sorted({thread_of(gpu, layout)[0] for gpu in range(gpus)})
    rows["PROCESSES"] = [(HOST | pid << 24, pid, "python") for pid in processes]
    rows["StringIds"] = [(code, text) for text, code in codes.items()]
    rows["META_DATA_EXPORT"] = [("EXPORT_PRODUCT_VERSION", "2024.4.4.54"), ("EXPORT_SCHEMA_VERSION", "3.1.7")]
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    for table, columns in TABLES.items():
        named = [column.partition(":") for column in columns.split()]
        typed = ", ".join(f"{name} {kind or 'INTEGER'}" for name, _, kind in named)
        database.execute(f"CREATE TABLE {table} ({typed})")
        database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(named))})", rows[table])
    database.commit()
    database.close()


def write(
    path: Path, gpus: int, layout: str = "threads", *, kernels: int = 20, streams: int = 2, steps: int = 5
) -> Path:
    """A profile of so many GPUs."""
    marked = job(gpus, kernels, layout, streams=streams, steps=steps)
    if path.suffix == ".sqlite":
        write_nsys(path, marked, gpus, layout)
    else:
        write_torch(path, marked, gpus, bare=layout == "bare")
    return path


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--gpus", type=int, default=500)
    parser.add_argument("--layout", choices=LAYOUTS, default="threads")
    parser.add_argument("--kernels", type=int, default=20, help="Of each GPU.")
    parser.add_argument("--streams", type=int, default=2, help="Of each GPU.")
    parser.add_argument("--steps", type=int, default=5)
    asked = parser.parse_args()
    write(asked.out, asked.gpus, asked.layout, kernels=asked.kernels, streams=asked.streams, steps=asked.steps)


if __name__ == "__main__":
    main()
