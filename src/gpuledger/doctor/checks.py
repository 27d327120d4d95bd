"""Whether profiles can be recorded on a machine: an `ExaminedMachine` in, every check with its outcome out.

A check answers one question and never ends the others: what it cannot find out is "not checked", with the reason.
Checks that hang on something that is missing say only that it is missing. Those of NVIDIA's tools are in `tools`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.doctor.check import (
    NO_GPU,
    DoctorCheck,
    DoctorVerdict,
    ExaminedMachine,
    last_words,
    not_checked,
    ok,
    problem,
    warning,
)
from gpuledger.doctor.tools import counters, export, gpu_metrics, ncu, nsys, profile, sampling, trial
from gpuledger.errors import GpuledgerError
from gpuledger.system.machine import InstalledGpu

_SMI_SECONDS: Final = 30.0
_ELSEWHERE: Final = "record on a machine with a GPU, copy the export here, and look at it here"
_EXPORT: Final = ("nsys export --type=sqlite run.nsys-rep", "gpuledger report run.sqlite")
_NVIDIA: Final = "0x10de"
_GIB: Final = 2**30


def gpu(patient: ExaminedMachine) -> DoctorCheck:
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


def _why_none(patient: ExaminedMachine) -> DoctorCheck:
    means = "nothing can be recorded here; profiles from elsewhere can be read"
    is_loaded = patient.read("/proc/driver/nvidia/version") is not None
    smi = patient.find("nvidia-smi")
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
    devices = [f"/sys/bus/pci/devices/{name}" for name in patient.listed("/sys/bus/pci/devices")]
    cards = [device for device in devices if (patient.read(f"{device}/class") or "").startswith("0x03")]
    if any((patient.read(f"{card}/vendor") or "").strip() == _NVIDIA for card in cards):
        return problem(
            "a GPU of NVIDIA is built in, but there is no driver",
            means,
            "install the driver: the package manager of the system has it, or see https://www.nvidia.com/drivers",
        )
    return problem("no GPU of NVIDIA, no driver", means, _ELSEWHERE, *_EXPORT)


def sharing(patient: ExaminedMachine) -> DoctorCheck:
    """Whether a program gets a whole GPU, and whether several may use one."""
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


def clocks(patient: ExaminedMachine) -> DoctorCheck:
    """The clocks of the moment. Nothing is timed here; a GPU at rest says little about one at work."""
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


def environment(patient: ExaminedMachine) -> DoctorCheck:
    """Variables that hide GPUs from a program, or make it another program."""
    variables = patient.environment
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


def other_profilers(patient: ExaminedMachine) -> DoctorCheck:
    """Who else may hold what a profiler needs: CUDA takes one at a time."""
    set_ = [name for name in _INJECTIONS if patient.environment.get(name)]
    if set_:
        return warning(
            f"{', '.join(set_)} is set" if len(set_) == 1 else f"{', '.join(set_)} are set",
            "another profiler is loaded into CUDA programs already, and CUDA takes one at a time",
            "unset it, or record outside of the other profiler",
            *(f"unset {name}" for name in set_),
        )
    pids = (name for name in patient.listed("/proc") if name.isdecimal())
    running = {(patient.read(f"/proc/{pid}/comm") or "").strip() for pid in pids}
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


def python(patient: ExaminedMachine) -> DoctorCheck:
    """Which Python and which gpuledger."""
    versions = patient.versions
    return ok(f"{versions['Python']}, {patient.python}; gpuledger {versions['gpuledger']}")


def packages(patient: ExaminedMachine) -> DoctorCheck:
    """Which optional packages are here, and what the others would open."""
    missing = {
        extra: opens for extra, (names, opens) in EXTRAS.items() if any(patient.package(name) is None for name in names)
    }
    if not missing:
        return ok("all optional packages are here")
    opens = "; ".join(f"{extra}: {what}" for extra, what in missing.items())
    return ok(f"{len(EXTRAS) - len(missing)} of {len(EXTRAS)} extras", f"`pip install 'gpuledger[NAME]'` adds {opens}")


def torch(patient: ExaminedMachine) -> DoctorCheck:
    """Whether torch.profiler records kernels."""
    seen = patient.torch
    if seen is None:
        return not_checked(
            f"torch is not in this Python ({patient.python})",
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


def container(patient: ExaminedMachine) -> DoctorCheck:
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


def disk(patient: ExaminedMachine) -> DoctorCheck:
    """Whether there is room for a profile where it would be written."""
    rooms = []
    for name, folder in patient.folders.items():
        is_temporary = "temporary" in name
        command = "export TMPDIR=FOLDER" if is_temporary else "cd FOLDER"
        if refusal := patient.refusal(folder):
            found = f"{name} ({folder}) cannot be written to: {refusal}"
            fix = "set TMPDIR to a folder that you can write to" if is_temporary else "go to another folder"
            return problem(found, "no profile can be stored", fix, command)
        rooms.append((patient.free_bytes(folder), name, folder, command))
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


CHECKS: Final[Mapping[str, Callable[[ExaminedMachine], DoctorCheck]]] = {
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

ONLY_WITH_GPU: Final = (sharing, clocks, environment, other_profilers, torch, ncu, counters, trial)


class Tool(Struct, frozen=True):
    """A profiler that was found."""

    name: str
    path: str | None
    """null: not found, or a package of Python."""
    version: str | None


def examine(patient: ExaminedMachine, tell: Callable[[str], None] = lambda _: None) -> tuple[DoctorCheck, ...]:
    """Make every check; `tell` is told the name of each before it begins."""
    for name, check in CHECKS.items():
        if name == "PROFILE" and patient.written is None:
            continue
        tell(name)
        try:
            needless = check in ONLY_WITH_GPU and not patient.has_gpu
            answered = NO_GPU if needless else check(patient)
        except GpuledgerError as error:
            answered = not_checked(error.claim)
        patient.outcomes[name] = replace(answered, name=name)
    return tuple(patient.outcomes.values())


def tools_of(patient: ExaminedMachine) -> Iterator[Tool]:
    """The profilers here; without a GPU nobody asks for ncu."""
    yield Tool("nsys", None if patient.nsys is None else str(patient.nsys), patient.nsys_version)
    if patient.has_gpu:
        yield Tool("ncu", None if patient.ncu is None else str(patient.ncu), patient.ncu_version)
    if (torch_version := patient.package("torch")) is not None:
        yield Tool("torch", None, torch_version)


def ways_to_record(patient: ExaminedMachine) -> Iterator[str]:
    """What records timelines here, as far as the checks say."""
    wrong = {name for name, outcome in patient.outcomes.items() if outcome.verdict is DoctorVerdict.PROBLEM}
    if patient.has_gpu and patient.nsys_version and not wrong & {"nsys", "nsys export", "Trial capture"}:
        yield "nsys"
    if patient.has_gpu and patient.torch_records:
        yield "torch.profiler"
