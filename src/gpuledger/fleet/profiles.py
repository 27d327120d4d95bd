"""Which profiles a job has: folders, globs, archives and files in, addresses that `open_trace` takes out.

In a folder, whatever looks like a profile counts, and so does a file whose name says that it should be one: an empty
trace is a rank that is missing, and has to be named. What was asked for by its own name always counts.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuledger.errors import GpuledgerError, NothingRecorded
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import say
from gpuledger.read import profiles_in
from gpuledger.read.registry import reader_of
from gpuledger.read.source import SEPARATOR, look_at
from gpuledger.units import count_text

_NAMED_LIKE_ONE: Final = (".json", ".json.gz", ".sqlite", ".nsys-rep", ".tar", ".tar.gz", ".tgz", ".zip")


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile of a job."""

    address: str
    """Absolute, so that a worker in another folder finds it."""
    name: str
    """How the report calls it: the path below the folder that holds all of them."""
    place: int = 0
    """Where it lies among the profiles of its archive, which is read fastest in this order."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A profile that could not be read or analysed."""

    name: str
    sentence: str
    """What was wrong, without a full stop."""


def job_profiles(given: Sequence[str], limits: Limits = DEFAULT_LIMITS) -> tuple[list[Profile], list[Failed]]:
    """The profiles that `given` names, in the order of their names, and what could not be looked at."""
    paths = list(dict.fromkeys(path.absolute() for text in given for path in _named(text)))
    if not paths:
        raise NothingRecorded(
            f"{', '.join(given)}: no profile in there",
            found="looked for torch.profiler traces, nsys exports and reports, and archives of traces, at any depth",
            hint="give the folder that holds the profiles, or a glob in quotes: 'traces/**/*.json.gz'",
        )
    below = os.path.commonpath([Path(str(path).partition(SEPARATOR)[0]).parent for path in paths])
    profiles, broken = [], []
    for path in paths:
        try:
            members = profiles_in(path, limits) if path.exists() else [str(path)]
            if not members:
                raise NothingRecorded(f"{path.name}: an archive without a profile in it")
            profiles += [
                Profile(address, os.path.relpath(address, below), place) for place, address in enumerate(members)
            ]
        except GpuledgerError as error:
            broken.append(failure(os.path.relpath(path, below), error))
    return sorted(profiles, key=lambda profile: natural(profile.name)), broken


def as_stored(profile: Profile) -> tuple[object, ...]:
    """A key that sorts profiles by name, and those of an archive by where they lie in it."""
    return natural(profile.name.partition(SEPARATOR)[0]), profile.place


def memory_bytes(profile: Profile) -> int:
    """What reading a profile may take, roughly: traces take half their size, and unpack to twelve times theirs."""
    try:
        size = Path(profile.address.partition(SEPARATOR)[0]).stat().st_size
    except OSError:
        return 0
    return size if profile.address.endswith((".json", ".sqlite", ".tar")) else 10 * size


def failure(name: str, error: Exception) -> Failed:
    """What went wrong with a profile, in one sentence."""
    if isinstance(error, MemoryError):
        return Failed(name, "not enough memory")
    claim = error.claim if isinstance(error, GpuledgerError) else f"internal error: {type(error).__name__}: {error}"
    for own in (name, Path(name).name, Path(name.split(SEPARATOR)[0]).name):
        claim = claim.removeprefix(f"{own}: ")
    return Failed(name, " ".join(claim.split()))


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts rank2 before rank10."""
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"(\d+)", text))


def described(profiles: int, failed: int) -> str:
    """How many were analysed, in words."""
    whole = say("1 profile") if profiles == 1 else say("{count} profiles", count=count_text(profiles))
    return whole if not failed else say("{count} of {whole}", count=count_text(profiles - failed), whole=whole)


def _named(text: str) -> Iterable[Path]:
    """The files and exports that one argument stands for."""
    path = Path(text)
    if path.is_dir():
        return _below(path)
    if os.path.lexists(path) or (SEPARATOR in text and Path(text.partition(SEPARATOR)[0]).exists()):
        return [path]
    if glob.has_magic(text):
        matches = [Path(match) for match in sorted(glob.glob(text, recursive=True), key=natural)]  # noqa: PTH207
        return [path for match in matches for path in (_below(match) if match.is_dir() else [match])]
    look_at(path)  # says that there is no such file, and which was probably meant
    return [path]


def _below(folder: Path) -> Iterator[Path]:
    """The profiles in a folder and the folders below it; the folder itself where it is an export."""
    for here, folders, files in os.walk(folder):
        where = Path(here)
        if _recognised(where):
            folders.clear()
            yield where
            continue
        folders.sort(key=natural)
        for name in sorted(files, key=natural):
            exported = name.endswith(".nsys-rep") and name.removesuffix(".nsys-rep") + ".sqlite" in files
            if not name.startswith(".") and not exported:
                path = where / name
                if name.lower().endswith(_NAMED_LIKE_ONE) or _recognised(path):
                    yield path


def _recognised(path: Path) -> bool:
    try:
        source = look_at(path)
    except GpuledgerError:
        return False
    return reader_of(source) is not None
