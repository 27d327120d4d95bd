"""The planted cases of `zoo` and `zoo_llm` as paired programs: their own steps on their own inputs, nothing changed."""

from __future__ import annotations

from collections.abc import Callable

import torch  # type: ignore[import-not-found, unused-ignore]

from lab.programs import zoo, zoo_llm
from lab.programs.paired.program import Build, PairedProgram, Step
from lab.programs.zoo import CaseInputs, CaseSize, PlantedCase

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
