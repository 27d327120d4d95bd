"""What CI is told to do exists, and it holds nothing that must stay secret."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from support.command import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="not part of what was unpacked")


def loaded(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text())
    return found


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in loaded(name)["jobs"].values() for step in job["steps"]]


def commands(name: str) -> list[str]:
    """Every line that is run, with what a matrix puts into it."""
    found = []
    for job in loaded(name)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for run in (step["run"] for step in job["steps"] if "run" in step):
            placed = re.search(r"\$\{\{ matrix\.(\w+) \}\}", run)
            found += [run.replace(placed[0], value) for value in matrix[placed[1]]] if placed else [run]
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_is_run_exists(path: Any) -> None:
    ran = [line for line in commands(path.name) if re.search(r"\bmake [a-z-]|\.py\b", line)]
    assert ran
    for line in ran:
        for folder, targets in re.findall(r"\bmake (?:-C (\w+) )?((?:[a-z-]+(?: |$))+)", line):
            makefile = (ROOT / folder / "Makefile").read_text()
            for target in targets.split():
                assert re.search(rf"^(?:[\w-]+ )*{target}(?: [\w-]+)*:", makefile, re.MULTILINE), line
        for script in re.findall(r"\b([\w/]+\.py)\b", line):
            assert (ROOT / script).is_file(), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_secret_and_no_more_rights_than_needed(path: Any) -> None:
    text = path.read_text()
    assert not re.search(r"\bsecrets\.|password:|api[_-]?token|pull_request_target", text, re.IGNORECASE)
    workflow = loaded(path.name)
    assert workflow["permissions"] == {"contents": "read"}
    asked = {name for name, job in workflow["jobs"].items() if "permissions" in job}
    assert asked <= {"publish"}
    assert all("if" in workflow["jobs"][name] and "environment" in workflow["jobs"][name] for name in asked)
    for step in steps(path.name):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_every_action_is_pinned_by_its_commit() -> None:
    """A tag can be moved, a commit cannot; the comment says which version it is."""
    pages = [ROOT / "action.yml", ROOT / "README.md", *WORKFLOWS, *(ROOT / "docs").rglob("*.md")]
    used = [
        line.strip() for page in pages for line in re.findall(r"^\s*(?:- )?uses: .*", page.read_text(), re.MULTILINE)
    ]
    assert len(used) > 20
    for line in used:
        assert re.fullmatch(r"(?:- )?uses: [\w./-]+@[0-9a-f]{40} # (?:v\d+\.\d+\.\d+|the ).*", line + " "), line
