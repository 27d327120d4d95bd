"""The GitHub action and the hook of pre-commit: whole YAML, scripts that bash takes, options that the verbs have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from gpuledger.analyse.diff.baseline import baseline_json
from gpuledger.cli.main import verb_named
from support.command import ROOT
from support.diff_sides import kernel, side

ACTION = ROOT / "action.yml"
pytestmark = pytest.mark.skipif(not ACTION.is_file(), reason="not part of what was unpacked")


def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return loaded


def test_the_action_is_whole() -> None:
    whole = action()
    assert whole["runs"]["using"] == "composite"
    steps = whole["runs"]["steps"]
    assert all(step["shell"] == "bash" and step["name"] for step in steps)
    assert all(given.get("required") or "default" in given for given in whole["inputs"].values())
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text()))
    assert used == whole["inputs"].keys()
    for step in steps:
        assert "${{" not in step["run"], "what a pull request may say goes through the environment, never into a script"


@pytest.mark.parametrize("step", action()["runs"]["steps"] if ACTION.is_file() else [], ids=lambda step: step["name"])
def test_bash_takes_every_script(step: dict[str, Any]) -> None:
    subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_the_options_are_there() -> None:
    def options(*path: str) -> set[str]:
        command: Any = verb_named(path[0])
        for name in path[1:]:
            command = command.commands[name]
        return {option for parameter in command.params for option in parameter.opts}

    [script] = [step["run"] for step in action()["runs"]["steps"] if step["name"] == "Compare"]
    lines = script.replace("\\\n", " ").splitlines()
    for words, line in [
        (("diff",), next(line for line in lines if "gpuledger diff" in line)),
        (("history", "add"), next(line for line in lines if "history add" in line)),
        (("history", "blame"), next(line for line in lines if "history blame" in line)),
    ]:
        assert set(re.findall(r"--[a-z-]+", line)) <= options(*words), line
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "gpuledger diff"
    assert hook["language"] == "python"


def test_the_gate_runs(tmp_path: Path) -> None:
    """The step that compares, as a runner would start it: a comment, the verdict, the history, and the exit code."""
    [script] = [step["run"] for step in action()["runs"]["steps"] if step["name"] == "Compare"]
    for name, length in (("fast", 1000), ("slow", 2000)):
        run = side([length] * 10, [kernel("gemm", 10, 5000)], name=name)
        (tmp_path / name).write_bytes(msgspec.json.encode(baseline_json(run)))
    before, after = str(tmp_path / "fast"), str(tmp_path / "slow")
    given = {"BEFORE": before, "AFTER": after, "FAIL_ON": "step>2%\nlaunches>0\n", "UNDECIDED": "pass"}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    places = {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "out"), "HISTORY": str(tmp_path / "perf")}
    ran = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        env={
            **os.environ,
            **given,
            **places,
            "HEAD_SHA": "abc",
            "PATH": path,
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    outputs = dict(line.split("=", 1) for line in (tmp_path / "out").read_text().splitlines())
    assert (outputs["code"], outputs["verdict"]) == ("3", "FAIL")
    comment = Path(outputs["comment"]).read_text()
    assert comment.startswith("<!-- gpuledger -->\n\n### gpuledger: FAIL\n")
    assert comment.count("<!-- gpuledger -->") == 1
    assert "### gpuledger: step over 1 runs" in comment
    assert "slower" in (tmp_path / "summary.md").read_text()
