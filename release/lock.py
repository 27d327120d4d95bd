"""Writes requirements.txt and requirements-build.txt: what a release runs on, and what it is built with.

And requirements-gate.txt, the part of the first that the GitHub action installs.

    python release/lock.py

In: the dependencies and extras of pyproject.toml, but for those of development, of the documentation and of the
programs to profile; and its group `release`. Out: what pip chooses for them today, with what that needs in turn, each
by version and by the hashes of its files. The hashes are those of all files that PyPI has of a version, so that the
lists hold for every platform. `pip install --require-hashes` takes nothing else.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("all", "dev", "docs", "workloads")
HEAD = "# What a release {does}, written by release/lock.py. Install: pip install --require-hashes -r THIS\n"


def tools() -> list[str]:
    """What a release is built with."""
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["release"]
    return found


def wanted() -> list[str]:
    """What a release runs on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(each for name in extras if name not in LEFT_OUT for each in extras[name])]


def chosen(requirements: list[str]) -> dict[str, str]:
    """The version of each package that pip would install."""
    words = ("install", "--dry-run", "--ignore-installed", "--quiet", "--only-binary=:all:", "--report=-")
    report = subprocess.run([sys.executable, "-m", "pip", *words, *requirements], stdout=subprocess.PIPE, check=True)
    found = [each["metadata"] for each in json.loads(report.stdout)["install"]]
    return {each["name"].lower().replace("_", "-"): each["version"] for each in found}


def hashes(name: str, version: str) -> list[str]:
    """The SHA-256 of every file of a version, from PyPI's index."""
    with urllib.request.urlopen(f"https://pypi.org/simple/{name}/", timeout=60) as answer:
        files = re.findall(r'/([^/"#]+)#sha256=([0-9a-f]{64})', answer.read().decode())
    own = re.compile(rf"{name.replace('-', '[-_.]')}-{re.escape(version)}(-.*\.whl|\.tar\.gz|\.zip)", re.IGNORECASE)
    found = sorted(digest for file, digest in files if own.fullmatch(file))
    if not found:
        raise SystemExit(f"PyPI has no file of {name} {version}")
    return found


def listed(requirements: list[str]) -> str:
    """The lines of a list."""
    entries = [
        " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in hashes(name, version))])
        for name, version in sorted(chosen(requirements).items())
    ]
    return "\n".join(entries) + "\n"


def gate() -> list[str]:
    """What the GitHub action runs on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["arrow"]]


def part(entries: str, names: Collection[str]) -> str:
    """The entries of a list that are for some packages."""
    found = re.split(r"\n(?=[^ ])", entries.strip())
    return "\n".join(entry for entry in found if entry.partition("==")[0] in names) + "\n"


def main() -> None:
    """Write the lists."""
    folder = ROOT / "release"
    entries = listed(wanted())
    (folder / "requirements.txt").write_text(HEAD.format(does="runs on") + entries)
    needed = HEAD.format(does="gates with") + part(entries, chosen(gate()))
    (folder / "requirements-gate.txt").write_text(needed)
    (folder / "requirements-build.txt").write_text(HEAD.format(does="is built with") + listed(tools()))


if __name__ == "__main__":
    main()
