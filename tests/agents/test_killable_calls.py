"""A call of an agent's can be ended whatever it does, and the next one is answered, of the same handles."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuledger.agents.answers import AgentAnswer
from gpuledger.agents.calls import CallsOutside
from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.errors import QueryRefused, UnreadableProfile
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.regex import LOOKED_AT, NamePattern
from gpuledger.system.killable import Died, in_child
from gpuledger.trace.deadline import until
from support.nsys_exports import call, kernel, minimal
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
    limits = replace(DEFAULT_LIMITS, read_seconds=0.5, query_seconds=0.5)
    with CallsOutside(AgentProfiles(AllowedFolders([folder]), limits)) as calls:
        while isinstance(called(calls, "open_profile", path="run.sqlite"), str):  # it is starting
            pass
        yield calls


def called(calls: CallsOutside, tool: str, **given: Any) -> AgentAnswer | str:
    return calls(tool, given, lambda *_: None)


def works(calls: CallsOutside) -> bool:
    """Whether the next call is answered, of a handle from before."""
    deadline = time.monotonic() + 10  # a process that had to be killed is replaced, and reads the profile again
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
    [process] = [process for process in (calls._worker._process,) if process is not None]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    said = called(calls, "report", handle="p1")
    assert (
        said
        == "report: took more than 0.5 s and was stopped. Hint: `gpuledger mcp --limit=read-seconds=2` waits longer"
    )
    assert works(calls)
    assert calls._worker._process is not process


def test_a_process_that_dies_is_told_and_replaced(calls: CallsOutside) -> None:
    process = calls._worker._process
    assert process is not None
    process.kill()
    process.join()
    assert works(calls)


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


def test_a_server_outlives_attacks_and_ends_with_its_client(folder: Path) -> None:
    """As agents start it; `make torture` makes them all."""
    server = RunningServer(folder, "run.sqlite")
    chosen = [attack for attack in attacks() if attack.name in ("query factorial(30000)", "line b'no JSON\\n'")]
    chosen += [attack for attack in attacks() if attack.is_taken_back][:1]
    assert [attack.name for attack in chosen if server.suffer(attack) > 10] == []
    server.hang()
    assert server.ends("closed")
