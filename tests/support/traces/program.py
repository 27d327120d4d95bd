"""A program that is run on paper: what its one host thread does in, the trace that a profiler would have made out.

    program = Program()
    for _ in range(10):
        with program.range("forward"):
            program.kernel("gemm", 40)
        program.read()          # waits for the device
    trace = program.trace()

or as text, with the loops of `trace_notation`: `programmed("10 times: range forward: kernel gemm 40; read")`.
Times are in microseconds. A launch returns after LAUNCH_US; a kernel runs when it is launched and its stream is free.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from msgspec.structs import replace

from gpuledger.trace.model import Gpu, Trace
from gpuledger.trace.tables import Table
from support.traces.trace_notation import TraceText, gpu_of, number, run, statements, with_health

LAUNCH_US = 5
LATENCY_US = 2


class Program:
    """One thread of one process on one GPU."""

    def __init__(self) -> None:
        self.now_us = 0
        self._free_us: dict[int, int] = {}
        self._kernels: list[tuple[int, int, int, int, str]] = []
        self._blocks: list[int] = []
        self._copies: list[tuple[int, int, int, int, str]] = []
        self._calls: list[tuple[int, int, str, int]] = []
        self._ranges: list[tuple[int, int, str]] = []
        self._usual_blocks = 0
        self._correlation = 0
        self._recording = True

    def host(self, us: int) -> None:
        """The host runs its own code."""
        self.now_us += us

    def kernel(self, name: str, us: int, *, stream: int = 7, blocks: int = 0) -> None:
        """A kernel is launched; 0 blocks: not recorded."""
        call = self._call("cudaLaunchKernel", LAUNCH_US)
        start, end = self._run(stream, us)
        if self._recording:
            self._kernels.append((start, end, stream, call, name))
            self._blocks.append(blocks)

    def read(self, us: int = 2, *, stream: int = 7) -> None:
        """A small result is copied to the host, which waits for it."""
        self._copy("Device-to-Host", us, stream)

    def write(self, us: int = 2, *, stream: int = 7) -> None:
        """A few numbers are copied from the host, which waits for that."""
        self._copy("Host-to-Device", us, stream)

    def _copy(self, kind: str, us: int, stream: int) -> None:
        began = self.now_us
        self.now_us += LAUNCH_US
        start, end = self._run(stream, us)
        self.now_us = began
        call = self._call("cudaMemcpyAsync", end + LATENCY_US - began)
        if self._recording:
            self._copies.append((start, end, stream, call, kind))

    def wait(self) -> None:
        """The host waits for all that it launched."""
        self._call("cudaDeviceSynchronize", max(*self._free_us.values(), self.now_us) + LATENCY_US - self.now_us)

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """What is done meanwhile lies in a range."""
        began = self.now_us
        yield
        if self._recording:
            self._ranges.append((began, self.now_us, name))

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """What is done meanwhile is not recorded: the profiler starts later."""
        self._recording = False
        yield
        self._recording = True

    def do(self, line: str) -> None:
        """A line of a program as text: `kernel gemm 40 blocks=8 stream=9`, `host 20`, `read`, `write 500`, `wait`."""
        verb, _, rest = line.partition(" ")
        named = {key: int(value) for key, value in re.findall(r" (blocks|stream)=(\d+)", f" {rest}")}
        words = re.sub(r" (blocks|stream)=\d+", "", f" {rest}").split(" ")[1:]
        us = [number(words.pop())] if words and re.fullmatch(r"\d+", words[-1]) else []
        if verb == "kernel":
            self.kernel(" ".join(words), *us, **{"blocks": self._usual_blocks, **named})
        elif verb == "blocks":
            [self._usual_blocks] = us
        elif verb == "call":
            self._call(" ".join(words), *us)
        elif verb in ("host", "read", "write", "wait"):
            getattr(self, verb)(*us, **named)
        else:
            raise ValueError(f"{verb!r} is none of kernel, host, read, write, wait, call, range, unrecorded, times")

    def within(self, header: str) -> AbstractContextManager[None]:
        """What stands around lines: `range forward`, `unrecorded`."""
        return self.range(header.removeprefix("range ")) if header.startswith("range ") else self.unrecorded()

    def _call(self, name: str, us: int) -> int:
        self._correlation += 1
        if self._recording:
            self._calls.append((self.now_us, self.now_us + us, name, self._correlation))
        self.now_us += us
        return self._correlation

    def _run(self, stream: int, us: int) -> tuple[int, int]:
        start = max(self.now_us + LATENCY_US, self._free_us.get(stream, 0))
        self._free_us[stream] = start + us
        return start, start + us

    def trace(self, gpu: Gpu | None = None) -> Trace:
        """What was recorded, on some GPU."""
        made = TraceText(1_000)
        made.rows = {
            Table.KERNELS: [
                dict(_work(*row), name=name, grid=(blocks, min(blocks, 1), min(blocks, 1)))
                for (*row, name), blocks in zip(self._kernels, self._blocks, strict=True)
            ],
            Table.COPIES: [dict(_work(*row), kind=kind) for *row, kind in self._copies],
            Table.CALLS: [
                {**_span(start, end), "name": name, "correlation": correlation, "layer": "runtime"}
                for start, end, name, correlation in self._calls
            ],
            Table.RANGES: [
                {**_span(start, end), "name": name, "kind": "push_pop"} for start, end, name in self._ranges
            ],
        }
        recorded = made.trace()
        return replace(recorded, origin=replace(recorded.origin, gpus=(gpu or Gpu("test GPU"),)))


def _span(start_us: int, end_us: int) -> dict[str, Any]:
    return {"start_ns": 1_000 * start_us, "end_ns": 1_000 * end_us}


def _work(start_us: int, end_us: int, stream: int, correlation: int) -> dict[str, Any]:
    return {**_span(start_us, end_us), "stream": stream, "correlation": correlation, "graph_node": -1}


def programmed(text: str, **known: Any) -> Trace:
    """The trace of a program as text, which may say its GPU, `gpu NVIDIA H200 sm_count=132`, and `health CODE`."""
    program = Program()
    about: dict[str, list[str]] = {"gpu": [], "health": []}

    def does(line: str, at_ns: int) -> None:
        word, _, rest = line.partition(" ")
        if word in about:
            about[word].append(rest)
        else:
            program.do(line)

    run(statements(text), does, program.within, {"unit_ns": 1_000, **known})
    return with_health(program.trace(*map(gpu_of, about["gpu"])), about["health"])
