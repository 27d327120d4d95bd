"""Names of a capture's files: what the user wrote in, a place that is free out. Light, for whoever opens a profile.

A capture owns NAME.* for its endings. A name that the user chose is never overwritten unless asked; where none was
chosen, one is made from the command, with a number if it is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Final

from msgspec import Struct

from gpuledger.errors import OutputRefused
from gpuledger.system.files import reason_of

REPORTS: Final = {"nsys": ".nsys-rep", "ncu": ".ncu-rep", "torch": ".json.gz", "rocprof": "_results.db"}
"""What each tool's report ends in."""
EXPORT: Final = ".sqlite"
MANIFEST: Final = ".capture.json"
MANIFEST_SCHEMA: Final = "gpuledger.capture/1"
MEMORY: Final = ".memory.pickle"  # what torch's allocator did, beside a trace of torch.profiler
SAMPLES: Final = ".samples.gz"  # Python's stacks, sampled, beside a profile
PERF: Final = ".perf.txt"  # what `perf script` printed of the run
ENDINGS: Final = (*REPORTS.values(), EXPORT, MANIFEST, MEMORY, SAMPLES, ".json")


def manifests_of(profile: Path) -> tuple[Path, ...]:
    """Where the manifest of the capture that made this file would be: NAME_0.sqlite is of NAME_0, or a rank of NAME."""
    ending = next((ending for ending in ENDINGS if profile.name.endswith(ending)), None)
    if ending is None:
        return ()
    name = profile.name.removesuffix(ending)
    names = dict.fromkeys((name, re.sub(r"_\d+$", "", name)))
    return tuple(profile.with_name(f"{name}{MANIFEST}") for name in names)


def samples_of(profile: Path) -> tuple[Path, ...]:
    """Where stacks of the run that made this file would be, ours before those of perf: all ranks have one file."""
    return tuple(
        manifest.with_name(manifest.name.removesuffix(MANIFEST) + ending)
        for ending in (SAMPLES, PERF)
        for manifest in manifests_of(profile)
    )


class CapturePlace(Struct, frozen=True):
    """Where the files of one capture go: a folder, and how their names begin."""

    folder: Path
    name: str
    ending: str  # of the report

    @property
    def manifest(self) -> Path:
        return self.folder / f"{self.name}{MANIFEST}"

    @property
    def base(self) -> Path:
        return self.folder / self.name

    def reports(self) -> tuple[Path, ...]:
        """The reports that are there now, the ranks in order: NAME.ending, NAME_0.ending, NAME_1.ending."""
        form = re.compile(re.escape(self.name) + r"(?:_(\d+))?" + re.escape(self.ending))
        ranks = {path: int(match[1] or -1) for path in self._files() if (match := form.fullmatch(path.name))}
        return tuple(sorted(ranks, key=ranks.__getitem__))

    def files(self) -> tuple[Path, ...]:
        """Everything that belongs to the capture, but for the manifest."""
        form = re.compile(re.escape(self.name) + r"(?:_\d+)?(?:" + "|".join(map(re.escape, ENDINGS)) + ")")
        return tuple(path for path in self._files() if form.fullmatch(path.name) and path != self.manifest)

    def _files(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.is_dir() else []


def place_for(wanted: str | None, command: Sequence[str], tool: str, *, force: bool) -> CapturePlace:
    """A place that is free; with `force`, whatever was there may go."""
    ending = REPORTS[tool]
    if wanted is None:
        stem = _stem(command)
        names = chain([stem], (f"{stem}-{number}" for number in count(2)))
        places = (CapturePlace(Path(), name, ending) for name in names)
        return next(place for place in places if force or not _taken(place))
    path = Path(wanted)
    name = next((path.name.removesuffix(known) for known in ENDINGS if path.name.endswith(known)), path.name)
    if not name or name in (".", "..") or wanted.endswith("/"):
        raise OutputRefused(f"{wanted or 'an empty name'}: -o takes the name of the profile, without an ending")
    place = CapturePlace(path.parent, name, ending)
    if (taken := _taken(place)) and not force:
        raise OutputRefused(f"{taken}: exists already", hint="--force overwrites it; -o NAME takes another name")
    return place


def prepare_place(place: CapturePlace) -> None:
    """Make the folder, and take away what an earlier capture of that name left: it would be taken for the new one."""
    try:
        place.folder.mkdir(parents=True, exist_ok=True)
        for path in (*place.files(), place.manifest):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputRefused(
            f"{place.folder}: cannot be written to: {reason_of(error)}", hint="-o names another place for the profile"
        ) from None


def _taken(place: CapturePlace) -> Path | None:
    return next((path for path in (*place.files(), place.manifest) if path.exists()), None)


def _stem(command: Sequence[str]) -> str:
    """A name for a profile of this command: the script's, the module's, or the program's."""
    from gpuledger.capture.launchers import PYTHON, launch_of, main_program  # not for whoever only opens a profile

    program = main_program(command).words or tuple(command)
    launch = launch_of(program)
    words = launch.program if launch else program
    name = Path(words[0]).name
    if PYTHON.fullmatch(name):
        after = [word for word in words[1:] if not word.startswith("-")]
        options = words[1 : words.index(after[0])] if after else ("-c",)
        if "-c" not in options:
            name = after[0].rpartition(".")[2] if "-m" in options else Path(after[0]).stem
    return re.sub(r"[^\w.-]", "_", name).strip(".") or "capture"
