"""`gpuledger run` as a user runs it: cells in order, what is kept, what is told, and what an end of any kind leaves."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuledger.cli.main import verb_named
from gpuledger.runbook.engine import json_at, state_of
from support.command import PATIENCE_S, Ran, gpuledger
from support.pages.schemas import schema_of
from support.thorough import some

FIGURES = "import json, sys; json.dump({'median_ms': float(sys.argv[2])}, open(sys.argv[1], 'w'))"
COUNT = "import os, sys; open(sys.argv[1], 'a').write(sys.argv[2] + os.environ.get('TOY', '') + chr(10))"

HEAD = """\
runbook: 1
name: toy
question: Does it work?
variables: {log: LOG, scale: 1}
matrix:
  mode: [slow, quick, quickest]
steps:
"""


def step(code: str, *arguments: str, more: str = "") -> str:
    words = ["${python}", "-c", code, *arguments]
    return f"  - command: {json.dumps(words)}\n{more}"


def counted() -> str:
    """A step that writes its cell's name down."""
    return step(COUNT, "${log}", "${mode}")


def measured(value: str = "${scale}") -> str:
    return step(FIGURES, "${folder}/bench.json", value, more="    figures: bench\n")


def written(folder: Path, *parts: str) -> Path:
    path = folder / "toy.yaml"
    path.write_text("".join((HEAD.replace("LOG", str(folder / "log")), *parts)))
    return path


def seen(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().split() if log.exists() else []


def run(path: Path, *arguments: str) -> Ran:
    return gpuledger("run", path, "--output", str(path.parent / "out"), *arguments)


def state(folder: Path) -> dict[str, str]:
    found = json.loads((folder / "out" / "state.json").read_text())
    return {name.partition("=")[2]: cell["state"] for name, cell in found["cells"].items()}


def test_every_cell_runs_its_steps_in_order_and_the_table_has_its_figures(tmp_path: Path) -> None:
    path = written(tmp_path, counted(), measured(), "show: [median_ms]\n")
    ran = run(path)
    assert ran.exit_code == 0, ran.stderr
    assert seen(tmp_path) == ["slow", "quick", "quickest"]
    assert "quick     1.00 ms" in ran.stdout
    assert "cell 2 of 3: mode=quick · command python" in ran.stderr
    assert (tmp_path / "out" / "summary.md").read_text().startswith("# Runbook toy")
    assert "Does it work?" in (tmp_path / "out" / "summary.md").read_text()
    page = (tmp_path / "out" / "summary.html").read_text()
    assert "3 of 3" in page
    assert "gpuledger run " in page
    assert "Figures, cell by cell" not in page  # no picture: all cells have the same figure
    logs = sorted((tmp_path / "out" / "cells" / "mode=slow").glob("*.log"))
    assert [log.name[:10] for log in logs] == ["01-command", "02-command"]


def test_a_second_run_keeps_what_is_finished_and_a_change_runs_again(tmp_path: Path) -> None:
    path = written(tmp_path, counted(), measured(), "show: [median_ms]\n")
    run(path)
    kept = run(path)
    assert "3 of 3 cells are finished and kept" in kept.stderr
    assert "kept" in kept.stdout
    assert len(seen(tmp_path)) == 3
    assert len(seen(tmp_path)) == 3
    run(path, "--again", "--cell", "mode=quick")
    assert seen(tmp_path)[3:] == ["quick"]
    changed = run(path, "--set", "scale=2")
    assert seen(tmp_path)[4:] == ["slow", "quick", "quickest"]
    assert "mode=slow: its commands, gpuledger or what is installed here changed; it is run again" in changed.stderr
    assert "2.00 ms" in changed.stdout


def test_an_axis_may_set_the_environment(tmp_path: Path) -> None:
    path = written(tmp_path, counted())
    text = path.read_text().replace("mode: [slow, quick, quickest]", "mode: {values: [a, 'b c'], environment: TOY}")
    path.write_text(text)
    assert run(path).exit_code == 0
    assert (tmp_path / "log").read_text() == "aa\nb cb c\n"


def test_arguments_reach_a_program_as_they_were_written(tmp_path: Path) -> None:
    odd = ["$(touch x)", "; exit 1", "a\nb", "", "*", "é", "$$HOME"]
    code = "import json, sys; json.dump(sys.argv[1:], open(sys.argv[1], 'w'))"
    path = written(tmp_path, step(code, "${folder}/said", *odd))
    assert run(path, "--cell", "mode=slow").exit_code == 0
    said = json.loads((tmp_path / "out" / "cells" / "mode=slow" / "said").read_text())
    assert said[1:] == [word.replace("$$", "$") for word in odd]


FAILS = "import sys; print('no such thing'); sys.exit(7 if sys.argv[1] == 'quick' else 0)"


def test_a_step_that_fails_is_one_sentence_and_finished_cells_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path, counted(), step(FAILS, "${mode}"))
    ran = run(path)
    assert ran.exit_code == 1
    assert "error: cell mode=quick: step 2 (command python" in ran.stderr
    assert "failed: exit code 7: no such thing" in ran.stderr
    assert str(tmp_path / "out" / "cells" / "mode=quick" / "02-command-python") in ran.stderr
    assert seen(tmp_path) == ["slow", "quick"]
    assert state(tmp_path) == {"slow": "finished", "quick": "failed"}
    run(path)
    assert seen(tmp_path) == ["slow", "quick", "quick"]


