"""What devices can do, where a profile does not say: one table, with the source of each figure."""

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


def link_bytes_per_s(gpu_name: str) -> int:
    """What a pinned copy between host and this GPU usually reaches; PCIe 3.0's rate for GPUs that are not listed."""
    return next((rate for pattern, rate in LINKS if pattern.search(gpu_name)), _PCIE_3)
