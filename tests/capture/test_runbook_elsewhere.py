"""Runbooks whose programs run elsewhere: through a real sshd, and a stand-in for kubectl as no cluster is at hand."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuledger.cli.main import verb_named
from support.command import PATIENCE_S
from support.programs.other_machines import OtherMachine

ODD = 'it\'s "two" $HOME `id` \\ é'

BENCH = """\
#!/bin/sh
# stands in for `gpuledger bench` over there: says what it had
for word in "$@"; do case $word in --output=*) file=${word#--output=};; esac; done
[ "$2" = silent ] || printf '{"itl_ms": %s, "had": "%s"}' "${#LL}" "$2" > "$file"
"""

BOOK = r"""
runbook: 1
name: toy
question: Does the setting reach the other side?
via: VIA
environment: {PATH: "PROGRAMS"}
matrix:
  low: {environment: LL, values: ["0", 'ODD']}
steps:
  - bench: [serve, "a b'c"]
  - command: [python, -c, "import json, os, sys; json.dump({'ll': os.environ['LL']}, open(sys.argv[1], 'w'))",
              "${folder}/said.json"]
    figures: said
  - capture: nsys
    command: [python, -c, "import os; print('LL is', [os.environ.get('LL')])"]
  - ranges: profile
    formats: [json]
    when: {low: "0"}
targets:
  - {key: itl_ms, at_most: 1, where: {low: "0"}}
  - {key: ranges.idle.share, at_least: 0.98, where: {low: "0"}}
show: [itl_ms, said.ll]
"""


def written(there: OtherMachine, folder: Path, text: str = BOOK) -> Path:
    programs = folder / "programs"
    programs.mkdir()
    (programs / "gpuledger").write_text(BENCH)
    (programs / "gpuledger").chmod(0o755)
    text = text.replace("VIA", json.dumps(there.via)).replace("ODD", ODD.replace("'", "''"))
    path = folder / "toy.yaml"
    path.write_text(text.replace("PROGRAMS", f"{programs}:{there.folder}/bin:/usr/bin:/bin"))
    return path


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(verb_named("run"), [str(path), "--output", str(path.parent / "out"), *arguments])


def is_running(mark: Path) -> bool:
    """Whether the process whose id stands there still runs; one that has ended may wait for a parent to ask."""
    stat = Path("/proc", mark.read_text().strip(), "stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_benches_commands_and_captures_run_there_and_what_they_leave_comes_back(
    ssh_machine: OtherMachine, tmp_path: Path
) -> None:
    path = written(ssh_machine, tmp_path)
    ran = run(path)
    assert ran.exit_code == 0, ran.output
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    had = [cell["figures"] for cell in summary["cells"]]
    assert [cell["itl_ms"] for cell in had] == [1, len(ODD.encode())]  # dash counts bytes
    assert [cell["said.ll"] for cell in had] == ["0", ODD]
    assert [target["verdict"] for target in summary["targets"]] == ["PASS", "PASS"]
    assert summary["via"] == "ssh -F '(withheld)' '(withheld)'"
    for cell, value in zip(sorted((tmp_path / "out" / "cells").iterdir()), ("0", ODD), strict=True):
        assert json.loads((cell / "profile.capture.json").read_text())["environment"]["LL"] == value
        assert f"LL is {[value]}" in (cell / "03-capture-nsys.log").read_text()
        log = (cell / "01-bench-serve.log").read_text()
        assert "right before the program there was: " in log
        assert "LL=" in log
        assert not Path(log.partition("--output=")[2].split("/bench.json")[0]).exists()
    again = run(path)
    assert "2 of 2 cells are finished and kept" in again.output


def test_kubectl_is_asked_with_these_words(pod_machine: OtherMachine, tmp_path: Path) -> None:
    path = written(pod_machine, tmp_path, BOOK[: BOOK.index("  - capture")] + "show: [itl_ms, said.ll]\n")
    ran = run(path)
    assert ran.exit_code == 0, ran.output
    cells = json.loads((tmp_path / "out" / "summary.json").read_text())["cells"]
    assert [cell["figures"]["said.ll"] for cell in cells] == ["0", ODD]
    asked = [call for call in (pod_machine.folder / "asked").read_text().split("\0") if "gpuledger\nbench" in call]
    assert [call.splitlines()[:4] for call in asked] == [["exec", "POD", "--", "sh"]] * 2
    assert ["LL=0" in call.splitlines() for call in asked] == [True, False]
    assert "a b'c" in asked[0].splitlines()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("bench: [silent]", "(bench silent) failed: it left no bench.json; its folder there is empty"),
        (
            "{command: [sh, -c, 'touch ${folder}/other.json'], figures: said}",
            "it left no said.json; in its folder there are: other.json",
        ),
        ("command: [no-such-program, x]", "exit code 127: error: not found by `ssh"),
        ("command: [bash, -c, 'export LL=7; exec true']", "the program was not started: it would not have had LL=0"),
        ("command: [env, -u, LL, 'true']", "right before `env -u LL true` there was no LL"),
        ("command: [bash, -c, 'echo no room left >&2; exit 9']", "exit code 9: no room left"),
        ("{command: [sleep, '60'], timeout_s: 1}", "it took more than 1 s and was ended"),
    ],
)
def test_what_goes_wrong_there_is_one_sentence(ssh_machine: OtherMachine, tmp_path: Path, step: str, said: str) -> None:
    text = BOOK[: BOOK.index("steps:")] + f"steps:\n  - {step}\n"
    ran = run(written(ssh_machine, tmp_path, text), "--cell", "low=0")
    assert ran.exit_code == 1
    assert said in str(ran.exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-o Port=1", "Connection refused"),
        ("-o PubkeyAuthentication=no", "Permission denied"),
        ("-o 'ProxyCommand=grep --quiet SSH'", "Connection closed"),  # one that doesn't read it may break the pipe
    ],
    ids=["unreachable", "key refused", "closed"],
)
def test_a_host_that_cannot_be_reached_is_one_sentence(
    ssh_machine: OtherMachine, tmp_path: Path, options: str, said: str
) -> None:
    via = ssh_machine.via.replace("ssh ", f"ssh {options} -o ControlPath=none ", 1)
    ran = run(written(OtherMachine(via, ssh_machine.folder), tmp_path), "--cell", "low=0")
    assert ran.exit_code == 1
    assert "(bench serve) failed: exit code 255: error: there is no connection; what was begun" in str(ran.exception)
    assert said in (tmp_path / "out" / "cells" / "low=0" / "01-bench-serve.log").read_text()


def test_a_connection_that_breaks_off_fails_the_cell_and_leaves_nothing_running(
    ssh_machine: OtherMachine, tmp_path: Path
) -> None:
    via = ssh_machine.via.replace("ssh ", "ssh -o ControlPath=none ", 1)
    mark = tmp_path / "pid"
    dropped = f"command: [sh, -c, 'echo $$$$ > {mark}; kill -9 $$PPID; exec sleep 60']"
    text = BOOK[: BOOK.index("steps:")] + f"steps:\n  - {dropped}\n"
    ran = run(written(OtherMachine(via, ssh_machine.folder), tmp_path, text), "--cell", "low=0")
    assert ran.exit_code == 1
    assert "exit code 255: error: the connection broke off, or a signal ended the program there" in str(ran.exception)
    assert not is_running(mark)


def test_an_interruption_ends_the_program_there(ssh_machine: OtherMachine, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    step = f"command: [sh, -c, 'echo $$$$ > {mark}; exec sleep 60']"
    path = written(ssh_machine, tmp_path, BOOK[: BOOK.index("steps:")] + f"steps:\n  - {step}\n")
    process = subprocess.Popen([sys.executable, "-m", "gpuledger", "run", path, "-o", tmp_path / "out"])
    until = time.monotonic() + PATIENCE_S
    while not mark.exists() or not mark.read_text().strip():
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    assert not is_running(mark)


def test_a_runbook_that_says_nothing_of_places_is_sent_elsewhere(ssh_machine: OtherMachine, tmp_path: Path) -> None:
    path = written(ssh_machine, tmp_path, BOOK.replace("via: VIA\n", ""))
    ran = run(path, f"--via={ssh_machine.via}", "--cell=low=0", "--dry-run")
    assert ran.exit_code == 0, ran.output
    assert "# bench serve: bench.json comes back from /tmp/gpuledger-" in ran.output
    assert " there env PATH=" in ran.output
    stays = BOOK.replace("  - bench:", "  - via: here\n    bench:").replace("via: VIA\n", "")
    (tmp_path / "toy.yaml").write_text(stays.replace("PROGRAMS", "/bin").replace("ODD", "1"))
    [line] = [line for line in run(path, "--via=ssh gpu-1", "--dry-run").output.splitlines() if "bench serve" in line][
        :1
    ]
    assert line.startswith("# bench serve, where there is: torch")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOOK.replace("${folder}/said.json", "${run}/said.json"), "${run} is a folder of this machine"),
        (BOOK.replace("print('LL is'", "print('${folder}'"), "${folder} is a folder of this machine"),
        (BOOK.replace('"PROGRAMS"', '"${here}/bin"'), "${here} is a folder of this machine"),
        (BOOK.replace("VIA", "ssh ${host}"), "nothing is called 'host'"),
        (BOOK.replace("VIA", "ssh -t there"), "-t asks ssh for a terminal"),
        (BOOK.replace("VIA", "kubectl exec POD"), "end it with --"),
    ],
)
def test_what_cannot_be_elsewhere_is_refused_before_anything_runs(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text(text.replace("ODD", "1"))
    ran = run(path)
    assert ran.exit_code == 1
    error = ran.exception
    assert said in f"{error} {getattr(error, 'hint', '')}"
