"""Where gpuledger keeps what it can make again: exports of reports, and profiles that took long to read.

The user's cache folder as the system names it; anything in it may be deleted at any time.
"""

from __future__ import annotations

from pathlib import Path


def cache_folder() -> Path:
    """The folder, which need not exist. Relative where the system knows neither a home nor another place."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("gpuledger", appauthor=False))
