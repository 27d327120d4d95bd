"""Checks of NVIDIA's tools, Nsight Systems and Nsight Compute: a machine in, an outcome out.

`trial` makes a tiny real capture, the smallest CUDA program recorded, exported and read, which also tells what tracing
adds to a CUDA call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuledger.doctor.check import (
    NO_GPU,
    NOT_RUN,
    SECONDS,
    DoctorCheck,
    DoctorVerdict,
    ExaminedMachine,
    last_words,
    library_commands,
    missing_library,
    not_checked,
    ok,
    problem,
    warning,
)
from gpuledger.errors import GpuledgerError, ToolFailed
from gpuledger.system.files import reason_of
from gpuledger.system.machine import ASKED, PERMISSION, sampled_gpus, version_in, why_not_sampled
from gpuledger.system.processes import Ran

_SITE: Final = "https://developer.nvidia.com/nsight-systems"
_EXPORT_SECONDS: Final = 30.0
NO_NSYS: Final = not_checked("no nsys")


def nsys(patient: ExaminedMachine) -> DoctorCheck:
    """Where it is, and which version."""
    if patient.nsys is not None:
        fix = "install the library, or put it into a folder that LD_LIBRARY_PATH names"
        return _starts(
            patient, patient.nsys, patient.nsys_says, "nothing is recorded", fix, f"Systems again, see {_SITE}"
        )
    if not patient.has_gpu:
        return not_checked("no GPU, and no nsys either", "exports (.sqlite) need none; only .nsys-rep files do")
    fix = f"install Nsight Systems: NVIDIA's package repository of CUDA has it, or {_SITE}"
    commands = _install_commands(patient, "cuda-nsight-systems")
    if patient.torch_records:
        return warning("not found", "torch.profiler can record, but not operating-system calls", fix, *commands)
    return problem("not found", "timelines cannot be recorded", fix, *commands)


def _install_commands(patient: ExaminedMachine, package: str) -> tuple[str, ...]:
    cuda = patient.machine.cuda
    return (f"sudo apt-get install {package}-{cuda.replace('.', '-')}",) if cuda else ()


def _starts(patient: ExaminedMachine, tool: Path, ran: Ran, means: str, library_fix: str, product: str) -> DoctorCheck:
    if library := missing_library(ran.output):
        commands = library_commands(library, patient.find)
        return problem(f"{tool} does not start: {library} is missing", means, library_fix, *commands)
    version = version_in(ran.output)
    if version is None:
        found = f"{tool} does not say its version: {last_words(ran)}"
        return problem(found, "it does not work as it should", f"install Nsight {product}")
    return ok(f"{version}, {tool}")


def export(patient: ExaminedMachine) -> DoctorCheck:
    """Whether reports can be written and exported: that is the importer's work, which has libraries of its own."""
    tool = patient.nsys
    if tool is None:
        return NO_NSYS
    if patient.nsys_version is None:
        return not_checked("nsys does not work")
    importer = patient.importer(tool)
    by_itself = patient.ask([str(importer), "--version"], SECONDS) if importer else Ran(0, "")
    with patient.scratch() as folder:  # of a report that is not there: it loads all it needs before it looks
        options = ["--type=sqlite", f"--output={folder / 'nothing.sqlite'}", str(folder / "nothing.nsys-rep")]
        asked = patient.ask([str(tool), "export", *options], _EXPORT_SECONDS)
    asked = Ran(asked.exit_code, asked.output.replace(str(folder), "…"))
    if library := missing_library(by_itself.output) or missing_library(asked.output):
        return problem(
            f"the importer lacks {library}",
            "nsys records, but its importer does not start, so there is no report and no export",
            "install the library, or put it into a folder that LD_LIBRARY_PATH names",
            *library_commands(library, patient.find),
        )
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


