"""Perfetto traces as rocprofv3 and torch write them, made packet by packet."""

from __future__ import annotations

from pathlib import Path

from gpuledger.export.perfetto import integer, text

SDK_CLOCKS = text(1, text(6, text(1, integer(1, 6) + integer(2, 1000))) + integer(10, 1))
"""How traces of Perfetto's SDK begin."""
THREAD, QUEUE = 2**64 - 5, 12


def packet(content: bytes, sequence: int = 1) -> bytes:
    return text(1, integer(10, sequence) + content)


def named(kind: int, words: list[str], sequence: int = 1) -> bytes:
    """A packet that numbers texts from 1; what was numbered before counts on."""
    entries = b"".join(text(kind, integer(1, number) + text(2, word)) for number, word in enumerate(words, 1))
    return packet(text(12, entries), sequence)


def event(at: int, kind: int, track: int, *fields: bytes, sequence: int = 1) -> bytes:
    return packet(integer(8, at) + text(11, integer(9, kind) + integer(11, track) + b"".join(fields)), sequence)


def numbers(**values: int) -> bytes:
    """Annotations whose names are spelled out."""
    return b"".join(text(4, text(10, name) + integer(4, value)) for name, value in values.items())


def rocprofv3() -> bytes:
    """A launch and two kernels of one queue that overlap by 10 ns, which Perfetto's nesting cannot say; and a copy."""
    process = text(60, integer(1, 7) + text(3, integer(1, 42) + text(6, "bench")))
    thread = text(60, integer(1, THREAD) + integer(5, 7) + text(4, integer(1, 42) + integer(2, 43) + text(5, "main")))
    queue = text(60, integer(1, QUEUE) + integer(5, 7) + text(2, "COMPUTE AGENT [4] QUEUE [2] (GPU)"))

    def slices(start: int, end: int, track: int, category: int, name: int, *more: bytes, correlation: int) -> bytes:
        told = numbers(begin_ns=start, end_ns=end, corr_id=correlation)
        began = event(start, 1, track, integer(3, category), integer(10, name), told, *more)
        return began + event(end, 2, track)

    agent = text(4, text(10, "agent") + text(6, "Agent-4"))
    target = text(4, text(10, "dst_agent") + text(6, "Agent-4"))
    return b"".join(
        (
            SDK_CLOCKS,
            packet(integer(13, 1)),
            packet(process),
            packet(thread),
            packet(queue),
            named(1, ["hip_api", "kernel_dispatch", "memory_copy", "marker_api"]),
            named(2, ["hipLaunchKernel", "gemm", "MEMORY_COPY_HOST_TO_DEVICE", "step"]),
            slices(1000, 1900, THREAD, 4, 4, correlation=1),
            slices(1100, 1200, THREAD, 1, 1, correlation=2),
            slices(1300, 1400, QUEUE, 2, 2, agent, correlation=2),
            slices(1390, 1500, QUEUE, 2, 2, agent, correlation=3),
            slices(1600, 1700, QUEUE, 3, 3, target, numbers(copy_bytes=64), correlation=4),
        )
    )


def torch() -> bytes:
    """Two operators, one launch, and its kernel as a stage of GPU 1; ends of slices come after all beginnings."""
    thread = text(60, integer(1, 3) + text(4, integer(1, 42) + integer(2, 43)))

    def begins(at: int, category: int, name: int, *more: bytes) -> bytes:
        return event(at, 1, 3, integer(3, category), integer(10, name), *more)

    dims = b"".join(text(field, b"".join(integer(place, size) for place, size in enumerate(sizes, 1)))
                    for field, sizes in ((1, (8, 2, 1)), (2, (128, 1, 1))))  # fmt: skip
    told = {"device id": "1", "stream id": "7", "correlation": "5", "graph id": "2"}
    extra = b"".join(text(6, text(1, name) + text(2, value)) for name, value in told.items())
    stage = integer(1, 9) + integer(2, 250) + integer(11, 1) + integer(13, 100) + integer(14, 1) + integer(20, 4)
    copy = integer(1, 10) + integer(2, 50) + integer(11, 1) + integer(13, 100) + integer(14, 2)
    return b"".join(
        (
            packet(integer(8, 1000) + text(6, text(1, integer(1, 6) + integer(2, 1000)))),
            text(1, thread),
            packet(integer(13, 1)),
            named(1, ["cpu_op", "cuda_runtime"]),
            named(2, ["aten::mm", "aten::relu", "cudaLaunchKernel", "gemm<1>"]),
            named(24, ["Kernel", "Memcpy"]),
            begins(1000, 1, 1),
            begins(1100, 2, 3, numbers(correlation=5), text(3000, integer(1, 9))),
            begins(1200, 1, 2),
            *(event(end, 2, 3) for end in (1200, 1150, 1300)),
            packet(integer(8, 1400) + text(53, stage + extra + text(21, dims))),
            packet(integer(8, 1700) + text(53, copy + extra + text(6, text(1, "bytes") + text(2, "64")))),
        )
    )


def saved(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
