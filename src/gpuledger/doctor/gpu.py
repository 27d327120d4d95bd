"""Checks of the GPUs: are there any, and if not, why; who may use them, at which clocks, and who else watches them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from gpuledger.doctor.check import (
    NO_GPU,
    DoctorOutcome,
    ExaminedMachine,
    last_words,
    not_checked,
    ok,
    problem,
    warning,
)
from gpuledger.system.machine import InstalledGpu

_SMI_SECONDS: Final = 30.0
_ELSEWHERE: Final = "record on a machine with a GPU, copy the export here, and look at it here"
_EXPORT: Final = ("nsys export --type=sqlite run.nsys-rep", "gpuledger report run.sqlite")
_NVIDIA: Final = "0x10de"
_GIB: Final = 2**30


def gpu(patient: ExaminedMachine) -> DoctorOutcome:
    """Which GPUs there are, and through which driver."""
    machine = patient.machine
    if not machine.gpus:
        return _why_none(patient)
    names = Counter(f"{card.name} ({card.memory_bytes / _GIB:.0f} GiB)" for card in machine.gpus)
    cards = ", ".join(f"{count} x {name}" if count > 1 else name for name, count in names.items())
    driver = f"driver {machine.driver or 'of unknown version'}"
    cuda = f", for CUDA up to {machine.cuda}" if machine.cuda else ""
    found = f"{cards}; {driver}{cuda}; according to {machine.told_by or 'the driver'}"
    if machine.reason:
        return warning(
            f"{found}; {machine.reason}",
            "a GPU that does not answer has failed or may not be used",
            "see what the driver says of it",
            "nvidia-smi",
            "sudo dmesg | grep -i -e nvrm -e xid",
        )
    return ok(found)


def _why_none(patient: ExaminedMachine) -> DoctorOutcome:
    """Nothing can be recorded; the reason decides what to do about it."""
    probe = patient.probe
    means = "nothing can be recorded here; profiles from elsewhere can be read"
    is_loaded = probe.read("/proc/driver/nvidia/version") is not None
    smi = probe.find("nvidia-smi")
    said = ""
    if smi is not None:
        ran = patient.ask([smi], _SMI_SECONDS)
        said = last_words(ran)
        if "version mismatch" in ran.output:
            return problem(
                "the driver's libraries are of another version than the driver in the kernel",
                f"the driver was updated while it was in use; {means}",
                "restart the machine to load the new driver",
                "sudo reboot",
            )
    if is_loaded and patient.container:
        return problem(
            f"the driver is loaded, but this container ({patient.container}) was given no GPU",
            means,
            "start the container with GPUs; in Kubernetes, ask for nvidia.com/gpu under resources.limits",
            "docker run --gpus=all IMAGE",
        )
    if is_loaded and smi is None:
        return problem(
            "the driver is loaded, but neither nvidia-smi nor the package nvidia-ml-py is here to ask it",
            means,
            "install the package; nvidia-smi comes with the driver's utilities",
            "pip install 'gpuledger[nvml]'",
        )
    if is_loaded:
        return problem(
            f"the driver is loaded, but shows no GPU: {said or patient.machine.reason}",
            f"a GPU that has failed or is held by a virtual machine looks like this; {means}",
            "see what the driver says",
            "sudo dmesg | grep -i -e nvrm -e xid",
        )
    if smi is not None:
        return problem(
            f"nvidia-smi is here, but the driver is not loaded: {said}",
            means,
            "load the driver; where that fails, it does not fit the kernel and has to be installed again",
            "sudo modprobe nvidia",
        )
    devices = [f"/sys/bus/pci/devices/{name}" for name in probe.listed("/sys/bus/pci/devices")]
    cards = [device for device in devices if (probe.read(f"{device}/class") or "").startswith("0x03")]
    if any((probe.read(f"{card}/vendor") or "").strip() == _NVIDIA for card in cards):
        return problem(
            "a GPU of NVIDIA is built in, but there is no driver",
            means,
            "install the driver: the package manager of the system has it, or see https://www.nvidia.com/drivers",
        )
    return problem("no GPU of NVIDIA, no driver", means, _ELSEWHERE, *_EXPORT)


def sharing(patient: ExaminedMachine) -> DoctorOutcome:
    """Whether a program gets a whole GPU, and whether several may use one."""
    if not patient.has_gpu:
        return NO_GPU
    gpus = patient.machine.gpus
    closed = [card for card in gpus if card.compute_mode == "prohibited"]
    alone = [card for card in gpus if (card.compute_mode or "").startswith("exclusive")]
    split = [card for card in gpus if card.is_split]
    share = "sudo nvidia-smi --compute-mode=DEFAULT"
    if closed:
        found = f"{_which(closed)}: the compute mode is `prohibited`"
        return problem(found, "no CUDA program may use it", "allow it again", share)
    if alone:
        return warning(
            f"{_which(alone)}: the compute mode is `{alone[0].compute_mode}`",
            "one program at a time: with two ranks on it, or a server that runs already, the next one fails",
            "where that is not intended, share it",
            share,
        )
    if split:
        return warning(
            f"{_which(split)}: cut into MIG instances",
            "timelines are as usual, but peaks of the whole card do not hold, and ncu cannot read the counters of "
            "units that instances share",
            "for roofline figures, use a whole GPU",
            "sudo nvidia-smi --multi-instance-gpu=0",
        )
    if all(card.compute_mode is None and card.is_split is None for card in gpus):
        return not_checked("the driver does not say")
    return ok("whole GPUs, and several programs may use one")


def clocks(patient: ExaminedMachine) -> DoctorOutcome:
    """The clocks of the moment. Nothing is timed here; a GPU at rest says little about one at work."""
    if not patient.has_gpu:
        return NO_GPU
    gpus = patient.machine.gpus
    held = [card for card in gpus if card.throttled_by]
    if held:
        why = sorted({reason for card in held for reason in card.throttled_by})
        return warning(
            f"{_which(held)}: held down by {', '.join(why)}",
            "times are longer than this GPU can do, and differ from run to run",
            "see when it happens; `gpuledger time` says it for one operation",
            "nvidia-smi --query --display=PERFORMANCE",
        )
    texts = [text for card in gpus if (text := _clock(card))]
    if not texts:
        return not_checked("the driver does not tell clocks")
    return ok("; ".join(dict.fromkeys(texts)), "clocks follow load and heat; compare runs of the same state")


def _clock(card: InstalledGpu) -> str:
    parts = []
    if card.sm_mhz is not None:
        highest = f", highest {card.highest_sm_mhz} MHz" if card.highest_sm_mhz is not None else ""
        parts.append(f"SM clock {card.sm_mhz} MHz now{highest}")
    if card.power_limit_mw is not None:
        parts.append(f"power limit {card.power_limit_mw / 1000:.0f} W")
    return ", ".join(parts)


def _which(gpus: list[InstalledGpu]) -> str:
    return ("GPU " if len(gpus) == 1 else "GPUs ") + ", ".join(str(card.index) for card in gpus)


def environment(patient: ExaminedMachine) -> DoctorOutcome:
    """Variables that hide GPUs from a program, or make it another program."""
    if not patient.has_gpu:
        return NO_GPU
    variables = patient.probe.environment
    seen = variables.get("CUDA_VISIBLE_DEVICES")
    if seen is not None and (not seen.strip() or seen.strip().startswith("-1")):
        return problem(
            f"CUDA_VISIBLE_DEVICES is {seen.strip()!r}",
            "it hides every GPU from CUDA programs",
            "unset it, or name a GPU",
            "unset CUDA_VISIBLE_DEVICES",
        )
    if variables.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        return warning(
            "CUDA_LAUNCH_BLOCKING is set",
            "every launch waits for its kernel: a profile shows another program than the one that you run in earnest",
            "unset it before recording",
            "unset CUDA_LAUNCH_BLOCKING",
        )
    return ok(f"CUDA_VISIBLE_DEVICES is {seen!r}" if seen else "nothing hides GPUs or slows launches down")


_INJECTIONS: Final = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
_PROFILERS: Final = ("nsys", "nsys-launcher", "ncu", "nvprof")
_DCGM: Final = ("nv-hostengine", "dcgm-exporter")


def other_profilers(patient: ExaminedMachine) -> DoctorOutcome:
    """Who else may hold what a profiler needs: CUDA takes one at a time."""
    if not patient.has_gpu:
        return NO_GPU
    set_ = [name for name in _INJECTIONS if patient.probe.environment.get(name)]
    if set_:
        return warning(
            f"{', '.join(set_)} is set" if len(set_) == 1 else f"{', '.join(set_)} are set",
            "another profiler is loaded into CUDA programs already, and CUDA takes one at a time",
            "unset it, or record outside of the other profiler",
            *(f"unset {name}" for name in set_),
        )
    pids = (name for name in patient.probe.listed("/proc") if name.isdecimal())
    running = {(patient.probe.read(f"/proc/{pid}/comm") or "").strip() for pid in pids}
    if profilers := [name for name in _PROFILERS if name in running]:
        return warning(
            f"{' and '.join(profilers)} runs already",
            "where it watches the same program or GPU, the second profiler records nothing",
            "wait for it, or end it; sessions of nsys are listed by",
            "nsys sessions list",
        )
    if monitors := [name for name in _DCGM if name in running]:
        return warning(
            f"{' and '.join(monitors)} runs: NVIDIA's monitoring (DCGM)",
            "while it reads performance counters, ncu cannot; timelines are not affected",
            "pause it while ncu runs",
            "dcgmi profiling --pause",
            "dcgmi profiling --resume",
        )
    hidden = "outside of this container nothing can be seen" if patient.container else ""
    return ok("none seen", hidden)
