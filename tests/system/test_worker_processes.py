"""Processes that share work: whatever befalls them, every item has its result, in order, and nobody is left behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpuledger.errors import ToolFailed
from gpuledger.system import worker_processes
from gpuledger.system.resources import free_memory_bytes, resident_bytes, usable_cores
from gpuledger.system.worker_processes import ATTEMPTS, spread
from support.command import ROOT
from support.programs.worker_tasks import (
    die,
    dies_the_first_time,
    dies_when_the_others_are_done,
    greedy,
    killed_in_the_middle_of_its_result,
    raises,
    square,
    squares_but_for,
    variables,
)

psutil = pytest.importorskip("psutil")
PLENTY = 1 << 40
DIED = f"{ATTEMPTS} workers died over it, most likely for want of memory"


def own_workers() -> list[Any]:
    return [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def lost(item: int, reason: str) -> str:
    return f"{item}: {reason}"


def test_results_come_in_the_order_of_the_items() -> None:
    told: list[int] = []
    results = spread(square, range(20), count=3, memory_bytes=PLENTY, lost=lost, tell=told.append)
    assert results == [number * number for number in range(20)]
    assert told == sorted(told)
    assert told[-1] == 20


def test_a_worker_that_is_done_is_ended_without_a_word() -> None:
    """Asked to end while its interpreter shuts down, an exception would be printed from wherever it came."""
    before = signal.getsignal(signal.SIGTERM)
    ours, theirs = multiprocessing.Pipe()
    ours.close()
    try:
        worker_processes._serve(square, theirs)
        signal.raise_signal(signal.SIGTERM)  # neither ends this process nor raises
        # Python tells of a signal that came just before SIG_DFL or SIG_IGN was set: "ignored due to race condition"
        assert callable(signal.getsignal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_no_items_no_workers() -> None:
    assert spread(square, [], count=3, memory_bytes=PLENTY, lost=lost) == []


def test_numpy_gets_one_thread_in_each_worker_and_no_fewer_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert spread(variables, [0], count=1, memory_bytes=PLENTY, lost=lost) == [("1", "1")]
    assert os.environ.get("OPENBLAS_NUM_THREADS") is None
    assert os.environ["OMP_NUM_THREADS"] == "7"


# What may befall a worker


def test_items_that_kill_their_workers_are_named_and_the_others_are_done() -> None:
    deadly = frozenset({0, 3, 6})
    results = spread(partial(squares_but_for, deadly=deadly), range(7), count=2, memory_bytes=PLENTY, lost=lost)
    assert results == [f"{n}: {DIED}" if n in deadly else n * n for n in range(7)]


def test_a_worker_that_dies_once_over_each_item_changes_nothing(tmp_path: Path) -> None:
    task = partial(dies_the_first_time, marks=tmp_path)
    assert spread(task, range(5), count=2, memory_bytes=PLENTY, lost=lost) == list(range(5))


def test_workers_killed_at_any_time_under_load(busy_machine: None) -> None:
    """Somebody else kills workers, again and again: while they start, work, send, or wait."""
    over, more = threading.Event(), threading.Event()

    def kill_now_and_then() -> None:
        chance = random.Random(1)
        while not over.wait(chance.random()):
            if more.is_set():  # nobody kills all that start for ever
                more.clear()
                with contextlib.suppress(psutil.Error, IndexError):  # it has just gone
                    chance.choice(own_workers()).kill()

    def tell(done: int) -> None:
        if done > told[-1]:
            told.append(done)
            more.set()

    told = [0]
    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        results = spread(square, range(60), count=3, memory_bytes=PLENTY, lost=lost, tell=tell)
    finally:
        over.set()
        killer.join()
    assert results == [number * number for number in range(60)]


def test_a_worker_that_dies_while_other_results_are_on_their_way_takes_none_of_them(
    tmp_path: Path, busy_machine: None
) -> None:
    task = partial(dies_when_the_others_are_done, marks=tmp_path)
    results = spread(task, range(4), count=4, memory_bytes=PLENTY, lost=lambda *_: b"lost")
    assert [result[:4] for result in results] == [b"lost", b"\1" * 4, b"\2" * 4, b"\3" * 4]


def test_a_worker_killed_in_the_middle_of_its_result_is_not_waited_for() -> None:
    task = killed_in_the_middle_of_its_result
    results = spread(task, range(4), count=2, memory_bytes=PLENTY, lost=lambda *_: b"lost")
    assert [result[:4] for result in results] == [b"\0" * 4, b"\1" * 4, b"lost", b"\3" * 4]


@pytest.mark.skipif(resident_bytes(os.getpid()) is None, reason="the memory of other processes is not known here")
def test_a_worker_that_takes_more_than_its_share_is_ended() -> None:
    results = spread(greedy, range(3), count=2, memory_bytes=400 << 20, lost=lost)
    assert results == [0, f"1: {DIED}", 2]


def test_a_task_that_raises_is_named() -> None:
    results = spread(raises, range(3), count=2, memory_bytes=PLENTY, lost=lost)
    assert results == [0, "1: no worker could take it: ValueError: not this one", 2]


def test_workers_that_never_start_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_processes, "_serve", die)  # unpickled by name, and called with too much: it dies at once
    with pytest.raises(ToolFailed, match="worker processes do not start"):
        spread(square, range(3), count=2, memory_bytes=PLENTY, lost=lost)


@pytest.mark.parametrize("after_s", [0.0, 0.3, None], ids=["at once", "while they start", "while they work"])
def test_ctrl_c_ends_all_workers(tmp_path: Path, after_s: float | None) -> None:
    code = (
        "import sys; from functools import partial; from pathlib import Path\n"
        "from gpuledger.system.worker_processes import spread; from support.programs import worker_tasks\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        task = partial(worker_tasks.sleeps, marks=Path(sys.argv[1]))\n"
        "        spread(task, range(4), count=3, memory_bytes=1 << 40, lost=lambda *_: None)\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
    )
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    program = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert program.stdout is not None
    program.stdout.readline()
    deadline = time.monotonic() + 60
    while after_s is None and len(list(tmp_path.iterdir())) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(after_s or 0)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, errors = program.communicate(timeout=60)  # ends only when nobody holds its errors any more
    assert (program.returncode, errors) == (130, b"")
    left = [each for each in psutil.process_iter() if _group_of(each.pid) == program.pid]
    assert not psutil.wait_procs(left, timeout=10)[1]


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


# What the machine has


def test_a_job_is_held_to_the_limits_of_its_control_groups(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    for path, text in (
        (proc / "meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n"),
        (proc / "self" / "cgroup", "0::/job/step\n"),
        (groups / "job" / "memory.max", "4096000\n"),
        (groups / "job" / "cpu.max", "100000 100000\n"),
        (groups / "job" / "step" / "memory.max", "max\n"),
        (groups / "job" / "step" / "cpu.max", "max 100000\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert free_memory_bytes(proc, groups) == 4096000
    assert usable_cores(proc, groups) == 1
    (proc / "self" / "cgroup").write_text("5:cpu,cpuacct:/x\n4:memory:/job\n")
    (groups / "memory" / "job").mkdir(parents=True)
    (groups / "memory" / "job" / "memory.limit_in_bytes").write_text("2048000\n")
    assert free_memory_bytes(proc, groups) == 2048000
    assert free_memory_bytes(tmp_path / "none", tmp_path / "none") > 0
    assert usable_cores(tmp_path / "none", tmp_path / "none") >= 1
    assert resident_bytes(1 << 30) is None


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Two processes that take all the time they get."""
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for load in loads:
        load.kill()
        load.wait()


@pytest.fixture(autouse=True)
def _no_worker_is_left() -> Iterator[None]:
    yield
    assert not psutil.wait_procs(own_workers(), timeout=10)[1]
