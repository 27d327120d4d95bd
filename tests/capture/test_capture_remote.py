"""Captures on another machine, with stand-ins for ssh and kubectl that run things here, each in its own way."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.capture.launchers import Remote
from gpuledger.capture.python_samples import ELSEWHERE
from support.programs.capture_tools import Tools, alive, finished, interrupt, tools, wait_for

# ssh puts its arguments into one line, and a shell reads that; kubectl hands them over as they are
SSH = '#!/bin/sh\nshift\ncd "$ELSEWHERE" && exec sh -c "$*"\n'
KUBECTL = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\ncd "$ELSEWHERE" && exec "$@"\n'
BROKEN = KUBECTL.replace("exec", 'case "$1" in cat) shift; head -c 3 "$1"; exit 0;; esac; exec', 1)
PREFIXES = {"ssh": "ssh gpu-1", "kubectl": "kubectl exec -n team POD -c main --"}


@pytest.fixture
def fake(tmp_path: Path, decode: Path) -> Tools:
    made = tools(tmp_path, decode)
    (tmp_path / "elsewhere").mkdir()
    made.environment["ELSEWHERE"] = str(tmp_path / "elsewhere")
    made.install("ssh", SSH)
    made.install("kubectl", KUBECTL)
    return made


def left_over_there(fake: Tools) -> list[str]:
    """Folders that a capture made on the other side and did not take away."""
    made = [
        word.partition("=")[2] for call in fake.calls() for word in call if word.startswith("--output=/tmp/gpuledger-")
    ]
    return [folder for each in made if Path(folder := str(Path(each).parent)).exists()]


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_a_capture_elsewhere_comes_back_whole(fake: Tools, prefix: str) -> None:
    code = "import os, pathlib; pathlib.Path('here').touch(); print('from', os.getcwd())"
    ran = fake.run("nsys", f"--via={prefix}", "-o", "my run", "--", "python", "-c", code, how="random")
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.startswith(f"from {fake.folder / 'elsewhere'}\nmy run.sqlite  nsys")
    assert (fake.folder / "elsewhere" / "here").exists()
    assert (fake.folder / "my run.nsys-rep").stat().st_size == 2000
    manifest = fake.manifest("my run")
    assert (manifest["state"], manifest["via"], manifest["machine"]) == ("finished", shlex.split(prefix), None)
    assert left_over_there(fake) == []


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("words", [["a b", "; touch hacked", "$(touch hacked)", "a\nb", "'", '"', "\\", "*", ""]])
def test_words_arrive_unchanged(fake: Tools, prefix: str, words: list[str]) -> None:
    code = "import sys, json; print(json.dumps(sys.argv[1:]))"
    ran = fake.run("nsys", "--no-report", f"--via={prefix}", "--", "python", "-c", code, *words)
    assert ran.exit_code == 0, ran.stderr
    assert json.loads(ran.stdout) == words
    assert not list(fake.folder.rglob("hacked"))


@given(st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])), min_size=1))
def test_what_ssh_joins_a_shell_takes_apart_again(words: list[str]) -> None:
    sent = Remote(("ssh", "host")).argv(words)
    assert sent[:2] == ("ssh", "host")
    assert shlex.split(" ".join(sent[2:])) == words
    assert Remote(("kubectl", "exec", "POD", "--")).argv(words)[4:] == tuple(words)


def test_where_the_export_cannot_be_made_here_it_is_made_there(fake: Tools) -> None:
    nsys = (fake.folder / "bin" / "nsys.py").read_text()
    (fake.folder / "elsewhere" / "bin").mkdir()
    fake.install_python("../elsewhere/bin/nsys", nsys)
    fake.install("ssh", SSH.replace("exec", 'PATH="$ELSEWHERE/bin:$PATH" exec'))
    fake.install_python("nsys", "raise SystemExit('error: this report is newer than I am')")
    ran = fake.run("nsys", "--via=ssh gpu-1", "-o", "run", "--", "true")
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.startswith("run.sqlite  nsys")
    (fake.folder / "bin" / "nsys").unlink()
    ran = fake.run("nsys", "--via=ssh gpu-1", "--force", "-o", "run", "--", "true")
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.startswith("run.sqlite  nsys")
    assert left_over_there(fake) == []


def test_a_tool_that_is_not_over_there_is_one_sentence(fake: Tools) -> None:
    fake.install("ssh", SSH.replace("exec", "PATH=/usr/bin:/bin exec"))
    ran = fake.run("nsys", "--via=ssh gpu-1", "-o", "run", "--", "true")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "error: nsys was not found on the other side" in ran.stderr
    assert fake.manifest()["state"] == "failed"


def test_a_connection_that_fails_is_one_sentence(fake: Tools) -> None:
    fake.install("ssh", "#!/bin/sh\necho 'ssh: Could not resolve hostname gpu-1' >&2\nexit 255\n")
    ran = fake.run("nsys", "--via=ssh gpu-1", "-o", "run", "--", "true")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "error: the command could not be started with --via (exit code 255)" in ran.stderr
    assert "Could not resolve hostname" in ran.stderr


def test_a_copy_that_breaks_off_is_noticed(fake: Tools) -> None:
    fake.install("kubectl", BROKEN)
    ran = fake.run("nsys", "--via=kubectl exec POD --", "-o", "run", "--", "true")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "report.nsys-rep could not be copied back whole: 3 of 8 bytes" in ran.stderr
    assert not (fake.folder / "run.nsys-rep").exists()
    [kept] = left_over_there(fake)  # it is named, and the only copy
    assert kept in ran.stderr
    for path in Path(kept).iterdir():
        path.unlink()
    Path(kept).rmdir()


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_an_interruption_reaches_the_other_side(fake: Tools, prefix: str, which: signal.Signals) -> None:
    code = "import pathlib, time; pathlib.Path('began').touch(); time.sleep(100)"
    process = fake.begun("nsys", f"--via={prefix}", "-o", "run", "--", "python", "-c", code)
    wait_for(fake.folder / "elsewhere" / "began")
    interrupt(process, which)
    ran = finished(process)
    assert ran.exit_code == 130
    assert (fake.folder / "run.nsys-rep").read_text() == "a report"
    assert fake.manifest()["state"] == "interrupted"
    assert alive(str(fake.folder)) == []
    assert left_over_there(fake) == []


def test_a_dry_run_shows_the_prefix(fake: Tools) -> None:
    asked = ("--via=kubectl exec POD --", "--env=TOY=a b", "--dry-run", "-o", "run")
    ran = fake.run("nsys", *asked, "--", "python", "a b.py")
    first, look, unsampled, note = ran.stdout.splitlines()
    argv = shlex.split(first)
    assert argv[:4] == ["kubectl", "exec", "POD", "--"]
    assert argv[-2:] == ["python", "a b.py"]
    assert look == "# right before the program starts, its environment is looked at, and must hold 'TOY=a b'"
    assert note.startswith("# then copied back to ")
    assert unsampled == f"# {ELSEWHERE}"
    assert fake.calls() == []