def test_keep_going_runs_the_others(tmp_path: Path) -> None:
    ran = run(written(tmp_path, counted(), step(FAILS, "${mode}")), "--keep-going")
    assert ran.exit_code == 1
    assert seen(tmp_path) == ["slow", "quick", "quickest"]
    assert state(tmp_path) == {"slow": "finished", "quick": "failed", "quickest": "finished"}
    assert "failed" in ran.stdout


def test_a_step_that_may_fail_does_not_end_its_cell(tmp_path: Path) -> None:
    ran = run(written(tmp_path, step(FAILS, "${mode}", more="    optional: true\n"), counted()))
    assert ran.exit_code == 0
    assert len(seen(tmp_path)) == 3
    assert "exit code 7: no such thing (mode=quick)" in ran.stdout


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    ran = run(written(tmp_path, "  - command: [no-such-program-anywhere]\n"))
    assert ran.exit_code == 1
    assert "no-such-program-anywhere could not be started: no such file or directory" in ran.stderr


def test_a_step_has_a_limit_of_time(tmp_path: Path) -> None:
    ran = run(written(tmp_path, step("import time; time.sleep(60)", more="    timeout_s: 1\n")))
    assert ran.exit_code == 1
    assert "it took more than 1 s and was ended" in ran.stderr


def test_a_prelude_must_succeed(tmp_path: Path) -> None:
    path = written(tmp_path, counted(), "prelude:\n", step("raise SystemExit('not here')"))
    ran = run(path)
    assert (ran.exit_code, seen(tmp_path)) == (1, [])
    assert "error: prelude: command python" in ran.stderr
    assert "exit code 1: not here" in ran.stderr


def test_what_is_missing_is_skipped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuledger.cli.verbs.run.missing", lambda _: {"ncu": "ncu is not installed here"})
    steps = "  - {capture: ncu, bench: [moe], needs: ncu}\n  - {report: ncu}\n"
    path = written(tmp_path, steps, counted())
    text = path.read_text().replace("mode: [slow, ", "mode: {values: [slow, ")
    path.write_text(text.replace("quickest]", "quickest], needs: {quickest: ncu}}"))
    ran = CliRunner().invoke(verb_named("run"), [str(path), "-o", str(tmp_path / "out")])
    assert ran.exit_code == 0
    said = " ".join(ran.stdout.split())  # lines are wrapped to the terminal
    assert "capture ncu skipped: ncu is not installed here (mode=slow; mode=quick)" in said
    assert "there is no ncu.ncu-rep, as the step that makes it was skipped or failed" in said
    assert "skipped: ncu is not installed here (mode=quickest)" in ran.stdout
    assert seen(tmp_path) == ["slow", "quick"]


def test_what_was_missing_and_is_here_now_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, counted().rstrip() + "\n    needs: ncu\n")
    for lacking, kept in (({"ncu": "not here"}, []), ({}, ["slow", "quick", "quickest"])):
        monkeypatch.setattr("gpuledger.cli.verbs.run.missing", lambda _, lacking=lacking: lacking)
        ran = CliRunner().invoke(verb_named("run"), [str(path), "-o", str(tmp_path / "out")])
        assert (ran.exit_code, seen(tmp_path)) == (0, kept)


