"""Checks of Nsight Compute: is it here, and may this user read the GPU's performance counters."""

from __future__ import annotations

import re
from typing import Final

from gpuledger.doctor.check import (
    NO_GPU,
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
from gpuledger.system.gpu_metrics_help import PERMISSION

_SITE: Final = "https://developer.nvidia.com/nsight-compute"
_SYS_ADMIN, _PERFMON = 21, 38  # Linux's numbers of these capabilities
_PERFMON_SINCE: Final = 565
"""The first driver that lets CAP_PERFMON read counters."""


def ncu(patient: ExaminedMachine) -> DoctorOutcome:
    """Where it is, and which version."""
    if not patient.has_gpu:
        return NO_GPU
    tool = patient.ncu
    if tool is None:
        cuda = patient.machine.cuda
        commands = (f"sudo apt-get install cuda-nsight-compute-{cuda.replace('.', '-')}",) if cuda else ()
        return warning(
            "not found",
            "timelines need none; what limits a single kernel stays unknown",
            f"install Nsight Compute: NVIDIA's package repository of CUDA has it, or {_SITE}",
            *commands,
        )
    said = patient.ncu_says
    if library := missing_library(said.output):
        return problem(
            f"{tool} does not start: {library} is missing",
            "single kernels cannot be measured",
            "install the library",
            *library_commands(library, patient.probe.find),
        )
    if patient.ncu_version is None:
        return problem(
            f"{tool} does not say its version: {last_words(said)}",
            "it does not work as it should",
            f"install Nsight Compute again, see {_SITE}",
        )
    return ok(f"{patient.ncu_version}, {tool}")


def counters(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether ncu will be refused with ERR_NVGPUCTRPERM."""
    if not patient.has_gpu:
        return NO_GPU
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", patient.probe.read("/proc/driver/nvidia/params") or "", re.M)
    if match is None:
        return not_checked("the driver does not say who may read them (/proc/driver/nvidia/params)")
    if match[1] == "0":
        return ok("every user may read them")
    bits = patient.capabilities
    if bits is None:
        return not_checked("only administrators may read them, and whether this user may is unknown")
    if bits >> _SYS_ADMIN & 1:
        return ok("only administrators may read them, and this process may (CAP_SYS_ADMIN)")
    if bits >> _PERFMON & 1 and _release(patient) >= _PERFMON_SINCE:
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


def _release(patient: ExaminedMachine) -> int:
    """The driver's release, 570 of 570.133.20; 0 if it is not known."""
    match = re.match(r"\d+", patient.machine.driver or "")
    return int(match[0]) if match else 0
