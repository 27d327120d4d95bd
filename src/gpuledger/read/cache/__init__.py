"""Profiles that took long to read, kept as they were read: here, which profiles; `cached_open` keeps and finds them.

Most profiles are small, and read before a cache would help. For those the rest of this package is not even imported.
"""

from __future__ import annotations

from gpuledger.read.source import Source
from gpuledger.system.kept_files import SMALL_BYTES, keeps_everything, keeps_nothing


def may_be_cached(source: Source) -> bool:
    """Whether to look into the cache at all. Of a folder the size is not known yet."""
    is_small = bool(source.head) and source.size < SMALL_BYTES
    return keeps_everything() or not (keeps_nothing() or is_small)
