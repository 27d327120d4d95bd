"""Environment variables on other machines: carried over, looked at where the program starts, written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command import Ran, gpuledger
from support.pages.schemas import schema_of
from support.programs.other_machines import OtherMachine

SCHEMA = schema_of("capture")
SHOW = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('TOY')}))"
HUSHED = {"TOY_TOKEN": "hush hush"}
ODD = "a b'\"$HOME\n`x` \\ é *"


def captured(there: OtherMachine, folder: Path, *arguments: str, tool: str = "nsys", **more: str) -> Ran:
    return gpuledger("capture", tool, f"--via={there.via}", "--no-report", "-o", "run", *arguments, cwd=folder, **more)


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.capture.json").read_text())
    SCHEMA.validate(found)
    return found


def test_what_is_given_or_named_reaches_the_program_and_is_read_back(there: OtherMachine, tmp_path: Path) -> None:
    variables = ("--env", f"TOY_GIVEN={ODD}", "--env=TOY_NAMED", "--env=TOY_UNSET", "--env=TOY_EMPTY=")
    ran = captured(there, tmp_path, *variables, "--", "python", "-c", SHOW, TOY_NAMED="here", TOY_OTHER="stays")
    assert ran.exit_code == 0, ran.stderr
    had = {"TOY_GIVEN": ODD, "TOY_NAMED": "here", "TOY_EMPTY": ""}
    assert json.loads(ran.stdout) == had
    found = manifest(tmp_path)
    assert (found["state"], found["environment"], found["carried"]) == ("finished", had, had)
    assert found["environment_of"].startswith("python -c ")


def test_the_manifest_holds_nothing_of_our_own_environment(pod_machine: OtherMachine, tmp_path: Path) -> None:
    ran = captured(pod_machine, tmp_path, "--", "env", "NCCL_DEBUG=INFO", "true", CUDA_VISIBLE_DEVICES="3")
    assert ran.exit_code == 0, ran.stderr
    assert manifest(tmp_path)["environment"] == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    ("command", "had"),
    [
        (("bash", "-c", ". {file} && touch {began}"), "TOY=3"),
        (("env", "-u", "TOY", "touch", "{began}"), "no TOY"),
    ],
    ids=["file", "env"],
)
def test_what_was_changed_on_the_way_is_an_error_and_the_program_is_not_started(
    pod_machine: OtherMachine, tmp_path: Path, command: tuple[str, ...], had: str
) -> None:
    (tmp_path / "file").write_text("export TOY=3\n")
    words = [word.format(began=tmp_path / "began", file=tmp_path / "file") for word in command]
    ran = captured(pod_machine, tmp_path, "--env=TOY=1", "--", *words)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "error: the program was not started: it would not have had TOY=1" in ran.stderr
    assert f"there was {had}" in ran.stderr
    assert not (tmp_path / "began").exists()
    assert sorted(path.name for path in tmp_path.glob("run*")) == ["run.capture.json"]
    found = manifest(tmp_path)
    assert (found["state"], found["carried"]) == ("failed", {"TOY": "1"})
    assert found["environment"] == ({} if had == "no TOY" else {"TOY": had[-1]})


def test_here_too_a_shell_may_not_change_what_was_set(pod_machine: OtherMachine, tmp_path: Path) -> None:
    path = f"{pod_machine.folder / 'bin'}:/usr/bin:/bin"
    ours = ("capture", "nsys", "--no-report", "--force", "-o", "run", "--env=TOY=1", "--")
    ran = gpuledger(*ours, "bash", "-c", "export TOY=2; exec true", cwd=tmp_path, PATH=path)
    assert ran.exit_code == 1
    assert "it would not have had TOY=1" in ran.stderr
    assert not (tmp_path / "run.nsys-rep").exists()
    ran = gpuledger(*ours, "bash", "-c", f'A=1 exec python -c "{SHOW}"', cwd=tmp_path, PATH=path)
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, {"TOY": "1"})
    assert manifest(tmp_path)["environment"]["TOY"] == "1"
    assert not list(tmp_path.glob(".run*"))


def test_what_is_never_reached_cannot_be_verified_and_its_own_end_is_told(
    pod_machine: OtherMachine, tmp_path: Path
) -> None:
    ran = captured(pod_machine, tmp_path, "--env=TOY=1", "--", "bash", "-c", "false && python train.py; exit 5")
    assert ran.exit_code == 5
    assert "whether TOY reached the program could not be read back" in ran.stderr
    assert manifest(tmp_path)["state"] == "failed"


def test_a_secret_goes_only_where_it_was_given_and_is_written_down_nowhere(
    ssh_machine: OtherMachine, tmp_path: Path
) -> None:
    code = "import os; print(os.environ.get('TOY_TOKEN'))"
    ran = captured(ssh_machine, tmp_path, "--env=TOY_TOKEN", "--", "python", "-c", code, **HUSHED)
    assert (ran.exit_code, ran.stdout) == (0, "None\n")
    assert "warning: TOY_TOKEN looks like a secret, and is not carried over" in ran.stderr
    given = "--env=TOY_TOKEN=hush hush"
    ran = captured(ssh_machine, tmp_path, "--force", given, "--", "python", "-c", code)
    assert (ran.exit_code, ran.stdout) == (0, "hush hush\n")
    assert "hush" not in (tmp_path / "run.capture.json").read_text()


@pytest.mark.parametrize("word", ["", "=1", "A-B=1", "1A=2", "A*=1", "é=1", "A B"])
def test_what_is_no_variable_is_refused(word: str, tmp_path: Path) -> None:
    ran = gpuledger("capture", "nsys", f"--env={word}", "--", "true", cwd=tmp_path)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "expected NAME or NAME=VALUE" in ran.stderr


RANKS = "cd {folder} && export TOY=1\n# two ranks\nenv A=1 torchrun --nproc-per-node=2 \\\n  -m show x > {folder}/said"


def test_each_rank_behind_a_prelude_has_a_report_of_its_own(ssh_machine: OtherMachine, tmp_path: Path) -> None:
    (tmp_path / "show.py").write_text("import os; os.write(1, (os.environ['RANK'] + os.environ['TOY']).encode())")
    text = RANKS.format(folder=tmp_path)
    ran = captured(ssh_machine, tmp_path, "--preset=multi", "--env=TOY=1", "--", "bash", "-lc", text)
    assert ran.exit_code == 0, ran.stderr
    assert sorted((tmp_path / "said").read_text()) == ["0", "1", "1", "1"]
    names = ["run.capture.json", "run_0.nsys-rep", "run_0.sqlite", "run_1.nsys-rep", "run_1.sqlite"]
    assert sorted(path.name for path in tmp_path.glob("run*")) == names
    assert manifest(tmp_path)["environment_of"] == "torchrun --nproc-per-node=2 -m show x"


@pytest.mark.parametrize(
    ("machine", "command"),
    [
        ("pod_machine", ("env", "TOY=2", "python", "-u", "{script}", "a b")),
        ("ssh_machine", ("bash", "-lc", "set -e; export TOY=2; python {script} 'a b'")),
    ],
)
def test_torch_is_recorded_elsewhere(
    machine: str, command: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    there = request.getfixturevalue(machine)
    script = tmp_path / "train.py"
    script.write_text("import os, sys; print(sys.argv[1:], os.environ['TOY'])")
    ran = captured(there, tmp_path, "--", *(word.format(script=script) for word in command), tool="torch")
    assert (ran.exit_code, ran.stdout) == (0, "['a b'] 2\n"), ran.stderr
    assert (tmp_path / "run.json.gz").read_bytes() == (there.folder / "trace.json.gz").read_bytes()
    assert manifest(tmp_path)["state"] == "finished"
