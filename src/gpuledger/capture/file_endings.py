"""How the files of a capture end, and where the manifest of a profile would be: light, for whoever opens a profile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

REPORTS: Final = {"nsys": ".nsys-rep", "ncu": ".ncu-rep", "torch": ".json.gz"}
"""What each tool's report ends in."""
EXPORT: Final = ".sqlite"
MANIFEST: Final = ".capture.json"
MANIFEST_SCHEMA: Final = "gpuledger.capture/1"
MEMORY: Final = ".memory.pickle"
"""What torch's allocator did, beside a trace of torch.profiler."""
ENDINGS: Final = (*REPORTS.values(), EXPORT, MANIFEST, MEMORY, ".json")


def manifests_of(profile: Path) -> tuple[Path, ...]:
    """Where the manifest of the capture that made this file would be: NAME_0.sqlite is of NAME_0, or a rank of NAME."""
    ending = next((ending for ending in ENDINGS if profile.name.endswith(ending)), None)
    if ending is None:
        return ()
    name = profile.name.removesuffix(ending)
    names = dict.fromkeys((name, re.sub(r"_\d+$", "", name)))
    return tuple(profile.with_name(f"{each}{MANIFEST}") for each in names)
