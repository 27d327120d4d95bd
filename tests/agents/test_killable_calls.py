"""A call of an agent's can be ended whatever it does, and the next one is answered, of the same handles."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuledger.agents.answers import AgentAnswer
from gpuledger.agents.calls import CallsOutside
from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.errors import QueryRefused, UnreadableProfile
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.regex import LOOKED_AT, NamePattern
from gpuledger.system.killable import Died, _Standing, in_child
from gpuledger.trace.deadline import until
from support.command import PATIENCE_S
from support.profiles.nsys_exports import call, kernel, minimal
from support.thorough import IS_THOROUGH
from torture.servers import RunningServer, attacks

ENDLESS = r"(.*)*\x00"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    kernels = [kernel(20 * n, 20 * n + 10, correlationId=n) for n in range(40)]
    calls = [call(20 * n - 8, 20 * n - 5, correlationId=n) for n in range(40)]
    minimal(folder / "run.sqlite", KERNEL=kernels, RUNTIME=calls)
    return folder


@pytest.fixture(scope="module")
def calls(folder: Path) -> Iterator[CallsOutside]:
    limits = replace(DEFAULT_LIMITS, read_seconds=1, query_seconds=0.5)
    with CallsOutside(AgentProfiles(AllowedFolders([folder]), limits)) as calls:
        deadline = time.monotonic() + PATIENCE_S
        while isinstance(said := called(calls, "open_profile", path="run.sqlite"), str):  # it is starting
            assert time.monotonic() < deadline, said
        yield calls


def called(calls: CallsOutside, tool: str, **given: Any) -> AgentAnswer | str:
    return calls(tool, given, lambda *_: None)


def works(calls: CallsOutside) -> bool:
    """Whether the next call is answered, of a handle from before."""
    deadline = time.monotonic() + PATIENCE_S  # a process that had to be killed is replaced, and reads the profile again
    while isinstance(said := called(calls, "report", handle="p1"), str) and time.monotonic() < deadline:
        pass
    return isinstance(said, AgentAnswer)


def test_a_pattern_that_takes_forever_is_stopped(calls: CallsOutside) -> None:
    said = called(calls, "open_profile", path="run.sqlite", step_kernel=ENDLESS)
    assert isinstance(said, AgentAnswer | str)
    said = called(calls, "open_profile", path="run.sqlite", step_kernel=f"(x+x+)+y|{ENDLESS}")
    assert works(calls)


def test_a_call_that_is_taken_back_ends_at_once(calls: CallsOutside) -> None:
    def taken_back(*_: object) -> None:
        raise KeyError("taken back")

    with pytest.raises(KeyError):
        calls("query", {"handle": "p1", "sql": "SELECT count(*) FROM range(10000000) a, range(10000000)"}, taken_back)
    assert works(calls)


def test_a_process_that_hears_nothing_is_killed_and_replaced(calls: CallsOutside) -> None:
    worker = standing(calls).worker
    assert worker is not None
    os.kill(worker, signal.SIGSTOP)
    said = called(calls, "report", handle="p1")
    assert (
        said == "report: took more than 1 s and was stopped. Hint: `gpuledger mcp --limit=read-seconds=4` waits longer"
    )
    assert works(calls)
    assert standing(calls).worker != worker


def test_what_was_read_is_not_read_again_by_the_process_that_takes_over(calls: CallsOutside, folder: Path) -> None:
    """A copy from before the call has it in memory: as often as one is killed, and though the file is gone."""
    path = Path(shutil.copy(folder / "run.sqlite", folder / "gone.sqlite"))
    opened = called(calls, "open_profile", path=path.name)
    assert isinstance(opened, AgentAnswer)
    path.unlink()
    for _ in range(3):
        worker, spare = standing(calls).worker, standing(calls).spare
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        assert calls._worker._pipes[0].poll(PATIENCE_S)  # it has ended
        assert isinstance(called(calls, "report", handle=opened.content["handle"]), AgentAnswer)
        assert standing(calls).worker == spare


@pytest.mark.parametrize("dead", ["worker", "spare", "both"])
def test_whichever_process_dies_the_next_call_is_answered(calls: CallsOutside, dead: str) -> None:
    calls._worker.end()  # both begin anew: that a spare was killed, by the test before, is seen when it is needed
    pids = {"worker": standing(calls).worker, "spare": standing(calls).spare}
    for name, pid in pids.items():
        if dead in (name, "both"):
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
    assert works(calls)


def standing(calls: CallsOutside) -> _Standing:
    """The processes, when the worker has left its spare."""
    deadline = time.monotonic() + PATIENCE_S
    while calls._worker._standing.spare is None and time.monotonic() < deadline:
        called(calls, "report", handle="p1")
    return calls._worker._standing


def test_what_a_child_gives_raises_or_dies_of_is_heard() -> None:
    def refuse() -> None:
        raise QueryRefused("no", found="nothing", hint="none")

    assert in_child(lambda: [1, "a"], seconds=10, more_bytes=1 << 30) == [1, "a"]
    with pytest.raises(QueryRefused) as refused:
        in_child(refuse, seconds=10, more_bytes=1 << 30)
    assert (refused.value.claim, refused.value.found, refused.value.hint) == ("no", "nothing", "none")
    with pytest.raises(Died):
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), seconds=10, more_bytes=1 << 30)


def test_the_deadline_interrupts_a_pattern_and_leaves_no_timer() -> None:
    before = signal.setitimer(signal.ITIMER_REAL, 0), signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest's own
    try:
        with pytest.raises(UnreadableProfile), until(time.monotonic() + 0.1, lambda: UnreadableProfile("slow")):
            NamePattern(ENDLESS).search("a" * 100)
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGALRM, before[1])
        signal.setitimer(signal.ITIMER_REAL, *before[0])


def test_a_timer_of_the_program_is_left_alone() -> None:
    before = signal.setitimer(signal.ITIMER_REAL, 500), signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        with until(time.monotonic() + 0.01, TimeoutError):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 400
    finally:
        signal.signal(signal.SIGALRM, before[1])
        signal.setitimer(signal.ITIMER_REAL, *before[0])


def test_letters_of_a_name_beyond_measure_are_not_looked_at() -> None:
    assert NamePattern("b").search("a" * LOOKED_AT + "b") is None
    assert NamePattern("b$").search("a" * (LOOKED_AT - 1) + "b") is not None


@pytest.mark.parametrize("closed", [("stdout",), ("stdout", "stdin")])
def test_a_server_whose_answers_nobody_takes_ends_without_a_word(folder: Path, closed: tuple[str, ...]) -> None:
    """Though its client's other end, which it waits for in a thread, may still be open."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    words = [sys.executable, "-m", "gpuledger", "mcp", str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stderr is not None
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}).encode())
        server.stdin.write(b"\n")
        server.stdin.flush()
        for stream in closed:
            getattr(server, stream).close()
        server.wait(PATIENCE_S)
        assert server.stderr.read() == b""


USUAL = ("query SELECT factorial(30000)", "line b'no JSON\\n'", "the process that answers killed", "and killed again")


def test_a_server_outlives_attacks_and_ends_with_its_client(folder: Path) -> None:
    """As agents start it: sixty attacks when all is tried, and the next call within a second after each."""
    server = RunningServer(folder, "run.sqlite")
    chosen = [attack for attack in attacks() if IS_THOROUGH or attack.name in USUAL]
    assert len(chosen) >= (50 if IS_THOROUGH else len(USUAL))
    slow = {attack.name: took_s for attack in chosen if (took_s := server.suffer(attack)) > attack.soon_s}
    assert slow == {}
    server.hang()  # in a process that took over
    assert server.ends("killed")
