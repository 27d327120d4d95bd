"""Sampling a program from outside: its stacks as it sees them, every process that it starts, and nothing changed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
import tokenize
from collections import Counter
from pathlib import Path
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.capture import python_samples
from gpuledger.capture.output_files import CapturePlace, samples_of
from gpuledger.capture.python_samples import StackSampler
from gpuledger.capture.python_stacks import NoPython, PythonProcess, Unreadable, _lines
from gpuledger.system.interruption import Interruption
from gpuledger.system.processes import MARK, AttendedRun, run_attended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Section:
    """What was seen of one process."""

    def __init__(self, text: str) -> None:
        frames: list[str] = []
        self.stacks: list[list[str]] = []
        self.seen: Counter[tuple[bool, str]] = Counter()
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "H":
                self.header = json.loads(rest)
            elif kind == "F":
                number, _, function, file = json.loads(rest)
                frames.append(f"{function}:{number}" if file.endswith("program.py") else function)
            elif kind == "S":
                self.stacks.append([frames[int(frame)] for frame in rest.split()])
            elif kind == "s":
                _, thread, stack = map(int, rest.split())
                self.seen.update((thread == self.header["pid"], frame) for frame in self.stacks[stack])


def sampled(folder: Path, *argv: str, program: str | None = None) -> tuple[AttendedRun, list[Section]]:
    """A program as `capture` runs it."""
    if program is not None:
        (folder / "program.py").write_text(program, encoding="utf-8")
        argv = (*argv, str(folder / "program.py"))
    with StackSampler(CapturePlace(folder, "run", ".json.gz")) as sampler, Interruption() as interruption:
        ended = run_attended(argv, interruption, on_start=sampler.watch)
    file, leftover = samples_of(folder / "run.json.gz")[0], list(folder.glob(".*"))
    assert (file.exists(), leftover) == (sampler.why_nothing is None, [])
    parts = gzip.decompress(file.read_bytes()).decode().split("H {")[1:] if file.exists() else []
    return ended, [Section(f"H {{{part}") for part in parts]


PROGRAM = """
import ctypes, os, threading, time

def hold():
    ctypes.PyDLL(None).usleep(200_000)

def wait():
    time.sleep(0.5)

def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass

other = threading.Thread(target=wait)
other.start()
spin(0.2)
hold()
other.join()
child = os.fork()
if child == 0:
    spin(0.2)
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
os.execl("/bin/sh", "sh", "-c", f"{os.sys.executable} -c 'import time; time.sleep(0.3)'")
"""


def test_threads_calls_that_keep_the_lock_children_and_new_programs_are_seen(tmp_path: Path) -> None:
    ended, sections = sampled(tmp_path, sys.executable, program=PROGRAM)
    assert (ended.exit_code, ended.said, ended.orphans) == (0, "", False)
    parent = next(section for section in sections if section.seen[True, "hold:5"])
    assert parent.seen[False, "wait:8"] > 5
    assert parent.seen[True, "spin:12"] + parent.seen[True, "spin:13"] > 2
    assert parent.seen[True, "hold:5"] > 3  # no look has to wait for the lock
    child = next(section for section in sections if section.seen[True, "<module>:22"])
    assert child.header["pid"] != parent.header["pid"]
    assert any(section.seen[True, "<module>"] > 3 for section in sections)  # of `-c`, two programs later
    file = tmp_path / "run.samples.gz"
    assert file.stat().st_mode & 0o777 == 0o600


KNOWS_ITSELF = """
import asyncio, json, sys, threading, time, traceback

lock = threading.Lock()

def say(depth):
    lines = [(frame.lineno, frame.name) for frame in traceback.extract_stack()][::-1]
    lines[0] = (11, "say")
    with lock:
        sys.stdout.write(json.dumps(lines) + "\\n"), sys.stdout.flush()
    time.sleep(0.5)

def deep(number, then):
    return deep(number - 1, then) if number else then(0)

def stepping():
    yield 1
    say(0)
    yield 2

async def inside():
    say(0)

class Größe:
    def __call__(self, number):
        return sum(step for step in stepping())

    def __lt__(self, other):
        say(0)
        return True

threads = [
    threading.Thread(target=deep, args=(250, say)),
    threading.Thread(target=deep, args=(3, Größe())),
    threading.Thread(target=asyncio.run, args=(inside(),)),
    threading.Thread(target=sorted, args=([Größe(), Größe()],)),
    threading.Thread(target=lambda: max((1, 2), key=lambda value: say(0) or value)),
    threading.Thread(target=lambda: exec("def made(then):\\n\\n\\n  then(\\n 0)\\nmade(say)", {"say": say})),
]
for thread in threads:
    thread.start()
