"""Others on the same machine: while we work and after it, they can read nothing of ours, write nothing, run nothing."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from support.command import gpuledger
from support.own_processes import Watched, listening
from support.rank_traces import generator

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc on this system")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "ranks"
    generator().write_job(folder, ranks=2, events=400, steps=2, late=1, packed=True)
    return folder


def test_no_process_that_exports_a_job_takes_connections(ranks: Path, tmp_path: Path) -> None:
    """Nor one of `fleet`: tests/fleet/test_fleet.py, where two workers read a job."""
    with Watched() as seen:
        ran = gpuledger("export", ranks, "--workers=2", "-o", tmp_path / "job.pftrace")
    assert ran.exit_code == 0, ran.stderr
    assert seen.most >= 3  # the command and its workers
    assert seen.sockets == set()


def test_a_socket_that_takes_connections_would_be_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert listening({os.getpid()}) == {f"tcp 0100007F:{port:04X}"}
