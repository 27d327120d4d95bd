"""The world fails: disks fill up, folders are read-only, files shrink while they are read, somebody presses Ctrl-C."""

from __future__ import annotations

import fcntl
import functools
import gzip
import os
import random
import resource
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from gpuledger import GpuledgerError, Table, open_trace
from gpuledger.errors import UnreadableProfile
from gpuledger.trace.model import Severity
from hostile.databases import many_rows
from hostile.files import JSON, export, trace
from hostile.forked import server
from support.command import PATIENCE_S, gpuledger
from support.profiles.nsys_exports import call, kernel, minimal
from support.thorough import some

COMMAND = [sys.executable, "-m", "gpuledger"]
NOT_CLEAN = ("COLUMNS", "GPULEDGER_DEBUG", "PYTHONUNBUFFERED")
CLEAN = {key: value for key, value in os.environ.items() if key not in NOT_CLEAN}
FULL = Path("/dev/full")


def refused(ran: subprocess.CompletedProcess[bytes]) -> str:
    """What a refusal says, after checking its form."""
    said = ran.stderr.decode()
    assert ran.returncode == 1, said
    assert said.startswith("error: ")
    assert "Traceback" not in said
    assert "internal error" not in said
    return said


# ---- output ----------------------------------------------------------------------------------------------------------


needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")


def in_shell(words: str) -> subprocess.CompletedProcess[bytes]:
    """What a line of the shell does, with `gpuledger` for the command."""
    line = words.replace("gpuledger", f"{shlex.quote(sys.executable)} -m gpuledger")
    return subprocess.run(["bash", "-c", line], capture_output=True, check=False, env=CLEAN)


@needs_full
@pytest.mark.parametrize(
    ("arguments", "buffered"),
    some(
        list(
            product(
                ["info", "report --format=json", "gaps --format=csv", "--help", "--version"], ["", "PYTHONUNBUFFERED=1"]
            )
        ),
        3,
    ),
)
def test_a_full_disk_behind_stdout_is_named(arguments: str, buffered: str, tmp_path: Path) -> None:
    """Found out when writing, or at the last flush."""
    path = "" if arguments.startswith("--") else export(tmp_path / "a.sqlite")
    ran = in_shell(f"{buffered} gpuledger {arguments} {path} >/dev/full")
    assert refused(ran) == "error: stdout cannot be written: no space left on device\n"


@needs_full
def test_a_disk_that_fills_up_behind_a_large_result_is_named(tmp_path: Path) -> None:
    """More than any buffer holds: writing fails, not the last flush."""
    path = export(tmp_path / "a.sqlite")
    with sqlite3.connect(path) as database:
        tables = "".join(f"CREATE TABLE {'t' * 100}{n} (x);" for n in range(2000))
        database.executescript(f"BEGIN; {tables} COMMIT;")  # one write to the disk, not one for each
    database.close()
    assert len(in_shell(f"gpuledger info --verbose {path}").stdout) > 1 << 17
    assert "no space left on device" in refused(in_shell(f"gpuledger info --verbose {path} >/dev/full"))


@pytest.mark.parametrize("arguments", ["info", "report", "--help"])
@pytest.mark.parametrize("others", ["", "<&-"])
def test_a_closed_stdout_is_named(arguments: str, others: str, tmp_path: Path) -> None:
    path = "" if arguments.startswith("--") else export(tmp_path / "a.sqlite")
    ran = in_shell(f"gpuledger {arguments} {path} {others} >&-")
    assert refused(ran) == "error: stdout cannot be written: bad file descriptor\n"


