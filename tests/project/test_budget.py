"""The numbers that may only fall, of a tree that is small enough to count by hand."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from support.command import ROOT

BUDGET: dict[str, Any] = runpy.run_path(str(ROOT / "release" / "budget.py"), run_name="budget")

FILES = {
    "src/gpuledger/__init__.py": "",
    "src/gpuledger/one.py": """
from typing import TYPE_CHECKING, Final

from gpuledger.two import said

if TYPE_CHECKING:
    from gpuledger.three import Other

LIMIT_NS: Final = 2 * 1_000
RATE = -0.5
NAME: Final = "no number"
TWICE: Final = LIMIT_NS * 2
IS_SET = True


def whole(limit):
    '''Two lines of a docstring,
    which are not counted.'''
    first = _once(limit)
    _twice(first)
    _twice(first)
    return said(first)


def _once(limit): return limit if limit < 2 else _once(limit - 1)


def _twice(limit):
    a = 1
    b = 2
    c = 3
    d = 4
    return a + b + c + d + limit
""",
    "src/gpuledger/two.py": "def said(text):\n    from gpuledger.one import NAME\n    return NAME + text\n",
    "src/gpuledger/three.py": "import gpuledger.one\n\n\nclass Other(Json): pass\nclass Deeper(Other, tag=1): pass\n",
    "tests/a-b/test_one.py": "LIST = 1\n\n\n@mark\ndef test_that():\n    assert LIST\n\n\ndef shared():\n    pass\n",
    "docs/deep/page.md": "# Three words\n",
    "README.zh.md": "two words",
    "CHANGELOG.md": "not counted",
}


def test_a_small_tree_is_counted(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    numbers = BUDGET["measured"](tmp_path)
    assert {name: number for name, number in numbers.items() if not name.startswith("lines: ")} == {
        "Json classes": 2,
        "Python files in the largest folder: src": 4,
        "Python files in the largest folder: tests": 1,
        "files: src": 4,
        "files: tests": 1,
        "functions of 5 lines or fewer": 3,
        "imports": 5,
        "lines of tests outside test functions": 7,
        "modules in import circles": 2,
        "numeric constants": 2,
        "private functions with one caller": 1,
        "words of docs": 5,
    }
    assert numbers["lines: tests"] == 10


@pytest.mark.parametrize(
    ("arguments", "code", "stored", "said"),
    [
        ([], 1, {"imports": 5, "verbs": 3}, "imports: rose from 5 to 6"),
        (["--lower"], 1, {"imports": 5, "verbs": 2}, "make budget RAISE=1"),
        (["--raise"], 0, {"imports": 6, "verbs": 2}, "fell from 3"),
    ],
)
def test_it_fails_where_one_rose_and_stores_what_it_is_told_to(
    arguments: list[str],
    code: int,
    stored: dict[str, int],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept, main = tmp_path / "budget.json", BUDGET["main"]
    kept.write_text(json.dumps({"imports": 5, "verbs": 3}))
    given = {"STORED": kept, "measured": lambda _: {"imports": 6}, "command_line": lambda: {"verbs": 2}}
    for name, value in given.items():
        monkeypatch.setitem(main.__globals__, name, value)
    assert main(arguments) == code
    assert json.loads(kept.read_text()) == stored
    assert said in capsys.readouterr().out
