"""The run without the profiler before a capture: its window is seen, the program notices nothing, and is recorded."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.capture.manifest import PlainRun
from gpuledger.capture.nsys import Wishes, complete_wishes, flags_for
from gpuledger.capture.output_files import CapturePlace
from gpuledger.capture.record import (
    FIRST,
    NOTES_VARIABLE,
    PlainProgram,
    nsys_plain,
    parse_windows,
    torch_plain,
    window_library,
)
from gpuledger.capture.torch_command import Schedule
from gpuledger.capture.torch_runner import WindowClock
from support.command import gpuledger
from support.pages.schemas import schema_of
from support.programs.capture_tools import Tools, alive, finished, interrupt, tools, wait_for
from support.programs.cuda_marks import MarkedPrograms, marked_programs

SCHEMA = schema_of("capture")
PLACE = CapturePlace(Path("folder"), "run", ".nsys-rep")


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> MarkedPrograms:
    if window_library() is None:
        pytest.skip("the library that sees windows was not built")
    return marked_programs(tmp_path_factory.mktemp("marked"))


@pytest.fixture
def fake(tmp_path: Path, decode: Path) -> Tools:
    return tools(tmp_path, decode)


def ran(folder: Path, *argv: str | Path) -> tuple[str, list[str], list[str]]:
    """What a program prints that has the library loaded, what its runtime was asked, and what was noted."""
    added = {"LD_PRELOAD": str(window_library()), NOTES_VARIABLE: str(folder / "notes"), "CALLS": str(folder / "calls")}
    done = subprocess.run(argv, env=dict(os.environ) | added, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout, (folder / "calls").read_text().split(), (folder / "notes").read_text().splitlines()


def test_the_first_window_is_timed_and_every_call_goes_on(marked: MarkedPrograms, tmp_path: Path) -> None:
    printed, calls, notes = ran(tmp_path, marked.program)
    assert printed == "7 8\n"  # what the runtime answers is what the program gets
    assert calls == ["wait", "start", "wait", "stop", "start", "stop"]
    windows, reason = parse_windows("\n".join(notes))
    assert (len(notes), reason) == (2, None)
    assert windows is not None
    assert windows[0] >= 3_000_000


def test_a_library_that_is_loaded_for_itself_alone_is_followed(marked: MarkedPrograms, tmp_path: Path) -> None:
    code = f"import ctypes; ctypes.CDLL({str(marked.module)!r}).marked(b'')"
    printed, calls, notes = ran(tmp_path, sys.executable, "-c", code)
    assert (printed, len(notes)) == ("7 8\n", 2)
    assert calls == ["wait", "start", "wait", "stop", "start", "stop"]


def test_a_child_does_not_close_what_it_did_not_open(marked: MarkedPrograms, tmp_path: Path) -> None:
    _, calls, notes = ran(tmp_path, marked.program, "fork")
    assert calls[:3] == ["wait", "start", "stop"]  # the child's, which did not wait
    assert len(notes) == 2


def test_a_capture_holds_how_long_the_window_takes_without_it(fake: Tools, marked: MarkedPrograms) -> None:
    done = fake.run("nsys", "--preset=steady", "--no-report", "-o", "run", "--", marked.program)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "7 8\n"  # once: the recorded run's
    assert FIRST in done.stderr
    assert "without the profiler the window took " in done.stderr
    manifest = fake.manifest()
    SCHEMA.validate(manifest)
    plain = manifest["plain"]
    assert (len(plain["window_ns"]), plain["reason"], plain["exit_code"]) == (1, None, 0)
    assert 3_000_000 <= plain["window_ns"][0] <= plain["seconds"] * 1e9
    assert manifest["commands"][0] == [str(marked.program)]
    told = gpuledger("info", "run.sqlite", "--format=json", cwd=fake.folder)
    assert json.loads(told.stdout)["plain_window_ns"] == plain["window_ns"][0]
    assert "without the profiler, the window took " in gpuledger("info", "run.sqlite", cwd=fake.folder).stdout
    assert [path.name for path in fake.folder.glob(".run*")] == []


def test_a_plain_run_that_fails_is_shown_and_the_capture_goes_on(fake: Tools, marked: MarkedPrograms) -> None:
    done = fake.run("nsys", "--preset=steady", "--no-report", "-o", "run", "--", marked.program, "fails")
    assert (done.exit_code, done.stdout) == (0, "7 8\n")
    assert "without the profiler the program ended with exit code 3\n  7 8\n" in done.stderr
    assert fake.manifest()["state"] == "finished"
    assert fake.manifest()["plain"]["exit_code"] == 3


@pytest.mark.parametrize(
    ("how", "reason"),
    [("unclosed", "the program opened its window, and never closed it"), ("none", "cudaProfilerStart was not seen: ")],
)
def test_a_window_that_is_not_seen_is_none_with_a_reason(
    fake: Tools, marked: MarkedPrograms, how: str, reason: str
) -> None:
    command = [marked.program, how] if how != "none" else ["true"]
    done = fake.run("nsys", "--preset=steady", "--no-report", "-o", "run", "--", *command)
    assert done.exit_code == 0
    plain = fake.manifest()["plain"]
    assert plain["window_ns"] is None
    assert plain["reason"].startswith(reason)
    assert f"is unknown: {plain['reason']}" in done.stderr


def test_it_can_be_left_out(fake: Tools, marked: MarkedPrograms) -> None:
    done = fake.run("nsys", "--preset=steady", "--no-plain", "--no-report", "-o", "run", "--", marked.program)
    assert (done.exit_code, FIRST in done.stderr) == (0, False)
    manifest = fake.manifest()
    SCHEMA.validate(manifest)
    assert manifest["plain"]["reason"] == "left out with --no-plain"
    assert len(manifest["commands"]) == 1


def test_an_interrupted_plain_run_ends_the_capture(fake: Tools, marked: MarkedPrograms) -> None:
    code = "import pathlib, time; pathlib.Path('began').touch(); time.sleep(100)"
    process = fake.begun("nsys", "--preset=steady", "-o", "run", "--", sys.executable, "-c", code)
    wait_for(fake.folder / "began")
    interrupt(process)
    done = finished(process)
    assert (done.exit_code, done.stdout) == (130, "")
    assert "interrupted before nsys had recorded anything" in done.stderr
    assert fake.calls() == [["profile", "--gpu-metrics-devices=help"]]  # only asked what it can sample
    manifest = fake.manifest()
    SCHEMA.validate(manifest)
    assert (manifest["state"], manifest["plain"]["reason"]) == ("interrupted", "interrupted")
    assert alive(str(fake.folder)) == []


def test_the_environment_that_is_set_is_the_plain_runs_too(fake: Tools, marked: MarkedPrograms) -> None:
    code = f"import os; open('seen', 'a').write(os.environ['TOY'] + str({NOTES_VARIABLE!r} in os.environ) + ' ')"
    command = ["env", "OTHER=1", sys.executable, "-c", code]
    done = fake.run("nsys", "--preset=steady", "--no-report", "--env=TOY=5", "-o", "run", "--", *command)
    assert done.exit_code == 0, done.stderr
    assert (fake.folder / "seen").read_text() == "5True 5False "
    assert fake.manifest()["environment"]["TOY"] == "5"


STEADY = Wishes(("steady",))


@pytest.mark.parametrize(
    ("wishes", "command", "reason"),
    [
        (Wishes(("launch",)), "./a", "no window that the program opens"),
        (Wishes(("server",), delay=1, duration=2), "./a", "no window that the program opens"),
        (Wishes(("steady",), duration=2), "./a", "cut the window by time"),
        (Wishes(("steady",), settings=("capture-range-end=repeat:3",)), "./a", "more than the first window"),
        (STEADY, "srun -n 2 ./a", "its ranks may be on several machines"),
        (STEADY, "env A=1 mpirun -np 2 ./a", "its ranks may be on several machines"),
        (STEADY, "torchrun --nnodes=2 a.py", "its ranks are on several machines"),
        (STEADY, "torchrun --nnodes 1:4 a.py", "its ranks are on several machines"),
    ],
)
def test_where_a_plain_run_would_not_be_the_same_there_is_none(wishes: Wishes, command: str, reason: str) -> None:
    if window_library() is None:
        pytest.skip("the library that sees windows was not built")
    words = tuple(command.split())
    wishes = complete_wishes(wishes, words)
    plain = nsys_plain(wishes, flags_for(wishes), words, PLACE, None)
    assert isinstance(plain, PlainRun)
    assert (plain.seconds, plain.window_ns) == (None, None)
    assert reason in (plain.reason or "")


@pytest.mark.parametrize("command", ["./a", "torchrun --nproc-per-node=2 a.py", "torchrun --nnodes=1 a.py"])
def test_ranks_of_one_machine_are_run_twice(command: str) -> None:
    if window_library() is None:
        pytest.skip("the library that sees windows was not built")
    plain = nsys_plain(STEADY, flags_for(STEADY), tuple(command.split()), PLACE, None)
    assert isinstance(plain, PlainProgram)
    assert plain.argv == tuple(command.split())


def test_who_is_a_rank_does_not_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    plain = torch_plain(Schedule(active=3), ("python", "a.py"), PLACE, None)
    assert isinstance(plain, PlainRun)
    assert "one rank of several" in (plain.reason or "")


@pytest.fixture
def input_file(tmp_path: Path) -> Iterator[Path]:
    path, before = tmp_path / "input", os.dup(0)
    path.write_text("a prompt")
    file = os.open(path, os.O_RDONLY)
    os.dup2(file, 0)
    try:
        yield path
    finally:
        os.dup2(before, 0)
        os.close(file)
        os.close(before)


def test_input_is_read_once(input_file: Path) -> None:
    plain = torch_plain(Schedule(active=3), ("python", "a.py"), PLACE, None)
    assert plain == PlainRun(reason="the program has input, which can be read once")
    input_file.write_text("")
    assert isinstance(torch_plain(Schedule(active=3), ("python", "a.py"), PLACE, None), PlainProgram)


def test_torch_is_run_by_the_runner_without_its_profiler() -> None:
    plain = torch_plain(Schedule(1, 1, 3), ("python", "a.py", "x"), PLACE, None)
    assert isinstance(plain, PlainProgram)
    assert plain.argv[-5:] == ("--active=3", f"--plain={plain.file}", "--", "a.py", "x")
    whole = torch_plain(Schedule(), ("python", "a.py"), PLACE, None)
    assert isinstance(whole, PlainRun)
    assert isinstance(torch_plain(Schedule(), ("python", "a.py", "--cuda-profiler"), PLACE, None), PlainProgram)


NO_DEVICE = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))


def clock(file: Path, *, wait: int = 0, warmup: int = 0, active: int = 0) -> WindowClock:
    made = WindowClock(NO_DEVICE, argparse.Namespace(plain=str(file), wait=wait, warmup=warmup, active=active))
    made.begin()
    return made


@pytest.mark.parametrize(("wait", "steps", "lines"), [(0, 3, 2), (2, 1, 0), (2, 2, 1), (2, 4, 1), (2, 5, 2), (2, 9, 2)])
def test_the_clock_runs_while_steps_are_active(tmp_path: Path, wait: int, steps: int, lines: int) -> None:
    made = clock(tmp_path / "notes", wait=wait, active=3)
    for _ in range(steps):
        made.step()
    made.range_opened()  # steps are what counts
    made.range_closed()
    made.end()
    notes = (tmp_path / "notes").read_text().splitlines() if lines else []
    assert len(notes) == lines
    assert (parse_windows("\n".join(notes))[0] is not None) == (lines == 2)


def test_without_steps_the_first_profiler_range_is_timed(tmp_path: Path) -> None:
    made = clock(tmp_path / "notes")
    made.step()
    for _ in range(2):
        made.range_opened()
        made.range_closed()
    assert len((tmp_path / "notes").read_text().splitlines()) == 2


processes = st.dictionaries(st.integers(1, 99), st.tuples(st.integers(0, 10**9), st.integers(1, 10**9)), min_size=1)


@given(processes, st.lists(st.text(st.characters(blacklist_categories=["Nd", "Cs"]), max_size=9), max_size=2))
def test_each_process_has_one_window_whatever_else_is_noted(
    windows: dict[int, tuple[int, int]], junk: list[str]
) -> None:
    lines = [f"{pid} {start} {start + length}" for pid, (start, length) in windows.items()]
    found, reason = parse_windows("\n".join([*junk, *lines, *lines]))
    assert reason is None
    assert sorted(found or ()) == sorted(length for _, length in windows.values())


def test_from_a_path_that_ld_preload_would_part_it_is_loaded_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "a folder" / "native" / "_plain_window.so"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr("gpuledger.capture.record.__file__", str(library.parent.parent / "record.py"))
    found = window_library.__wrapped__()
    assert found is not None
    assert " " not in str(found)
    assert found.resolve() == library
