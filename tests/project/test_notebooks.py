"""The notebooks in docs run, and show what is stored in them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from support.command import CAPTURES, ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
DECODE = CAPTURES / "decode.sqlite.xz"


RUNNER: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "run_notebooks.py"), run_name="run_notebooks")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_is_stored_in_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "captures").symlink_to(ROOT / "captures")
    folder = tmp_path / "docs" / "notebooks"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    notebook = json.loads(path.read_text())
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert RUNNER["outputs_of"](notebook) == stored, "run `python docs/run_notebooks.py`"
    assert sum(map(bool, stored)) > 5
