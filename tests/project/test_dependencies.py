"""Extras that are named exist, and everything that is shipped is listed."""

from __future__ import annotations

import re
import tomllib

from gpuledger.doctor.checks import EXTRAS
from support.command import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_an_extra_that_a_sentence_or_a_page_names_exists() -> None:
    extras = set(PROJECT["optional-dependencies"])
    texts = [*(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    wrong = [
        (path.name, name)
        for path in texts
        for group in re.findall(r"gpuledger\[([\w,-]+)\]", path.read_text())
        for name in group.split(",")
        if name not in extras and name != "NAME"
    ]
    assert wrong == []


def test_doctor_knows_the_extras_that_users_install() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - {"all", "dev", "docs"}


def test_everything_that_is_shipped_is_listed() -> None:
    """A template or a page that no pattern of pyproject.toml takes would be missing from a wheel, and only there."""
    package = ROOT / "src" / "gpuledger"
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["gpuledger"]
    taken = {path for pattern in listed for path in package.glob(pattern)}
    assert all(any(package.glob(pattern)) for pattern in listed)
    left_out = {".py", ".pyc", ".so", ".c", ".h"}
    kept = {path for path in package.rglob("*") if path.is_file() and path.suffix not in left_out}
    assert kept - taken == set()
