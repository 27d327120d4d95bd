"""Programs with one planted line each: a report of the bad variant should name that very file and line.

The line is marked `# planted: PROGRAM`, here or in `lines_helpers`; `python -m lab.programs.paired.lines` prints all.
It was written down before a program ran for the first time. Every step gives the GPU about a millisecond of work, and
then loses some in the planted line. On a CPU they run at a small size, to show that they run and are sampled.
"""

from __future__ import annotations

import ctypes
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]
from torch.utils.data import DataLoader, Dataset  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from lab.programs.paired import BF16, PairedProgram, Step, pair, pinned, sized
from lab.programs.paired import lines_helpers as helpers

FILES = ("lines.py", "lines_helpers.py")


def planted() -> dict[str, tuple[str, int]]:
    """The file and the line that each program should be told."""
    found = {}
    for name in FILES:
        for number, line in enumerate(Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines(), 1):
            if match := re.search(r"# planted: (\w+)$", line):
                found[match[1]] = (name, number)
    return found


class Work:
    """About a millisecond of multiplications, launched in far less."""

    def __init__(self, device: str, kernels: int = 40) -> None:
        torch.manual_seed(0)
        size = sized(device, 2048, 32)
        self.device, self.kernels = device, kernels
        self.weight = torch.randn(size, size, device=device, dtype=BF16) / size**0.5
        self.start = torch.randn(size, size, device=device, dtype=BF16)

    def __call__(self, scale: float = 1.0) -> Tensor:
        out = self.start * scale
        for _ in range(self.kernels):
            out = torch.mm(out, self.weight)
        return out


def item_deep(device: str, fixed: bool) -> Step:
    """A meter takes the value of every layer's output."""
    work, meter = Work(device, 4), helpers.Meter()

    def step(_index: int) -> Tensor:
        out = work()
        for _ in range(12):
            out = work()
            if not fixed:
                meter.update(out[0, 0])
        return out

    return step


def sync_decorator(device: str, fixed: bool) -> Step:
    """A decorator waits for the device after every block."""
    work = Work(device, 4)
    block = work if fixed else helpers.timed(work, device)

    def step(_index: int) -> Tensor:
        out = block()
        for _ in range(12):
            out = block()
        return out

    return step


def hidden_sync(device: str, fixed: bool) -> Step:
    """A mask whose size the host must know."""
    work = Work(device, 4)

    def step(_index: int) -> Tensor:
        out = work()
        for _ in range(12):
            out = work()
            row = out[0]
            picked = row.clamp(min=0) if fixed else row[row > 0]  # planted: hidden_sync
            out[0, 0] = picked.sum()
        return out

    return step


def to_list(device: str, fixed: bool) -> Step:
    """A metric is worked out on the host."""
    work = Work(device)

    def accuracy(out: Tensor) -> float:
        return float(sum(out.float().flatten()[:200_000].tolist()))  # planted: to_list

    def step(_index: int) -> Tensor:
        out = work()
        if not fixed:
            accuracy(out)
        return out

    return step


class CheapRows(Dataset):  # type: ignore[misc, type-arg, unused-ignore]
    """Samples that are cheap to get."""

    def __init__(self, slow: bool) -> None:
        self.slow = slow

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> list[int]:
        if self.slow:
            sum(value * value for value in range(20_000))
        return [index] * 64


def collate_slowly(rows: list[list[int]]) -> Tensor:
    """Pads one number at a time."""
    padded = [[value % 255 if value % 3 else 0 for value in row * 20] for row in rows]  # planted: collate
    return torch.tensor(padded[0])


def collate(device: str, fixed: bool) -> Step:
    """The loader's own process puts batches together."""
    work = Work(device)
    if fixed:
        ready = torch.zeros(64, 1280, dtype=torch.int64)
        return lambda _index: work(1.0 + float(ready[0, 0]) * 0)
    loader = iter(DataLoader(CheapRows(slow=False), batch_size=64, collate_fn=collate_slowly))

    def step(_index: int) -> Tensor:
        batch = next(loader)
        batch.to(device, non_blocking=True)
        return work()

    return step


def loader_workers(device: str, fixed: bool) -> Step:
    """Two workers that are slower than the GPU."""
    work = Work(device)
    workers = iter(DataLoader(CheapRows(slow=not fixed), batch_size=16, num_workers=2, collate_fn=torch.tensor))

    def step(_index: int) -> Tensor:
        batch = next(workers)  # planted: loader_workers
        batch.to(device, non_blocking=True)
        return work()

    return step


def tokenizer(device: str, fixed: bool) -> Step:
    """Text is cut into words in the step."""
    work, known = Work(device), dict[str, int]()
    text = "The quick brown fox, which nobody had asked, jumps over 13 lazy dogs. " * sized(device, 700, 700)

    def step(_index: int) -> Tensor:
        if not fixed:
            helpers.tokenize(text, known)
        return work()

    return step


def generator(device: str, fixed: bool) -> Step:
    """Batches come from a generator that computes them when asked."""
    work, source = Work(device), helpers.batches(50_000, 1 if fixed else 40_000)

    def step(_index: int) -> Tensor:
        next(source)
        return work()

    return step


