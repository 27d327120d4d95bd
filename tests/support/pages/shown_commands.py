"""The commands that a page of the docs shows, and what it shows under them."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from support.command import ROOT, gpuledger
from support.profiles.memory_snapshots import captured
from support.profiles.opened import plain
from support.profiles.published_tables import write_published_tables

CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def sessions(page: Path) -> list[tuple[list[str], list[str]]]:
    """The commands of a page, each with the lines shown under it."""
    found: list[tuple[list[str], list[str]]] = []
    for block in CONSOLE.findall(page.read_text()):
        for line in block.splitlines():
            if line.startswith("$ gpuledger "):
                found.append((shlex.split(line)[2:], []))
            else:
                found[-1][1].append(line)
    return found


def _lay_out(text: str, folder: Path) -> None:
    """The captures that a page names, where its commands look for them."""
    for packed in ROOT.glob("captures/n*/*.xz"):
        if packed.stem in text:
            shutil.copy(plain(packed), folder)
    for trace in ROOT.glob("captures/to*/*.json.gz"):
        if trace.name in text:
            shutil.copy(trace, folder)
    (folder / "serve").mkdir()
    for packed in ROOT.glob("captures/serve/*.xz"):
        if f"serve/{packed.stem}" in text:
            shutil.copy(plain(packed), folder / "serve")
    if "notes.txt::" in text or "mock_kernels.txt" in text:
        write_published_tables(folder)
    for name, content in captured().items() if ".pickle" in text else ():
        if name in text:
            (folder / name).write_bytes(content)


def hold_against_its_commands(page: Path, run: Path, folder: Path) -> None:
    """Run the commands of a page in a folder, where `run.sqlite` is that profile: what it shows comes out."""
    (folder / "run.sqlite").write_bytes(run.read_bytes())
    _lay_out(page.read_text(), folder)
    for arguments, shown in sessions(page):
        ran = gpuledger(*arguments, cwd=folder, COLUMNS="80")
        assert ran.exit_code == 0, arguments
        output = iter(ran.stdout.splitlines())
        skipping = False
        for line in shown:
            if line == "...":
                skipping = True
                continue
            for actual in output:
                if actual == line:
                    break
                assert skipping, f"{arguments}: the page shows {line!r}, the command {actual!r}"
            else:
                raise AssertionError(f"{arguments}: {line!r} does not come out")
            skipping = False
