"""What GPUs, which driver and which of NVIDIA's tools this machine has, asked now.

NVML, the driver's own library, is asked through the package nvidia-ml-py; where that cannot be, `nvidia-smi`. Where
neither answers, there are no GPUs and the reason says why. A figure that a GPU or a driver does not tell is None.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.errors import ToolFailed
from gpuledger.system.nvml import SM_CLOCK, NoNvml, clock_reasons, nvml_session, throttles_in
from gpuledger.system.processes import Ran, run

_SECONDS: Final = 30.0
"""What `nvidia-smi` may take: where the driver is not kept loaded, it starts every GPU first."""

COMPUTE_MODES: Final = ("default", "exclusive thread", "prohibited", "exclusive process")
"""How many programs a GPU takes at a time, by NVML's numbers."""


class InstalledGpu(Struct, frozen=True):
    """One GPU, and the state it is in now."""

    index: int
    name: str
    memory_bytes: int
    sm_mhz: int | None
    """The clock of the moment, which says little about a busy GPU."""
    highest_sm_mhz: int | None
    power_limit_mw: int | None
    is_split: bool | None = None
    """Whether it is cut into MIG instances."""
    compute_mode: str | None = None
    throttled_by: tuple[str, ...] = ()
    """What holds its clocks down now, though it is not idle."""


class Machine(Struct, frozen=True):
    """The GPUs here."""

    driver: str | None
    cuda: str | None
    """The newest CUDA that the driver runs."""
    gpus: tuple[InstalledGpu, ...]
    reason: str
    """Why there are none, or what was wrong with asking."""
    told_by: str = ""


def machine() -> Machine:
    """The GPUs and the driver of this machine."""
    by_library = by_nvml()
    if by_library.gpus:
        return by_library
    if smi := shutil.which("nvidia-smi"):
        by_program = by_smi(Path(smi))
        if by_program.gpus:
            return by_program
        reason = by_program.reason
    else:
        reason = "nvidia-smi is not here either"
    return replace(by_library, reason=f"{by_library.reason}; {reason}")


def by_nvml() -> Machine:
    """What NVML tells."""
    try:
        with nvml_session() as nvml:
            return _nvml_machine(nvml)
    except NoNvml as reason:
        return Machine(None, None, (), str(reason))


