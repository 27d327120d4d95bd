"""Whether what is read of a profile may be kept in the cache: by the user's setting, and by the profile's size.

Most profiles are small, and read before a cache would help. For those the cache is not even imported.
"""

from __future__ import annotations

import os
from typing import Final

from gpuledger.read.source import Source

SMALL_BYTES: Final = 4_000_000
"""A smaller profile is neither looked for nor kept."""
_SETTING: Final = "GPULEDGER_CACHE"


def is_always() -> bool:
    """Whether everything is to be kept, however small it is and however quickly it was read."""
    return os.environ.get(_SETTING) == "always"


def may_be_kept(source: Source) -> bool:
    """Of a folder the size is not known yet."""
    is_small = bool(source.head) and source.size < SMALL_BYTES
    return is_always() or (os.environ.get(_SETTING) != "0" and not is_small)
