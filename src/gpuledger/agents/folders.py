"""Which files an agent may open: those below the folders that the user named, wherever links lead."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.read.registry import reader_of
from gpuledger.read.source import SEPARATOR, look_at
from gpuledger.read.torch.reader import TorchReader, says_it_is_a_trace

_MOST_ENTRIES: Final = 5_000
"""So many entries of folders are looked at for profiles; an agent that looks for more should be told where."""

_OTHERS: Final = ("node_modules", "site-packages")
"""Folders of packages: thousands of files, and none that somebody recorded."""


class AllowedFolders:
    """The folders that were named when the server was started. Relative paths are looked for in each, in order."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.folders: Final = tuple(folder.resolve(strict=True) for folder in given)

    def address(self, given: str) -> str:
        """What `open_trace` takes for a path that an agent gives; refused where it leads out of the folders."""
        whole = self._inside(given)
        if whole is not None and whole.exists():
            return str(self._with_its_files(whole, given))
        outer, separator, member = given.partition(SEPARATOR)
        path = self._inside(outer)
        if path is None:
            raise self._outside(given)
        return f"{self._with_its_files(path, given)}{separator}{member}"

    def profiles(self) -> Iterator[tuple[Path, Path]]:
        """What looks like a profile below the folders, by its first bytes: the folder, and the path from there."""
        left = _MOST_ENTRIES
        for folder in self.folders:
            for place, names, files in os.walk(folder):
                names[:] = sorted(name for name in names if not name.startswith(".") and name not in _OTHERS)
                for name in sorted([*names, *files])[:left]:
                    left -= 1
                    path = Path(place, name)
                    if self._is_profile(path):
                        if name in names:
                            names.remove(name)
                        yield folder, path.relative_to(folder)
                if left <= 0:
                    return

    def _is_profile(self, path: Path) -> bool:
        try:
            self._with_its_files(path.resolve(), path.name)
            source = look_at(path)
            reader = reader_of(source)
            return reader is not None and (
                not isinstance(reader, TorchReader) or says_it_is_a_trace(source, DEFAULT_LIMITS)
            )
        except (GpuledgerError, OSError, RuntimeError):
            return False  # whatever is wrong with it is said when somebody opens it

    def _inside(self, given: str) -> Path | None:
        """Where a path leads, if that is below one of the folders: the first that exists, else the first."""
        inside = []
        for folder in self.folders:
            try:
                path = (folder / given).resolve()
                if self._holds(path):
                    inside.append(path)
                    if path.exists():
                        return path
            except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name that cannot be one
                raise UnreadableProfile(f"{given}: is no path: {error}") from None
        return inside[0] if inside else None

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self.folders)

    def _with_its_files(self, path: Path, given: str) -> Path:
        """The same path, if the files of a folder, which a reader would follow, do not lead out either."""
        try:
            entries = (path, *path.iterdir()) if path.is_dir() else (path,)
            inside = all(self._holds(entry.resolve()) for entry in entries)
        except (OSError, RuntimeError) as error:
            raise UnreadableProfile(f"{given}: cannot be opened: {error}") from None
        if not inside:
            raise self._outside(given)
        return path

    def _outside(self, given: str) -> UnreadableProfile:
        allowed = ", ".join(map(str, self.folders))
        return UnreadableProfile(
            f"{given}: is outside of the folders that this server may read",
            found=f"it may read {allowed}",
            hint="whoever runs the server names more of them: `gpuledger mcp FOLDER...`",
        )
