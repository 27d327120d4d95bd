"""What the links of a GPU carry, where a profile does not say: one table each, with the source of the figures."""

from __future__ import annotations

import re
from typing import Final

LINKS: Final = (
    (re.compile(r"B[123]00|H[12]00|H20\b|RTX 50"), 50_000_000_000),
    (re.compile(r"A100|A10\b|A30|A40|L4\b|L40|RTX (30|40)|RTX A|Ada"), 25_000_000_000),
)
"""Host link by GPU name: what pinned copies usually reach, not the bus's nominal rate.

PCIe 5.0 x16 is 63 GB/s nominal, 4.0 31.5, 3.0 15.8 (PCI-SIG); pinned copies reach about four fifths of it.
"""

_PCIE_3: Final = 12_000_000_000

PEER_LINKS: Final = (
    (re.compile(r"\bG?B[23]00\b"), 760_000_000_000),
    (re.compile(r"\bH100 80GB HBM3\b|\bH100 SXM|\bH200$|\bH20\b"), 380_000_000_000),
    (re.compile(r"\bA100-SXM4"), 250_000_000_000),
)
"""NVLink by GPU name, one way: what copies between two GPUs behind switches usually reach.

A GPU's links carry 900, 450 and 300 GB/s each way (NVIDIA's data sheets of B200, H100 SXM, A100 SXM); copies reach
about 85 % of it. GPUs that are sold with and without NVLink are not listed.
"""


def link_bytes_per_s(gpu_name: str) -> int:
    """What a pinned copy between host and this GPU usually reaches; PCIe 3.0's rate for GPUs that are not listed."""
    return next((rate for pattern, rate in LINKS if pattern.search(gpu_name)), _PCIE_3)


def peer_bytes_per_s(gpu_name: str) -> int | None:
    """What a copy between this GPU and its like usually reaches over NVLink; None where that is not known."""
    return next((rate for pattern, rate in PEER_LINKS if pattern.search(gpu_name)), None)
