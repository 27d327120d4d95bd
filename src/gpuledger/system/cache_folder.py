"""Where gpuledger keeps what it can make again: exports of reports, and profiles that took long to read.

The user's cache folder as the system names it; anything in it may be deleted at any time.
"""

from __future__ import annotations

from pathlib import Path


def cache_folder() -> Path:
    """The folder, which need not exist. Relative where the system knows neither a home nor another place."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("gpuledger", appauthor=False))


def make_private(folder: Path) -> None:
    """Make a folder in the cache folder for its owner alone; what is kept there may be of files that nobody else reads.

    Each on the way is made so: `parents=True` would make them for all to look into.
    """
    top = cache_folder()
    below = [place for place in (folder, *folder.parents) if place.is_relative_to(top)]
    for place in reversed(below):
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if place.stat().st_mode & 0o077:  # of an earlier version
            place.chmod(0o700)
