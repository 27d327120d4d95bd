"""The table of threats names tests that are there."""

from __future__ import annotations

import re

from support.command import ROOT

PAGE = (ROOT / "docs" / "concepts" / "security.md").read_text()
ROWS = re.findall(r"^\| .*`[a-z_/]+/test_\w+\.py::.*\|$", PAGE, re.MULTILINE)


def test_every_line_has_a_test_and_every_test_is_there() -> None:
    section = PAGE.partition("## Who could want what")[2].partition("\n## ")[0]
    assert len(ROWS) == sum(line.startswith("| ") for line in section.splitlines()) - 1  # but for the heading
    missing = []
    for path, name in re.findall(r"`([a-z_/]+/test_\w+\.py)::(\w+)`", section):
        file = ROOT / "tests" / path
        if not file.exists() or f"def {name}(" not in file.read_text():
            missing.append(f"{path}::{name}")
    assert missing == []
