"""The docs are true: generated pages are fresh, commands run, and what is shown is what comes out."""

from __future__ import annotations

import doctest
import re
import runpy
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.command import ROOT
from support.package_source import MODULES, PACKAGE, part
from support.pages.shown_commands import hold_against_its_commands, sessions

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "captures").glob("*.md")])
LLMS = ROOT / "docs" / "llms.txt"


GENERATOR: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="generate")
MADE = frozenset(GENERATOR["pages"]())
"""Pages of the reference, which are made when the site is built."""


@pytest.mark.usefixtures("ncu_asked_once", "profiles_read_once", "as_released")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if sessions(page) and ".zh." not in page.name], ids=lambda page: page.name
)
def test_commands_give_what_the_page_shows(page: Path, decode: Path, tmp_path: Path) -> None:
    hold_against_its_commands(page, decode, tmp_path)


@pytest.mark.parametrize("page", [*PAGES, LLMS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        is_made = Path(target).name in MADE and (page.parent / target).resolve().parent.name == "reference"
        assert target.startswith("https://") or is_made or (page.parent / target).exists(), target


def test_the_python_page_runs(decode: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.sqlite").write_bytes(decode.read_bytes())
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "reference" / "python.md").read_text(), re.DOTALL)
    exec(compile(code, "python.md", "exec"), {})


def test_the_walk_of_a_kernel_is_true(decode: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "decode.sqlite").write_bytes(decode.read_bytes())
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "architecture.md"
    shown = "".join(re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL))
    walk = doctest.DocTestParser().get_doctest(shown, {}, page.name, str(page), 0)
    told: list[str] = []
    results = doctest.DocTestRunner().run(walk, out=told.append)
    assert results.attempted > 30
    assert results.failed == 0, "".join(told)


def test_the_rooms_of_the_house_are_those_there_are() -> None:
    """Every part of the package is in the table, and every module that is named is there."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = "".join(line for line in page.splitlines(keepends=True) if line.startswith("| `"))
    parts = {part(path).partition(".")[0] for path in MODULES} - {"__main__"}
    assert {name for name in parts if f"`{name}" not in rooms} == set()
    named = set(re.findall(r"`([\w/]+\.(?:py|c))`", page + (ROOT / "CONTRIBUTING.md").read_text()))
    homes = (
        ROOT,
        PACKAGE,
        PACKAGE / "read",
        PACKAGE / "findings",
        ROOT / "tests" / "project",
        PACKAGE / "trace" / "native",
    )
    stand_ins = re.compile(r"[A-Z]{3}")  # src/gpuledger/read/FORMAT/reader.py
    assert {
        name for name in named if not stand_ins.search(name) and not any((home / name).exists() for home in homes)
    } == set()


def test_every_question_names_a_command_that_exists() -> None:
    from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS
    from gpuledger.verbs import VERBS

    table = (ROOT / "docs" / "README.md").read_text()
    assert set(re.findall(r"`gpuledger ([\w-]+)", table)) == set(VERBS)
    named = {name for group in re.findall(r"--report=([\w,]+)", table) for name in group.split(",")}
    assert named == set(NVIDIA_REPORTS) - {"cuda_gpu_sum", "nvtx_pushpop_sum"}


def test_help_knows_the_questions_of_the_documentation() -> None:
    from gpuledger.cli.help import asked_questions
    from gpuledger.verbs import GROUPS, VERBS

    table = (ROOT / "docs" / "README.md").read_text().partition("## Guides")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| ")][1:]
    plain = [(asked, re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", typed).replace("`", "")) for asked, typed in rows]
    assert asked_questions() == plain
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(VERBS)


@cache
def texts() -> dict[str, str]:
    """Every file of the repository that is written by hand, by its name."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("not a checkout")
    written = {".py", ".md", ".toml", ".yaml", ".json", ".csv", ".cu", ".c", ".h", ""}
    paths = [ROOT / name for name in listed if Path(name).suffix in written]
    return {str(path.relative_to(ROOT)): path.read_text(errors="replace") for path in paths if path.is_file()}


def test_nothing_of_this_machine_is_in_the_repository() -> None:
    pattern = re.compile(r"/(?:work|root)/|/home/(?!user\b)\w+")
    assert [
        name for name, text in texts().items() if pattern.search(text) and name != "tests/project/test_docs.py"
    ] == []


def test_every_test_that_is_named_is_there() -> None:
    """In pages, Makefiles and comments."""
    missing = {
        (name, path)
        for name, text in texts().items()
        for path in re.findall(r"\btests/[\w/]+\.py\b", text)
        if not (ROOT / path).exists()
    }
    assert missing == set()