def profile(patient: ExaminedMachine) -> DoctorCheck:
    """Whether the nsys here is new enough for the profile that the user named."""
    written = patient.written
    if written is None:
        return not_checked("no PROFILE given")
    if written.tool == "nsys report":
        return not_checked(
            f"{written.name}: a report, which gpuledger reads without nsys",
            "an nsys that is older than the one that wrote it refuses it; `gpuledger info` says which one that was",
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


def gpu_metrics(patient: ExaminedMachine) -> DoctorCheck:
    """Whether nsys can sample the GPU's counters, from which kernels get their use of the GPU."""
    if patient.nsys is None:
        return NO_NSYS
    if not patient.has_gpu:
        return NO_GPU
    if patient.nsys_version is None:
        return not_checked("nsys does not work")
    ran = patient.ask([str(patient.nsys), *ASKED], SECONDS)
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


def sampling(patient: ExaminedMachine) -> DoctorCheck:
    """Whether nsys could sample the CPU, which it does unless told not to."""
    if patient.nsys is None:
        return NO_NSYS
    if not patient.has_gpu:
        return NO_GPU
    text = (patient.read(_PARANOID) or "").strip()
    if not text.lstrip("-").isdecimal():
        return not_checked("the kernel does not say (perf_event_paranoid)")
    if int(text) > 2 and not (patient.capabilities or 0) >> 21 & 1:
        return ok(f"the kernel forbids it (perf_event_paranoid is {text})", "nothing that is reported here needs it")
    means = f"a plain `nsys profile` samples, and writes gigabytes; `gpuledger capture` sets {_OFF}"
    free = [room for folder in patient.folders.values() if (room := patient.free_bytes(folder)) is not None]
    if free and min(free) < PLENTY_BYTES:
        return warning(
            f"the kernel allows it, and {min(free) / 1e9:.1f} GB are free",
            means,
            "turn it off when you call nsys yourself",
            f"nsys profile {_OFF} COMMAND",
        )
    return ok(f"the kernel allows it (perf_event_paranoid is {text})", means)


_NCU_SITE: Final = "https://developer.nvidia.com/nsight-compute"
_SYS_ADMIN, _PERFMON = 21, 38  # Linux's numbers of these capabilities
_PERFMON_SINCE: Final = 565  # the first driver that lets CAP_PERFMON read counters


def ncu(patient: ExaminedMachine) -> DoctorCheck:
    """Where it is, and which version."""
    if patient.ncu is not None:
        means, again = "single kernels cannot be measured", f"Compute again, see {_NCU_SITE}"
        return _starts(patient, patient.ncu, patient.ncu_says, means, "install the library", again)
    return warning(
        "not found",
        "timelines need none; what limits a single kernel stays unknown",
        f"install Nsight Compute: NVIDIA's package repository of CUDA has it, or {_NCU_SITE}",
        *_install_commands(patient, "cuda-nsight-compute"),
    )


def counters(patient: ExaminedMachine) -> DoctorCheck:
    """Whether ncu will be refused with ERR_NVGPUCTRPERM."""
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", patient.read("/proc/driver/nvidia/params") or "", re.M)
    if match is None:
        return not_checked("the driver does not say who may read them (/proc/driver/nvidia/params)")
    if match[1] == "0":
        return ok("every user may read them")
    bits = patient.capabilities
    if bits is None:
        return not_checked("only administrators may read them, and whether this user may is unknown")
    if bits >> _SYS_ADMIN & 1:
        return ok("only administrators may read them, and this process may (CAP_SYS_ADMIN)")
    release = re.match(r"\d+", patient.machine.driver or "")  # 570 of 570.133.20
    if bits >> _PERFMON & 1 and release and int(release[0]) >= _PERFMON_SINCE:
        return ok("only administrators may read them, and this process may (CAP_PERFMON)")
    found = "only administrators may read them, and this process is none (no CAP_SYS_ADMIN)"
    means = "ncu will be refused with ERR_NVGPUCTRPERM; timelines need no counters"
    make = problem if patient.ncu else warning  # without ncu there is nobody to be refused
    if patient.container:
        return make(
            found,
            means,
            "start the container with the capability (in Kubernetes: securityContext.capabilities.add SYS_ADMIN), or "
            f"let the host's administrator put `{PERMISSION}` into a file under /etc/modprobe.d",
            "docker run --gpus=all --cap-add=SYS_ADMIN IMAGE",
        )
    return make(
        found,
        means,
        "run ncu with sudo; or for good: the first line below goes into /etc/modprobe.d/nvidia-profiling.conf, the "
        "others are commands",
        PERMISSION,
        "sudo update-initramfs -u  # dracut --force, on Red Hat",
        "sudo reboot",
    )


TRIAL_SECONDS: Final = 60.0  # for each of the three: the program plain, the program under nsys, the export

_SAID: Final = re.compile(r"gpuledger-trial launches=(\d+) ns_per_launch=(\d+)")
OPTIONS: Final = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true")


class _Failed(Exception):
    """The trial ends early, with this outcome."""

    def __init__(self, outcome: DoctorCheck) -> None:
        super().__init__(outcome.found)
        self.outcome = outcome


def trial(patient: ExaminedMachine) -> DoctorCheck:
    """Record, export, read, and compare."""
    if patient.is_quick:
        return not_checked("left out by --quick")
    if patient.nsys is None:
        return NO_NSYS
    if (before := patient.outcomes.get("nsys export")) is not None and before.verdict is not DoctorVerdict.OK:
        return not_checked("nsys cannot write a report, as said above")
    try:
        with patient.scratch() as folder:
            return _try(patient, patient.nsys, folder)
    except _Failed as failed:
        return failed.outcome
    except OSError as error:
        return not_checked(f"no temporary folder for it: {reason_of(error)}")


def _try(patient: ExaminedMachine, nsys: Path, folder: Path) -> DoctorCheck:
    program: tuple[str | Path, ...] = (patient.python, "-P", patient.launches)
    launches, plain_ns = _launches(_run(patient, program, "a small CUDA program"), _PLAIN_FAILED)
    report, stored = folder / "trial.nsys-rep", folder / "trial.sqlite"
    recording = (nsys, "profile", *OPTIONS, f"--output={report.with_suffix('')}", *program)
    traced = _run(patient, recording, "`nsys profile`")
    if not report.exists():
        library = missing_library(traced.output)
        found = f"its importer lacks {library}" if library else last_words(traced)
        raise _Failed(problem(f"nsys wrote no report: {found}", "nothing can be recorded with it", _AGAIN))
    _, traced_ns = _launches(traced, _TRACED_FAILED)
    exporting = (nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={stored}", report)
    exported = _run(patient, exporting, "`nsys export`")
    if not stored.exists():
        raise _Failed(problem(f"`nsys export` wrote nothing: {last_words(exported)}", "reports stay closed", _AGAIN))
    try:
        kernels = patient.kernels_in(stored)
    except GpuledgerError as error:
        raise _Failed(problem(f"its export cannot be read: {error.claim}", "", _TELL)) from None
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
        found, fix = f"{kernels:,} of {launches:,} kernels recorded; {cost}", "look at the health of your profiles"
        return warning(found, "records are lost", fix, "gpuledger info run.sqlite")
    return ok(f"{kernels:,} kernels recorded, exported and read", cost)


def _run(patient: ExaminedMachine, argv: Sequence[str | Path], what: str) -> Ran:
    try:
        return patient.start(argv, TRIAL_SECONDS)
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


def _launches(ran: Ran, complaint: tuple[str, str, str]) -> tuple[int, int]:
    """How many launches the program made, and what each took, in ns."""
    match = _SAID.search(ran.output)
    if match is None:
        what, means, fix = complaint
        raise _Failed(problem(f"{what}: {last_words(ran)}", means, fix, "nvidia-smi"))
    return int(match[1]), int(match[2])
