"""Tries the gpuledger that this Python has installed, as a user would: a report as text, and as a page.

    python release/try_installed.py [--pure]

In: the bundled capture of a decoder, and the text that the suite expects of it. Fails where another text comes out, no
page does, the package was not installed but lies in a checkout, or a compiled part is missing; with `--pure`, where
one is there. Where gpuledger-workloads is installed too, its options must be shown; where it is not, how to get it.
"""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMPILED = (
    "import gpuledger; print(gpuledger.__file__);"
    "from gpuledger.read import btree; from gpuledger.replay import native_passes;"
    "from gpuledger.trace import sweep;"
    "print([btree.is_there(), native_passes.is_compiled(), sweep.is_there()])"
)


def tried(folder: Path, *, pure: bool) -> list[str]:
    """What is wrong."""
    profile = folder / "decode.sqlite"
    profile.write_bytes(lzma.decompress((ROOT / "captures" / "nsys" / "decode.sqlite.xz").read_bytes()))
    gpuledger = [str(Path(sysconfig.get_path("scripts")) / "gpuledger")]
    wrong = []
    place, compiled = said([sys.executable, "-c", COMPILED], folder).splitlines()
    if not Path(place).is_relative_to(sysconfig.get_path("purelib")) and "site-packages" not in place:
        wrong.append(f"it is not installed: {place}")
    if compiled != str([not pure] * 3):
        wrong.append(f"compiled parts: {compiled}, expected {'none' if pure else 'all'}")
    report = said([*gpuledger, "report", profile.name], folder)
    if report != (ROOT / "tests" / "golden" / "decode.txt").read_text(encoding="utf-8"):
        wrong.append(f"the report differs from tests/golden/decode.txt:\n{report}")
    said([*gpuledger, "report", profile.name, "-o", "page.html"], folder)
    page = (folder / "page.html").read_text(encoding="utf-8")
    if "HOST-LOAD" not in page or not page.rstrip().endswith("</html>"):
        wrong.append("the page is not whole")
    has_programs = find_spec("gpuledger_workloads") is not None
    bench = said([*gpuledger, "bench", "moe", "--help"], folder, may_fail=True)
    if not bench.startswith("usage: gpuledger bench moe " if has_programs else "error: bench moe: needs the package "):
        wrong.append(f"`gpuledger bench moe --help` says\n{bench}")
    return wrong


def said(command: list[str], folder: Path, *, may_fail: bool = False) -> str:
    """What a command prints; where it fails, and may, its messages."""
    settings = {"COLUMNS": "80", "PYTHONPATH": "", "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONUTF8": "1"}
    ran = subprocess.run(command, cwd=folder, env=os.environ | settings, capture_output=True, check=False)
    if ran.returncode and may_fail:
        return ran.stderr.decode()
    if ran.returncode:
        raise SystemExit(f"error: {' '.join(command)}\n{ran.stderr.decode()}")
    return ran.stdout.decode()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = tried(Path(scratch), pure="--pure" in sys.argv[1:])
    for each in found:
        sys.stderr.write(f"error: {each}\n")
    if not found:
        version = metadata.version("gpuledger")
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}, {sysconfig.get_platform()}"
        sys.stdout.write(f"gpuledger {version} on {python}: the report is the expected one, and the page is whole\n")
    sys.exit(bool(found))