def lock(device: str, fixed: bool) -> Step:
    """Another thread has the lock that the step needs."""
    work, holder = Work(device), helpers.LockHolder(0.005)

    def step(_index: int) -> Tensor:
        if not fixed:
            holder.lock.acquire()  # planted: lock
            holder.lock.release()
        return work()

    return step


def retry_sleep(device: str, fixed: bool) -> Step:
    """A helper sleeps before it asks again."""
    work, asked = Work(device), [0]

    def fetch() -> int | None:
        asked[0] += 1
        return asked[0] if fixed or asked[0] % 2 == 0 else None

    def step(_index: int) -> Tensor:
        helpers.with_retries(fetch, delay_s=0.005)
        return work()

    return step


def alloc_loop(device: str, fixed: bool) -> Step:
    """Memory is asked of the driver in every step."""
    work, size = Work(device), ctypes.c_size_t(sized(device, 256 << 20, 1 << 20))

    def step(_index: int) -> Tensor:
        if not fixed and device == "cuda":
            driver = ctypes.CDLL("libcuda.so.1")
            address = ctypes.c_uint64()
            for _ in range(6):
                driver.cuMemAlloc_v2(ctypes.byref(address), size) or driver.cuMemFree_v2(address)  # planted: alloc_loop
        return work()

    return step


def pin_each_step(device: str, fixed: bool) -> Step:
    """A batch is pinned again in every step."""
    work, rows, kept = Work(device), torch.randn(sized(device, 8 << 20, 1 << 10)), list[Tensor]()
    ready = pinned(rows, device)

    def step(_index: int) -> Tensor:
        batch = ready if fixed or device != "cuda" else rows.pin_memory()  # planted: pin_each_step
        kept.append(batch)  # or torch's cache would give it again
        batch[:16].to(device, non_blocking=True)
        return work()

    return step


def json_dump(device: str, fixed: bool) -> Step:
    """Metrics are written as JSON in the step."""
    work = Work(device)
    metrics = {f"layer.{number}.weight": [number / 7, number / 11, number / 13] for number in range(8_000)}

    def step(_index: int) -> Tensor:
        if not fixed:
            json.dump(metrics, io.StringIO())  # planted: json_dump
        return work()

    return step


def checkpoint(device: str, fixed: bool) -> Step:
    """The model is saved in every step."""
    work = Work(device)
    model = nn.Sequential(*(nn.Linear(sized(device, 1024, 64), sized(device, 1024, 64)) for _ in range(4))).to(device)

    def save() -> None:
        torch.save(model.state_dict(), io.BytesIO())  # planted: checkpoint

    def step(_index: int) -> Tensor:
        out = work()
        if not fixed:
            save()
        return out

    return step


def numpy_hot(device: str, fixed: bool) -> Step:
    """The order of samples is worked out by numpy in every step."""
    work, scores = Work(device), np.random.default_rng(0).random(120_000)

    def step(_index: int) -> Tensor:
        if not fixed:
            np.argsort(scores, kind="stable")  # planted: numpy_hot
        return work()

    return step


def extension(device: str, fixed: bool) -> Step:
    """A function in C that keeps Python's lock, so that no thread of Python runs meanwhile."""
    work, library = Work(device), ctypes.PyDLL(None)

    def step(_index: int) -> Tensor:
        if not fixed:
            library.usleep(6000)  # planted: extension
        return work()

    return step


