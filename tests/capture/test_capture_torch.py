"""`capture torch`: the runner in front of a script, in the user's own Python; on CPU, where torch is installed."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpuledger.capture.torch_command import RUNNER, Schedule, torch_command
from gpuledger.errors import GpuledgerError
from support.command import gpuledger_process
from support.programs.capture_tools import Tools, alive, finished, interrupt, tools, wait_for

TRAIN = """
import sys, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    with torch.cuda.nvtx.range("step"):
        model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
print("trained", sys.argv[1:])
"""
MARKED = """
import torch
from gpuledger import window
torch.ones(3) + 1
with window("steady", profiler=True), window("inner"):
    torch.zeros(4, 4) @ torch.zeros(4, 4)
with window("again", profiler=True):
    torch.ones(5)
"""


def test_the_runner_stands_before_the_script() -> None:
    argv = torch_command(["python3", "-u", "-X", "dev", "a b.py", "--x", "-m"], Schedule(), Path("out"))
    assert argv == ("python3", "-u", "-X", "dev", str(RUNNER), "--out=out", "--", "a b.py", "--x", "-m")
    schedule = Schedule(1, 2, 3, "step", record_shapes=True, memory=True)
    argv = torch_command(["python", "-m", "pkg.train", "1"], schedule, Path("out"))
    options = ("--wait=1", "--warmup=2", "--active=3", "--step-range=step", "--record-shapes", "--memory")
    assert argv == ("python", str(RUNNER), "--out=out", *options, "--", "-m", "pkg.train", "1")


@pytest.mark.parametrize("command", ["./a", "bash x.sh", "python", "python -u", "python -c 1", "python -", "python -m"])
def test_what_is_no_script_is_refused(command: str) -> None:
    with pytest.raises(GpuledgerError):
        torch_command(command.split(), Schedule(), Path("out"))


def test_the_runner_knows_nothing_of_gpuledger() -> None:
    import ast

    tree = ast.parse(RUNNER.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


def test_a_python_without_torch_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    (tmp_path / "a.py").touch()
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ran = gpuledger_process(
        "capture", "torch", "-o", "run", "--", sys.executable, "a.py", cwd=tmp_path, PYTHONPATH=path
    )
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "gpuledger: this Python has no torch: no torch here" in ran.stderr
    assert "error: torch wrote no report (exit code 1)" in ran.stderr


@pytest.fixture
def fake(tmp_path: Path, decode: Path) -> Tools:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "marked.py").write_text(MARKED)
    return tools(tmp_path, decode)


def names(fake: Tools, name: str = "run") -> list[str]:
    """The names of all that a trace holds, in order of time."""
    with gzip.open(fake.folder / f"{name}.json.gz") as file:
        events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    timed = [event for event in events if event.get("ph") == "X"]
    return [event["name"] for event in sorted(timed, key=lambda event: float(event["ts"]))]


def test_the_whole_run_is_recorded(fake: Tools) -> None:
    ran = fake.run("torch", "-o", "run", "--", sys.executable, "train.py", "3")
    assert ran.exit_code == 0
    assert ran.stdout.startswith("trained ['3']\n")
    assert "the whole run was recorded, start-up included" in ran.stderr
    assert "MISSING  GPU work: no kernel was recorded" in ran.stderr
    assert names(fake).count("step") == 3  # NVTX ranges became annotations
    manifest = fake.manifest()
    assert (manifest["state"], manifest["tool"]) == ("finished", "torch")


@pytest.mark.parametrize("extra", [[], ["--step-range=step"]])
def test_only_the_active_steps_are_recorded(fake: Tools, extra: list[str]) -> None:
    ran = fake.run(
        *("torch", "--no-report", "-o", "run", "--wait=2", "--warmup=1", "--active=4", *extra),
        *("--", sys.executable, "train.py", "12"),
    )
    assert ran.exit_code == 0
    found = names(fake)
    assert found.count("step") == 4
    assert len({name for name in found if name.startswith("ProfilerStep#")}) == 4
    assert "whole run" not in ran.stderr
    [window_ns] = fake.manifest()["plain"]["window_ns"]  # the same steps without the profiler, before
    assert 0 < window_ns < 1e9 * fake.manifest()["plain"]["seconds"]


def test_too_few_steps_are_said(fake: Tools) -> None:
    ran = fake.run("torch", "--no-plain", "-o", "run", "--wait=5", "--active=4", "--", sys.executable, "train.py", "3")
    assert ran.exit_code == 1
    assert "nothing was recorded: the script made 3 optimizer steps, and 5 are waited for" in ran.stderr
    assert "error: torch wrote no report" in ran.stderr
    assert fake.manifest()["state"] == "failed"


def test_a_profiler_range_is_recorded_and_nothing_else(fake: Tools) -> None:
    ran = fake.run("torch", "--no-report", "-o", "run", "--record-shapes", "--", sys.executable, "marked.py")
    assert ran.exit_code == 0, ran.stderr
    found = names(fake)
    assert found.count("aten::mm") == 1
    assert {"steady", "inner"} <= set(found)
    assert not {"aten::add", "again"} & set(found)
    assert "the script opened 2 profiler ranges; the first was recorded" in ran.stderr


@pytest.mark.parametrize(
    ("ending", "code"),
    [("raise SystemExit(5)", 5), ("1 / 0", 1), ("sys.exit('text')", 1), ("sys.exit()", 0), ("sys.exit(0)", 0)],
)
def test_the_trace_is_written_however_the_script_ends(fake: Tools, ending: str, code: int) -> None:
    (fake.folder / "end.py").write_text(f"import sys, torch\ntorch.ones(3) + 1\n{ending}\n")
    ran = fake.run("torch", "--no-report", "-o", "run", "--", sys.executable, "end.py")
    assert ran.exit_code == code
    assert "aten::add" in names(fake)
    assert fake.manifest()["exit_code"] == code


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_the_trace_is_written_when_interrupted(fake: Tools, which: signal.Signals) -> None:
    code = "import torch, time, pathlib\ntorch.ones(3) + 1\npathlib.Path('began').touch()\ntime.sleep(100)\n"
    (fake.folder / "wait.py").write_text(code)
    process = fake.begun("torch", "-o", "run", "--", sys.executable, "wait.py")
    wait_for(fake.folder / "began", 60)
    time.sleep(0.1)
    interrupt(process, which)
    ran = finished(process)
    assert ran.exit_code == 130
    assert "aten::add" in names(fake)
    assert fake.manifest()["state"] == "interrupted"
    assert alive(str(fake.folder)) == []


def test_scripts_see_themselves_as_python_shows_them(fake: Tools) -> None:
    package = fake.folder / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "beside.py").write_text("here = True")
    code = (
        "import sys, json, torch\n"
        "import tools, window, nsys\n"  # names of modules that lie beside the runner
        "print(json.dumps([__name__, sys.argv[1:], sys.argv[0].endswith(%r), __file__.endswith(%r)]))\n"
    )
    for name in ("tools", "window", "nsys"):
        (fake.folder / f"{name}.py").write_text("mine = True")
    (fake.folder / "show.py").write_text(code % ("show.py", "show.py"))
    (package / "show.py").write_text("import pkg.beside\n" + code % ("show.py", "show.py"))
    for command in (["show.py", "-m", "x"], ["-m", "pkg.show", "-m", "x"]):
        ran = fake.run("torch", "--no-report", "--force", "-o", "run", "--", sys.executable, *command)
        assert ran.exit_code == 0, ran.stderr
        assert json.loads(ran.stdout) == ["__main__", ["-m", "x"], True, True]


def test_ranks_write_traces_of_their_own(fake: Tools) -> None:
    pytest.importorskip("torch.distributed.run")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "train.py", "2"]
    ran = fake.run("torch", "--no-report", "-o", "run", "--", *command)
    assert ran.exit_code == 0, ran.stderr
    assert sorted(path.name for path in fake.folder.glob("run*")) == [
        "run.capture.json",
        "run_0.json.gz",
        "run_1.json.gz",
    ]
    assert names(fake, "run_1").count("step") == 2
    assert alive(str(fake.folder)) == []


def test_our_own_bench_is_recorded(fake: Tools) -> None:
    size = ("--device=cpu", "--num-experts=4", "--experts-per-token=2", "--iters=2")
    command = ["env", "OMP_NUM_THREADS=1", "gpuledger", "bench", "moe", *size]
    ran = fake.run("torch", "--no-report", "-o", "run", "--env=OMP_NUM_THREADS=1", "--", *command)
    assert ran.exit_code == 0, ran.stderr
    assert "Experts used" in ran.stdout
    assert "aten::mm" in names(fake)
    assert fake.manifest()["environment"]["OMP_NUM_THREADS"] == "1"


def test_the_runner_runs_where_gpuledger_is_not(fake: Tools) -> None:
    argv = torch_command([sys.executable, "train.py", "2"], Schedule(), fake.folder / "run")
    blocked = fake.folder / "gpuledger.py"
    blocked.write_text("raise ImportError('gpuledger is not here')")
    ran = subprocess.run(argv, cwd=fake.folder, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert (fake.folder / "run.json.gz").exists()


class _FakeCuda:
    """So much of torch.cuda as the history of memory needs."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.calls = fails, list[Any]()
        self.memory = self

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _lazy_call(self, call: Any) -> None:
        call()

    def _record_memory_history(self, **asked: Any) -> None:
        self.calls.append(asked)

    def _dump_snapshot(self, path: str) -> None:
        if self.fails:
            raise RuntimeError("disk full")
        Path(path).write_bytes(b"\x80\x04N.")


@pytest.mark.parametrize("fails", [False, True])
def test_the_history_of_memory_is_written_whole_or_not_at_all(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import runpy
    from types import SimpleNamespace

    from gpuledger.capture.output_files import place_for

    runner = runpy.run_path(str(RUNNER))
    monkeypatch.setenv("RANK", "3")
    cuda = _FakeCuda(fails=fails)
    history = runner["AllocatorRecorder"](SimpleNamespace(cuda=cuda), SimpleNamespace(out=str(tmp_path / "run")))
    history.begin()
    history.end()
    assert cuda.calls == [{"max_entries": runner["MOST_MEMORY_EVENTS"], "stacks": "python"}]
    assert [path.name for path in tmp_path.iterdir()] == ([] if fails else ["run_3.memory.pickle"])
    assert ("could not be written: disk full" in capfd.readouterr().err) is fails
    if not fails:
        place = place_for(str(tmp_path / "run"), ["python", "a.py"], "torch", force=True)
        assert [path.name for path in place.files()] == ["run_3.memory.pickle"]
