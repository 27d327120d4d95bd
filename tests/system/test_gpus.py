"""GPUs as nvidia-smi and NVML tell of them, and NVIDIA's tools: what they say is understood, whatever it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.system import machine
from gpuledger.system.machine import InstalledGpu, Machine
from gpuledger.system.nvml import GpuReadings, GpuWatch, NotWatched, SampledRange
from gpuledger.system.processes import Ran

H200 = InstalledGpu(0, "NVIDIA H200", 150_754_820_096, 345, 1980, 700_000, is_split=False, compute_mode="default")
HEALTHY = Machine("570.133.20", "12.8", (H200,), "", "NVML")
SMI = Path("/usr/bin/nvidia-smi")


def tool(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0", "2025.3.2"),
        (
            "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025\nVersion 2025.3.1.0 (build 1)",
            "2025.3.1",
        ),
        ("Version 2024.1", "2024.1"),
        ("usage: nsys [--version] [--help]", None),
        ("", None),
    ],
)
def test_the_version_of_a_tool(output: str, version: str | None) -> None:
    assert machine.version_in(output) == version


def test_ncu_and_the_importer_are_found_where_nvidia_puts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert machine.find_ncu(tmp_path) is None
    for version in ("2024.3.2", "2025.10.0", "2025.3.1"):
        folder = tmp_path / "opt/nvidia/nsight-compute" / version
        folder.mkdir(parents=True)
        tool(folder, "ncu", "#!/bin/sh\necho Version 2025.3.1.0\n")
    found = machine.find_ncu(tmp_path)
    assert found == tmp_path / "opt/nvidia/nsight-compute/2025.10.0/ncu"
    assert machine.version_of(found) == "2025.3.1"
    host = tmp_path / "opt/nvidia/nsight-compute/2025.3.1/host"
    for name in ("target-linux-x64/nsys", "linux-desktop-glibc_2_11_3-x64/QdstrmImporter"):
        (host / name).parent.mkdir(parents=True)
        tool(host / Path(name).parent, Path(name).name, "")
    assert (
        machine.find_importer(host / "target-linux-x64/nsys") == host / "linux-desktop-glibc_2_11_3-x64/QdstrmImporter"
    )
    assert machine.find_importer(found) is None


FIELDS = ("index", "driver_version", "memory.total", "clocks.sm", "clocks.max.sm", "power.limit")


def test_nvidia_smi_is_understood() -> None:
    full = "0, 570.133.20, 143771, 345, 1980, 700.00, Exclusive_Process, Enabled, NVIDIA H200\n"

    def start(argv: Sequence[str | Path], seconds: float) -> Ran:
        return Ran(0, full if len(argv) > 1 else "| NVIDIA-SMI 570.133.20   CUDA Version: 12.8     |\n")

    gpu = InstalledGpu(
        0, "NVIDIA H200", 143771 * 2**20, 345, 1980, 700_000, is_split=True, compute_mode="exclusive process"
    )
    assert machine.by_smi(SMI, start) == Machine("570.133.20", "12.8", (gpu,), "", "nvidia-smi")


def test_an_old_driver_is_asked_for_less() -> None:
    def start(argv: Sequence[str | Path], seconds: float) -> Ran:
        if "mig.mode.current" in str(argv[1:]):
            return Ran(2, 'Field "mig.mode.current" is not a valid field to query.\n')
        return Ran(0, "0, 418.43, 16160, 135, 1530, [N/A], Tesla V100, 16GB\n" if len(argv) > 1 else "")

    gpu = InstalledGpu(0, "Tesla V100, 16GB", 16160 * 2**20, 135, 1530, None)
    assert machine.by_smi(SMI, start) == Machine("418.43", None, (gpu,), "", "nvidia-smi")


@given(st.text() | st.lists(st.text(",. 0123456789[N/A]"), max_size=5).map("\n".join))
def test_whatever_nvidia_smi_prints_is_no_error(output: str) -> None:
    for row in machine.smi_rows(output, FIELDS):
        assert machine._gpu(row).memory_bytes >= 0
    machine.by_smi(SMI, lambda *_, **__: Ran(0, output))


class NVMLError(Exception):
    """As the package has it."""


def nvml(**changes: Any) -> SimpleNamespace:
    """The package nvidia-ml-py, with one GPU that tells everything."""

    def refused(*_: object) -> int:
        raise NVMLError("Not Supported")

    answers: dict[str, Any] = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"570.133.20",
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _: "NVIDIA H200",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=150_754_820_096),
        "nvmlDeviceGetClockInfo": lambda _, which: 345 if which == 1 else 3201,
        "nvmlDeviceGetMaxClockInfo": lambda _, which: 1980 if which == 1 else 3201,
        "nvmlDeviceGetEnforcedPowerLimit": lambda _: 700_000,
        "nvmlDeviceGetMigMode": lambda _: [0, 0],
        "nvmlDeviceGetComputeMode": lambda _: 0,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _: 0x1,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetPowerUsage": lambda _: 690_000,
        "nvmlDeviceGetTemperature": lambda _, __: 54,
    }
    changed = {name: refused if value is None else value for name, value in changes.items()}
    return SimpleNamespace(**{**answers, **changed})


def test_nvml_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    assert machine.machine() == HEALTHY
    few = nvml(
        nvmlDeviceGetMigMode=None, nvmlDeviceGetClockInfo=None, nvmlDeviceGetCurrentClocksEventReasons=lambda _: 0x24
    )
    monkeypatch.setitem(sys.modules, "pynvml", few)
    [gpu] = machine.machine().gpus
    assert (gpu.sm_mhz, gpu.is_split) == (None, None)
    assert gpu.throttled_by == ("the power limit", "heat, by the driver")


def test_nvml_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlInit=None))
    told = machine.machine()
    assert (told.gpus, told.reason) == ((), "NVML does not start: Not Supported; nvidia-smi is not here either")
    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlDeviceGetHandleByIndex=None))
    assert "lists 1 and answers for 0" in machine.machine().reason
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert machine.machine().reason.startswith("the package nvidia-ml-py is not installed")


def watched(uuid: str = "1234") -> GpuReadings | NotWatched:
    watch = GpuWatch()
    with watch(uuid):
        pass
    return watch.seen


def test_clocks_power_and_throttling_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlDeviceGetCurrentClocksEventReasons=lambda _: 0x4 | 0x2))
    seen = watched()
    assert isinstance(seen, GpuReadings)
    assert seen.looks >= 2  # before and after, and more where a busy machine lets time pass between them
    assert (seen.sm_mhz, seen.memory_mhz) == (SampledRange(345, 345, 345), SampledRange(3201, 3201, 3201))
    assert (seen.power_mw, seen.power_limit_mw, seen.highest_sm_mhz) == (
        SampledRange(690_000, 690_000, 690_000),
        700_000,
        1980,
    )
    assert [(limit.what, limit.share, limit.is_throttling) for limit in seen.limits] == [
        ("the power limit", 1.0, True),
        ("clocks that somebody set", 1.0, False),
    ]
    assert seen.throttled


def test_an_idle_gpu_is_not_throttled_and_what_it_does_not_tell_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = nvml(nvmlDeviceGetCurrentClocksEventReasons=lambda _: 0x1 | 0x20, nvmlDeviceGetPowerUsage=None)
    monkeypatch.setitem(sys.modules, "pynvml", idle)
    seen = watched()
    assert isinstance(seen, GpuReadings)
    assert (seen.power_mw, seen.limits, seen.throttled) == (None, (), False)


def test_where_nothing_can_be_seen_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert watched() == NotWatched("the package nvidia-ml-py is not installed")
    library = nvml(nvmlDeviceGetCount=lambda: 2)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert "there are 2" in getattr(watched(""), "reason", "")

    def fails(*_: object) -> None:
        raise NVMLError("Driver Not Loaded")

    library.nvmlDeviceGetHandleByUUID = fails
    assert getattr(watched(), "reason", "") == "NVML does not find the GPU: Driver Not Loaded"
    library.nvmlInit = fails
    assert getattr(watched(), "reason", "") == "NVML does not start: Driver Not Loaded"
