"""Files that are whole and hold what cannot be, or what rarely is: times, devices, correlations."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from hostile.files import CALL, EVENTS, KERNEL, KERNEL_ARGS, Make, holding
from support.profiles.nsys_exports import PID, call, insert, kernel, minimal, push
from support.profiles.random_export import HOST

FAR = 2**63 - 1


def nsys(**tables: list[dict[str, Any]]) -> Make:
    """An export with these tables."""
    return lambda folder: minimal(folder / "a.sqlite", **tables)


def kernels(*spans: tuple[object, object], **more: Any) -> Make:
    """An export of kernels alone, each launched by a call of its own a little earlier."""
    made = [kernel(start, end, correlationId=at, **more) for at, (start, end) in enumerate(spans, 1)]
    return nsys(KERNEL=made, RUNTIME=[call(at, at + 1, correlationId=at) for at in range(1, len(made) + 1)])


def torch(*spans: tuple[object, object], **args: Any) -> Make:
    """The same as a trace of torch: start and length in microseconds."""
    made = [
        each
        for at, (start, length) in enumerate(spans, 1)
        for each in (
            CALL | {"ts": at, "dur": 1, "args": {"correlation": at}},
            KERNEL | {"ts": start, "dur": length, "args": KERNEL_ARGS | {"correlation": at} | args},
        )
    ]
    return holding(json.dumps({"traceEvents": made}).encode(), "a.json")


def ranks(*numbers: int | None, broken: bool = False) -> Make:
    """A folder with a trace for each rank, in this order; None for one that does not say which it is."""

    def make(folder: Path) -> Path:
        for at, number in enumerate(numbers):
            job = {} if number is None else {"distributedInfo": {"rank": number, "world_size": 3}}
            (folder / f"{at}.json").write_text(json.dumps(job | {"traceEvents": EVENTS}))
        if broken:
            (folder / "broken.json").write_bytes(b"{")
        return folder

    return make


def two_hosts(folder: Path) -> Path:
    """The same device id, process id and correlation on two hosts."""
    other = PID + HOST
    made = [kernel(10, 20), kernel(12, 30, globalPid=other)]
    calls = [call(1, 2), call(3, 4, globalTid=other | 100)]
    return minimal(folder / "a.sqlite", KERNEL=made, RUNTIME=calls)


def distinct_names(count: int) -> Make:
    """As many names as kernels."""

    def make(folder: Path) -> Path:
        path = minimal(folder / "a.sqlite", KERNEL=[kernel(1, 2)], RUNTIME=[call(0, 1)])
        numbers = f"WITH RECURSIVE n(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM n WHERE x < {count + 9}) "
        with sqlite3.connect(path) as database:
            database.execute(f"{numbers} INSERT INTO StringIds SELECT x, 'name number ' || x FROM n")
            database.execute(
                f"{numbers} INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, "
                "correlationId, globalPid, demangledName, shortName, registersPerThread, gridX, gridY, gridZ, blockX, "
                "blockY, blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, "
                f"gridId) SELECT x * 10, x * 10 + 7, 0, 1, 7, 1, {PID}, x, x, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0 FROM n"
            )
        database.close()
        return path

    return make


def nested_ranges(count: int) -> Make:
    """Each range inside the one before."""
    spans = [push(at, 3 * count - at, f"level {at}") for at in range(count)]
    return nsys(KERNEL=[kernel(count + 5, count + 9)], RUNTIME=[call(count + 1, count + 2)], NVTX=spans)


def graph_nodes(folder: Path) -> Path:
    """Kernels of a graph whose launch was not recorded."""
    made = [kernel(at, at + 5, correlationId=9, graphNodeId=at) for at in (10, 20, 30)]
    return minimal(folder / "a.sqlite", KERNEL=made, RUNTIME=[call(1, 2)])


def mig(folder: Path) -> Path:
    """Two instances of one GPU, which both call themselves device 0."""
    path = minimal(folder / "a.sqlite", KERNEL=[kernel(10, 20), kernel(12, 30, globalPid=PID + (1 << 24))])
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, isDiscrete INTEGER, "
            "uuid TEXT, smCount INTEGER, totalMemory INTEGER)"
        )
        for number in (0, 1):
            database.execute(
                "INSERT INTO TARGET_INFO_GPU VALUES (1, ?, 'NVIDIA H200 MIG 1g.18gb', '0000:17:00.0', 1, ?, 16, 18)",
                (number, f"MIG-{number}"),
            )
        database.execute("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT)")
        database.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 100, 'MIG-0'), (1, 0, 101, 'MIG-1')")
    database.close()
    return path


def only_copies(folder: Path) -> Path:
    copy = {"start": 10, "end": 20, "globalPid": PID, "bytes": 8, "copyKind": 1, "correlationId": 1, "streamId": 7}
    path = folder / "a.sqlite"
    minimal(path, RUNTIME=[call(1, 2)])
    with sqlite3.connect(path) as database:
        insert(database, "CUPTI_ACTIVITY_KIND_MEMCPY", [copy])
    database.close()
    return path


def cut_inside_a_kernel(folder: Path) -> Path:
    """The last kernel was still running: it has no end."""
    path = minimal(folder / "a.sqlite", RUNTIME=[call(1, 2)])
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, "
            "demangledName, shortName)"
        )
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
            f"VALUES (10, 20, 0, 7, 1, {PID}, 1, 1), (30, NULL, 0, 7, 1, {PID}, 1, 1)"
        )
    database.close()
    return path
