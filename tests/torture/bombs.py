"""Small files that could cost much: each kind of bomb in a size, as a file that a reader takes for a profile.

A bomb is honest about its size: what it holds grows in proportion to `size`, and so must what it costs to read.
"""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from support.profiles import rocm_files, xplane_files
from support.profiles.nsys_exports import PID, call, insert, kernel, minimal, push


@dataclass(frozen=True, slots=True)
class Bomb:
    """One kind: what is put into a file, the verbs that meet it, and the size at which growth begins to show."""

    name: str
    put: Callable[[Path, int], Path]
    verbs: tuple[tuple[str, ...], ...]
    size: int


def _of_calls(path: Path, calls: list[dict[str, Any]], kernels: list[dict[str, Any]], **more: Any) -> Path:
    return minimal(path / "bomb.sqlite", KERNEL=kernels, RUNTIME=calls, **more)


def one_correlation(path: Path, size: int) -> Path:
    """Calls and kernels that all carry one id: every call pairs with every kernel."""
    kernels = [kernel(10 * at + 5, 10 * at + 9) for at in range(size)]
    return _of_calls(path, [call(10 * at, 10 * at + 2) for at in range(size)], kernels)


def one_correlation_torch(path: Path, size: int) -> Path:
    """The same in a trace of torch."""
    one = {"correlation": 7, "stream": 7, "device": 0}
    events = [
        event
        for at in range(size)
        for event in (
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10 * at, "dur": 2}
            | {"args": {"correlation": 7}},
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10 * at + 5, "dur": 4, "args": one},
        )
    ]
    target = path / "bomb.json.gz"
    target.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    return target


def one_correlation_amd(path: Path, size: int) -> Path:
    """The same in a database of rocprof."""
    names = ("BeginNs", "EndNs", "pid", "tid", "Name", "Index", "dev-id", "stream-id")
    calls = [(10 * at, 10 * at + 2, 1, 1, "hipLaunchKernel", 7, 0, 0) for at in range(size)]
    work = [(10 * at + 5, 10 * at + 9, 1, 1, "k", 7, 1, 1) for at in range(size)]
    tables = {"HIP": calls, "OPS": work}
    made = {table: [dict(zip(names, row, strict=True)) for row in rows] for table, rows in tables.items()}
    return rocm_files.database(path / "bomb.db", made)


def many_stats(path: Path, size: int) -> Path:
    """One event of a JAX profile with so many stats."""
    plane = xplane_files.MadePlane("/device:GPU:0")
    plane.line("Stream #1", ("k", 100, 200, {f"s{number}": number for number in range(size)}))
    return xplane_files.xplane(path / "bomb.pb", plane)


def nested_ranges(path: Path, size: int) -> Path:
    """Each range inside the one before, one kernel in the innermost."""
    ranges = [push(at, 4 * size - at, f"level {at}") for at in range(size)]
    return _of_calls(path, [call(2 * size, 2 * size + 1)], [kernel(2 * size + 5, 2 * size + 9)], NVTX=ranges)


def ranges_around_kernels(path: Path, size: int) -> Path:
    """Nested ranges, all around as many kernels: every range encloses every kernel."""
    ranges = [push(at, 40 * size - at, f"level {at}") for at in range(size)]
    calls = [call(size + 10 * at, size + 10 * at + 2, correlationId=at + 1) for at in range(size)]
    kernels = [kernel(size + 10 * at + 5, size + 10 * at + 9, correlationId=at + 1) for at in range(size)]
    return _of_calls(path, calls, kernels, NVTX=ranges)


def texts_of_one_place(count: int) -> list[str]:
    """Texts that a hash without a seed (FNV-1a, as sweep.c had it) puts into one stretch of its table."""
    places, least = 1 << (4 * count - 1).bit_length(), 0
    wanted: list[int] = []
    while len(wanted) < count:
        numbers = np.arange(least, least + (1 << 18))
        least += len(numbers)
        digits = (numbers[:, None] // 10 ** np.arange(11, -1, -1)) % 10 + ord("0")
        total = np.full(len(numbers), 12, np.uint64)
        for column in digits.T.astype(np.uint64):
            total = (total ^ column) * np.uint64(0x100000001B3)
        total *= np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(32)
        wanted += numbers[(total & np.uint64(places - 1)) < places // 64].tolist()
    return [f"{number:012}" for number in wanted[:count]]


def chosen_texts(path: Path, size: int) -> Path:
    """Ranges whose texts all fall on one place of a hash table without a seed."""
    ranges = [push(2 * at, 2 * at + 1, text) for at, text in enumerate(texts_of_one_place(size))]
    return _of_calls(path, [call(0, 1)], [kernel(5, 9)], NVTX=ranges)


def domains(path: Path, size: int) -> Path:
    """As many NVTX domains as ranges."""
    made = [push(0, None, f"domain {at}", eventType=75, domainId=at + 1) for at in range(size)]
    ranges = [push(2 * at, 2 * at + 1, "r", domainId=at + 1) for at in range(size)]
    return _of_calls(path, [call(0, 1)], [kernel(5, 9)], NVTX=made + ranges)


def labels(path: Path, size: int) -> Path:
    """An enumeration with as many labels as there are copies."""
    copies = [
        {"start": 2 * at, "end": 2 * at + 1, "globalPid": PID, "bytes": 8, "copyKind": at, "correlationId": 1}
        for at in range(size)
    ]
    made = _of_calls(path, [call(0, 1)], [kernel(5, 9)], MEMCPY=copies)
    with sqlite3.connect(made) as database:
        insert(database, "ENUM_CUDA_MEMCPY_OPER", [{"id": at, "label": f"label {at}"} for at in range(size)])
    database.close()
    return made


def names_without_index(path: Path, size: int) -> Path:
    """Kernels of as many names, whose table has no index to find them by."""
    made = _of_calls(
        path, [call(0, 1)], [kernel(2 * at, 2 * at + 1, demangledName=at, shortName=at) for at in range(size)]
    )
    with sqlite3.connect(made) as database:
        database.execute("DROP TABLE StringIds")
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(at, f"name {at}") for at in range(size)])
    database.close()
    return made