def compiled(function: Callable[..., Tensor], backend: str = "eager") -> Callable[..., Tensor]:
    """With dynamo's guards; without code generation, unless asked for, a compilation takes a tenth of a second."""
    config: Any = torch._dynamo.config
    for name in ("cache_size_limit", "recompile_limit", "accumulated_cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(config, name):
            setattr(config, name, 10_000)
    torch._dynamo.reset()  # type: ignore[no-untyped-call, unused-ignore] # or a program built again finds all compiled
    made: Callable[..., Tensor] = torch.compile(function, backend=backend, dynamic=False)
    return made


def recompile_shape(device: str, fixed: bool) -> Step:
    """Every step has another length, and is compiled anew."""
    work = Work(device)

    def scaled(rows: Tensor) -> Tensor:
        return (rows * 2 + 1).relu().sum()

    ready = compiled(scaled)

    def step(index: int) -> Tensor:
        rows = work.start[0, : 8 if fixed else 8 + index]
        total = ready(rows)  # planted: recompile_shape
        return work() + total * 0

    return step


def recompile_constant(device: str, fixed: bool) -> Step:
    """A number of Python's that changes is a constant of what is compiled."""
    work = Work(device)

    def scaled(rows: Tensor, label: str) -> Tensor:
        return (rows * len(label) + 1).relu().sum()

    ready = compiled(scaled)

    def step(index: int) -> Tensor:
        label = "step" if fixed else f"step {index:06d}"
        total = ready(work.start[0, :8], label)  # planted: recompile_constant
        return work() + total * 0

    return step


def recompile_dtype(device: str, fixed: bool) -> Step:
    """Arguments come in other types in every step."""
    work, kinds = Work(device), (torch.float32, torch.float16, BF16, torch.float64, torch.int32)
    rows = [work.start[0, :8].to(kind) for kind in kinds]

    def scaled(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
        return (first * second + third).float().relu().sum()

    ready = compiled(scaled)

    def step(index: int) -> Tensor:
        numbers = (0, 0, 0) if fixed else (index % 5, index // 5 % 5, index // 25 % 5)
        total = ready(*(rows[number] for number in numbers))  # planted: recompile_dtype
        return work() + total * 0

    return step


def recompile_kernels(device: str, fixed: bool) -> Step:
    """Every eighth step has another length, for which kernels are generated."""
    work = Work(device)

    def scaled(rows: Tensor) -> Tensor:
        return (rows * 2 + 1).relu().sum()

    ready = compiled(scaled, "inductor" if device == "cuda" else "eager")

    def step(index: int) -> Tensor:
        rows = work.start[:, : 64 if fixed else 64 + index // 8]
        total = ready(rows)  # planted: recompile_kernels
        return work() + total * 0

    return step


def graph_record(device: str, fixed: bool) -> Step:
    """A CUDA graph is recorded anew in every step."""
    work = Work(device)

    def step(_index: int) -> Tensor:
        out = work()
        if fixed or device != "cuda":
            return out
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # planted: graph_record
            out = work.start * 2
        graph.replay()
        return out

    return step


def launch_loop(device: str, fixed: bool) -> Step:
    """An optimizer by hand, a few small kernels per parameter."""
    parameters = [torch.ones(64, device=device) for _ in range(600)]
    gradients = [torch.ones(64, device=device) for _ in range(600)]

    def update() -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.add_(gradient, alpha=-1e-3)  # planted: launch_loop

    def step(_index: int) -> Tensor:
        if fixed:
            torch._foreach_add_(parameters, gradients, alpha=-1e-3)
        else:
            update()
        return parameters[0]

    return step


def known_time(device: str, fixed: bool) -> Step:
    """A function that keeps the host busy inside a range of its own: shows how far the clocks are apart."""
    work = Work(device)

    def spin() -> int:
        return sum(value & 1 for value in range(60_000))  # planted: known_time

    def step(_index: int) -> Tensor:
        if not fixed:
            with window("known"):
                spin()
        return work()

    return step


_ALONE = "taken out"
PROGRAMS: tuple[PairedProgram, ...] = (
    pair("item_deep", "item() three calls below the step", "HOST-SYNC", _ALONE, item_deep),
    pair("sync_decorator", "a decorator waits for the device", "HOST-SYNC", _ALONE, sync_decorator),
    pair("hidden_sync", "a mask's size is waited for", "HOST-SYNC", _ALONE, hidden_sync),
    pair("to_list", "a metric in Python", "HOST-CODE", _ALONE, to_list),
    pair("collate", "a collate function in Python", "HOST-CODE", _ALONE, collate),
    pair("loader_workers", "workers are slower than the GPU", "HOST-THREAD", _ALONE, loader_workers),
    pair("tokenizer", "a tokenizer in Python", "HOST-CODE", _ALONE, tokenizer),
    pair("generator", "a generator computes when asked", "HOST-CODE", _ALONE, generator),
    pair("lock", "another thread has the lock", "HOST-THREAD", _ALONE, lock),
    pair("retry_sleep", "a helper sleeps", "HOST-OS", _ALONE, retry_sleep),
    pair("alloc_loop", "cuMemAlloc in a loop", "HOST-ALLOC", _ALONE, alloc_loop),
    pair("pin_each_step", "pinned in every step", "HOST-ALLOC", _ALONE, pin_each_step),
    pair("json_dump", "JSON in the step", "HOST-CODE", _ALONE, json_dump),
    pair("checkpoint", "a checkpoint in the step", "HOST-SYNC", _ALONE, checkpoint),
    pair("numpy_hot", "numpy in the step", "HOST-CODE", _ALONE, numpy_hot),
    pair("extension", "a C function that keeps the lock", "HOST-OS", _ALONE, extension),
    pair("recompile_shape", "compiled for every length", "HOST-CODE", _ALONE, recompile_shape),
    pair("recompile_constant", "compiled for every label", "HOST-CODE", _ALONE, recompile_constant),
    pair("recompile_dtype", "compiled for all types", "HOST-CODE", _ALONE, recompile_dtype),
    pair("recompile_kernels", "kernels generated for every length", "HOST-CODE", _ALONE, recompile_kernels),
    pair("graph_record", "a graph recorded in every step", "HOST-LOAD", _ALONE, graph_record),
    pair("launch_loop", "a kernel per parameter", "LAUNCH-BOUND", _ALONE, launch_loop),
    pair("known_time", "a known function at a known time", "HOST-CODE", _ALONE, known_time),
)


if __name__ == "__main__":
    for program, (file, line) in planted().items():
        print(f"{program}\t{file}:{line}")  # noqa: T201
