"""docs/concepts/what-is-said.md shows what is said now."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from support.command import ROOT
from support.profiles.corpus import CORPUS
from support.thorough import some

SAID: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "what_is_said.py"), run_name="what_is_said")


def test_rows_of_our_own_profiles_are_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those of profiles that are not here stay."""
    monkeypatch.setitem(SAID["written"].__globals__, "CORPUS", tmp_path)
    page = SAID["PAGE"].read_text()
    assert SAID["written"](page) == page, "run `make docs`"
    assert all(f"\n| {truth.title} | " in page for truth in (*SAID["OURS"], *SAID["OTHERS"]))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of third-party profiles is not here")
@pytest.mark.parametrize("number", some(range(len(SAID["OTHERS"])), 6))
def test_rows_of_public_profiles_are_fresh(number: int) -> None:
    row = SAID["row_of"](SAID["OTHERS"][number], CORPUS.parent)
    assert row in SAID["PAGE"].read_text().splitlines(), "run `make docs`"


def test_a_row_says_what_it_is_of() -> None:
    """A profile is found by how its name ends, by no other's end."""
    for truth in SAID["OURS"]:
        assert len([path for path in SAID["CAPTURES"].glob("*/*") if str(path).endswith(truth.ending)]) == 1
