"""Programs that lose time for one planted reason each: `python -m lab.programs.zoo CASE [--fixed]`.

In: a case, a variant. Out: one JSON line with the time per step, after the last step's output was compared with a plain
float32 computation that has nothing planted in it (relative error under `TOLERANCE`). Every case runs the same core, a
stack of bfloat16 matmuls with ReLU; on a GPU a step takes a few ms, and `--device=cpu` shrinks the sizes.

What is timed: the wall clock from before the first measured step to after the one synchronise that follows the last.
Where the host was less than a step ahead of the device at the end, its clock saw the steps, and median, p10 and p90 are
over the times between the ends of successive steps on the host; otherwise all three are the wall time over the steps.

NVTX: "measure" around the measured loop, in it "step" and "layerN"; "warmup" and "check" before and after. "measure" is
what `nsys profile --capture-range=cudaProfilerApi --capture-range-end=stop` records with `--cuda-profiler` (nsys's
default, stop-shutdown, would end the program before its check).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window

Step = Callable[[int], Tensor]  # runs step `index` and gives its output
Hook = Callable[[Tensor], Any]
TOLERANCE = 0.02  # of the output's norm: rounding stays well under it, another batch's numbers are off by 0.3 and more
BATCHES = 3  # not a multiple of the two buffers in `exposed_copy_fixed`, so that a stale buffer shows in the numbers
WEIGHTS = 8  # deeper stacks use them again: what counts is the number of launches, not of parameters
NOISE = 1 + np.random.default_rng(0).random(8192)  # 64 KiB: a copy of it needs no call to the operating system


@dataclass(frozen=True, slots=True)
class CaseSize:
    """How much a case does in a step: `layers` matmuls of rows x width x width, and how much it loses."""

    rows: int
    width: int
    layers: int
    pieces: int = 1  # for the cases that do something many times
    loss_ms: float = 0.0  # for the cases that wait

    def small(self) -> CaseSize:
        return CaseSize(64, 32, min(self.layers, 4), min(self.pieces, 16), min(self.loss_ms, 2.0))


@dataclass(frozen=True, slots=True)
class CaseInputs:
    """What the steps of all cases work on."""

    size: CaseSize
    cuda: bool  # without it there are no streams, no pinned memory and nothing to wait for
    weights: list[Tensor]  # one per layer
    batches: list[Tensor]
    scales: Tensor  # one per piece

    def batch(self, index: int) -> Tensor:
        return self.batches[index % BATCHES]

    def pinned(self, values: Tensor) -> Tensor:
        """A host copy that the GPU can read by itself."""
        return values.cpu().pin_memory() if self.cuda else values.clone()

    def synchronize(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()


def build(size: CaseSize, device: str, seed: int) -> CaseInputs:
    """Weights that keep the activations' size through ReLU; batches of unlike size, so that none passes for another."""
    chance = torch.Generator(device=device).manual_seed(seed)

    def normal(rows: int, scale: float) -> Tensor:
        return torch.randn(rows, size.width, generator=chance, device=device, dtype=torch.bfloat16) * scale

    weights = [normal(size.width, math.sqrt(2 / size.width)) for _ in range(WEIGHTS)]
    batches = [normal(size.rows, 1.0 + index) for index in range(BATCHES)]
    scales = 2.0 ** (torch.arange(size.pieces, device=device) % 3)  # powers of two: scaling is exact, in any order
    return CaseInputs(size, device == "cuda", (weights * size.layers)[: size.layers], batches, scales.bfloat16())


def forward(core: CaseInputs, hidden: Tensor, before: Hook | None = None, after: Hook | None = None) -> Tensor:
    """The stack of layers; `before` changes a layer's input, `after` sees its output, inside the layer's range."""
    for layer, weight in enumerate(core.weights):
        with window(f"layer{layer}"):
            hidden = torch.relu((before(hidden) if before else hidden) @ weight)
            if after:
                after(hidden)
    return hidden


def plain(core: CaseInputs, first: Callable[[], object] | None = None) -> Step:
    """Nothing but the core, the host as far ahead as the launch queue lets it; or something else first."""

    def step(index: int) -> Tensor:
        if first is not None:
            first()
        return forward(core, core.batch(index))

    return step


def host_read_bad(core: CaseInputs) -> Step:
    """Reads a number after each layer, as a search for NaN does. Fixed: the output is checked once, after the loop."""
    return lambda index: forward(core, core.batch(index), after=lambda hidden: hidden[0, 0].item())


def device_sync_bad(core: CaseInputs) -> Step:
    """Waits for the device after each layer, as code does that was once timed by hand."""
    return lambda index: forward(core, core.batch(index), after=lambda _: core.synchronize())