@pytest.mark.parametrize(("limit", "code", "verdict"), [(1, 0, "PASS"), (0.5, 3, "FAIL")])
def test_targets(tmp_path: Path, limit: float, code: int, verdict: str) -> None:
    targets = f"targets:\n  - {{key: median_ms, at_most: {limit}, where: {{mode: quick}}}}\n"
    ran = run(written(tmp_path, measured(), targets))
    assert ran.exit_code == code
    assert verdict in ran.stdout
    assert ("missed: median_ms is 1.0 in mode=quick, wanted: at most 0.5" in ran.stderr) == (code == 3)
    assert run(tmp_path / "toy.yaml").exit_code == code  # also when the cells are kept


def test_an_undecided_target_says_where_the_figure_lies_and_what_would_decide(tmp_path: Path) -> None:
    code = "import json, sys; json.dump(json.loads(sys.argv[2]), open(sys.argv[1], 'w'))"
    figures = {"itl_ms": 24.0, "itl_ms_interval": [20.0, 28.0], "itl_ms_samples": 100}
    steps = step(code, "${folder}/bench.json", json.dumps(figures), more="    figures: bench\n")
    path = written(tmp_path, steps, "targets:\n  - {key: itl_ms, at_most: 25, where: {mode: slow}}\n")
    ran = run(path, "--cell=mode=slow")
    assert ran.exit_code == 0, ran.stderr
    assert "ITL in mode=slow: it lies between 20 and 28: about 1,600 samples would decide, not 100" in ran.stdout
    path.write_text(path.read_text().replace("at_most: 25", "at_most: 25, undecided: fail"))
    assert run(path, "--cell=mode=slow").exit_code == 3


def test_a_target_that_nothing_measures_is_an_error(tmp_path: Path) -> None:
    ran = run(written(tmp_path, measured(), "targets:\n  - {key: median_m, at_most: 1}\n"))
    assert ran.exit_code == 1
    assert "no figure is called 'median_m'; did you mean 'median_ms'?" in ran.stderr


def test_a_gate_of_ours_is_a_miss_and_no_failure(tmp_path: Path, unpacked: Callable[[str], Path]) -> None:
    before, after = unpacked("moe_batched_gemm.sqlite"), unpacked("moe_loop.sqlite")
    gate = f"  - command: [gpuledger, diff, {before}, {after}, '--fail-on=launches>0']\n"
    ran = run(written(tmp_path, gate, counted()), "--cell", "mode=slow")
    assert ran.exit_code == 3, ran.stderr
    assert "a target was missed" in ran.stderr
    assert seen(tmp_path) == ["slow"]


def test_profiles_are_reported_compared_and_predictions_judged(tmp_path: Path, unpacked: Callable[[str], Path]) -> None:
    for mode, name in (("slow", "moe_loop"), ("quick", "moe_batched_gemm"), ("quickest", "moe_batched_gemm")):
        (tmp_path / f"{mode}.sqlite").symlink_to(unpacked(f"{name}.sqlite"))
    copied = f"  - command: [cp, '{tmp_path}/${{mode}}.sqlite', '${{folder}}/profile.sqlite']\n"
    steps = (
        copied,
        "    makes: {profile: profile.sqlite}\n",
        measured("${mode.flags}"),
        "  - report: profile\n    formats: [json]\n",
        "show: [median_ms]\n",
    )
    compare = """\
compare:
  - {diff: profile, before: {mode: slow}, after: {mode: quick}}
  - {align: profile, mock: {mode: quick}, e2e: {mode: quickest}}
  - {saving: top, from: {mode: slow}, to: {mode: quick}, within: 20 %}
  - {saving: top, from: {mode: slow}, to: {mode: quick}, within: 1 %}
"""
    flags = "mode: {values: [slow, quick, quickest], flags: {slow: ['3'], quick: ['2'], quickest: ['1']}}"
    path = written(tmp_path, *steps, compare)
    path.write_text(path.read_text().replace("mode: [slow, quick, quickest]", flags))
    ran = run(path, "--format=json")
    assert ran.exit_code == 3, ran.stderr
    found = json.loads(ran.stdout)
    schema_of("runbook").validate(found)
    assert found["verdict"] == "missed"
    diff, align = found["comparisons"]
    assert (diff["verdict"], diff["delta_ns"] < 0, align["kind"]) == ("faster", True, "align")
    near, far = found["savings"]
    assert (near["verdict"], far["verdict"]) == ("PASS", "FAIL")
    assert near["profiled_ns"] == found["cells"][0]["step_ns"] - found["cells"][1]["step_ns"] == -diff["delta_ns"]
    assert found["cells"][0]["finding"] == "LAUNCH-BOUND"
    page = (tmp_path / "out" / "summary.html").read_text()
    assert "Median is best with quickest: 1.00 ms, and 3.00 ms with slow." in page.replace("\xa0", " ")
    assert page.count('<svg class="defs"') < page.count("<svg")
    assert "Where a step goes" in page
    assert not re.search(r'(src|href)="(?!#|data:)', page)  # nothing is loaded
    for form in ("text", "md", "csv"):
        again = run(tmp_path / "toy.yaml", f"--format={form}")
        assert (again.exit_code, "slow" in again.stdout) == (3, True)
        assert "compare: " not in again.stderr  # nothing changed, so nothing is compared again
    run(tmp_path / "toy.yaml", "--again", "--cell=mode=slow")
    assert (tmp_path / "out" / "compare" / "02-align.log").read_text().count("$ ") == 2


