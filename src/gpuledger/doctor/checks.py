"""Whether profiles can be recorded on a machine: an `ExaminedMachine` in, every check with its outcome out.

A check answers one question and never ends the others: what it cannot find out is "not checked", with the reason.
Checks that hang on something that is missing say only that it is missing. Those of what lies around the GPU are here:
Python and its packages, torch, the container, the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.doctor.check import (
    NO_GPU,
    DoctorCheck,
    DoctorOutcome,
    DoctorVerdict,
    ExaminedMachine,
    not_checked,
    ok,
    problem,
    warning,
)
from gpuledger.doctor.gpu import clocks, environment, gpu, other_profilers, sharing
from gpuledger.doctor.tools import counters, export, gpu_metrics, ncu, nsys, profile, sampling, trial
from gpuledger.errors import GpuledgerError
from gpuledger.system.machine import Machine

EXTRAS: Final = {
    "nvml": (("pynvml",), "clocks and power in `time`"),
    "ncu": (("ncu_report",), "`kernels` of a .ncu-rep"),
    "arrow": (("pyarrow",), "parquetdir and arrowdir profiles"),
    "charts": (("vl_convert",), "PNG charts of `report --charts`"),
    "view": (("viztracer",), "`view`"),
    "fleet": (("distributed",), "`fleet` in parallel"),
    "mcp": (("mcp",), "`mcp`"),
    "query": (("duckdb",), "`query`"),
    "workloads": (("gpuledger_workloads", "torch"), "`bench`, `time`"),
}
"""What each extra of the package brings, by the names it is imported by, and what it opens."""


def python(patient: ExaminedMachine) -> DoctorOutcome:
    """Which Python and which gpuledger."""
    versions = patient.probe.versions
    return ok(f"{versions['Python']}, {patient.probe.python}; gpuledger {versions['gpuledger']}")


def packages(patient: ExaminedMachine) -> DoctorOutcome:
    """Which optional packages are here, and what the others would open."""
    missing = {
        extra: opens
        for extra, (names, opens) in EXTRAS.items()
        if any(patient.probe.package(name) is None for name in names)
    }
    if not missing:
        return ok("all optional packages are here")
    opens = "; ".join(f"{extra}: {what}" for extra, what in missing.items())
    return ok(f"{len(EXTRAS) - len(missing)} of {len(EXTRAS)} extras", f"`pip install 'gpuledger[NAME]'` adds {opens}")


def torch(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether torch.profiler records kernels."""
    if not patient.has_gpu:
        return NO_GPU
    seen = patient.torch
    if seen is None:
        return not_checked(
            f"torch is not in this Python ({patient.probe.python})",
            "a program in another Python is recorded all the same; `gpuledger bench` needs torch here",
        )
    name = f"torch {seen.version}"
    if seen.cuda is None and seen.said:
        return warning(
            f"{name} does not start: {seen.said}",
            "torch.profiler cannot record, and `gpuledger bench` cannot run",
            "see what importing it says",
            "python -c 'import torch; print(torch.cuda.is_available())'",
        )
    if seen.cuda is None:
        return warning(
            f"{name} is built for the CPU",
            "it does not use the GPU, and its profiler records no kernels",
            "install a build for CUDA, see https://pytorch.org/get-started/locally",
        )
    if seen.gpus == 0 and seen.said:
        return warning(
            f"{name}, for CUDA {seen.cuda}: the driver is too old for it",
            "it does not use the GPU, and its profiler records no kernels",
            "update the driver, or install a torch that is built for an older CUDA",
            "nvidia-smi",
        )
    if seen.gpus == 0:
        return warning(
            f"{name}, for CUDA {seen.cuda}, sees no GPU",
            "its profiler records no kernels",
            "see what it says when it starts CUDA",
            "python -c 'import torch; torch.cuda.init()'",
        )
    if seen.kernels == 0:
        return problem(
            f"{name}, for CUDA {seen.cuda}: its profiler recorded no kernel",
            "another profiler holds CUPTI, or torch does not find its own CUPTI",
            "end the other profiler; see what CUPTI says",
            "env | grep -e CUDA_INJECTION64_PATH -e NSYS_",
        )
    recorded = "" if seen.kernels is None else f"; its profiler recorded {seen.kernels} kernels"
    return ok(f"{name}, for CUDA {seen.cuda}, sees {seen.gpus} GPU{'s' * (seen.gpus > 1)}{recorded}")


def container(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether this is a container, and what it may do."""
    if not patient.container:
        return ok("not in a container")
    bits = patient.capabilities
    if bits is None:
        return ok(f"in a container ({patient.container}); its permissions are unknown")
    may = "with CAP_SYS_ADMIN" if bits >> 21 & 1 else "without CAP_SYS_ADMIN"
    return ok(f"in a container ({patient.container}), {may}", "only counters and CPU sampling need it")


ENOUGH_BYTES: Final = 2 * 10**9
LEAST_BYTES: Final = 200 * 10**6
"""A minute of decoding takes some hundred MB as a report, and as much again as an export."""


def disk(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether there is room for a profile where it would be written."""
    probe, rooms = patient.probe, []
    for name, folder in probe.folders.items():
        is_temporary = "temporary" in name
        command = "export TMPDIR=FOLDER" if is_temporary else "cd FOLDER"
        if refusal := probe.refusal(folder):
            found = f"{name} ({folder}) cannot be written to: {refusal}"
            fix = "set TMPDIR to a folder that you can write to" if is_temporary else "go to another folder"
            return problem(found, "no profile can be stored", fix, command)
        rooms.append((probe.free_bytes(folder), name, folder, command))
    known = [(free, name, folder, command) for free, name, folder, command in rooms if free is not None]
    short = [room for room in known if room[0] < ENOUGH_BYTES]
    if short:
        free, name, folder, command = min(short, key=lambda room: room[0])
        make = problem if free < LEAST_BYTES else warning
        return make(
            f"{name} ({folder}): {free / 1e9:.2f} GB free, under 2 GB",
            "a profile with its export takes hundreds of MB, and one that does not fit is lost",
            "make room, or use another disk",
            command,
        )
    if len(known) < len(rooms):
        return not_checked("the system does not say how much is free")
    return ok("; ".join(f"{name}: {free / 1e9:.0f} GB free" for free, name, _, _ in known))


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


def examine(patient: ExaminedMachine, tell: Callable[[str], None] = lambda _: None) -> Diagnosis:
    """Make every check; `tell` is told the name of each before it begins."""
    for name, check in CHECKS.items():
        if name == "PROFILE" and patient.written is None:
            continue
        tell(name)
        try:
            patient.outcomes[name] = check(patient)
        except GpuledgerError as error:
            patient.outcomes[name] = not_checked(error.claim)
    tools = [Tool("nsys", patient.nsys, patient.nsys_version)]
    if patient.has_gpu:  # without a GPU nobody asks for the others
        tools.append(Tool("ncu", patient.ncu, patient.ncu_version))
    if (torch_version := patient.probe.package("torch")) is not None:
        tools.append(Tool("torch", None, torch_version))
    wrong = {name for name, outcome in patient.outcomes.items() if outcome.verdict is DoctorVerdict.PROBLEM}
    nsys_records = patient.nsys_version and not wrong & {"nsys", "nsys export", "Trial capture"}
    ways = (("nsys", nsys_records), ("torch.profiler", patient.torch_records)) if patient.has_gpu else ()
    return Diagnosis(
        tuple(DoctorCheck(name, outcome) for name, outcome in patient.outcomes.items()),
        tuple(way for way, records in ways if records),
        patient.machine,
        tuple(tools),
        patient.tracing_ns_per_call,
    )
