"""A tiny real capture: the smallest CUDA program recorded, exported and read; and what tracing adds to a CUDA call.

The same program runs plain and under nsys. It launches empty kernels and times its own launches, so the difference of
the two is what tracing costs the host per call. All files lie in a temporary folder that is removed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuledger.doctor.check import (
    NO_GPU,
    DoctorOutcome,
    DoctorVerdict,
    ExaminedMachine,
    last_words,
    missing_library,
    not_checked,
    ok,
    problem,
    warning,
)
from gpuledger.doctor.nsys import NO_NSYS
from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.system.processes import Ran

SECONDS: Final = 60.0
"""For each of the three: the program plain, the program under nsys, the export."""

_SAID: Final = re.compile(r"gpuledger-trial launches=(\d+) ns_per_launch=(\d+)")
OPTIONS: Final = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true")


class _Failed(Exception):
    """The trial ends early, with this outcome."""

    def __init__(self, outcome: DoctorOutcome) -> None:
        super().__init__(outcome.found)
        self.outcome = outcome


def trial(patient: ExaminedMachine) -> DoctorOutcome:
    """Record, export, read, and compare."""
    if not patient.has_gpu:
        return NO_GPU
    if patient.is_quick:
        return not_checked("left out by --quick")
    if patient.nsys is None:
        return NO_NSYS
    if (before := patient.outcomes.get("nsys export")) is not None and before.verdict is not DoctorVerdict.OK:
        return not_checked("nsys cannot write a report, as said above")
    try:
        with patient.probe.scratch() as folder:
            return _tried(patient, patient.nsys, folder)
    except _Failed as failed:
        return failed.outcome
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return not_checked(f"no temporary folder for it: {why}")


def _tried(patient: ExaminedMachine, nsys: Path, folder: Path) -> DoctorOutcome:
    program: tuple[str | Path, ...] = (patient.probe.python, "-P", patient.handed.launches)
    launches, plain_ns = _launched(_run(patient, program, "a small CUDA program"), _PLAIN_FAILED)
    report = folder / "trial.nsys-rep"
    recording = (nsys, "profile", *OPTIONS, f"--output={report.with_suffix('')}", *program)
    traced = _run(patient, recording, "`nsys profile`")
    if not report.exists():
        raise _Failed(_no_report(traced))
    _, traced_ns = _launched(traced, _TRACED_FAILED)
    stored = folder / "trial.sqlite"
    exporting = (nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={stored}", report)
    exported = _run(patient, exporting, "`nsys export`")
    if not stored.exists():
        raise _Failed(problem(f"`nsys export` wrote nothing: {last_words(exported)}", "reports stay closed", _AGAIN))
    try:
        kernels = patient.handed.kernels_in(stored)
    except GpuledgerError as error:
        raise _Failed(problem(f"its export cannot be read: {error.claim}", "", _TELL)) from None
    return _compared(patient, launches, kernels, plain_ns, traced_ns)


def _compared(patient: ExaminedMachine, launches: int, kernels: int, plain_ns: int, traced_ns: int) -> DoctorOutcome:
    if kernels == 0:
        return problem(
            f"nsys recorded none of {launches:,} kernels",
            "this nsys does not know this driver or GPU, or another profiler holds CUPTI",
            "update Nsight Systems, and end other profilers",
            "nsys status --environment",
        )
    patient.tracing_ns_per_call = float(max(0, traced_ns - plain_ns))
    cost = (
        f"tracing adds about {patient.tracing_ns_per_call / 1000:.1f} us per CUDA call "
        f"({plain_ns / 1000:.1f} us plain, {traced_ns / 1000:.1f} us traced)"
    )
    if kernels < launches:
        return warning(
            f"{kernels:,} of {launches:,} kernels recorded; {cost}",
            "records are lost",
            "look at the health of your profiles",
            "gpuledger info run.sqlite",
        )
    return ok(f"{kernels:,} kernels recorded, exported and read", cost)


def _run(patient: ExaminedMachine, argv: Sequence[str | Path], what: str) -> Ran:
    try:
        return patient.probe.start(argv, SECONDS)
    except ToolFailed as error:
        raise _Failed(problem(f"{what}: {error.claim}", "it cannot be relied on for a real program", _AGAIN)) from None


_AGAIN: Final = "try it by hand, and see what it says"
_TELL: Final = "this is a bug in gpuledger: please report it with the versions above"
_PLAIN_FAILED: Final = (
    "a small CUDA program fails",
    "no CUDA program runs here, profiled or not",
    "fix the driver first; nvidia-smi shows whether it works",
)
_TRACED_FAILED: Final = (
    "a small CUDA program fails under nsys, though it runs without",
    "profiles of real programs would fail like it",
    "update Nsight Systems; end other profilers",
)


def _launched(ran: Ran, complaint: tuple[str, str, str]) -> tuple[int, int]:
    """How many launches the program made, and what each took, in ns."""
    match = _SAID.search(ran.output)
    if match is None:
        what, means, fix = complaint
        raise _Failed(problem(f"{what}: {last_words(ran)}", means, fix, "nvidia-smi"))
    return int(match[1]), int(match[2])


def _no_report(ran: Ran) -> DoctorOutcome:
    library = missing_library(ran.output)
    found = f"its importer lacks {library}" if library else last_words(ran)
    return problem(f"nsys wrote no report: {found}", "nothing can be recorded with it", _AGAIN)
