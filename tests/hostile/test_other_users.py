"""Others on the same machine: while we work and after it, they can read nothing of ours, write nothing, run nothing.

Where root runs the tests, somebody else is asked to try: `nobody` looks through the folders that we use and through
our processes. Elsewhere it is told from modes and sockets alone.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import PATIENCE_S, gpuledger
from support.profiles.nsys_exports import call, kernel, minimal
from support.programs.own_processes import PROBE, Watched, listening
from support.traces.rank_traces import generator

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc on this system")
IS_ROOT = os.geteuid() == 0 and shutil.which("setpriv") is not None
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can ask another user to try")


@pytest.fixture(scope="module")
def probe() -> Iterator[list[str]]:
    """The command by which another user looks."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        script = Path(name) / "probe.py"
        script.write_text(PROBE)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        yield [*user, sys.executable, "-I", "-S", str(script)]


def reached(probe: list[str], folder: Path, pids: set[int]) -> list[str]:
    """What another user can reach."""
    words = [*probe, str(folder), ",".join(map(str, sorted(pids)))]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if ran.returncode != 0:
        pytest.skip(f"another user cannot run Python here: {ran.stderr[-200:]}")
    return ran.stdout.splitlines()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, as /tmp is; pytest's own are shut."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "ranks"
    generator().write_job(folder, ranks=2, events=400, steps=2, late=1, packed=True)
    return folder


def test_no_process_that_exports_a_job_takes_connections_or_can_be_reached(
    ranks: Path, open_folder: Path, tmp_path: Path, probe: list[str]
) -> None:
    """Nor does one of `fleet` take connections: tests/jobs/test_fleet.py, where two workers read a job."""
    place = str(open_folder)
    found: list[str] = []

    def look(ours: set[int]) -> None:
        if IS_ROOT and len(ours) >= 3 and not found:
            found.extend(reached(probe, open_folder, ours))

    with Watched(look) as seen:
        ran = gpuledger(
            "export",
            ranks,
            "--workers=2",
            "-o",
            tmp_path / "job.pftrace",
            TMPDIR=place,
            XDG_CACHE_HOME=place,
            GPULEDGER_CACHE="always",
        )
    assert ran.exit_code == 0, ran.stderr
    assert seen.most >= 3  # the command and its workers
    assert seen.sockets == set()
    if IS_ROOT:
        assert found == reached(probe, open_folder, {os.getpid()}) == ["looked"]
    assert [path.stat().st_mode & 0o077 for path in open_folder.iterdir()] == [0]  # the cache


def test_a_socket_that_takes_connections_would_be_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert listening({os.getpid()}) == {f"tcp 0100007F:{port:04X}"}


@needs_root
def test_another_user_would_find_what_lies_open(open_folder: Path, probe: list[str]) -> None:
    (open_folder / "open").write_text("for all")
    assert reached(probe, open_folder, {os.getpid()}) == [f"may use {open_folder / 'open'}", "looked"]


@needs_root
def test_another_user_reaches_nothing_of_a_run(open_folder: Path, tmp_path: Path, probe: list[str]) -> None:
    """The step of the run looks itself, through the eyes of somebody else."""
    book = tmp_path / "probe.yaml"
    steps = [{"command": [*probe, str(open_folder), str(os.getpid())]}]
    book.write_text(json.dumps({"runbook": 1, "name": "probe", "question": "Who reads?", "steps": steps}))
    ran = gpuledger("run", book, "-o", open_folder / "out")
    assert ran.exit_code == 0, ran.stderr
    [log] = (open_folder / "out").rglob("*.log")
    assert log.read_text().splitlines()[1:] == ["looked"]
    assert reached(probe, open_folder, {os.getpid()}) == ["looked"]


@needs_root
def test_another_user_reaches_nothing_of_a_view(open_folder: Path, tmp_path: Path, probe: list[str]) -> None:
    pytest.importorskip("viztracer")
    profile = minimal(tmp_path / "run.sqlite", KERNEL=[kernel(10, 20)], RUNTIME=[call(0, 5)])
    command = [sys.executable, "-m", "gpuledger", "view", str(profile), "--no-browser", "--quiet"]
    shown = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(open_folder)})
    try:
        assert shown.stdout is not None
        assert shown.stdout.readline().startswith("http://127.0.0.1:")
        assert reached(probe, open_folder, {shown.pid}) == ["looked"]
    finally:
        shown.kill()
        shown.communicate()
    assert list(open_folder.iterdir()) == []  # nor does a kill leave anything behind
