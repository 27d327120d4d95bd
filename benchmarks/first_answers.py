"""How many commands and seconds from a fresh clone to an answer? The three tasks of docs/guides/first-answers.md.

    .venv/bin/python benchmarks/first_answers.py

Runs the commands of each section in a folder with the captures that they name, cold, and prints their number, seconds
and processor time, and the latter over that of the reference task of `make bench-quick`: the machine's mood drops out.
"""

from __future__ import annotations

import lzma
import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from growth import COLD, LIMIT_S, OURS
from harness import machine
from harness.inputs import HERE, export_of
from harness.measure import Command, Failed, once
from harness.quick import KERNELS, reference

ROOT = HERE.parent
PAGE = ROOT / "docs" / "guides" / "first-answers.md"


def tasks(page: str) -> dict[str, list[list[str]]]:
    """Each section's commands, as words."""
    asked = re.compile(r"^\$ gpuledger (.*)$", re.MULTILINE)
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    commands = {each.partition("\n")[0]: [shlex.split(line) for line in asked.findall(each)] for each in sections}
    return {name: words for name, words in commands.items() if words}  # explanations have headings of their own


def lay_out(folder: Path, page: str) -> None:
    """The captures that the page names."""
    for packed in ROOT.glob("captures/nsys/*.sqlite.xz"):
        if packed.stem in page:
            (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    shutil.copy(ROOT / "captures" / "torch" / "decode.json.gz", folder)


def main() -> None:
    """Run them, and print."""
    machine.compile_package()
    page = PAGE.read_text()
    base = once(reference(export_of(KERNELS, ROOT / "build" / "bench")), LIMIT_S)
    if isinstance(base, Failed):
        sys.exit(f"error: {base.reason}")
    with tempfile.TemporaryDirectory() as name:
        lay_out(Path(name), page)
        os.chdir(name)
        for task, commands in tasks(page).items():
            runs = [once(Command((*OURS, *words), COLD), LIMIT_S) for words in commands]
            failed = [run.reason for run in runs if isinstance(run, Failed)]
            if failed:
                sys.exit(f"error: {task}: {failed[0]}")
            wall, cpu = (sum(getattr(run, key) for run in runs) for key in ("wall_s", "cpu_s"))
            print(
                f"{task}: {len(runs)} commands, {wall:.1f} s, {cpu:.1f} s CPU, {cpu / base.cpu_s:.1f} x the reference"
            )


if __name__ == "__main__":
    main()