def casts_bad(core: CaseInputs) -> Step:
    """Activations go through float32 on their way to each matmul: the numbers are the same, the bytes are not."""
    return lambda index: forward(core, core.batch(index), before=lambda hidden: hidden.float().bfloat16())


def sleep_bad(core: CaseInputs) -> Step:
    """Sleeps longer than the device computes; a shorter sleep would be hidden by the work in the queue."""
    return plain(core, lambda: time.sleep(core.size.loss_ms / 1e3))


def factor_of(index: int) -> float:
    """What a step needs from numpy: a factor between 1 and 6."""
    return float(np.median(np.sort(NOISE)) * (1 + index % BATCHES))


def numpy_bad(core: CaseInputs) -> Step:
    """Longer in numpy than the device computes, so that the device runs dry without any synchronisation."""

    def step(index: int) -> Tensor:
        with window("numpy"):
            end = time.perf_counter() + core.size.loss_ms / 1e3
            factor = factor_of(index)
            while time.perf_counter() < end:  # by the clock, so that the loss does not depend on the CPU
                factor = factor_of(index)
        return forward(core, core.batch(index) * factor)

    return step


def numpy_fixed(core: CaseInputs) -> Step:
    """The same factors, computed before the first step."""
    factors = [factor_of(index) for index in range(BATCHES)]
    return lambda index: forward(core, core.batch(index) * factors[index % BATCHES])


def alloc_bad(core: CaseInputs) -> Step:
    """A cudaFree per buffer in torch's cache, the first of which drains the device; then a cudaMalloc per buffer."""

    def churn() -> None:
        torch.cuda.empty_cache()  # without CUDA it does nothing
        _ = [torch.empty_like(core.batches[0]) for _ in range(core.size.pieces)]  # alive at once; the core reuses them

    return plain(core, churn)


def copying(core: CaseInputs, hosts: list[Tensor]) -> Step:
    """Each step's batch comes from the host, on the compute stream."""
    target = torch.empty_like(core.batches[0])
    return lambda index: forward(core, target.copy_(hosts[index % BATCHES], non_blocking=True))


def pageable_copy(core: CaseInputs) -> Step:
    """`non_blocking` does not help: from pageable memory the driver waits for the stream and copies in parts."""
    return copying(core, [batch.cpu().clone() for batch in core.batches])


def pinned_copy(core: CaseInputs) -> Step:
    """A copy at the speed of the link that the host does not wait for, but the kernels do."""
    return copying(core, [core.pinned(batch) for batch in core.batches])


def exposed_copy_fixed(core: CaseInputs) -> Step:
    """The next step's batch is copied on a side stream while this step computes."""
    if not core.cuda:
        return pinned_copy(core)
    cuda: Any = torch.cuda  # its classes are untyped
    hosts = [core.pinned(batch) for batch in core.batches]
    targets = [torch.empty_like(core.batches[0]) for _ in range(2)]
    copied, used = [cuda.Event(), cuda.Event()], [cuda.Event(), cuda.Event()]
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())  # the targets' memory may have had other users on that stream

    def fetch(index: int) -> None:
        side.wait_event(used[index % 2])  # never recorded at first, which CUDA takes for done
        with cuda.stream(side):
            targets[index % 2].copy_(hosts[index % BATCHES], non_blocking=True)
        copied[index % 2].record(side)

    def step(index: int) -> Tensor:
        fetch(index + 1)
        cuda.current_stream().wait_event(copied[index % 2])
        output = forward(core, targets[index % 2])
        used[index % 2].record(cuda.current_stream())
        return output

    fetch(0)
    return step


def scaling(core: CaseInputs, scales: Tensor, fill: Callable[[int], object]) -> Step:
    """Each step writes its scales to the device, one per piece, and scales the batch with them, in one kernel."""

    def step(index: int) -> Tensor:
        fill(index)
        batch = core.batch(index)
        return forward(core, (batch.view(core.size.pieces, -1) * scales[:, None]).view_as(batch))

    return step


def tiny_bad(core: CaseInputs) -> Step:
    """A launch per piece, each shorter on the device than on the host, more of them than the matmuls can hide."""
    scales = torch.empty_like(core.scales)
    # Cut beforehand: a thousand views take a millisecond, and that would be a second reason.
    pairs = list(zip(core.scales.chunk(core.size.pieces), scales.chunk(core.size.pieces), strict=True))

    def fill(index: int) -> None:
        for before, after in pairs:
            torch.mul(before, 2.0 ** (index % BATCHES), out=after)

    return scaling(core, scales, fill)


