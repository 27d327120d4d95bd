"""The runbooks that come with gpuledger: they are read, their commands are ours, and they run at a small size."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from itertools import dropwhile
from pathlib import Path

import click
import pytest

from gpuledger.cli.main import verb_named
from gpuledger.cli.verbs.bench import BENCHES
from gpuledger.runbook.definition import cells_of
from gpuledger.runbook.engine import shipped_runbooks, shipped_text
from gpuledger.runbook.read import runbook_of
from support.command import gpuledger
from support.pages.schemas import schema_of

SEEDS = {
    "moe-launches",
    "ep-ranks",
    "decode-gaps",
    "layer-kernels",
    "align-mock",
    "serve-point",
    "serve-parts",
    "serve-experts",
}


def test_all_are_there() -> None:
    assert set(shipped_runbooks()) >= SEEDS
    listed = gpuledger("run", "--list", "--format=json")
    assert listed.exit_code == 0
    assert {each["runbook"] for each in json.loads(listed.stdout)["runbooks"]} == set(shipped_runbooks())
    assert gpuledger("run").stdout == gpuledger("run", "--list").stdout


def test_the_list_fits_a_terminal() -> None:
    assert max(map(len, gpuledger("run", "--list", COLUMNS="80").stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", shipped_runbooks())
def test_it_says_what_it_asks_and_has_both_sizes(name: str) -> None:
    book = runbook_of(shipped_text(name), f"{name}.yaml")
    assert book.name == name
    assert book.question.endswith("?")
    assert list(book.sizes) == ["real", "small"]
    assert cells_of(book)


@pytest.mark.parametrize("size", ["real", "small"])
@pytest.mark.parametrize("name", shipped_runbooks())
def test_its_commands_are_commands_of_ours(name: str, size: str, tmp_path: Path) -> None:
    ran = gpuledger("run", name, "--dry-run", f"--size={size}", cwd=tmp_path)
    assert ran.exit_code == 0, ran.stderr
    assert list(tmp_path.iterdir()) == []
    commands = [shlex.split(line) for line in ran.stdout.splitlines() if line and not line.startswith("#")]
    assert commands
    for command in commands:
        words = list(dropwhile(lambda word: "=" in word, command))  # variables that are set for it stand before it
        assert words[0] == "gpuledger", command
        understood(words[1], words[2:])


def understood(verb: str, arguments: list[str]) -> None:
    """Refuse what the verb would refuse; nothing is run."""
    command = verb_named(verb)
    if isinstance(command, click.Group):
        tool = command.get_command(click.Context(command), arguments[0])
        assert tool is not None, arguments
        command, arguments = tool, arguments[1:]
    context = command.make_context(verb, list(arguments))
    if verb == "bench":
        assert context.params["name"] in BENCHES
    if verb == "capture":
        words = context.params["command"]
        assert words[words.index("bench") + 1] in BENCHES
    context.close()


@pytest.mark.parametrize("name", shipped_runbooks())
def test_it_runs_at_a_small_size(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    argv = [sys.executable, "-m", "gpuledger", "run", name, "--size=small", "--format=json"]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False, timeout=900)  # torch starts often
    assert ran.returncode == 0, ran.stderr.decode()
    found = json.loads(ran.stdout)
    schema_of("runbook").validate(found)
    assert {cell["state"] for cell in found["cells"]} <= {"finished", "skipped"}
    assert "finished" in {cell["state"] for cell in found["cells"]}
    for cell in found["cells"]:
        if cell["state"] == "finished":
            assert any(value is not None for value in cell["figures"].values()), cell["cell"]
            assert cell["steps"][0]["state"] == "done"
    assert (tmp_path / "runs" / name / "summary.md").exists()