def test_of_cells_that_are_alike_none_is_best_and_a_rank_is_no_amount(tmp_path: Path) -> None:
    figures = (
        "import json, sys; json.dump({'median_ms': 4.0, 'slowest_rank': len(sys.argv[2])}, open(sys.argv[1], 'w'))"
    )
    made = step(figures, "${folder}/bench.json", "${mode}", more="    figures: bench\n")
    ran = run(written(tmp_path, made, "show: [median_ms, slowest_rank]\n"))
    assert ran.exit_code == 0, ran.stderr
    page = (tmp_path / "out" / "summary.html").read_text()
    assert "is best with" not in page
    assert "Every step is done." in page
    assert "Slowest rank of each cell" not in page
    assert "rank 8" in ran.stdout


# ends of any kind

WAITS = (
    "import os, subprocess, sys, time; "
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']); "
    "open(sys.argv[1], 'a').write(f'{os.getpid()} {child.pid} '); time.sleep(float(sys.argv[2]))"
)


def gone(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def started(path: Path) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "gpuledger", "run", str(path), "-o", str(path.parent / "out")]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def until(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
@pytest.mark.parametrize("seed", some(range(2), 2))
def test_an_end_at_any_moment_keeps_finished_cells_and_leaves_no_child(
    tmp_path: Path, which: signal.Signals, seed: int
) -> None:
    """The first cell ends by itself; we end the run at a random moment of the second, or shortly before or after."""
    seconds = "{'slow': '0', 'quick': '300', 'quickest': '0'}"
    code = WAITS.replace("float(sys.argv[2])", f"float({seconds}[sys.argv[2]])")
    code = code.replace("time.sleep(float", "(child.kill() if sys.argv[2] != 'quick' else None); time.sleep(float")
    path = written(tmp_path, step(code, "${log}", "${mode}"))
    running = started(path)
    assert until(lambda: len(seen(tmp_path)) >= 3)
    time.sleep(random.Random(seed).random() * 0.3)
    running.send_signal(which)
    _, said = running.communicate(timeout=PATIENCE_S)
    pids = [int(pid) for pid in seen(tmp_path)]
    assert until(lambda: all(map(gone, pids))), "a child is left"
    assert running.returncode == (-signal.SIGKILL if which is signal.SIGKILL else 130), said
    kept = state(tmp_path)
    assert kept["slow"] == "finished"
    assert kept["quick"] in ("running", "interrupted")
    if which is not signal.SIGKILL:
        assert b"1 of 3 cells are kept: the same command goes on" in said
    path.write_text(path.read_text().replace("'quick': '300'", "'quick': '0'").replace("!= 'quick'", "!= ''"))
    again = run(path)
    assert again.exit_code == 0, again.stderr
    assert set(state(tmp_path).values()) == {"finished"}


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    running = started(written(tmp_path, counted(), step("import time; time.sleep(300)")))
    assert until(lambda: seen(tmp_path) == ["slow"])
    second = run(tmp_path / "toy.yaml")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_S)
    assert second.exit_code == 1
    assert "another run is in progress here" in second.stderr


def test_a_folder_that_is_no_runs_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("dear")
    ran = run(written(tmp_path, counted()))
    assert (ran.exit_code, seen(tmp_path)) == (1, [])
    assert "is there already, and no run's" in ran.stderr


