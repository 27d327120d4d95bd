"""The file itself is odd: what lies at a path, and how the path is spelled."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.profiles.nsys_exports import call, kernel, minimal, push

Make = Callable[[Path], Path]
"""Makes the case in an empty folder and gives the path to open."""

KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 30.5, "dur": 4.25}
KERNEL_ARGS = {"device": 0, "context": 1, "stream": 7, "correlation": 5, "grid": [8, 2, 1], "block": [128, 1, 1]}
CALL = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 10, "ts": 20, "dur": 3}
OP = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 10, "ts": 10, "dur": 20}
EVENTS: list[dict[str, Any]] = [OP, CALL | {"args": {"correlation": 5}}, KERNEL | {"args": KERNEL_ARGS}]
JSON = json.dumps({"traceEvents": EVENTS}).encode()


def export(path: Path) -> Path:
    """The clean export that cases are compared with."""
    return minimal(
        path,
        KERNEL=[kernel(10, 20), kernel(30, 45, correlationId=2)],
        RUNTIME=[call(1, 5), call(6, 9, correlationId=2)],
        NVTX=[push(0, 50, "step")],
    )


def trace(path: Path) -> Path:
    """The clean trace that cases are compared with."""
    path.write_bytes(JSON)
    return path


def named(name: str | bytes) -> Make:
    """The clean export under an odd name."""

    def make(folder: Path) -> Path:
        path = folder / os.fsdecode(name)
        return export(folder / "plain.sqlite").rename(path)

    return make


def holding(content: bytes, name: str = "a.sqlite") -> Make:
    """A file with these bytes."""

    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def at(path: str) -> Make:
    """Something that every system has."""
    return lambda _folder: Path(path)


def missing(folder: Path) -> Path:
    export(folder / "run.sqlite")
    return folder / "rum.sqlite"


def below_a_file(folder: Path) -> Path:
    return export(folder / "a.sqlite") / "b.sqlite"


def no_permission(folder: Path) -> Path:
    path = export(folder / "a.sqlite")
    path.chmod(0)
    return path


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "a.sqlite")
    return folder / "a.sqlite"


def socket_file(folder: Path) -> Path:
    back = Path.cwd()
    os.chdir(folder)  # the name of a socket may have 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("a.sqlite")
    finally:
        os.chdir(back)
    return folder / "a.sqlite"


def link_loop(folder: Path) -> Path:
    (folder / "a.sqlite").symlink_to(folder / "b.sqlite")
    (folder / "b.sqlite").symlink_to(folder / "a.sqlite")
    return folder / "a.sqlite"


def dangling_link(folder: Path) -> Path:
    (folder / "a.sqlite").symlink_to(folder / "gone.sqlite")
    return folder / "a.sqlite"


def good_link(folder: Path) -> Path:
    (folder / "b.sqlite").symlink_to(export(folder / "a.sqlite"))
    return folder / "b.sqlite"


def folder_full_of_files(folder: Path) -> Path:
    for number in range(5000):
        (folder / f"{number}.json").touch()
    return folder


def sparse(content: bytes, size: int, name: str = "a.sqlite") -> Make:
    """Some bytes, then a hole."""

    def make(folder: Path) -> Path:
        with (folder / name).open("wb") as file:
            file.write(content)
            file.truncate(size)
        return folder / name

    return make


def sparse_export(folder: Path) -> Path:
    """A small export with five gigabytes of nothing behind it."""
    path = export(folder / "a.sqlite")
    os.truncate(path, 5 << 30)
    return path


def pages_beyond_4_gb(folder: Path) -> Path:
    """An export whose kernels lie at an offset that 32 bits cannot hold."""
    path, page, target = folder / "a.sqlite", 65536, 70_000
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA page_size = {page}")
        database.execute("VACUUM")
    database.close()
    export(path)
    with sqlite3.connect(path) as database:
        named_so = "name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
        [(root,)] = database.execute(f"SELECT rootpage FROM sqlite_master WHERE {named_so}")
        database.execute("PRAGMA writable_schema = 1")
        database.execute(f"UPDATE sqlite_master SET rootpage = {target} WHERE {named_so}")
    database.close()
    with path.open("r+b") as file:
        file.seek((root - 1) * page)
        kernels = file.read(page)
        file.seek((root - 1) * page)
        file.write(bytes(page))
        file.seek((target - 1) * page)
        file.write(kernels)
        file.seek(28)
        file.write(target.to_bytes(4, "big"))
    return path
