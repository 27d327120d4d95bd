"""What `nsys profile --gpu-metrics-devices=help` says: its words in, the GPUs that it can sample out, or why it cannot.

A part of the machine's inventory that both a capture and the doctor ask for; nsys answers without starting anything.
"""

from __future__ import annotations

import re
from typing import Final

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