def test_a_closed_stdout_is_nothing_to_a_result_that_goes_elsewhere(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    ran = in_shell(f"gpuledger info {path} -o {tmp_path}/a.txt <&- >&-")
    assert (ran.returncode, ran.stderr.decode()) == (0, f"Wrote {tmp_path}/a.txt\n")
    assert (tmp_path / "a.txt").read_text() == gpuledger("info", path).stdout


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", pytest.param("2>/dev/full", marks=needs_full)])
def test_without_stderr_the_exit_code_says_it(closed: str, tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    whole = gpuledger("info", path).stdout.encode()
    for arguments, code, stdout in (
        (f"info {path}", 0, whole),
        (f"info {path}x", 1, b""),
        ("info", 2, b""),
        (f"info {path} >&-", 1, b""),
    ):
        ran = in_shell(f"gpuledger {arguments} {closed}")
        assert (ran.returncode, ran.stdout, ran.stderr) == (code, stdout, b"")


@pytest.mark.parametrize("buffered", ["", "PYTHONUNBUFFERED=1"])
def test_a_reader_that_has_gone_is_no_failure(buffered: str, tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    ran = in_shell(f"{buffered} gpuledger report {path} --format=json | (exec true); exit ${{PIPESTATUS[0]}}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


@pytest.mark.parametrize("unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_takes_its_time_gets_everything(unbuffered: dict[str, str], stream: str) -> None:
    """Through a pipe that does not block and holds less than is written, as event loops hand to their children."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(theirs, False)
    arguments = ["bench", "serve", "--help"] if stream == "stdout" else ["x" * 6000]  # the refusal names it
    with subprocess.Popen([*COMMAND, *arguments], env=CLEAN | unbuffered, **{stream: theirs}) as running:  # type: ignore[call-overload]
        os.close(theirs)
        while not is_full(ours):  # nothing is read before
            assert running.poll() is None
        with os.fdopen(ours, "rb") as pipe:
            text = pipe.read().decode()
    assert text == getattr(gpuledger(*arguments), stream)


def is_full(pipe: int) -> bool:
    """Whether a pipe of 4096 bytes takes no more; looks a little later."""
    time.sleep(0.01)
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) == 4096


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.json", "a.html"])
def test_a_full_disk_leaves_neither_half_a_file_nor_a_temporary_one(name: str, tmp_path: Path) -> None:
    """The disk is full after 100 bytes: a bound on the size of files that the child may write."""
    path = export(tmp_path / "a.sqlite")
    (tmp_path / "out").mkdir()
    ran = subprocess.run(
        [*COMMAND, "report", path, "-o", tmp_path / "out" / name],
        capture_output=True,
        check=False,
        env=CLEAN | {"GPULEDGER_CACHE": "0"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert "cannot be written: file too large" in refused(ran)
    assert ran.stdout == b""
    assert os.listdir(tmp_path / "out") == []


def test_an_old_result_outlives_a_full_disk(tmp_path: Path) -> None:
    path, target = export(tmp_path / "a.sqlite"), tmp_path / "a.md"
    target.write_text("old")
    ran = subprocess.run(
        [*COMMAND, "report", path, "--force", "-o", target],
        capture_output=True,
        check=False,
        env=CLEAN | {"GPULEDGER_CACHE": "0"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    refused(ran)
    assert target.read_text() == "old"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc on this system")
def test_a_folder_that_takes_no_files_is_named(tmp_path: Path) -> None:
    """Also for root, whom permissions do not stop."""
    path = export(tmp_path / "a.sqlite")
    ran = server().run("report", path, "-o", "/proc/self/a.md", folder=tmp_path / "ran")
    assert (ran.exit_code, ran.stdout) == (1, b"")
    assert "/proc/self/a.md: cannot be written" in ran.said


def test_a_read_only_folder_and_a_read_only_home_are_enough(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    clean = server().run("report", "--format=json", path, folder=tmp_path / "clean")
    shut = tmp_path / "shut"
    for folder in ("home", "cache"):
        (shut / folder).mkdir(parents=True)
        (shut / folder).chmod(0o555)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        ran = server().run("report", "--format=json", path, folder=shut)
    finally:
        tmp_path.chmod(0o755)
    assert (ran.exit_code, ran.said) == (0, "")
    assert ran.stdout == clean.stdout


@pytest.mark.parametrize(
    "home",
    [
        {"HOME": "/nonexistent", "XDG_CACHE_HOME": ""},
        {"HOME": "", "XDG_CACHE_HOME": ""},
        {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache"},
        {"HOME": "relative", "XDG_CACHE_HOME": "relative"},
    ],
    ids=lambda home: home["HOME"] or "empty",
)
def test_no_home_is_needed(home: dict[str, str], tmp_path: Path) -> None:
    path = trace(tmp_path / "a.json")
    ran = server().run("report", path, folder=tmp_path / "ran", environment=home)
    assert (ran.exit_code, ran.said) == (0, "")
    assert sorted(os.listdir(tmp_path)) == ["a.json", "ran"]


def test_without_any_environment_it_works(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    ran = subprocess.run([*COMMAND, "report", path], capture_output=True, check=False, env={})
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("verb", ["info", "report"])
def test_the_locale_c_and_a_name_that_is_no_text(verb: str, tmp_path: Path) -> None:
    path = export(tmp_path / "plain.sqlite").rename(tmp_path / os.fsdecode(b"a\xff\xc3\xa9.sqlite"))
    ascii_only = CLEAN | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    for name in (path, tmp_path / os.fsdecode(b"no\xff.sqlite")):
        ran = subprocess.run([*COMMAND, verb, os.fsencode(name)], capture_output=True, check=False, env=ascii_only)
        assert b"Traceback" not in ran.stderr
        assert ran.returncode == (0 if name == path else 1)
        assert (ran.stdout + ran.stderr).isascii()


# ---- input that changes while it is read -----------------------------------------------------------------------------


def large_trace(path: Path) -> Path:
    """Some batches of events."""
    event = JSON[JSON.index(b"[") + 1 : -2]
    content = b'{"traceEvents": [' + b",".join([event] * 12_000) + b"]}"
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    return path


@functools.cache
def _large_export() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return many_rows(40_000)(Path(folder)).read_bytes()


def large_export(path: Path) -> Path:
    path.write_bytes(_large_export())
    return path


def cut(path: Path, at: int) -> None:
    os.truncate(path, at)


def gone(path: Path, _: int) -> None:
    path.unlink()


def overwritten(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(os.urandom(100_000))


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("happens", [cut, gone, overwritten])
@pytest.mark.parametrize(
    ("make", "name"), [(large_trace, "a.json"), (large_trace, "a.json.gz"), (large_export, "a.sqlite")]
)
def test_a_file_that_changes_while_it_is_read(
    make: Callable[[Path], Path],
    name: str,
    happens: Callable[[Path, int], None],
    native: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A trace whose health says what is lost, or one sentence; or all of it, where nothing was lost."""
    monkeypatch.setenv("GPULEDGER_NATIVE", native)
    if native == "0" and make is large_trace:
        pytest.skip("nothing native in it")
    path = make(tmp_path / name)
    whole = len(open_trace(path, cache=False)[Table.KERNELS])
    done: list[str] = []

    def meddle(_table: str, _rows: int) -> None:
        if not done:
            done.append(_table)
            happens(path, path.stat().st_size // 3)

    try:
        found = open_trace(path, progress=meddle, cache=False)
    except GpuledgerError:
        assert done
        return
    if len(found[Table.KERNELS]) < whole:
        assert any(note.severity is Severity.LOSS for note in found.health)


def replaced(path: Path, _: int) -> None:
    """Another whole profile in its place, of the same size."""
    shutil.copy2(path, path.with_name("other"))
    path.with_name("other").replace(path)


def rewritten(path: Path, _: int) -> None:
    """The same bytes again: whoever reads cannot know."""
    path.write_bytes(path.read_bytes())


@pytest.mark.parametrize("happens", [replaced, rewritten])
@pytest.mark.parametrize("cache", ["0", "always"])
def test_a_profile_of_two_states_is_refused(
    happens: Callable[[Path, int], None], cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULEDGER_CACHE", cache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = export(tmp_path / "a.sqlite")
    time.sleep(0.02)  # a file system's clock has ticks
    with pytest.raises(UnreadableProfile, match=r"a\.sqlite: was changed while it was read"):
        open_trace(path, progress=lambda *_: happens(path, 0))
    assert len(open_trace(path)[Table.KERNELS]) > 0


def test_families_are_read_from_files_that_end(tmp_path: Path) -> None:
    path, fifo, large = export(tmp_path / "a.sqlite"), tmp_path / "fifo", tmp_path / "large.toml"
    os.mkfifo(fifo)
    with large.open("wb") as file:
        file.truncate(1 << 40)
    endless = {fifo: "not a regular file", Path("/dev/zero"): "not a regular file", large: "too large"}
    for families, said in endless.items():
        ran = gpuledger("report", path, f"--families={families}")
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert f"error: {families}: {said}" in ran.stderr


def test_work_that_takes_no_time_is_not_called_none(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1000, 1000)], RUNTIME=[call(500, 600)])
    ran = gpuledger("report", path)
    assert ran.exit_code == 1
    assert "a.sqlite: all GPU work that was recorded takes 0 ns" in ran.stderr
    assert "kernels, copies and graphs: 1;" in ran.stderr


@pytest.mark.parametrize("rounds", range(3))
def test_a_file_that_another_process_keeps_changing(rounds: int, tmp_path: Path) -> None:
    """Whatever the moment: an answer or one sentence, and the process lives."""
    path = large_export(tmp_path / "a.sqlite")
    content, stop = path.read_bytes(), threading.Event()
    source = random.Random(rounds)

    def meddle() -> None:
        while not stop.is_set():
            os.truncate(path, source.randrange(len(content)))
            time.sleep(source.random() / 50)
            path.write_bytes(content)
            time.sleep(source.random() / 50)

    meddling = threading.Thread(target=meddle)
    meddling.start()
    try:
        for _ in range(8):
            ran = server().run("info", path, folder=tmp_path / "ran", environment={"GPULEDGER_CACHE": "0"})
            assert ran.exit_code in (0, 1), ran.said
            assert "internal error" not in ran.said, ran.said
            assert ran.exit_code == 0 or ran.said.startswith("error: ")
    finally:
        stop.set()
        meddling.join()


# ---- signals ---------------------------------------------------------------------------------------------------------


def interrupted(arguments: list[str | Path], number: signal.Signals, after_s: float) -> tuple[int, bytes, bytes]:
    """What a call does that gets a signal, as a terminal sends it: to all processes of it."""
    command = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN, start_new_session=True
    )
    time.sleep(after_s)
    os.killpg(command.pid, number)
    stdout, stderr = command.communicate(timeout=PATIENCE_S)
    return command.returncode, stdout, stderr


def check_answer_to_ctrl_c(code: int, stderr: bytes) -> None:
    """However slow the machine: before our own code is there, Python answers in its own way."""
    if b"Traceback" in stderr:
        assert b"gpuledger/cli" not in stderr, stderr
    else:
        assert code in (0, 130, -signal.SIGINT), stderr


MOMENTS_S = [0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8]


@pytest.mark.parametrize("after_s", some(MOMENTS_S, 2))
def test_an_interruption_at_any_moment_leaves_nothing(after_s: float, tmp_path: Path) -> None:
    """130, or death by the signal before Python is ready for it or after all is done; never half a result."""
    path, target = large_export(tmp_path / "a.sqlite"), tmp_path / "a.md"
    code, stdout, stderr = interrupted(["report", path, "-o", target], signal.SIGINT, after_s)
    assert stdout == b""
    check_answer_to_ctrl_c(code, stderr)
    if code == 130:
        assert stderr.strip().endswith(b"interrupted")
    assert set(os.listdir(tmp_path)) <= {"a.sqlite", "a.md"}
    if target.exists():
        assert target.read_text().endswith("\n")


@pytest.mark.parametrize("after_s", MOMENTS_S[3::3])
def test_an_interruption_while_several_processes_read(after_s: float, tmp_path: Path) -> None:
    event = JSON[JSON.index(b"[") + 1 : -2]
    path = tmp_path / "a.json"
    path.write_bytes(b'{"traceEvents": [' + b",".join([event] * 130_000) + b"]}")  # enough for parts
    code, stdout, stderr = interrupted(["report", path], signal.SIGINT, after_s + 0.5)
    check_answer_to_ctrl_c(code, stderr)
    assert (stdout == b"") is (code != 0)


@pytest.mark.parametrize("after_s", MOMENTS_S[4::4])
def test_a_kill_leaves_no_half_a_result(after_s: float, tmp_path: Path) -> None:
    path, target = large_export(tmp_path / "a.sqlite"), tmp_path / "a.md"
    code, _, _ = interrupted(["report", path, "-o", target], signal.SIGKILL, after_s)
    assert code in (0, -signal.SIGKILL)
    assert not target.exists() or target.read_text().endswith("\n")
