"""Where NVIDIA's tools are, when they are not on the PATH."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

_PLACES = (
    "/usr/local/cuda/bin",
    "/usr/local/cuda-*/bin",
    "/opt/nvidia/nsight-systems*/bin",
    "/opt/nvidia/nsight-systems/*/bin",
    "/opt/nvidia/nsight-systems*/*/target-linux-*",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*",
)
"""Searched in this order; of several versions in one place, the newest is taken."""


def find_nsys(root: Path = Path("/")) -> Path | None:
    """NVIDIA's `nsys`; None if it is not installed."""
    on_path = shutil.which("nsys")
    if on_path:
        return Path(on_path)
    for place in _PLACES:
        found = sorted(root.glob(f"{place.lstrip('/')}/nsys"), key=_version, reverse=True)
        for each in found:
            if shutil.which(str(each)):
                return each
    return None


def _version(path: Path) -> tuple[int, ...]:
    """The numbers in a path, for comparing 2024.6.2 with 2025.3.1."""
    return tuple(int(number) for number in re.findall(r"\d+", str(path)))
