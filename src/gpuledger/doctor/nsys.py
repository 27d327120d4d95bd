"""Checks of Nsight Systems: is it here, can it write and export reports, does it read what was asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpuledger.doctor.check import (
    NO_GPU,
    NOT_RUN,
    SECONDS,
    DoctorOutcome,
    ExaminedMachine,
    last_words,
    library_commands,
    missing_library,
    not_checked,
    ok,
    problem,
    warning,
)
from gpuledger.errors import ToolFailed
from gpuledger.system.gpu_metrics_help import ASKED, PERMISSION, sampled_gpus, why_not_sampled
from gpuledger.system.processes import Ran

_SITE: Final = "https://developer.nvidia.com/nsight-systems"
_EXPORT_SECONDS: Final = 30.0
NO_NSYS: Final = not_checked("no nsys")


def nsys(patient: ExaminedMachine) -> DoctorOutcome:
    """Where it is, and which version."""
    tool = patient.nsys
    if tool is None:
        return _missing(patient)
    said = patient.nsys_says
    if library := missing_library(said.output):
        return _lacks(patient, f"{tool} does not start: {library} is missing", "nothing is recorded", library)
    if patient.nsys_version is None:
        return problem(
            f"{tool} does not say its version: {last_words(said)}",
            "it does not work as it should",
            f"install Nsight Systems again, see {_SITE}",
        )
    return ok(f"{patient.nsys_version}, {tool}")


def _missing(patient: ExaminedMachine) -> DoctorOutcome:
    if not patient.has_gpu:
        return not_checked("no GPU, and no nsys either", "exports (.sqlite) need none; only .nsys-rep files do")
    fix = f"install Nsight Systems: NVIDIA's package repository of CUDA has it, or {_SITE}"
    cuda = patient.machine.cuda
    commands = (f"sudo apt-get install cuda-nsight-systems-{cuda.replace('.', '-')}",) if cuda else ()
    if patient.torch_records:
        return warning("not found", "torch.profiler can record, but not operating-system calls", fix, *commands)
    return problem("not found", "timelines cannot be recorded", fix, *commands)


def _lacks(patient: ExaminedMachine, found: str, means: str, library: str) -> DoctorOutcome:
    commands = library_commands(library, patient.probe.find)
    return problem(found, means, "install the library, or put it into a folder that LD_LIBRARY_PATH names", *commands)


def export(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether reports can be written and exported: that is the importer's work, which has libraries of its own."""
    tool = patient.nsys
    if tool is None:
        return NO_NSYS
    if patient.nsys_version is None:
        return not_checked("nsys does not work")
    importer = patient.probe.importer(tool)
    by_itself = _started(patient, [str(importer), "--version"], SECONDS) if importer else Ran(0, "")
    asked = _asked_for_nothing(patient, tool)
    if library := missing_library(by_itself.output) or missing_library(asked.output):
        means = "nsys records, but its importer does not start, so there is no report and no export"
        return _lacks(patient, f"the importer lacks {library}", means, library)
    wrong = [ran for ran in (by_itself, asked) if ran.exit_code == NOT_RUN]
    if "importer" in asked.output.lower():
        wrong.append(asked)
    if wrong:
        return problem(
            f"the importer does not work: {last_words(wrong[0])}",
            "no report can be written or exported",
            f"install the whole of Nsight Systems, see {_SITE}; or export on another machine",
        )
    return ok("the importer starts")


def _asked_for_nothing(patient: ExaminedMachine, tool: Path) -> Ran:
    """What `nsys export` says to a report that is not there; it loads all that it needs before it looks."""
    with patient.probe.scratch() as folder:
        options = ["--type=sqlite", f"--output={folder / 'nothing.sqlite'}", str(folder / "nothing.nsys-rep")]
        ran = _started(patient, [str(tool), "export", *options], _EXPORT_SECONDS)
    return Ran(ran.exit_code, ran.output.replace(str(folder), "…"))


def _started(patient: ExaminedMachine, argv: list[str], seconds: float) -> Ran:
    try:
        return patient.probe.start(argv, seconds)
    except ToolFailed as error:
        return Ran(NOT_RUN, error.claim)