say(0)
"""


def _pythons() -> list[str]:
    """This Python, and others that are on the path and can be read."""
    others = [shutil.which(f"python3.{minor}") for minor in range(10, 16) if minor != sys.version_info.minor]
    runs = [
        path
        for path in others
        if path and not subprocess.run([path, "-V"], capture_output=True, check=False).returncode
    ]
    return [sys.executable, *runs]


@pytest.mark.parametrize("python", _pythons())
def test_stacks_are_those_that_the_program_sees_itself(tmp_path: Path, python: str) -> None:
    (tmp_path / "program.py").write_text(KNOWS_ITSELF, encoding="utf-8")
    with subprocess.Popen([python, "program.py"], cwd=tmp_path, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        own = [[tuple(place) for place in json.loads(program.stdout.readline())] for _ in range(7)]
        time.sleep(0.1)
        process = PythonProcess(program.pid)
        stacks = process.stacks()
        process.close()
        program.kill()
    assert len(stacks) == 7
    seen = [[(line, code[1].rpartition(".")[2]) for line, code in stack] for _, stack in stacks.values()]
    assert sorted(seen) == sorted(stack[:200] for stack in own)


def test_lines_of_code_are_those_of_the_code_itself() -> None:
    def all_code(code: CodeType) -> list[CodeType]:
        return [code, *(inner for const in code.co_consts if isinstance(const, CodeType) for inner in all_code(const))]

    source = Path(tokenize.__file__)
    for code in all_code(compile(source.read_text(encoding="utf-8"), str(source), "exec")):
        ours = {
            at: line for begin, end, line in _lines(code.co_linetable, code.co_firstlineno) for at in range(begin, end)
        }
        assert ours == {at: line for begin, end, line in code.co_lines() for at in range(begin, end)}


@given(st.binary(max_size=200), st.integers(-5, 1 << 31))
def test_any_bytes_are_read_as_a_table_of_lines_to_their_end(table: bytes, first: int) -> None:
    entries = list(_lines(table, first))
    assert [begin for begin, _, _ in entries[1:]] == [end for _, end, _ in entries[:-1]]


def test_a_program_without_python_is_said_to_have_none(tmp_path: Path) -> None:
    place = CapturePlace(tmp_path, "run", ".json.gz")
    with StackSampler(place) as sampler, Interruption() as interruption:
        assert run_attended(["sleep", "0.2"], interruption, on_start=sampler.watch).exit_code == 0
    assert (sampler.why_nothing or "").startswith("no Python was sampled")
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_gone_or_is_no_python_is_refused() -> None:
    with subprocess.Popen(["sleep", "9"]) as program:
        with pytest.raises(NoPython):
            PythonProcess(program.pid)
        program.kill()
    with pytest.raises(Unreadable):
        PythonProcess(program.pid)


def test_a_python_that_ends_while_it_is_read_leaves_what_was_seen(tmp_path: Path) -> None:
    ended, sections = sampled(
        tmp_path, sys.executable, program="import os, time\ntime.sleep(0.3)\nos.kill(os.getpid(), 9)"
    )
    assert ended.exit_code == 137
    assert sections[0].seen[True, "<module>:2"] > 3


def test_a_full_disk_costs_the_samples_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(python_samples, "whole_file", full)
    place = CapturePlace(tmp_path, "run", ".json.gz")
    with StackSampler(place) as sampler, Interruption() as interruption:
        argv = [sys.executable, "-c", "import time; time.sleep(0.5)"]
        assert run_attended(argv, interruption, on_start=sampler.watch).exit_code == 0
    assert "could not be written: no space left on device" in (sampler.why_nothing or "")
    assert list(tmp_path.iterdir()) == []


def test_why_nothing_is_sampled_elsewhere_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_samples.why_not_sampled() is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert python_samples.why_not_sampled() == python_samples.NOT_LINUX


def test_the_environment_of_the_program_gets_the_mark_alone(tmp_path: Path) -> None:
    target = tmp_path / "environment"
    sampled(
        tmp_path,
        sys.executable,
        program=f"import os, time\ntime.sleep(0.1)\nopen({str(target)!r}, 'w').write(repr(dict(os.environ)))",
    )
    given_to_it = eval(target.read_text())  # noqa: S307 - of our own program
    assert given_to_it.pop(MARK)
    ours = dict(os.environ)
    assert {name for name in given_to_it.keys() | ours if given_to_it.get(name) != ours.get(name)} <= {"LC_CTYPE"}