def threads(path: Path, size: int) -> Path:
    """A call, a range and a kernel on each of many threads."""
    calls = [call(10 * at, 10 * at + 2, correlationId=at, globalTid=PID | at + 1) for at in range(size)]
    ranges = [push(10 * at, 10 * at + 3, "r", globalTid=PID | at + 1) for at in range(size)]
    return _of_calls(
        path, calls, [kernel(10 * at + 5, 10 * at + 9, correlationId=at) for at in range(size)], NVTX=ranges
    )


def processes(path: Path, size: int) -> Path:
    """A call and a kernel in each of many processes."""
    pids = [PID + (at << 24) for at in range(size)]
    calls = [call(10 * at, 10 * at + 2, globalTid=pid | 1) for at, pid in enumerate(pids)]
    return _of_calls(path, calls, [kernel(10 * at + 5, 10 * at + 9, globalPid=pid) for at, pid in enumerate(pids)])


def streams(path: Path, size: int) -> Path:
    """A kernel on each of many streams, each in a context of its own."""
    calls = [call(10 * at, 10 * at + 2, correlationId=at) for at in range(size)]
    kernels = [kernel(10 * at + 5, 10 * at + 9, correlationId=at, streamId=at, contextId=at) for at in range(size)]
    return _of_calls(path, calls, kernels)


def long_name(path: Path, size: int) -> Path:
    """One kernel name of many bytes, full of what a name's pattern looks for."""
    made = _of_calls(path, [call(0, 1)], [kernel(5, 9)])
    with sqlite3.connect(made) as database:
        database.execute("UPDATE StringIds SET value = ? WHERE id = 1", ("void a<" + "(int)1, " * (size // 8),))
    database.close()
    return made


def members(path: Path, size: int) -> Path:
    """An archive of many small traces."""
    target = path / "bomb.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for at in range(size):
            content = b'{"traceEvents": []}'
            entry = tarfile.TarInfo(f"rank{at}.json")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return target


REPORT: Final = ("report", "FILE")
RANGES: Final = ("ranges", "FILE")
ALL_TABLES: Final = (
    "cuda_gpu_kern_sum,cuda_gpu_kern_gb_sum,cuda_api_sum,cuda_gpu_sum,cuda_api_gpu_sum,cuda_gpu_mem_time_sum,"
    "cuda_gpu_mem_size_sum,cuda_kern_exec_sum,nvtx_sum,nvtx_pushpop_sum,nvtx_gpu_proj_sum,nvtx_kern_sum,osrt_sum"
)
STATS: Final = ("stats", "FILE", f"--report={ALL_TABLES}")
INFO: Final = ("info", "FILE")

BOMBS: Final = (
    Bomb("one correlation id", one_correlation, (REPORT, STATS), 2_000),
    Bomb("one correlation id, torch", one_correlation_torch, (REPORT,), 2_000),
    Bomb("one correlation id, AMD", one_correlation_amd, (REPORT,), 2_000),
    Bomb("stats of one event, JAX", many_stats, (INFO,), 2_000),
    Bomb("nested ranges", nested_ranges, (RANGES, REPORT, STATS), 500),
    Bomb("ranges around kernels", ranges_around_kernels, (STATS, RANGES, REPORT), 1_000),
    Bomb("texts of one hash", chosen_texts, (INFO,), 20_000),
    Bomb("NVTX domains", domains, (INFO,), 5_000),
    Bomb("labels", labels, (INFO,), 5_000),
    Bomb("names without an index", names_without_index, (INFO,), 5_000),
    Bomb("threads", threads, (REPORT,), 1_000),
    Bomb("processes", processes, (REPORT,), 1_000),
    Bomb("streams", streams, (REPORT,), 1_000),
    Bomb("a long name", long_name, (REPORT, ("diff", "FILE", "FILE"), ("align", "FILE", "FILE")), 4_000),
    Bomb("members of an archive", members, (INFO, ("fleet", "FILE")), 100),
)