def profile(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether the nsys here is new enough for the profile that the user named."""
    written = patient.written
    if written is None:
        return not_checked("no PROFILE given")
    if written.tool == "nsys report":
        return not_checked(
            f"{written.name}: a .nsys-rep says only to nsys which version wrote it",
            "an older nsys refuses it; `gpuledger info` tries",
        )
    if written.tool != "nsys":
        return ok(f"{written.name}: written by {written.tool}", "it is read without nsys")
    if written.version is None:
        return not_checked(f"{written.name} does not say which nsys wrote it")
    if patient.nsys_version is None:
        return ok(f"{written.name}: from nsys {written.version}", "this export is read without nsys")
    if _numbers(patient.nsys_version) < _numbers(written.version):
        needed = ".".join(map(str, _numbers(written.version)))
        return warning(
            f"{written.name}: from nsys {written.version}; the nsys here is {patient.nsys_version}",
            "this export is read without nsys, but the .nsys-rep that it came from needs one as new",
            f"install nsys {needed} or later, see {_SITE}; or export where it was recorded",
            "nsys export --type=sqlite REPORT.nsys-rep",
        )
    return ok(f"{written.name}: from nsys {written.version}; the nsys here is {patient.nsys_version}")


def _numbers(version: str) -> tuple[int, ...]:
    """The year, the release and the patch; a build number behind them says nothing about what can be read."""
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())


def gpu_metrics(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether nsys can sample the GPU's counters, from which kernels get their use of the GPU."""
    if patient.nsys is None:
        return NO_NSYS
    if not patient.has_gpu:
        return NO_GPU
    if patient.nsys_version is None:
        return not_checked("nsys does not work")
    ran = _started(patient, [str(patient.nsys), *ASKED], SECONDS)
    if ran.exit_code == NOT_RUN:
        return not_checked(f"nsys does not say: {last_words(ran)}")
    reason = why_not_sampled(ran.output)
    if reason is None:
        gpus = ", ".join(sampled_gpus(ran.output))
        return ok(
            f"nsys can sample {gpus}",
            "`gpuledger capture nsys` tells what each kernel uses, where it records a short stretch",
        )
    means = "what kernels use of the GPU stays unknown without ncu; timelines need no samples"
    if "ERR_NVGPUCTRPERM" in reason:
        return warning(
            reason,
            means,
            "run as root, give the container CAP_SYS_ADMIN, or let every user read counters and load the driver again",
            f"echo '{PERMISSION}' | sudo tee /etc/modprobe.d/nvidia-profiling.conf",
        )
    return warning(reason, means, f"install Nsight Systems 2024.1 or later, see {_SITE}")


PLENTY_BYTES: Final = 20 * 10**9
_PARANOID: Final = "/proc/sys/kernel/perf_event_paranoid"
_OFF: Final = "--sample=none --cpuctxsw=none"


def sampling(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether nsys could sample the CPU, which it does unless told not to."""
    if patient.nsys is None:
        return NO_NSYS
    if not patient.has_gpu:
        return NO_GPU
    text = (patient.probe.read(_PARANOID) or "").strip()
    if not text.lstrip("-").isdecimal():
        return not_checked("the kernel does not say (perf_event_paranoid)")
    if int(text) > 2 and not (patient.capabilities or 0) >> 21 & 1:
        return ok(f"the kernel forbids it (perf_event_paranoid is {text})", "nothing that is reported here needs it")
    means = f"a plain `nsys profile` samples, and writes gigabytes; `gpuledger capture` sets {_OFF}"
    free = [room for folder in patient.probe.folders.values() if (room := patient.probe.free_bytes(folder)) is not None]
    if free and min(free) < PLENTY_BYTES:
        return warning(
            f"the kernel allows it, and {min(free) / 1e9:.1f} GB are free",
            means,
            "turn it off when you call nsys yourself",
            f"nsys profile {_OFF} COMMAND",
        )
    return ok(f"the kernel allows it (perf_event_paranoid is {text})", means)
