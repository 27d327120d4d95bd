"""Ranks of a workload: all answer, or all end with one sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

TESTS = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "support.programs.rank_program", "--device=cpu"]


def ranks(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=TESTS,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("count", [1, 3])
def test_every_rank_answers_in_order_from_a_process_of_its_own(count: int) -> None:
    ran = ranks(f"--world-size={count}")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)["ranks"]
    assert [each["rank"] for each in found] == list(range(count))
    assert len({each["pid"] for each in found}) == count


def test_under_torchrun_rank_0_tells() -> None:
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    environment = [{**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    processes = [
        subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True, cwd=TESTS, env=each) for each in environment
    ]
    said = [each.communicate(timeout=120)[0] for each in processes]
    assert [each.returncode for each in processes] == [0, 0]
    assert [each["rank"] for each in json.loads(said[0])["ranks"]] == [0, 1]
    assert said[1] == ""


def free_port() -> int:
    from gpuledger_workloads.ranks import _free_port

    return _free_port()


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("refuses", "error: rank 1: seven is odd"),
        ("raises", "error: rank 1: ValueError: seven"),
        ("dies", "error: rank 1 ended without a word"),
    ],
)
def test_a_rank_that_fails_ends_all_of_them(fault: str, sentence: str) -> None:
    ran = ranks("--world-size=2", f"--fault={fault}")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert sentence in ran.stderr.splitlines()


def test_nccl_without_gpus_is_refused() -> None:
    ran = ranks("--world-size=2", "--backend=nccl")
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: nccl moves memory of GPUs only\n\nhint: --backend=gloo")


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_ctrl_c_leaves_no_rank() -> None:
    started: Any = subprocess.Popen(
        [*COMMAND, "--world-size=2", "--fault=sleeps"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=TESTS,
        start_new_session=True,
    )
    while "asleep" not in started.stderr.readline():
        assert started.poll() is None
    children = children_of(started.pid)
    assert len(children) >= 2
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=60)
    assert started.returncode != 0
    for _ in range(100):
        if not any(map(is_alive, children)):
            return
        time.sleep(0.1)
    raise AssertionError("a rank is left")
