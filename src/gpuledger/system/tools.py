"""Where NVIDIA's tools are, also when they are not on the PATH, and which version each is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from gpuledger.errors import ToolFailed
from gpuledger.system.processes import run

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
_SECONDS: Final = 20.0
"""What a tool may take to say its version: the first start from a network disk is slow."""


def find_nsys(root: Path = Path("/")) -> Path | None:
    """NVIDIA's `nsys`; None if it is not installed."""
    return _found("nsys", _NSYS, root)


def find_ncu(root: Path = Path("/")) -> Path | None:
    """NVIDIA's `ncu`; None if it is not installed."""
    return _found("ncu", _NCU, root)


def find_importer(nsys: Path) -> Path | None:
    """What turns a recording of this `nsys` into a report: a program of its own, in a folder beside that of nsys."""
    here = nsys.resolve().parent
    found = sorted(each for base in (here, here.parent) for each in base.glob("*/QdstrmImporter"))
    return found[0] if found else None


def version_of(tool: Path) -> str | None:
    """The version that a tool says it is, e.g. 2025.3.2, without the build; None if it does not say."""
    try:
        return version_in(run([tool, "--version"], seconds=_SECONDS).output)
    except ToolFailed:
        return None  # whoever needs the tool will start it, and be told why that fails


def version_in(output: str) -> str | None:
    """The version in what a tool printed about itself; None if there is none."""
    match = _VERSION.search(output)
    return match[1] if match else None


def _found(name: str, places: tuple[str, ...], root: Path) -> Path | None:
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    for place in places:
        found = sorted(root.glob(f"{place.lstrip('/')}/{name}"), key=_version, reverse=True)
        for each in found:
            if shutil.which(str(each)):
                return each
    return None


def _version(path: Path) -> tuple[int, ...]:
    """The numbers in a path, for comparing 2024.6.2 with 2025.3.1."""
    return tuple(int(number) for number in re.findall(r"\d+", str(path)))
