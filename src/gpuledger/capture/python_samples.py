"""Python's stacks beside a profile: what a program is given so that it is sampled in, NAME.samples.gz out.

The sampler (`injected/`) runs in every Python that the program starts, and writes a file for each process to a folder;
when the program has ended they become one file, a process after the other. docs/reference/samples.md describes
it.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpuledger.capture.output_files import SAMPLES, CapturePlace
from gpuledger.system.files import whole_file

INJECTED: Final = Path(__file__).parent / "injected"
FOLDER_VARIABLE: Final = "GPULEDGER_SAMPLES"  # as the sampler knows it
HZ: Final = 250
LEFT_OUT: Final = "Python's stacks were not sampled: left out with --no-lines"
ELSEWHERE: Final = "Python's stacks are not sampled where the program runs elsewhere, with --via"
NO_PYTHON: Final = (
    "no Python was sampled, so there are no lines of code: the program starts none, or with -I, -E or -S, or a Python "
    "without its lock"
)


def why_not_sampled(given: Mapping[str, str]) -> str | None:
    """Why the sampler cannot be given to a program; None where it can."""
    if os.pathsep in str(INJECTED):
        return f"Python's stacks are not sampled: PYTHONPATH takes no folder with a colon: {INJECTED}"
    if "PYTHONPATH" in given:
        return "Python's stacks are not sampled: --env sets PYTHONPATH, by which the sampler would be found"
    return None


def samples_folder(place: CapturePlace) -> Path:
    """Where processes write what they see, until the program has ended."""
    return place.folder.absolute() / f".{place.name}.samples"


def prepare_sampling(place: CapturePlace) -> dict[str, str]:
    """An empty folder, and the variables that let every Python of the program write to it."""
    folder = samples_folder(place)
    discard_samples(place)
    folder.mkdir(mode=0o700)
    paths = filter(None, (str(INJECTED), os.environ.get("PYTHONPATH")))
    return {"PYTHONPATH": os.pathsep.join(paths), FOLDER_VARIABLE: str(folder)}


def gather_samples(place: CapturePlace) -> Path | None:
    """One file of all processes' samples, beside the profile; None where no Python was seen."""
    folder = samples_folder(place)
    target = place.folder / f"{place.name}{SAMPLES}"
    files = sorted(path for path in folder.glob("*-*") if re.fullmatch(r"\d+-\d+", path.name))
    if files:
        with whole_file(target, private=True) as file, gzip.open(file, "wb", compresslevel=6) as gathered:
            for path in files:
                with path.open("rb") as process:
                    shutil.copyfileobj(process, gathered)
    discard_samples(place)
    return target if files else None


def discard_samples(place: CapturePlace) -> None:
    """Take away what processes wrote."""
    shutil.rmtree(samples_folder(place), ignore_errors=True)