def tiny_fixed(core: CaseInputs) -> Step:
    """The pieces lie side by side: one kernel scales them all."""
    scales = torch.empty_like(core.scales)
    return scaling(core, scales, lambda index: torch.mul(core.scales, 2.0 ** (index % BATCHES), out=scales))


def small_bad(core: CaseInputs) -> Step:
    """A blocking copy per piece: the first drains the device, the others keep it waiting."""
    scales = torch.empty_like(core.scales)
    targets = scales.chunk(core.size.pieces)
    hosts = [(core.scales * 2.0**index).cpu().chunk(core.size.pieces) for index in range(BATCHES)]

    def fill(index: int) -> None:
        for target, host in zip(targets, hosts[index % BATCHES], strict=True):
            target.copy_(host)

    return scaling(core, scales, fill)


def small_fixed(core: CaseInputs) -> Step:
    """One copy of all pieces from pinned memory; the host goes on."""
    scales = torch.empty_like(core.scales)
    hosts = [core.pinned(core.scales * 2.0**index) for index in range(BATCHES)]
    return scaling(core, scales, lambda index: scales.copy_(hosts[index % BATCHES], non_blocking=True))


def host_function_bad(core: CaseInputs) -> Step:
    """The stream calls the host and waits for it; the launching thread is far ahead."""
    if not core.cuda:
        return sleep_bad(core)
    process = ctypes.CDLL(None)
    # torch's own CUDA runtime: among the process's symbols, or by its soname, which dlopen finds loaded.
    soname = f"libcudart.so.{str(torch.version.cuda).split('.')[0]}"
    launch = (process if hasattr(process, "cudaLaunchHostFunc") else ctypes.CDLL(soname)).cudaLaunchHostFunc
    launch.argtypes, launch.restype = [ctypes.c_void_p] * 3, ctypes.c_int
    # libc's usleep itself, its argument in the pointer's register: a Python callback would need the interpreter's lock,
    # which the launching thread holds when the launch queue is full, and the two would wait for each other for ever.
    usleep, microseconds = ctypes.cast(process.usleep, ctypes.c_void_p), round(core.size.loss_ms * 1e3)

    def hold() -> None:
        if status := launch(torch.cuda.current_stream().cuda_stream, usleep, microseconds):
            raise RuntimeError(f"cudaLaunchHostFunc returned {status}")

    return plain(core, hold)


def of_factor(core: CaseInputs, index: int) -> Tensor:
    """The stack's input in `numpy_between`."""
    return core.batch(index) * factor_of(index)


