"""Profiles that took long to read, kept as they were read: here, which profiles; `cached_open` keeps and finds them.

Most profiles are small, and read before a cache would help. For those the rest of this package is not even imported.
GPULEDGER_CACHE=0 keeps and uses nothing; GPULEDGER_CACHE=always keeps even what was read in no time.
"""

from __future__ import annotations

import os
from typing import Final

from gpuledger.read.source import Source

SMALL_BYTES: Final = 4_000_000
"""A smaller profile is neither looked for nor kept."""
_SETTING: Final = "GPULEDGER_CACHE"


def keeps_everything() -> bool:
    """Whether everything is to be kept, however small it is and however quickly it was read."""
    return os.environ.get(_SETTING) == "always"


def may_be_cached(source: Source) -> bool:
    """Whether to look into the cache at all. Of a folder the size is not known yet."""
    is_small = bool(source.head) and source.size < SMALL_BYTES
    return keeps_everything() or (os.environ.get(_SETTING) != "0" and not is_small)
