"""The GitHub action and the hook of pre-commit: whole YAML, scripts that bash takes, options that the verbs have."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuledger.cli.main import verb_named
from support.command import CAPTURES, ROOT
from support.profiles.opened import plain

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


HOSTILE = "k@octocat#1www.evil.example"
PLANTED_MODULES = (
    *("pip", "gpuledger", "numpy", "click", "venv", "sysconfig"),
    *("sitecustomize", "usercustomize", "conftest"),
)
PLANTED_PROGRAMS = (
    *("python3", "python", "gpuledger", "gh", "git", "env"),
    *("mktemp", "sed", "head", "tail", "cmp", "nsys"),
)
PLANTED_FILES = {
    "pyproject.toml": '[tool.gpuledger.families]\nx = ["("]\n[build-system]\nrequires = ["evil"]\n',
    "setup.cfg": "[install]\nprefix = /nowhere\n[easy_install]\nindex_url = http://127.0.0.1:9\n",
    "pip.conf": "[global]\nindex-url = http://127.0.0.1:9\nrequire-virtualenv = nonsense\n",
    ".config/pip/pip.conf": "[global]\nrequire-virtualenv = nonsense\n",
    ".pydistutils.cfg": "[install]\nprefix = /nowhere\n",
    ".netrc": "machine pypi.org login a password b\n",
    ".gitconfig": "[core]\nfsmonitor = ./git\n",
    ".config/gh/config.yml": "aliases:\n  api: '!./gh'\n",
}


class Runner:
    """A runner with a stranger's checkout, and this action with the packages that are installed here."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.temp, self.action = folder / "work", folder / "temp", folder / "action"
        self.marker, self.outputs = folder / "planted ran", dict[str, dict[str, str]]()
        for path in (self.checkout, self.temp, self.action / "release", self.action / "src", folder / "bin"):
            path.mkdir(parents=True)
        self._plant()
        (self.action / "release/requirements-gate.txt").write_text("")
        import click

        for package in (*Path(click.__file__).parents[1].iterdir(), ROOT / "src" / "gpuledger"):
            if package.suffix != ".pth" and package.name not in ("pip", "gpuledger_sampler"):
                (self.action / "src" / package.name).symlink_to(package)
        self._program(folder / "bin/python3", f'exec {sys.executable} "$@"')
        self._program(
            folder / "bin/gh",
            f'env > {folder}/gh.env; echo "$@" >> {folder}/gh.ran; pwd >> {folder}/gh.ran\n'
            'case "$*" in *state=open*) echo 7 ;; *POST*) cat shown.md > ' + f"{folder}/posted ;; esac",
        )
        self.env = {
            "PATH": f"{self.checkout}:.::{self.checkout}/bin:{folder}/bin:/usr/local/bin:/usr/bin:/bin",
            **dict.fromkeys(
                ("PYTHONPATH", "PYTHONUSERBASE", "HOME", "XDG_CONFIG_HOME", "GH_CONFIG_DIR"), str(self.checkout)
            ),
            "PYTHONSTARTUP": str(self.checkout / "pip.py"),
            "PYTHONINSPECT": "1",
            "PIP_CONFIG_FILE": str(self.checkout / "pip.conf"),
            "PIP_INDEX_URL": "http://127.0.0.1:9",
            "GPULEDGER_HISTORY": str(self.checkout),
            "GPULEDGER_FAMILIES": str(self.checkout / "pyproject.toml"),
            "GITHUB_WORKSPACE": str(self.checkout),
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "RUNNER_TEMP": str(self.temp),
        }

    def _plant(self) -> None:
        mark = f"open({str(self.marker)!r}, 'a').write({{!r}})\n"
        for name in PLANTED_MODULES:
            (self.checkout / f"{name}.py").write_text(mark.format(name))
        (self.checkout / "evil.pth").write_text("import os; " + mark.format("pth"))
        for name in PLANTED_PROGRAMS:
            self._program(self.checkout / name, f"echo {name} >> '{self.marker}'; exit 9")
        for name, content in PLANTED_FILES.items():
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (self.checkout / name).write_text(content)

    @staticmethod
    def _program(path: Path, script: str) -> None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, name: str, **given: str) -> subprocess.CompletedProcess[str]:
        """One step, as a runner starts it: in the checkout, with the whole job's environment."""
        [step] = [step for step in action()["runs"]["steps"] if step["name"] == name]
        (self.temp / "step.sh").write_text(step["run"])
        out = self.temp / "out"
        out.write_text("")
        ran = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(self.temp / "step.sh")],
            cwd=self.checkout,
            env={**self.env, **given, "GITHUB_OUTPUT": str(out)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.outputs[name] = dict(line.split("=", 1) for line in out.read_text().splitlines())
        assert not self.marker.exists(), self.marker.read_text()
        return ran

    @property
    def places(self) -> dict[str, str]:
        """What the step that installs hands to the others."""
        installed = self.outputs["Install gpuledger"]
        return {"HOME_FOLDER": installed["home"], "SAFE_PATH": installed["path"]}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    made = Runner(tmp_path_factory.mktemp("runner"))
    ran = made.run("Install gpuledger", ACTION=str(made.action))
    assert ran.returncode == 0, ran.stderr
    assert str(made.checkout) not in made.places["SAFE_PATH"]
    assert Path(made.places["HOME_FOLDER"]).parent == made.temp
    return made


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [
        ("-x", "--output=runs", "--output=runs"),
        ("$(touch planted)", "runs\n-x; touch 'planted' `id`/", "runs\n-x; touch 'planted' `id`/"),
        ("base line", "measured/one.sqlite", "measu*/*"),
    ],
)
def test_the_gate_runs_in_a_checkout_of_a_strangers(before: str, after: str, asked: str, runner: Runner) -> None:
    """The step that compares: a comment, the verdict, the history, the exit code; and nothing that is planted runs."""
    profile = runner.checkout / after / "a.sqlite"
    for path, longer in ((runner.checkout / before, 0), (profile if after.endswith("/") else profile.parent, 4)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(plain(CAPTURES / "decode.sqlite.xz").read_bytes())
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE StringIds SET value = ? || id", [HOSTILE])
            database.execute('UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = "end" + ? * ("end" - start)', [longer])
    given = {"BEFORE": before, "AFTER": asked, "FAIL_ON": "step>2%\nlaunches>0\n", "UNDECIDED": "fail"}
    store = f"-perf {len(asked)}"
    ran = runner.run("Compare", **given, **runner.places, HISTORY=store, HEAD_SHA="abc")
    assert ran.returncode == 0, ran.stderr
    first, *_, last = ran.stdout.splitlines()
    assert first.removeprefix("::stop-commands::") == last.strip(":")
    outputs = runner.outputs["Compare"]
    assert outputs.keys() == {"code", "comment", "verdict"}
    assert (outputs["code"], outputs["verdict"]) == ("3", "FAIL")
    comment = Path(outputs["comment"]).read_text()
    assert "octocat" in comment
    assert comment.startswith("<!-- gpuledger -->\n\n### gpuledger: FAIL\n")
    assert comment.count("<!-- gpuledger -->") == 1
    assert "### gpuledger: step over 1 runs" in comment
    for live in ("@octocat", "#1", "www."):
        assert live not in comment, live
    assert list((runner.checkout / store).iterdir())
    assert "per step" in (runner.temp.parent / "summary.md").read_text()
    assert not (runner.checkout / "planted").exists()


def test_a_comment_goes_to_the_pull_request_that_was_measured_and_never_from_where_it_ran(runner: Runner) -> None:
    folder, text = runner.temp.parent, "<!-- gpuledger -->\n" + "a" * 100_000
    (runner.temp / "comment.md").write_text(text)
    event = {"GH_TOKEN": "t0ken", "REPOSITORY": "a/b", "HEAD": "c:$(id)", "COMMENT": str(runner.temp / "comment.md")}
    refused = runner.run("Comment", **event, **runner.places, EVENT="pull_request", HEAD_SHA="")
    assert (refused.returncode, (folder / "gh.ran").exists()) == (1, False)
    assert runner.run("Comment", **event, **runner.places, EVENT="workflow_run", HEAD_SHA="$(id)").returncode == 1
    assert not (folder / "gh.ran").exists()
    ran = runner.run("Comment", **event, **runner.places, EVENT="workflow_run", HEAD_SHA="0" * 40)
    assert ran.returncode == 0, ran.stderr
    calls = (folder / "gh.ran").read_text()
    assert "--raw-field head=c:$(id)" in calls
    assert f'select(.head.sha == "{"0" * 40}")' in calls
    assert "repos/a/b/issues/7/comments" in calls
    assert calls.splitlines()[-1] == runner.places["HOME_FOLDER"]
    assert len((folder / "posted").read_text()) < 65_536
    env = dict(line.split("=", 1) for line in (folder / "gh.env").read_text().splitlines())
    given = {"PATH", "HOME", "HTTPS_PROXY", "GH_HOST", "GH_TOKEN", "GH_ENTERPRISE_TOKEN"}
    assert env.keys() - {"PWD", "SHLVL", "_", "OLDPWD"} == given
    assert env["HOME"] == runner.places["HOME_FOLDER"]


def test_only_the_step_that_comments_has_the_token() -> None:
    steps = action()["runs"]["steps"]
    assert [step["name"] for step in steps if "token" in str(step).lower()] == ["Comment"]


def test_what_the_action_installs_is_locked_by_hash() -> None:
    lock = (ROOT / "release" / "requirements-gate.txt").read_text()
    whole = (ROOT / "release" / "requirements.txt").read_text()
    entries = lock.partition("\n")[2].rstrip("\n").replace("\\\n", "").splitlines()
    assert all(re.fullmatch(r"[\w-]+==\S+( +--hash=sha256:[0-9a-f]{64})+", entry) for entry in entries)
    assert lock.partition("\n")[2].split("\n")[0] in whole
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["arrow"]]
    locked = {entry.partition("==")[0] for entry in entries}
    assert {re.split(r"[<>=]", requirement)[0] for requirement in needed} <= locked
    assert all(line in whole for line in lock.splitlines()[1:])
