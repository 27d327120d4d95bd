"""Pages of the docs in Chinese show what their commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import ROOT
from support.pages.shown_commands import hold_against_its_commands, sessions

PAGES = [page for page in (*ROOT.glob("*.zh.md"), *sorted((ROOT / "docs").rglob("*.zh.md"))) if sessions(page)]


@pytest.mark.usefixtures("ncu_asked_once", "profiles_read_once", "as_released")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_give_what_the_page_shows(page: Path, decode: Path, tmp_path: Path) -> None:
    hold_against_its_commands(page, decode, tmp_path)