def _nvml_machine(nvml: Any) -> Machine:
    def asked(question: Callable[[], Any]) -> Any | None:
        try:
            return question()
        except (nvml.NVMLError, AttributeError, IndexError):  # not every GPU or version tells everything
            return None

    def gpu(index: int) -> InstalledGpu | None:
        handle = asked(lambda: nvml.nvmlDeviceGetHandleByIndex(index))
        memory = asked(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total) if handle is not None else None
        if memory is None:
            return None
        bits = asked(lambda: clock_reasons(nvml, handle))
        mig = asked(lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
        return InstalledGpu(
            index,
            _text(asked(lambda: nvml.nvmlDeviceGetName(handle))) or "a GPU without a name",
            int(memory),
            asked(lambda: nvml.nvmlDeviceGetClockInfo(handle, SM_CLOCK)),
            asked(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, SM_CLOCK)),
            asked(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
            None if mig is None else bool(mig),
            asked(lambda: COMPUTE_MODES[nvml.nvmlDeviceGetComputeMode(handle)]),
            () if bits is None else throttles_in(bits),
        )

    count = asked(nvml.nvmlDeviceGetCount) or 0
    gpus = tuple(filter(None, map(gpu, range(count))))
    cuda = asked(nvml.nvmlSystemGetCudaDriverVersion)
    reason = f"NVML lists {count} and answers for {len(gpus)} of them" if len(gpus) < count else ""
    return Machine(
        _text(asked(nvml.nvmlSystemGetDriverVersion)),
        f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        gpus,
        reason if count else "NVML lists no GPU",
        "NVML",
    )


def _text(value: Any) -> str | None:
    """Old versions of the package hand over bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


_BASIC: Final = ("index", "driver_version", "memory.total", "clocks.sm", "clocks.max.sm", "power.limit")
_MORE: Final = ("compute_mode", "mig.mode.current")
"""Old drivers do not know all of these, and then answer none."""


def by_smi(smi: Path, start: Callable[..., Ran] = run) -> Machine:
    """What `nvidia-smi` tells."""
    for fields in ((*_BASIC, *_MORE), _BASIC):
        query = ",".join((*fields, "name"))  # the name comes last: it may hold a comma
        try:
            ran = start([smi, f"--query-gpu={query}", "--format=csv,noheader,nounits"], seconds=_SECONDS)
        except ToolFailed as error:
            return Machine(None, None, (), error.claim)
        if ran.exit_code == 0 and (rows := smi_rows(ran.output, fields)):
            gpus = tuple(_gpu(row) for row in rows)
            return Machine(_known(rows[0]["driver_version"]), _cuda(smi, start), gpus, "", "nvidia-smi")
        if "not a valid field" not in ran.output:
            break
    return Machine(None, None, (), f"nvidia-smi says: {ran.last_line}")


def smi_rows(output: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """The rows of an answer in CSV; a line that is none is left out."""
    rows = []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split(",", len(fields))]
        if len(cells) == len(fields) + 1 and cells[0].isdecimal() and _number(cells[fields.index("memory.total")]):
            rows.append(dict(zip((*fields, "name"), cells, strict=True)))
    return rows


def _gpu(row: dict[str, str]) -> InstalledGpu:
    sm, highest, watts = (_number(row[field]) for field in ("clocks.sm", "clocks.max.sm", "power.limit"))
    mig, mode = (_known(row.get(field, "")) for field in ("mig.mode.current", "compute_mode"))
    return InstalledGpu(
        int(row["index"]),
        row["name"],
        round((_number(row["memory.total"]) or 0) * 2**20),
        None if sm is None else round(sm),
        None if highest is None else round(highest),
        None if watts is None else round(watts * 1000),
        None if mig is None else mig == "Enabled",
        None if mode is None else mode.replace("_", " ").lower(),
    )


def _known(cell: str) -> str | None:
    """What a cell says, unless it says that it is not known: `[N/A]`, `[Not Supported]`."""
    return None if not cell or cell.startswith("[") or cell == "N/A" else cell


def _number(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


def _cuda(smi: Path, start: Callable[..., Ran]) -> str | None:
    """The CUDA version stands only in the head of the table that it prints when asked for nothing."""
    try:
        match = re.search(r"CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+)", start([smi], seconds=_SECONDS).output)
    except ToolFailed:
        return None
    return match[1] if match else None


_CUDA: Final = ("/usr/local/cuda/bin", "/usr/local/cuda-*/bin")
_NSYS: Final = (
    *_CUDA,
    "/opt/nvidia/nsight-systems*/bin",
    "/opt/nvidia/nsight-systems/*/bin",
    "/opt/nvidia/nsight-systems*/*/target-linux-*",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*",
    "/opt/nvidia/hpc_sdk/Linux_*/*/profilers/Nsight_Systems/bin",
)
_NCU: Final = (
    *_CUDA,
    "/opt/nvidia/nsight-compute/*",
    "/opt/nvidia/nsight-compute/*/target/linux-*",
    "/opt/nvidia/hpc_sdk/Linux_*/*/profilers/Nsight_Compute",
)
"""Searched in this order, after the PATH; of several versions in one place, the newest is taken."""

_VERSION: Final = re.compile(r"\bversion:?\s+(\d+(?:\.\d+){1,2})", re.IGNORECASE)
_VERSION_SECONDS: Final = 20.0
"""What a tool may take to say its version: the first start from a network disk is slow."""


def find_nsys(root: Path = Path("/")) -> Path | None:
    """NVIDIA's `nsys`; None if it is not installed."""
    return _find("nsys", _NSYS, root)


def find_ncu(root: Path = Path("/")) -> Path | None:
    """NVIDIA's `ncu`; None if it is not installed."""
    return _find("ncu", _NCU, root)


def find_rocprof(root: Path = Path("/")) -> Path | None:
    """AMD's `rocprofv3`; None if it is not installed."""
    return _find("rocprofv3", ("/opt/rocm/bin", "/opt/rocm-*/bin"), root)


def find_importer(nsys: Path) -> Path | None:
    """What turns a recording of this `nsys` into a report: a program of its own, in a folder beside that of nsys."""
    here = nsys.resolve().parent
    return min((importer for base in (here, here.parent) for importer in base.glob("*/QdstrmImporter")), default=None)


def version_of(tool: Path) -> str | None:
    """The version that a tool says it is, e.g. 2025.3.2, without the build; None if it does not say."""
    try:
        return version_in(run([tool, "--version"], seconds=_VERSION_SECONDS).output)
    except ToolFailed:
        return None  # whoever needs the tool will start it, and be told why that fails


def version_in(output: str) -> str | None:
    """The version in what a tool printed about itself; None if there is none."""
    match = _VERSION.search(output)
    return match[1] if match else None


def _find(name: str, places: tuple[str, ...], root: Path) -> Path | None:
    if on_path := shutil.which(name):
        return Path(on_path)
    for place in places:
        # compared by the numbers in their paths: 2025.3.1 comes before 2024.6.2
        paths = sorted(root.glob(f"{place.lstrip('/')}/{name}"), key=lambda path: _numbers(str(path)), reverse=True)
        if executable := next((path for path in paths if shutil.which(str(path))), None):
            return executable
    return None


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


ASKED: Final = ("profile", "--gpu-metrics-devices=help")
PERMISSION: Final = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
"""The driver's setting that lets everybody read counters."""

_GPU: Final = re.compile(r"^\s*(\d+): (.+?)\s*$", re.MULTILINE)
_REFUSED: Final = re.compile(r"ERR_NVGPUCTRPERM|[Ii]nsufficient privilege|permission", re.MULTILINE)
_UNKNOWN: Final = re.compile(r"unrecogni[sz]ed option|unknown option|invalid option", re.IGNORECASE)


def sampled_gpus(said: str) -> tuple[str, ...]:
    """The GPUs that can be sampled, in nsys's words; those that it lists as not supported are none."""
    offered = re.split(r"not supported|unsupported", said, maxsplit=1, flags=re.IGNORECASE)[0]
    return tuple(name for _, name in _GPU.findall(offered))


def why_not_sampled(said: str) -> str | None:
    """Why no GPU can be sampled; None if one can."""
    if _REFUSED.search(said):
        return "this user may not read the GPU's counters (ERR_NVGPUCTRPERM)"
    if _UNKNOWN.search(said):
        return "this nsys has no --gpu-metrics-devices: it came with 2024.1"
    if sampled_gpus(said):
        return None
    words = [line.strip() for line in said.splitlines() if line.strip()]
    return f"nsys offers no GPU to sample: {words[-1] if words else 'it says nothing'}"
