"""Writes requirements.txt: every package that a release runs on, by version and by the hashes of its files.

    python release/lock.py

In: the dependencies and extras of pyproject.toml, but for those of development and of the programs to profile. Out:
what pip chooses for them today, with what that needs in turn. The hashes are those of all files that PyPI has of a
version, so that the list holds for every platform. `pip install --require-hashes` takes nothing else.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "release" / "requirements.txt"
LEFT_OUT = ("all", "dev", "workloads")
HEAD = "# What a release runs on, written by release/lock.py. Install: pip install --require-hashes -r THIS\n"


def wanted() -> list[str]:
    """The requirements that a release has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(each for name in extras if name not in LEFT_OUT for each in extras[name])]


def chosen() -> dict[str, str]:
    """The version of each package that pip would install."""
    words = ("install", "--dry-run", "--ignore-installed", "--quiet", "--only-binary=:all:", "--report=-")
    report = subprocess.run([sys.executable, "-m", "pip", *words, *wanted()], stdout=subprocess.PIPE, check=True)
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


def main() -> None:
    """Write the list."""
    entries = [
        " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in hashes(name, version))])
        for name, version in sorted(chosen().items())
    ]
    LOCK.write_text(HEAD + "\n".join(entries) + "\n")


if __name__ == "__main__":
    main()
