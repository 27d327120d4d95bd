"""Made profiles of JAX: an encoder of protocol buffers that is small enough to be right, and one run.

One GPU with a kernel and a copy on two streams, a line that shows the kernel again, the calls that launched them, two
numbered steps and a Python function on the host.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

KERNEL: Final = ("loop_fusion", 5_000, 9_000)
COPY: Final = ("MemcpyH2D", 1_000, 6_000)
BUSY_NS: Final = 8_000
_DETAILS: Final = "regs:32 static_shared:16 dynamic_shared:64 grid:4,2,1 block:256,1,1 occ_pct:50"
_BASE_NS: Final = 100


def number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def inside(field: int, content: bytes | str) -> bytes:
    held = content.encode() if isinstance(content, str) else content
    return _varint(field << 3 | 2) + _varint(len(held)) + held


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


class MadePlane:
    """One plane; texts get their numbers as they come."""

    def __init__(self, name: str, **own: Any) -> None:
        self._name, self._lines = name, list[bytes]()
        self._events: dict[str, int] = {}
        self._stats: dict[str, int] = {}
        self._own = b"".join(inside(6, self._stat(key, value)) for key, value in own.items())

    def _stat(self, name: str, value: object) -> bytes:
        kind = number(1, self._stats.setdefault(name, len(self._stats) + 1))
        if isinstance(value, int):
            return kind + number(3, value)
        text = str(value)
        if name.endswith("details"):  # a text of its own; others are named by number
            return kind + inside(5, text)
        return kind + number(7, self._stats.setdefault(text, len(self._stats) + 1))

    def line(self, name: str, *events: tuple[str, int, int, dict[str, Any]], number_of: int = 0) -> None:
        made = b"".join(
            inside(
                4,
                number(1, self._events.setdefault(text, len(self._events) + 1))
                + number(2, (start - _BASE_NS) * 1000)
                + number(3, (end - start) * 1000)
                + b"".join(inside(4, self._stat(key, value)) for key, value in stats.items()),
            )
            for text, start, end, stats in events
        )
        self._lines.append(inside(3, number(1, number_of) + inside(2, name) + number(3, _BASE_NS) + made))

    def encoded(self) -> bytes:
        named = [
            inside(field, number(1, place) + inside(2, number(1, place) + inside(2, text)))
            for field, texts in ((4, self._events), (5, self._stats))
            for text, place in texts.items()
        ]
        return inside(1, inside(2, self._name) + b"".join(self._lines) + b"".join(named) + self._own)


def gpu_plane() -> MadePlane:
    plane = MadePlane("/device:GPU:0", device_vendor="NVIDIA", core_count=132, compute_cap_major=9, compute_cap_minor=0)
    why = {"hlo_op": "fusion.3", "hlo_module": "jit_step"}
    plane.line("Stream #13(Compute)", (*KERNEL, {"correlation_id": 7, "kernel_details": _DETAILS, **why}))
    moved = {"correlation_id": 8, "memcpy_details": "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"}
    plane.line("Stream #14(MemcpyH2D)", (*COPY, moved))
    plane.line("XLA Ops", ("fusion.3", *KERNEL[1:], {}))
    return plane


def host_plane() -> MadePlane:
    plane = MadePlane("/host:CPU")
    plane.line(
        "python",
        ("train", 100, 4_000, {"step_num": 3}),
        ("train", 4_000, 9_500, {"step_num": 4}),
        ("$train.py:12 step", 150, 3_900, {}),
        ("cuMemcpyHtoDAsync_v2", 900, 950, {"correlation_id": 8}),
        ("cuLaunchKernel", 1_000, 1_100, {"correlation_id": 7}),
        number_of=77,
    )
    return plane


def xplane(path: Path, *planes: MadePlane) -> Path:
    """A profile of these planes; of the whole run without any."""
    chosen = planes or (
        gpu_plane(),
        host_plane(),
        MadePlane("Task Environment", profile_start_time=1_771_595_650 * 10**9),
    )
    path.write_bytes(b"".join(plane.encoded() for plane in chosen) + inside(4, "host"))
    return path
