"""Programs on the zoo's core. PROGRAMS: the cases of `zoo` and `zoo_llm`, their own steps on their own inputs.

TOGETHER: two faults in one program, which of them are fixed in, the step out. `bad` has both, `fix1` only the second,
`fix2` only the first, `fixed` none. What the second fix saves after the first is not what it saves alone: while the
device waits for one reason, another costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from lab.programs import zoo, zoo_llm
from lab.programs.paired import Build, PairedProgram, Step
from lab.programs.zoo import BATCHES, CaseInputs, CaseSize, PlantedCase, factor_of, forward

EDITS = {
    "HOST-SYNC": "the waits and the reads that they end go, with the code that makes them",
    "HOST-CODE": "the host code goes",
    "HOST-OS": "the calls to the operating system go",
    "HOST-THREAD": "the waits for another thread go",
    "HOST-ALLOC": "the calls that allocate and free go",
    "HOST-COPY": "the copies become one, which the host does not wait for",
    "COPY-PAGEABLE": "the copies run at the link's rate, and the host does not wait for them",
    "COPY-EXPOSED": "the copies run on a stream of their own, a step ahead",
    "LAUNCH-BOUND": "the kernels of the loop become one",
    "DEVICE-WAIT": "what holds the stream goes, or starts a step ahead",
    "CAST": "the kernels that cast go",
}
"""What the fix does to the trace, by the finding that asks for it."""


def at_size(size: CaseSize, work: Callable[[CaseInputs], Step]) -> Build:
    """A variant of a program that runs on the zoo's inputs."""

    def build(device: str) -> Step:
        torch.manual_seed(0)
        return work(zoo.build(size if device == "cuda" else size.small(), device, seed=0))

    return build


def paired(case: PlantedCase) -> PairedProgram:
    """A case of the zoo."""
    variants = {"bad": at_size(case.size, case.bad), "fixed": at_size(case.size, case.fixed)}
    return PairedProgram(case.name, case.loss, (case.finding,), EDITS[case.finding], variants)


PROGRAMS = tuple(paired(case) for case in (*zoo.CASES, *zoo_llm.CASES))


Work = Callable[[CaseInputs, bool, bool], Step]
"""Of the inputs, and of whether the first and the second fault are fixed."""


def read_tiny(core: CaseInputs, unread: bool, packed: bool) -> Step:
    """Reads a number after each layer; scales piece by piece."""
    scales = torch.empty_like(core.scales)
    pieces = list(zip(core.scales.chunk(core.size.pieces), scales.chunk(core.size.pieces), strict=True))

    def step(index: int) -> Tensor:
        factor = 2.0 ** (index % BATCHES)
        if packed:
            torch.mul(core.scales, factor, out=scales)
        else:
            for before, after in pieces:
                torch.mul(before, factor, out=after)
        batch = core.batch(index)
        scaled = (batch.view(core.size.pieces, -1) * scales[:, None]).view_as(batch)
        return forward(core, scaled, after=None if unread else lambda hidden: hidden[0, 0].item())

    return step


def sleep_pageable(core: CaseInputs, awake: bool, pinned: bool) -> Step:
    """Sleeps before each step; copies the batch from pageable memory."""
    copying = zoo.pinned_copy(core) if pinned else zoo.pageable_copy(core)

    def step(index: int) -> Tensor:
        if not awake:
            time.sleep(core.size.loss_ms / 1e3)
        return copying(index)

    return step


def alloc_casts(core: CaseInputs, kept: bool, uncast: bool) -> Step:
    """Gives memory back and takes it anew; goes through float32 before each matmul."""

    def step(index: int) -> Tensor:
        if not kept:
            torch.cuda.empty_cache()  # without CUDA it does nothing
            _ = [torch.empty_like(core.batches[0]) for _ in range(core.size.pieces)]
        return forward(core, core.batch(index), before=None if uncast else lambda hidden: hidden.float().bfloat16())

    return step


def sync_numpy(core: CaseInputs, unsynced: bool, prepared: bool) -> Step:
    """Waits for the device after each layer; computes in numpy before the first."""
    factors = [factor_of(index) for index in range(BATCHES)]

    def step(index: int) -> Tensor:
        end = time.perf_counter() + (0 if prepared else core.size.loss_ms / 1e3)
        factor = factors[index % BATCHES]
        while time.perf_counter() < end:  # by the clock, so that the loss does not depend on the CPU
            factor = factor_of(index)
        return forward(core, core.batch(index) * factor, after=None if unsynced else lambda _: core.synchronize())

    return step


def copies_held(core: CaseInputs, packed: bool, free: bool) -> Step:
    """Copies its scales one by one; then holds the stream with a host function."""
    scaled = zoo.small_fixed(core) if packed else zoo.small_bad(core)
    hold = zoo.host_function_bad(CaseInputs(core.size, core.cuda, [], core.batches, core.scales))  # without layers

    def step(index: int) -> Tensor:
        if not free:
            hold(index)
        return scaled(index)

    return step


def both(work: Work, findings: tuple[str, str], size: CaseSize) -> PairedProgram:
    """A program with the name of its function, and what the docstring says first."""

    def variant(first: bool, second: bool) -> Callable[[CaseInputs], Step]:
        return partial(_called, work, first, second)

    fixes = {"bad": (False, False), "fix1": (True, False), "fix2": (False, True), "fixed": (True, True)}
    loss = str(work.__doc__).partition(".")[0]
    edit = "; then ".join(EDITS[finding] for finding in findings)
    variants = {name: at_size(size, variant(*fixed)) for name, fixed in fixes.items()}
    return PairedProgram(work.__name__, loss, findings, edit, variants)


def _called(work: Work, first: bool, second: bool, core: CaseInputs) -> Step:
    return work(core, first, second)


TOGETHER = (
    both(read_tiny, ("HOST-SYNC", "LAUNCH-BOUND"), CaseSize(1024, 4096, 32, pieces=256)),
    both(sleep_pageable, ("HOST-OS", "COPY-PAGEABLE"), CaseSize(4096, 4096, 36, loss_ms=6.0)),
    both(alloc_casts, ("HOST-ALLOC", "CAST"), CaseSize(16384, 2048, 16, pieces=24)),
    both(sync_numpy, ("HOST-SYNC", "HOST-CODE"), CaseSize(1024, 4096, 48, loss_ms=3.0)),
    both(copies_held, ("HOST-COPY", "DEVICE-WAIT"), CaseSize(8192, 4096, 12, pieces=256, loss_ms=3.0)),
)
