"""The documentation as a site: it is built here, every page is in it, and every link in it leads somewhere."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command import PATIENCE_S, ROOT

pytestmark = pytest.mark.skipif(not (ROOT / "mkdocs.yml").is_file(), reason="not part of what was unpacked")
SITE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "site.py"), run_name="site") if pytestmark else {}
_TARGET = re.compile(r'(?:href|src)="?([^">\s]+)')
_PLACE = re.compile(r'\bid="?([^">\s]+)')


def places(nav: Any) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [place for each in inner for place in places(each)]


def test_the_site_is_built_and_no_link_is_broken(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        env=os.environ | {"GPULEDGER_GALLERY": "0", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stderr
    files = {str(path) for path in (tmp_path, *tmp_path.rglob("*"))}
    assert [name for name in files if name.endswith(("__pycache__", ".pyc", ".py"))] == []
    pages = {path: path.read_text() for path in tmp_path.rglob("*.html") if path.name != "404.html"}
    ids = {str(path): {unquote(each) for each in _PLACE.findall(text)} for path, text in pages.items()}
    broken = set()
    for path, text in pages.items():
        assert "fonts.g" not in text, "a page fetches nothing from others"
        for target in set(_TARGET.findall(text)):
            name, _, anchor = unquote(target).partition("#")
            if re.match(r"[a-z]+:", name):
                continue
            file = os.path.normpath(path.parent / name) if name else str(path)
            if file not in files or (anchor and file in ids and anchor not in ids[file]):
                broken.add((str(path.relative_to(tmp_path)), target))
    assert broken == set()
    searched = json.loads((tmp_path / "search" / "search_index.json").read_text())["docs"]
    assert {"findings/HOST-SYNC.html", "zh/findings/HOST-SYNC.html", "guides/tutorial.zh.html"} <= {
        each["location"] for each in searched
    }


def test_every_page_is_in_the_navigation_once() -> None:
    listed = places(SITE["nav"]((ROOT / "docs" / "README.md").read_text(), SITE["codes"]()))
    assert len(listed) == len(set(listed))
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    made = {*SITE["pages"](), *SITE["reference"](), "gallery/index.md"}
    made = {place for place in made if place.endswith(".md")}
    here = {place for place in listed if not place.startswith("https:")}
    assert here == written | made, "docs/README.md lists every page under docs/"


@given(st.lists(st.sampled_from(["- a", "1. b", "  c", "   d", "", "e", "```", "| f |"]), max_size=12))
def test_only_white_space_changes(lines: list[str]) -> None:
    written = "\n".join(lines)
    assert SITE["nested"](written).split() == written.split()
