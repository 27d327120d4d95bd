"""Presets of `capture nsys`: names in, the flags of `nsys profile` out, each with the reason why it is there.

Every flag that matters is written out, so that a command records the same whatever the defaults of the nsys that runs
it. Presets can be joined: the flags of a later one win, and what they trace is put together.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.errors import GpuledgerError


@dataclass(frozen=True, slots=True)
class Flag:
    """One option of the tool, and why it is given."""

    name: str
    value: str
    why: str

    @property
    def argument(self) -> str:
        return f"--{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class Preset:
    """What a preset is for, and what it changes."""

    purpose: str
    flags: tuple[Flag, ...] = ()


BASE: Final = (
    Flag("trace", "cuda,nvtx,osrt", "kernels, copies and CUDA calls; your ranges; where the operating system blocks"),
    Flag("sample", "none", "CPU sampling writes gigabytes, and answers other questions"),
    Flag("cpuctxsw", "none", "context switches need rights that containers lack, and answer other questions"),
    Flag("cuda-graph-trace", "graph", "a CUDA graph is one record: cheap, but what runs inside stays unseen"),
    Flag("cuda-memory-usage", "false", "allocations are not recorded: that slows every one of them"),
    Flag("stats", "false", "gpuledger reads the profile; nsys need not print tables"),
)
"""What every preset begins with."""

NODES: Final = Flag("cuda-graph-trace", "node", "each kernel inside a CUDA graph is a record of its own")
MEMORY: Final = Flag("cuda-memory-usage", "true", "every allocation and release of GPU memory is a record")

GPU_METRICS: Final = (
    Flag("gpu-metrics-devices", "all", "what each kernel uses of the GPU: SMs, tensor cores, DRAM, sampled"),
    Flag("gpu-metrics-frequency", "20000", "20,000 samples a second: one every 50 us"),
)
"""What --gpu-metrics adds."""

PRESETS: Final = {
    "launch": Preset("a short program from its start to its end, every launch"),
    "steady": Preset(
        "only what the program runs between cudaProfilerStart and cudaProfilerStop: no loading, no warm-up",
        (
            Flag("capture-range", "cudaProfilerApi", "recording begins where the program calls cudaProfilerStart"),
            Flag("capture-range-end", "stop", "it ends at cudaProfilerStop, and the program runs on"),
        ),
    ),
    "decode": Preset(
        "decoding by a language model: library calls, memory, the kernels inside CUDA graphs",
        (
            Flag("trace", "cuda,nvtx,cublas", "CUDA, your ranges, cuBLAS calls; no OS calls, which containers forbid"),
            MEMORY,
            NODES,
        ),
    ),
    "server": Preset(
        "a stretch of a server that runs: after --delay for --duration, or piece by piece with --session",
        (NODES,),
    ),
    "multi": Preset("a job of several ranks, one report per rank: nsys goes behind torchrun, mpirun or srun"),
    "memory": Preset("who allocates, how much, and the peak", (MEMORY,)),
    "graph": Preset("programs that replay CUDA graphs: the kernels inside them", (NODES,)),
}
"""Every preset by its name."""

TRACES: Final = (
    *("cuda", "cuda-hw", "cuda-sw", "nvtx", "osrt", "cublas", "cublas-verbose", "cudnn", "cusparse"),
    *("cusparse-verbose", "cusolver", "cusolver-verbose", "mpi", "ucx", "oshmem", "nvvideo", "gds", "opengl"),
    *(
        "opengl-annotations",
        "vulkan",
        "vulkan-annotations",
        "openacc",
        "openmp",
        "opencl",
        "openxr",
        "tegra-accelerators",
    ),
    *("syscall", "python-gil", "none"),
)
"""What nsys can trace. A newer one may know more: an unknown name is only refused if it is nearly one of these."""

OURS: Final = ("output", "force-overwrite", "session", "session-new", "export", "delay", "duration")
"""Flags that have options of their own here."""

_FLAG: Final = re.compile(r"[a-z][a-z0-9-]*")


def joined(presets: Iterable[str]) -> tuple[Flag, ...]:
    """The flags of these presets together, in the order of the first mention."""
    flags = {flag.name: flag for flag in BASE}
    traced: list[Flag] = []
    for name in presets:
        for flag in PRESETS[name].flags:
            if flag.name == "trace":
                traced.append(flag)
            flags[flag.name] = flag
    if len(traced) > 1:
        every = ",".join(dict.fromkeys(each for flag in traced for each in flag.value.split(",")))
        flags["trace"] = Flag("trace", every, "; ".join(dict.fromkeys(flag.why for flag in traced)))
    return tuple(flags.values())


def changed(flags: Sequence[Flag], settings: Iterable[str]) -> tuple[Flag, ...]:
    """The flags with the user's `FLAG=VALUE` in place of, or after, those of the presets."""
    found = {flag.name: flag for flag in flags}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.removeprefix("--")
        if not equals or not _FLAG.fullmatch(name):
            raise GpuledgerError(f"--set={setting}: expected FLAG=VALUE, e.g. --set=cuda-graph-trace=node")
        if name in OURS:
            instead = {"output": "-o", "force-overwrite": "--force", "session-new": "--session"}.get(name, f"--{name}")
            raise GpuledgerError(f"--set={setting}: gpuledger sets --{name} itself", hint=f"use {instead}")
        found[name] = Flag(name, value, "asked for with --set")
    return tuple(found.values())


def traced(listed: str) -> str:
    """What --trace lists, checked: nsys would say that a name is wrong only after a minute of loading."""
    names = tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))
    if not names:
        raise GpuledgerError("--trace names nothing", hint="e.g. --trace=cuda,nvtx,osrt")
    for name in names:
        if name not in TRACES and (close := difflib.get_close_matches(name, TRACES, n=1, cutoff=0.7)):
            raise GpuledgerError(f"--trace: nsys traces no {name!r}: did you mean {close[0]}?")
    return ",".join(names)


def value_of(flags: Iterable[Flag], name: str) -> str:
    """What a flag is set to; nothing if it is not given."""
    return next((flag.value for flag in flags if flag.name == name), "")
