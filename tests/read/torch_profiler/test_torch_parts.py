"""A large trace read in parts by several processes is the trace read in one piece."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from gpuledger import Table, Trace, open_trace
from gpuledger.read.torch import gather as torch_parallel
from support.profiles.torch_traces import KERNEL, KERNEL_ARGS, SMALL, saved


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Reads every file in parts; collects whether that worked."""
    worked: list[bool] = []
    gather = torch_parallel.gather_in_parts

    def watched(*arguments: object) -> object:
        found = gather(*arguments)  # type: ignore[arg-type]
        worked.append(found is not None)
        return found

    monkeypatch.setattr(torch_parallel, "WORTH_IT", 2000)
    monkeypatch.setattr(torch_parallel, "_WINDOW", 4000)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(torch_parallel, "_may_fork", lambda: True)  # other tests may have left threads behind
    monkeypatch.setattr("gpuledger.read.torch.reader.gather_in_parts", watched)
    return worked


def made(count: int) -> list[dict[str, object]]:
    events = []
    for at in range(count):
        name = f"k<{at % 7}>"
        events += [SMALL[0] | {"ts": 10 * at + 0.125}, SMALL[1] | {"ts": 10 * at + 0.125, "args": {"correlation": at}}]
        events.append(KERNEL | {"ts": 10 * at + 1.5, "name": name, "args": KERNEL_ARGS | {"correlation": at}})
    return events


def whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    with monkeypatch.context() as patched:
        patched.setattr(torch_parallel, "WORTH_IT", 1 << 40)
        return open_trace(path)


@pytest.mark.parametrize("indent", [None, 1])
def test_parts_make_the_whole(
    indent: int | None, tmp_path: Path, in_parts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"distributedInfo": {"rank": 2}, "traceEvents": made(200), "deviceProperties": [{"id": 0, "name": "H"}]}
    path = saved(tmp_path / "a.json", json.dumps(document, indent=indent).encode())
    found, expected = open_trace(path), whole(path, monkeypatch)
    assert in_parts == [True, False]
    assert found.same_events(expected)
    assert found.origin == expected.origin
    assert found.health == expected.health == ()
    assert len(found[Table.KERNELS]) == 200


def test_what_is_odd_is_read_in_one_piece(
    tmp_path: Path, in_parts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [each | {"tid": "main"} if each["cat"] == "cpu_op" else each for each in made(100)]
    path = saved(tmp_path / "a.json", odd)
    assert open_trace(path).same_events(whole(path, monkeypatch))
    assert in_parts == [False, False]
    broken = json.dumps({"traceEvents": made(100)}).replace('"cpu_op", "name"', '"cpu_op" "name"', 3).encode()
    found = open_trace(saved(tmp_path / "b.json", broken))
    assert in_parts[-1] is False
    assert [(note.code, note.count) for note in found.health] == [("events-unreadable", 3)]


def test_a_name_that_looks_like_the_end_of_an_event_fools_nobody(
    tmp_path: Path, in_parts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = [each | {"name": '"},{"ph": ' * 300} for each in made(30)]
    path = saved(tmp_path / "a.json", evil)
    assert open_trace(path).same_events(whole(path, monkeypatch))


def test_a_trace_that_breaks_off_is_marked(tmp_path: Path, in_parts: list[bool]) -> None:
    text = json.dumps({"traceEvents": made(200)}).encode()
    found = open_trace(saved(tmp_path / "a.json", text[:-500]))
    assert in_parts == [True]
    assert [note.code for note in found.health] == ["trace-cut-off"]


def test_a_child_that_dies_costs_nothing(tmp_path: Path, in_parts: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_parallel, "_send", lambda *_: os._exit(9))
    assert len(open_trace(saved(tmp_path / "a.json", made(200)))[Table.KERNELS]) == 200
    assert in_parts == [False]


def test_no_process_is_forked_beside_a_thread() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not torch_parallel._may_fork()
    finally:
        done.set()
        thread.join()
