"""Whether profiles can be recorded on a machine: a `ExaminedMachine` in, every check with its outcome out.

A check answers one question and never ends the others: what it cannot find out is "not checked", with the reason.
Checks that hang on something that is missing say only that it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.doctor.check import DoctorCheck, DoctorOutcome, DoctorVerdict, ExaminedMachine, not_checked
from gpuledger.doctor.environment import container, disk, packages, python, torch
from gpuledger.doctor.gpu import clocks, environment, gpu, other_profilers, sharing
from gpuledger.doctor.ncu import counters, ncu
from gpuledger.doctor.nsys import export, gpu_metrics, nsys, profile, sampling
from gpuledger.doctor.trial import trial
from gpuledger.errors import GpuledgerError
from gpuledger.system.machine import Machine

CHECKS: Final[Mapping[str, Callable[[ExaminedMachine], DoctorOutcome]]] = {
    "Python": python,
    "Packages": packages,
    "Container": container,
    "Disk": disk,
    "GPU": gpu,
    "GPU sharing": sharing,
    "Clocks": clocks,
    "Environment": environment,
    "Other profilers": other_profilers,
    "nsys": nsys,
    "nsys export": export,
    "CPU sampling": sampling,
    "GPU metrics": gpu_metrics,
    "PROFILE": profile,
    "torch": torch,
    "ncu": ncu,
    "Counters": counters,
    "Trial capture": trial,
}
"""Every check by its name, in the order in which they are made and shown."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A profiler that was found."""

    name: str
    path: Path | None
    version: str | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks, and what they come to."""

    checks: tuple[DoctorCheck, ...]
    records_with: tuple[str, ...]
    """What can record a timeline here."""
    machine: Machine
    tools: tuple[Tool, ...]
    tracing_ns_per_call: float | None
    """What tracing with nsys adds to a CUDA call; None if it was not measured."""

    @property
    def is_ready(self) -> bool:
        """Something records timelines, and nothing is a problem."""
        return bool(self.records_with) and not self.having(DoctorVerdict.PROBLEM)

    def having(self, verdict: DoctorVerdict) -> tuple[DoctorCheck, ...]:
        return tuple(check for check in self.checks if check.outcome.verdict is verdict)


def _say_nothing(_: str) -> None:
    """For callers who do not wait."""


def diagnosed(patient: ExaminedMachine, tell: Callable[[str], None] = _say_nothing) -> Diagnosis:
    """Make every check; `tell` is told the name of each before it begins."""
    made = []
    for name, check in CHECKS.items():
        if name == "PROFILE" and patient.written is None:
            continue
        tell(name)
        outcome = _checked(check, patient)
        patient.outcomes[name] = outcome
        made.append(DoctorCheck(name, outcome))
    tools = [Tool("nsys", patient.nsys, patient.nsys_version)]
    if patient.has_gpu:  # without a GPU nobody asks for the others
        tools.append(Tool("ncu", patient.ncu, patient.ncu_version))
    torch_version = patient.probe.package("torch")
    if torch_version is not None:
        tools.append(Tool("torch", None, torch_version))
    return Diagnosis(tuple(made), _records_with(patient), patient.machine, tuple(tools), patient.tracing_ns_per_call)


def _checked(check: Callable[[ExaminedMachine], DoctorOutcome], patient: ExaminedMachine) -> DoctorOutcome:
    try:
        return check(patient)
    except GpuledgerError as error:
        return not_checked(error.claim)


def _records_with(patient: ExaminedMachine) -> tuple[str, ...]:
    if not patient.has_gpu:
        return ()
    wrong = {name for name, outcome in patient.outcomes.items() if outcome.verdict is DoctorVerdict.PROBLEM}
    ways = []
    if patient.nsys_version and not wrong & {"nsys", "nsys export", "Trial capture"}:
        ways.append("nsys")
    if patient.torch_records:
        ways.append("torch.profiler")
    return tuple(ways)
