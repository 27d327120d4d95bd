"""What CI is told to do exists: targets, scripts, versions of Python; and it holds nothing that must stay secret."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from support.command import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKLOADS = tomllib.loads((ROOT / "packages" / "workloads" / "pyproject.toml").read_text())
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


def test_every_python_and_every_machine_is_tried() -> None:
    marked = [each.rpartition(" :: ")[2] for each in PROJECT["project"]["classifiers"]]
    pythons = [each for each in marked if re.fullmatch(r"3\.\d+", each)]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    build = PROJECT["tool"]["cibuildwheel"]["build"]
    assert build == f"cp{pythons[0].replace('.', '')}-*"
    test, tried = loaded("test.yml")["jobs"]["test"], loaded("wheels.yml")["jobs"]["try"]
    assert test["strategy"]["matrix"]["python"] == tried["strategy"]["matrix"]["python"] == pythons
    built = loaded("wheels.yml")["jobs"]["wheels"]["strategy"]["matrix"]["machine"]
    assert test["strategy"]["matrix"]["machine"] == tried["strategy"]["matrix"]["machine"] == built
    setups = [step["with"] for path in WORKFLOWS for step in steps(path.name) if "setup-python" in step.get("uses", "")]
    assert {each["python-version"] for each in setups} <= {pythons[0], "${{ matrix.python }}"}


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


def test_the_version_without_tags_is_the_one_that_is_being_written() -> None:
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    for project in (PROJECT, WORKLOADS):
        assert project["tool"]["setuptools_scm"]["fallback_version"] == f"{newest[1]}.dev0"


def test_both_distributions_are_for_the_same_machines_and_one_brings_the_other() -> None:
    ours, programs = PROJECT["project"], WORKLOADS["project"]
    assert ours["optional-dependencies"]["workloads"] == [programs["name"]]
    assert "gpuledger" in programs["dependencies"]
    assert programs["requires-python"] == ours["requires-python"]
    assert set(programs["classifiers"]) < set(ours["classifiers"])
    assert (ROOT / "packages" / "workloads" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_hooks_before_a_commit_run_tools_that_development_installs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    dev = " ".join(PROJECT["project"]["optional-dependencies"]["dev"])
    assert all(hook["entry"].split()[0].removeprefix(".venv/bin/") in dev for hook in hooks)


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("ISSUE_TEMPLATE/*.yml")), ids=lambda path: path.name)
def test_a_form_for_issues_is_whole(path: Any) -> None:
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert form["contact_links"][0]["url"] in (ROOT / "SECURITY.md").read_text()
        return
    assert form["name"]
    assert form["description"]
    assert all(field["attributes"]["label"] for field in form["body"])