def of_scales(core: CaseInputs, index: int) -> Tensor:
    """The stack's input in the cases that scale, row by row."""
    rows = core.scales.repeat_interleave(core.size.rows // core.size.pieces)
    return core.batch(index) * rows[:, None] * 2.0 ** (index % BATCHES)


def error_of(core: CaseInputs, output: Tensor, hidden: Tensor) -> float:
    """The output's relative error against the core in float32, rounded where the core rounds."""
    # TF32 holds bfloat16 exactly: it costs no accuracy, and keeps the check short in a profile of the whole program.
    torch.set_float32_matmul_precision("high")
    for weight in core.weights:
        hidden = (hidden.float() @ weight.float()).bfloat16().clamp(min=0)
    return float((output.float() - hidden.float()).norm() / hidden.float().norm())


@dataclass(frozen=True, slots=True)
class PlantedCase:
    """One planted reason. `bad` and `fixed` prepare what they need and give the step to be repeated."""

    name: str
    loss: str
    finding: str
    size: CaseSize
    bad: Callable[[CaseInputs], Step]
    fixed: Callable[[CaseInputs], Step]
    source: Callable[[CaseInputs, int], Tensor] = CaseInputs.batch  # the stack's input, by other means than the steps'
    check: Callable[[CaseInputs, Tensor, Tensor], float] = error_of  # of the last output, with that input


DEEP = CaseSize(1024, 4096, 64)  # layers so short that the 20 us lost after each of them show
LATE = CaseSize(8192, 4096, 12, loss_ms=10.0)  # twice what the layers take
HELD = CaseSize(8192, 4096, 12, loss_ms=4.0)
ROOM = CaseSize(8192, 4096, 12, pieces=24)
BITS = CaseSize(8192, 4096, 12, pieces=256)
TINY = CaseSize(8192, 4096, 3, pieces=1024)
PAGE = CaseSize(4096, 4096, 36)  # 32 MiB of input, so that the pinned copy is no loss worth naming
LINK = CaseSize(16384, 4096, 6)  # 128 MiB of input, so that it is
FLAT = CaseSize(16384, 2048, 20)  # wide activations, thin matmuls

CASES = (
    PlantedCase("host_read", "reads a number back after every layer", "HOST-SYNC", DEEP, host_read_bad, plain),
    PlantedCase("numpy_between", "numpy while the GPU waits", "HOST-CODE", LATE, numpy_bad, numpy_fixed, of_factor),
    PlantedCase("sleep", "sleeps in every step", "HOST-OS", LATE, sleep_bad, plain),
    PlantedCase("alloc", "frees and allocates device memory in every step", "HOST-ALLOC", ROOM, alloc_bad, plain),
    PlantedCase("pageable_copy", "copies from pageable memory", "COPY-PAGEABLE", PAGE, pageable_copy, pinned_copy),
    PlantedCase(
        "tiny_kernels", "launches a thousand tiny kernels", "LAUNCH-BOUND", TINY, tiny_bad, tiny_fixed, of_scales
    ),
    PlantedCase("device_sync", "waits for the device after every layer", "HOST-SYNC", DEEP, device_sync_bad, plain),
    PlantedCase(
        "host_function", "holds the stream with a host function", "DEVICE-WAIT", HELD, host_function_bad, plain
    ),
    PlantedCase(
        "exposed_copy", "copies before, not under, compute", "COPY-EXPOSED", LINK, pinned_copy, exposed_copy_fixed
    ),
    PlantedCase(
        "small_copies", "copies numbers one by one, blocking", "HOST-COPY", BITS, small_bad, small_fixed, of_scales
    ),
    PlantedCase("casts", "casts to float32 and back before every matmul", "CAST", FLAT, casts_bad, plain),
)


def measure(core: CaseInputs, step: Step, warmup: int, steps: int, *, profiler: bool) -> tuple[Tensor, list[float]]:
    """The last step's output, and the ms of the steps: see the module for what is timed."""
    for index in range(warmup):
        with window("warmup"):
            step(index)
    core.synchronize()
    with window("measure", profiler=profiler):
        marks = [time.perf_counter()]
        for index in range(warmup, warmup + steps):
            with window("step"):
                output = step(index)
            marks.append(time.perf_counter())
        core.synchronize()
        end = time.perf_counter()
    mean = (end - marks[0]) / steps
    # The first step is left out: it does not wait for the work of a step before it.
    seconds = [after - before for before, after in pairwise(marks[1:])] if end - marks[-1] < mean else []
    return output, [1e3 * step_s for step_s in seconds or [mean]]


def run(case: PlantedCase, options: argparse.Namespace) -> dict[str, object]:
    """Measure one variant of one case and check its numbers."""
    core = build(case.size if options.device == "cuda" else case.size.small(), options.device, options.seed)
    step = (case.fixed if options.fixed else case.bad)(core)
    output, times_ms = measure(core, step, options.warmup, options.steps, profiler=options.cuda_profiler)
    with window("check"):
        error = case.check(core, output, case.source(core, options.warmup + options.steps - 1))
    if not error < TOLERANCE:  # also when it is NaN
        raise SystemExit(f"error: {case.name}: the output is off by {error:.3g} of its norm (allowed {TOLERANCE})")
    median, p10, p90 = np.percentile(times_ms, [50, 10, 90]).round(4).tolist()
    what = {"case": case.name, "variant": "fixed" if options.fixed else "bad", "device": options.device}
    times = {"step_ms_median": median, "step_ms_p10": p10, "step_ms_p90": p90}
    return {**what, "steps": options.steps, **times, "checked": True}


def main(cases: tuple[PlantedCase, ...] = CASES, prog: str = "lab.programs.zoo") -> None:
    """The command line of some cases: exit code 2 for a wrong one, 1 for wrong numbers or no device."""
    parser = argparse.ArgumentParser(prog=prog, description="Lose time for one planted reason.")
    parser.add_argument("case", nargs="?", choices=[case.name for case in cases])
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--fixed", action="store_true", help="the variant without the loss")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5, help="steps before the measured ones")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cuda-profiler", action="store_true", help="cudaProfilerStart and Stop around the steps")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{case.name:14} {case.finding:14} {case.loss}" for case in cases))  # noqa: T201
        return
    if options.case is None or options.steps < 1 or options.warmup < 0:
        parser.error("give a case (see --list), at least one step, and no negative warm-up")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("error: torch sees no CUDA device\n\nhint: --device=cpu runs the same case on small sizes")
    print(json.dumps(run(next(case for case in cases if case.name == options.case), options)))  # noqa: T201


if __name__ == "__main__":
    main()
