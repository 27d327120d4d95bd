"""Builds what a release hands out: source archives, a wheel for each kind of Linux, and one for everything else.

    python release/wheels.py [FOLDER]

In: the checkout. Out, in FOLDER (dist): every wheel is built from the source archive, so that whoever builds from that
gets the same. The compiled parts use CPython's stable ABI, so one wheel serves 3.11 and all that come later. zig
compiles for both processors, against glibc 2.17, without a container; for macOS, and for what is uploaded,
.github/workflows/wheels.yml does the same with cibuildwheel. A wheel that lacks a part, that needs a newer glibc or
a symbol outside the stable ABI is an error: `optional=True` in setup.py is for those who build without a compiler.
The programs to profile (packages/workloads) are a distribution of their own, of the same version, with one wheel.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORKLOADS = ROOT / "packages" / "workloads"
PARTS = frozenset(
    f"gpuledger/{name}.abi3.so"
    for name in (
        "capture/native/_plain_window",
        "replay/native/_replay",
        "trace/native/_btree",
        "trace/native/_pickle_tree",
        "trace/native/_report_events",
        "trace/native/_sweep",
    )
)


@dataclass(frozen=True, slots=True)
class Target:
    """A platform that a wheel is for: its tag, and how zig calls it; nothing where nothing is compiled."""

    tag: str
    zig: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """What setup.py and its compiler are told, through the environment."""
        if not self.zig:
            return {"GPULEDGER_PURE": "1"}
        compiler = shlex.join([sys.executable, "-m", "ziglang", "cc", "-target", self.zig])
        return {"CC": compiler, "LDSHARED": f"{compiler} -shared", "CFLAGS": "-g0", "LDFLAGS": "-s"}

    @property
    def ending(self) -> str:
        """How the wheel's name ends."""
        return f"cp311-abi3-{self.tag}.whl" if self.zig else f"py3-none-{self.tag}.whl"


ANYWHERE = Target("any")
TARGETS = (
    Target("manylinux_2_17_x86_64", "x86_64-linux-gnu.2.17"),
    Target("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17"),
    ANYWHERE,
)


class WheelIsWrong(Exception):
    """What was built is not what a release may hand out."""


def source_archive(project: Path, folder: Path) -> Path:
    """The archive of a project of the checkout, in `folder`."""
    before = set(folder.glob("*.tar.gz"))
    _build("--sdist", project, folder, {})
    made = set(folder.glob("*.tar.gz"))
    [archive] = (made - before) or [max(made, key=lambda path: path.stat().st_mtime_ns)]
    return archive


def wheel(archive: Path, target: Target, folder: Path) -> Path:
    """The wheel of a source archive for a target, checked. A fresh folder each: what one leaves another would pack."""
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive) as packed:
        packed.extractall(scratch, filter="data")
        [source] = Path(scratch).iterdir()
        options = [f"--config-setting=--build-option=--plat-name={target.tag}"] if target.zig else []
        _build("--wheel", source, folder, target.settings, *options)
    made = folder / f"{archive.name.removesuffix('.tar.gz')}-{target.ending}"
    check(made, target)
    return made


def check(made: Path, target: Target) -> None:
    """Refuse a wheel that is not whole, or that its platforms could not load."""
    if not made.exists():
        raise WheelIsWrong(f"{made.name} was not built; there are {', '.join(sorted(os.listdir(made.parent)))}")
    with zipfile.ZipFile(made) as archive:
        compiled = {name for name in archive.namelist() if name.endswith((".so", ".c", ".h"))}
    expected = PARTS if target.zig else frozenset()
    if compiled != expected:
        raise WheelIsWrong(f"{made.name}: has {sorted(compiled)}, not {sorted(expected)}")
    if not target.zig:
        return
    said = _said("auditwheel", "show", made)
    if f'platform tag:\n"{target.tag}"' not in said:
        raise WheelIsWrong(f"{made.name}: auditwheel says\n{said}")
    _said("abi3audit", "--strict", "--report", made)


def _build(kind: str, source: Path, folder: Path, settings: dict[str, str], *options: str) -> None:
    """Run `build` on a source tree, with the tools of this environment. Its output is only shown where it fails."""
    words = [sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", folder, *options, source]
    _ran(words, settings | {"SOURCE_DATE_EPOCH": _commit_s()})


def _said(tool: str, *words: str | Path) -> str:
    return _ran([Path(sys.executable).parent / tool, *words], {})


def _ran(words: list[str | Path], settings: dict[str, str]) -> str:
    ran = subprocess.run(words, env=os.environ | settings, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise WheelIsWrong(f"{shlex.join(map(str, words))}\n{ran.stdout[-4000:]}{ran.stderr[-4000:]}")
    return ran.stdout


def _commit_s() -> str:
    """When the commit was made: the files of a wheel carry it, so that building twice gives the same."""
    asked = ["git", "-C", ROOT, "log", "-1", "--format=%ct"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return said or os.environ.get("SOURCE_DATE_EPOCH", "1765929600")


def main(arguments: list[str]) -> int:
    """Build all of it, and say what was built."""
    folder = Path(arguments[0] if arguments else ROOT / "dist").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        archive, programs = (source_archive(project, folder) for project in (ROOT, WORKLOADS))
        built = [archive, *(wheel(archive, target, folder) for target in TARGETS)]
        built += [programs, wheel(programs, ANYWHERE, folder)]
    except WheelIsWrong as wrong:
        sys.stderr.write(f"error: {wrong}\n")
        return 1
    for path in built:
        sys.stdout.write(f"{path.stat().st_size:>9,}  {path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
