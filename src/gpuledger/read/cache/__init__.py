"""Profiles that took long to read, kept as they were read: here, which profiles; `cached_open` keeps and finds them.

Most profiles are small, and read before a cache would help. For those the rest of this package is not even imported.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpuledger.read.source import Source
from gpuledger.system.files import SEPARATOR
from gpuledger.system.kept_files import (
    SMALL_BYTES,
    KeptOfProfile,
    keeps_everything,
    keeps_nothing,
    kept_of,
    place_of,
    readings,
)


def may_be_cached(source: Source) -> bool:
    """Whether to look into the cache at all. Of a folder the size is not known yet."""
    is_small = bool(source.head) and source.size < SMALL_BYTES
    return keeps_everything() or not (keeps_nothing() or is_small)


def kept_of_profile(profile: str | Path) -> KeptOfProfile | None:
    """What is kept of a profile, with what this process is still writing; None where nothing is to be kept."""
    if keeps_nothing() or not readings().path.is_absolute():
        return None
    from gpuledger.read.cache.cached_open import PATIENCE_S, finish_writing

    finish_writing(PATIENCE_S)
    outer, separator, member = str(profile).partition(SEPARATOR)
    is_member = bool(separator) and not os.path.lexists(profile)
    return kept_of(place_of(Path(outer), member) if is_member else place_of(Path(profile)))
