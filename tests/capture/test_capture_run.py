"""Captures from the command to the report, with a stand-in for nsys: files, exit codes, failures, interruptions."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuledger.capture import manifest as manifests
from gpuledger.errors import OutputRefused
from gpuledger.version import own_version
from support.command import PATIENCE_S, gpuledger
from support.pages.schemas import schema_of
from support.programs.capture_tools import IN_THE_BACKGROUND, Tools, alive, finished, interrupt, tools, wait_for
from support.thorough import IS_THOROUGH, some

SCHEMA = schema_of("capture")


@pytest.fixture
def fake(tmp_path: Path, decode: Path) -> Tools:
    return tools(tmp_path, decode)


def python(code: str) -> list[str]:
    return ["--", "python", "-c", code]


def valid(manifest: dict[str, object]) -> dict[str, object]:
    SCHEMA.validate(manifest)
    return manifest


def test_a_command_becomes_a_profile_checks_and_a_report(fake: Tools) -> None:
    ran = fake.run("nsys", "-o", "run", *python("print('hello')"))
    assert ran.exit_code == 0
    assert ran.stdout.startswith("hello\nrun.sqlite  nsys 2025.3.2")
    assert "Where the time went" in ran.stdout
    assert "PASS     GPU work: 2,446 kernels on 1 GPU" in ran.stderr
    assert "MISSING  OS calls: none was recorded" in ran.stderr
    names = ["run.capture.json", "run.nsys-rep", "run.samples.gz", "run.sqlite"]
    assert sorted(path.name for path in fake.folder.glob("*run*")) == names
    profile, export = fake.calls()
    assert profile[:2] == ["profile", "--output=run"]
    assert export[0] == "export"
    manifest = valid(fake.manifest())
    assert (manifest["state"], manifest["exit_code"], manifest["presets"]) == ("finished", 0, ["launch"])
    assert manifest["versions"] == {"gpuledger": own_version(), "nsys": "2025.3.2"}
    assert manifest["files"] == [
        {"name": "run.nsys-rep", "bytes": 8},
        {"name": "run.samples.gz", "bytes": (fake.folder / "run.samples.gz").stat().st_size},
        {"name": "run.sqlite", "bytes": (fake.folder / "run.sqlite").stat().st_size},
    ]
    assert alive(str(fake.folder)) == []


def test_lines_can_be_left_out(fake: Tools) -> None:
    ran = fake.run(
        "nsys", "--no-report", "--no-lines", "-o", "run", *python("import os; print('GPULEDGER_SAMPLES' in os.environ)")
    )
    assert ran.stdout == "False\n"
    assert not list(fake.folder.glob("*samples*"))
    assert "no Python was sampled" not in ran.stderr


def test_a_gpu_is_sampled_where_that_is_allowed(fake: Tools) -> None:
    ran = fake.run("nsys", "--gpu-metrics", "--no-report", "-o", "run", *python("pass"))
    assert ran.exit_code == 0
    asked, profile, _ = fake.calls()
    assert asked == ["profile", "--gpu-metrics-devices=help"]
    assert {"--gpu-metrics-devices=all", "--gpu-metrics-frequency=20000"} <= set(profile)


def test_a_gpu_that_may_not_be_sampled_is_recorded_without_and_it_is_said_why(fake: Tools) -> None:
    ran = fake.run("nsys", "--gpu-metrics", "--no-report", "-o", "run", *python("pass"), how="no-counters")
    assert ran.exit_code == 0
    assert "the GPU is not sampled: this user may not read the GPU's counters (ERR_NVGPUCTRPERM)" in ran.stderr
    assert not any("gpu-metrics" in word for word in fake.calls()[1])


@pytest.mark.parametrize(
    ("options", "is_sampled"),
    [
        (["--preset=steady"], True),
        (["--duration=5"], True),
        (["--duration=600"], False),
        (["--preset=launch"], False),
        (["--preset=steady", "--no-gpu-metrics"], False),
    ],
)
def test_a_short_recording_is_sampled_unless_that_is_not_wanted(
    fake: Tools, options: list[str], is_sampled: bool
) -> None:
    ran = fake.run("nsys", *options, "--dry-run", "-o", "run", *python("pass"))
    assert ran.exit_code == 0
    assert ("--gpu-metrics-devices=all" in ran.stdout) is is_sampled


def test_the_exit_code_is_the_programs(fake: Tools) -> None:
    ran = fake.run("nsys", "--no-report", "-o", "run", *python("raise SystemExit(7)"))
    assert ran.exit_code == 7
    assert ran.stdout == ""
    assert "the command ended with exit code 7" in ran.stderr
    assert "PASS     GPU work" in ran.stderr
    assert valid(fake.manifest())["exit_code"] == 7


def test_a_program_that_crashes_keeps_its_profile(fake: Tools) -> None:
    ran = fake.run("nsys", "--no-report", "-o", "run", *python("import os; os.kill(os.getpid(), 11)"))
    assert ran.exit_code == 128 + 11
    assert (fake.folder / "run.sqlite").exists()


def test_what_nsys_ends_as_asked_is_no_failure(fake: Tools) -> None:
    ran = fake.run(
        *("nsys", "--preset=server", "--delay=0.1", "--duration=0.2", "--no-report", "-o", "run"),
        *python("import time; time.sleep(100)"),
    )
    assert ran.exit_code == 0
    assert valid(fake.manifest())["exit_code"] == 143
    assert "duration: 1.00 s of the 200 ms asked for hold events" in ran.stderr
    assert alive(str(fake.folder)) == []


def test_input_and_errors_pass_through(fake: Tools) -> None:
    process = fake.begun("nsys", "--no-report", *python("import sys; print(input(), file=sys.stderr)"))
    out, err = process.communicate(timeout=PATIENCE_S)  # its input is closed, as the test's is
    assert process.returncode in (0, 1)
    assert out == b""
    assert b"EOFError" in err or b"PASS" in err


words = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=8)


@settings(max_examples=6 if IS_THOROUGH else 3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(words | st.sampled_from(["; touch hacked", "$(touch hacked)", "`touch hacked`", "a\nb", "'", '"', "%p"]))
)
def test_no_shell_ever_sees_the_command(fake: Tools, words: list[str]) -> None:
    code = "import sys, json, pathlib; pathlib.Path('seen').write_text(json.dumps(sys.argv[1:]))"
    ran = fake.run("nsys", "--no-report", "--force", "-o", "run", *python(code), *words)
    assert ran.exit_code == 0
    assert json.loads((fake.folder / "seen").read_text()) == words
    assert not (fake.folder / "hacked").exists()


@pytest.mark.parametrize("name", ["a run", "50%", "%p%q{HOME}", "-dash", "ünï", "a'b\"c", "deep/er/run"])
def test_any_name_is_taken_as_it_is(fake: Tools, name: str) -> None:
    ran = fake.run("nsys", "--no-report", f"--output={name}", *python("pass"))
    assert ran.exit_code == 0, ran.stderr
    assert (fake.folder / f"{name}.sqlite").exists()
    assert valid(fake.manifest(name))["state"] == "finished"


def test_an_earlier_capture_stays_unless_forced(fake: Tools) -> None:
    (fake.folder / "run.nsys-rep").write_text("old")
    refused = fake.run("nsys", "-o", "run", *python("pass"))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: run.nsys-rep: exists already\n")
    assert fake.calls() == []
    assert fake.run("nsys", "--no-report", "--force", "-o", "run", *python("pass")).exit_code == 0
    assert (fake.folder / "run.nsys-rep").read_text() == "a report"


def test_a_stale_report_is_not_taken_for_a_new_one(fake: Tools) -> None:
    (fake.folder / "run.nsys-rep").write_text("old")
    ran = fake.run("nsys", "--force", "-o", "run", *python("pass"), how="no-report")
    assert ran.exit_code == 1
    assert not (fake.folder / "run.nsys-rep").exists()


@pytest.mark.parametrize(
    ("how", "options", "says"),
    [
        ("crash", [], "nsys wrote no report (exit code 1)\n       the last that was said: nsys: something is wrong"),
        ("full", [], "the disk is full"),
        ("no-report", ["--preset=steady"], "the program never opened a profiler range, so nothing was recorded"),
        ("no-report", ["--delay=50"], "s, before --delay=50 was over"),
        ("export-full", [], "run.nsys-rep: the disk is full: there is no room for its export"),
        ("export-fails", [], "run.nsys-rep: `nsys export` failed (exit code 1)"),
    ],
)
def test_what_goes_wrong_is_one_sentence(fake: Tools, how: str, options: list[str], says: str) -> None:
    ran = fake.run("nsys", *options, "-o", "run", *python("pass"), how=how)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert says in ran.stderr
    assert ran.stderr.count("error: ") == 1
    assert "Traceback" not in ran.stderr
    manifest = valid(fake.manifest())
    assert manifest["state"] == ("finished" if how.startswith("export") else "failed")
    assert manifest["reason"]
    assert not list(fake.folder.glob(".run*"))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nsys"], 2, "no COMMAND to record. Write it behind `--`."),
        (["nsys", "--"], 2, "no COMMAND to record. Write it behind `--`."),
        (["nsys", "--", "--", "x"], 2, "no such option: --"),
        (["nsys", "--", "--iters"], 2, "COMMAND comes last"),
        (["nsys", "--", ""], 2, "no COMMAND to record"),
        (["nsys", "--preset=fast", "--", "ls"], 2, "'fast' is no preset. There are: launch"),
        (["nsys", "--", "no-such-program-anywhere"], 1, "error: no-such-program-anywhere: no such program"),
        (["nsys", "--", "./data"], 1, "error: ./data: cannot be executed"),
        (["nsys", "--set=x", "--", "ls"], 1, "error: --set=x: expected FLAG=VALUE"),
        (["nsys", "-o", "file/run", "--", "ls"], 1, "error: file: cannot be written to: "),
        (["nsys", "--via=", "--", "ls"], 1, "error: --via is empty"),
        (["nsys", "--via='", "--", "ls"], 1, 'error: --via="\'"'),
        (["nsys", "--via=kubectl exec POD", "--", "ls"], 1, "kubectl takes what follows for its own options"),
        (["ncu", "--kernel=(", "--", "ls"], 2, "is no regular expression"),
        (["ncu", "--metrics=sm__throughput", "--", "no-such-program-anywhere"], 1, "no such program"),
        (["torch", "--", "./bench"], 1, "error: ./bench: `capture torch` records Python programs"),
        (["torch", "--", "python"], 1, "error: no script to record"),
        (["torch", "--", "python", "-c", "1"], 1, "error: no script to record"),
        (["torch", "--step-range=x", "--", "python", "a.py"], 1, "add --active=N"),
        (["stop", "web"], 1, "error: no recording of session web was started here"),
        (["start", "7web"], 1, "is no name for a session"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_starts_nothing(fake: Tools, arguments: list[str], code: int, says: str) -> None:
    (fake.folder / "file").touch()
    (fake.folder / "data").touch()
    ran = fake.run(*arguments)
    assert (ran.exit_code, ran.stdout) == (code, "")
    assert says in ran.stderr
    assert fake.calls() == []


def test_the_dashes_may_be_left_out(fake: Tools) -> None:
    ran = fake.run("nsys", "--no-report", "-o", "run", "python", "-c", "pass", "--force", "-o", "x")
    assert ran.exit_code == 0
    assert fake.calls()[0][-5:] == ["-c", "pass", "--force", "-o", "x"]


@pytest.mark.parametrize("tool", ["nsys", "ncu"])
def test_a_missing_tool_is_one_sentence(fake: Tools, tool: str) -> None:
    (fake.folder / "bin" / tool).unlink()
    ran = fake.run(tool, "-o", "run", *python("pass"))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert f"error: {tool} was not found" in ran.stderr
    assert not list(fake.folder.glob("run*"))


def test_a_folder_that_cannot_be_written_to_is_one_sentence(fake: Tools) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (fake.folder / "locked").mkdir(mode=0o500)
    ran = fake.run("nsys", "-o", "locked/run", *python("pass"))
    assert (ran.exit_code, fake.calls()) == (1, [])
    assert ran.stderr.startswith("error: locked: cannot be written to")


def test_a_disk_that_is_full_for_the_manifest_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(manifests, "whole_file", no_room)
    begun = manifests.Manifest("nsys", {"gpuledger": "1", "nsys": None}, (), ("a",), (("a",),), (), manifests.utc(0))
    with pytest.raises(OutputRefused, match="the disk is full"):
        manifests.write_manifest(begun, tmp_path / "run.capture.json")


def test_what_outlives_the_program_is_ended(fake: Tools) -> None:
    ran = fake.run("nsys", "--no-report", "-o", "run", *python("pass"), how="orphan")
    assert ran.exit_code == 0
    assert "ended processes that nsys left behind" in ran.stderr
    assert alive(str(fake.folder)) == []


SLEEPER = "import pathlib, time; pathlib.Path('began').touch(); time.sleep(100)"


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_capture_keeps_what_it_has(fake: Tools, which: signal.Signals) -> None:
    process = fake.begun("nsys", "-o", "run", *python(SLEEPER), how="slow")
    wait_for(fake.folder / "began")
    interrupt(process, which)
    ran = finished(process)
    assert ran.exit_code == 130
    assert "interrupted; what was recorded is kept: `gpuledger report run.nsys-rep`" in ran.stderr
    assert "error" not in ran.stderr.lower().replace("keyboardinterrupt", "")
    assert (fake.folder / "run.nsys-rep").read_text() == "a report"
    assert valid(fake.manifest())["state"] == "interrupted"
    assert alive(str(fake.folder)) == []


def test_in_the_background_ctrl_c_is_not_for_a_capture_and_sigterm_ends_it_as_ever(fake: Tools) -> None:
    process = fake.begun("nsys", "-o", "run", *python(SLEEPER), under=IN_THE_BACKGROUND)
    wait_for(fake.folder / "began")
    for _ in range(3):
        interrupt(process, signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    interrupt(process, signal.SIGTERM)
    ran = finished(process)  # nsys is asked by SIGINT, which it must not have inherited as ignored
    assert ran.exit_code == 130
    assert (fake.folder / "run.nsys-rep").read_text() == "a report"
    assert alive(str(fake.folder)) == []


@pytest.mark.parametrize("how", ["deaf", "stubborn", "deaf,orphan,hang"])
def test_who_does_not_listen_is_ended_at_the_next_signal(fake: Tools, how: str) -> None:
    code = f"import signal; signal.signal(2, signal.SIG_IGN); signal.signal(15, signal.SIG_IGN); {SLEEPER}"
    process = fake.begun("nsys", "-o", "run", *python(code), how=how)
    wait_for(fake.folder / "began")
    told = ["waiting for nsys to write", "telling nsys to end (SIGTERM)", "ending nsys (SIGKILL)"]
    for said in told if how == "stubborn" else told[:2]:  # the others end when they are told
        interrupt(process)
        assert process.stderr is not None
        while said.encode() not in process.stderr.readline():
            assert process.poll() is None
    ran = finished(process)
    assert ran.exit_code == 130
    assert "interrupted before nsys had recorded anything" in ran.stderr
    assert valid(fake.manifest())["state"] == "interrupted"
    assert alive(str(fake.folder)) == []


def test_an_interrupted_export_leaves_the_report_and_nothing_half_done(fake: Tools) -> None:
    process = fake.begun("nsys", "-o", "run", *python("pass"), how="export-hangs")
    while len(fake.calls()) < 2:
        time.sleep(0.02)
    interrupt(process)
    ran = finished(process)
    assert ran.exit_code == 130
    assert valid(fake.manifest())["state"] == "interrupted"
    assert sorted(path.name for path in fake.folder.glob("*run*")) == [
        *("run.capture.json", "run.nsys-rep", "run.samples.gz")
    ]
    assert alive(str(fake.folder)) == []


@pytest.mark.parametrize("after_s", some([0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.3], 2))
def test_an_interruption_at_any_moment_leaves_no_process_and_a_readable_state(fake: Tools, after_s: float) -> None:
    process = fake.begun("nsys", "-o", "run", *python("import time; time.sleep(0.3)"), how="slow")
    time.sleep(after_s)
    interrupt(process)
    ran = finished(process)
    # it may have been over already, or not even begun: Python itself ends by the signal while it loads
    assert ran.exit_code in (130, 0, -signal.SIGINT, 1)
    if (fake.folder / "run.capture.json").exists():
        state = valid(fake.manifest())["state"]
        assert state in ("finished", "interrupted")
        assert ran.exit_code == 130 or state == "finished"
    assert alive(str(fake.folder)) == []


def test_a_manifest_is_there_while_the_program_runs(fake: Tools) -> None:
    process = fake.begun("nsys", "-o", "run", *python(SLEEPER))
    wait_for(fake.folder / "began")
    manifest = valid(fake.manifest())
    assert (manifest["state"], manifest["pid"], manifest["exit_code"]) == ("running", process.pid, None)
    process.kill()  # nobody can catch that; the state stays readable, and the program is ended all the same
    process.communicate()
    assert valid(fake.manifest())["state"] == "running"
    until = time.monotonic() + PATIENCE_S
    while alive(str(fake.folder)):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_ranks_are_recorded_one_by_one(fake: Tools) -> None:
    launcher = (
        "import os, subprocess, sys\n"
        "args = sys.argv[1:]; args.remove('--no-python'); args.remove('--nproc-per-node=2')\n"
        "ranks = [subprocess.Popen(args, env=dict(os.environ, RANK=str(r)), start_new_session=True) for r in (0, 1)]\n"
        "sys.exit(max(rank.wait() for rank in ranks))\n"
    )
    fake.install_python("torchrun", launcher)
    (fake.folder / "train.py").write_text(
        "import os; os.write(1, ('rank ' + os.environ['RANK'] + chr(10)).encode())"  # whole lines: two speak at once
    )
    ran = fake.run("nsys", "--preset=multi", "-o", "run", "--", "torchrun", "--nproc-per-node=2", "train.py")
    assert ran.exit_code == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()[:2]) == ["rank 0", "rank 1"]
    assert "run_1.sqlite: GPU work" in ran.stderr
    assert "run_0.sqlite  nsys" in ran.stdout
    assert "gpuledger fleet" in ran.stderr
    names = ["run.capture.json", "run.samples.gz", "run_0.nsys-rep", "run_0.sqlite", "run_1.nsys-rep", "run_1.sqlite"]
    assert sorted(path.name for path in fake.folder.glob("run*")) == names


def test_a_server_is_recorded_piece_by_piece(fake: Tools) -> None:
    server = fake.begun("nsys", "--preset=server", "--session=web", *python(SLEEPER))
    wait_for(fake.folder / "began")
    ran = fake.run("start", "web", "-o", "one", "--duration=0.2", "--no-report")
    assert ran.exit_code == 0, ran.stderr
    assert valid(fake.manifest("one"))["session"] == "web"
    assert fake.run("start", "web", "-o", "two").exit_code == 0
    assert valid(fake.manifest("two"))["state"] == "running"
    ran = fake.run("stop", "web")
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.startswith("two.sqlite  nsys")
    assert valid(fake.manifest("two"))["state"] == "finished"
    assert fake.run("stop", "web").exit_code == 1
    interrupt(server)
    assert finished(server).exit_code == 130
    refused = fake.run("start", "web", "-o", "three")
    assert refused.exit_code == 1
    assert "session web: recording could not be started" in refused.stderr
    assert valid(fake.manifest("three"))["state"] == "failed"
    assert alive(str(fake.folder)) == []
    launch = fake.calls()[0]
    assert launch[:2] == ["launch", "--session-new=web"]
    assert not [word for word in launch if word.startswith(("--sample", "--stats", "--output"))]


@pytest.mark.usefixtures("ncu_asked_once")
def test_kernels_are_profiled(fake: Tools, layer_report: Path) -> None:
    pytest.importorskip("ncu_report")
    ran = fake.run("ncu", "-o", "layer", "--kernel=gemm", *python("print('hi')"), FAKE_REPORT=str(layer_report))
    assert "warning: every launch of gemm is replayed 27 times" in ran.stderr
    assert ran.exit_code == 0
    judged = gpuledger("kernels", "layer.ncu-rep", cwd=fake.folder)
    assert ran.stdout == "hi\n" + judged.stdout
    assert valid(fake.manifest("layer"))["tool"] == "ncu"
    [call] = fake.calls()
    assert {"--kernel-name=regex:gemm", "--clock-control=none", "--log-file=stderr", "--export=layer"} <= set(call)


def test_a_report_of_kernels_that_is_none_is_one_sentence(fake: Tools) -> None:
    ran = fake.run("ncu", "-o", "layer", "--launch-count=1", *python("pass"))
    assert (ran.exit_code, ran.stdout) == (0, "")  # the program ran well
    assert ran.stderr.count("error: layer.ncu-rep") == 1


def test_counters_that_are_forbidden_come_with_the_fix(fake: Tools) -> None:
    ran = fake.run("ncu", "-o", "layer", "--launch-count=1", *python("pass"), how="forbidden")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "ERR_NVGPUCTRPERM" in ran.stderr
    assert "NVreg_RestrictProfilingToAdminUsers=0" in ran.stderr
    assert "warning" not in ran.stderr


def test_a_dry_run_touches_nothing(fake: Tools) -> None:
    for arguments in (["nsys"], ["nsys", "--explain"], ["ncu"], ["ncu", "--explain"]):
        ran = fake.run(*arguments, "--dry-run", "-o", "deep/run", *python("pass"))
        assert ran.exit_code == 0
        assert "python -c pass" in ran.stdout
    assert fake.calls() == []
    assert sorted(path.name for path in fake.folder.iterdir()) == ["bin", "sessions"]
