"""Profiles that others made, where they lie beside the checkout or GPULEDGER_CORPUS says; and all of our own."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import ROOT
from support.profiles.opened import plain

CORPUS = Path(os.environ.get("GPULEDGER_CORPUS", ROOT.parent / "shared" / "corpus")) / "nsys"


FILES = sorted(CORPUS.glob("*.sqlite.xz"))

TIMELINES = (".sqlite.xz", ".json.gz", ".tar.xz", ".tar.gz", ".db.xz", ".pftrace", ".rpd", ".xplane.pb")
"""How names of timelines end, and of archives of them; not those that need nsys to be read."""


def corpus_file(ending: str) -> Path:
    """The one file whose name ends so; the test is skipped where the corpus is not there."""
    if not CORPUS.is_dir():
        pytest.skip("the corpus of third-party profiles is not here")
    [path] = [path for path in CORPUS.parent.glob("*/*") if path.name.endswith(ending)]
    return path


def timelines(folder: Path) -> list[Path]:
    """The timelines in a folder of captures, packed as they are."""
    return sorted(path for path in folder.glob("*/*") if path.name.endswith(TIMELINES) and path.parent.name != "ncu")


def members(packed: Path, folder: Path) -> Iterator[Path]:
    """The profiles of a capture: itself, or those of an archive, which is unpacked to `folder`."""
    if not packed.name.endswith((".tar.xz", ".tar.gz")):
        yield plain(packed)
        return
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    if directories := [path for path in folder.iterdir() if path.suffix in (".arrowdir", ".parquetdir")]:
        yield from directories
        return
    endings = (".sqlite", ".json", ".json.gz")
    yield from sorted(path for path in folder.rglob("*") if path.name.endswith(endings) and "step_ns" not in path.name)