def test_another_runbooks_folder_is_refused_and_so_is_a_broken_state(tmp_path: Path) -> None:
    path = written(tmp_path, counted())
    run(path)
    path.write_text(path.read_text().replace("name: toy", "name: other"))
    assert "holds a run of the runbook 'toy', not of 'other'" in run(path).stderr
    (tmp_path / "out" / "state.json").write_text("{")
    ran = run(path)
    assert ran.exit_code == 1
    assert "is not the state of a run" in ran.stderr


@pytest.mark.parametrize("seconds", ["null", '"x"', "[]", "-1", "1e999", "NaN", "9" * 400])
def test_a_cell_whose_record_is_damaged_is_run_again(tmp_path: Path, seconds: str) -> None:
    """A time that was no number was an internal error of every later run in the folder."""
    path = tmp_path / "state.json"
    step = f'{{"step": "bench", "state": "done", "seconds": {seconds}}}'
    whole = '"whole": {"fingerprint": "f", "state": "finished", "steps": []}'
    cells = f'{whole}, "a": {{"fingerprint": "f", "state": "finished", "steps": [{step}]}}, "b": 3'
    path.write_text(f'{{"schema": "gpuledger.runbook-state/1", "runbook": "toy", "cells": {{{cells}}}}}')
    assert list(state_of(tmp_path, "toy").cells) == ["whole"]


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", "9" * 400, "9" * 5000])
def test_a_figure_that_is_no_number_is_none(tmp_path: Path, value: str) -> None:
    """A program that divides by nothing writes NaN: the summary was an internal error."""
    (tmp_path / "a.json").write_text(f'{{"ms": {value}, "more": [1, 2.5, -{2**60}]}}')
    assert json_at(tmp_path / "a.json") == {"ms": None, "more": [1, 2.5, -(2**60)]}


# the command line


def test_dry_run_prints_every_command_and_runs_nothing(tmp_path: Path) -> None:
    more = "environment: {HF_TOKEN: hush, TOY: 'a b'}\nprelude:\n  - [gpuledger, doctor, --quick]\n"
    ran = run(written(tmp_path, counted(), more), "--dry-run")
    assert ran.exit_code == 0
    assert "gpuledger doctor --quick" in ran.stdout
    assert ran.stdout.count("TOY='a b' ") == 3
    assert "hush" not in ran.stdout
    assert (seen(tmp_path), (tmp_path / "out").exists()) == ([], False)


def test_secrets_are_set_but_written_nowhere_and_only_their_owner_reads_what_is(tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(len(os.environ['HF_TOKEN']) != 4 or sys.argv[1] != 'quieter7')"
    path = written(tmp_path, step(code, "${API_KEY}"), "environment: {HF_TOKEN: hush}\n")
    path.write_text(path.read_text().replace("variables: {", "variables: {API_KEY: quieter7, "))
    planned, ran = run(path, "--dry-run"), run(path, "--format=json")
    assert ran.exit_code == 0, ran.stderr
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    texts = [file.read_text() for file in files]
    for secret in ("hush", "quieter7"):
        assert not [text for text in (*texts, planned.stdout, ran.stdout, ran.stderr) if secret in text]
    assert {file.stat().st_mode & 0o077 for file in (tmp_path / "out", *files)} == {0}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["toy.yaml", "--cell", "mode=slwo"], 2, "did you mean 'slow'?"),
        (["toy.yaml", "--cell", "mod=slow"], 2, "did you mean 'mode'?"),
        (["toy.yaml", "--cell", "slow"], 2, "expected NAME=VALUE"),
        (["toy.yaml", "--set", "scal=1"], 2, "did you mean 'scale'?"),
        (["toy.yaml", "--size", "real"], 2, "there are none"),
        (["nothing.yaml"], 1, "nothing.yaml: cannot be read: no such file or directory"),
        (["moe-lunches"], 1, "no runbook 'moe-lunches'; did you mean 'moe-launches'?"),
    ],
)
def test_wrong_words_are_told(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    written(tmp_path, counted())
    ran = gpuledger("run", *arguments, cwd=tmp_path)
    assert (ran.exit_code, ran.stdout) == (code, "")
    assert said in ran.stderr


def test_a_bad_runbook_is_one_sentence_with_its_line(tmp_path: Path) -> None:
    ran = run(written(tmp_path, counted(), "step: []\n"))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {tmp_path / 'toy.yaml'}:9: unknown key 'step'; did you mean 'steps'?")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    ran = run(written(tmp_path, counted()))
    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: ")
    assert "Traceback" not in ran.stderr
