"""What Nsight Compute wrote, or did not: reports cut and forged, and the CSV of `ncu --csv`."""

from __future__ import annotations

import lzma
import random
import struct
from functools import cache
from pathlib import Path

from hostile.files import Make, holding
from support.command import ROOT

HEAD = '"ID","Process ID","Process Name","Kernel Name","Context","Stream","Device","CC"'
DURATION = "gpu__time_duration.sum"
DRAM = "dram__bytes.sum.per_second"
_WHO = '"{id}","77","python","{name}","1","7","0","9.0"'


def row(*cells: str, id: str = "0", name: str = "gemm") -> str:  # noqa: A002
    """A launch, and further cells."""
    return ",".join([_WHO.format(id=id, name=name), *(f'"{cell}"' for cell in cells)])


def page(*lines: str, end: str = "\n", encoding: str = "utf-8", name: str = "a.csv") -> Make:
    """Text, line by line."""
    return holding("".join(line + end for line in lines).encode(encoding), name)


RAW = f'{HEAD},"{DURATION}","{DRAM}"'
UNITS = '"","","","","","","","","nsecond","byte/second"'
LONG = f'{HEAD},"Section Name","Metric Name","Metric Unit","Metric Value"'


def raw(*rows: str, units: str = UNITS) -> Make:
    """A raw page: names, units, launches."""
    return page(RAW, units, *rows)


def long(*rows: str) -> Make:
    """A page with a row per metric."""
    return page(LONG, *rows)


def metric(name: str, unit: str, value: str, *, id: str = "0") -> str:  # noqa: A002
    return row("Command line profiler metrics", name, unit, value, id=id)


CLEAN = raw(row("1,000", "2,000,000.5"), row("3,000", "4,000,000.5", id="1"))


@cache
def layer() -> bytes:
    """A real report of 13 launches."""
    return lzma.decompress((ROOT / "captures" / "ncu" / "layer.ncu-rep.xz").read_bytes())


def whole(folder: Path) -> Path:
    return holding(layer(), "a.ncu-rep")(folder)


def cut(share: float) -> Make:
    return lambda folder: holding(layer()[: int(len(layer()) * share)], "a.ncu-rep")(folder)


def rep(content: bytes) -> Make:
    return holding(b"NVR\0" + content, "a.ncu-rep")


def noise(folder: Path) -> Path:
    """A real report with its payloads overwritten: headers stay, what the library reads is noise."""
    content, source = bytearray(layer()), random.Random(5)
    for at in range(len(content) // 3, len(content), 211):
        content[at] = source.randrange(256)
    return holding(bytes(content), "a.ncu-rep")(folder)


def announcing(launches: int) -> bytes:
    """A block header that announces launches, and nothing behind it."""
    header = b"\x10" + _varint(launches) + b"\x28\x00"
    return struct.pack("<I", 2) + b"\x08\x01" + struct.pack("<I", len(header)) + header


def _varint(value: int) -> bytes:
    found = b""
    while value >= 128:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])
