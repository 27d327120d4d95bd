"""Progress: a sign of life for people who wait at a terminal, and nothing for anybody else."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from gpuledger.cli import main as main_module
from gpuledger.cli import terminal as progress_module
from gpuledger.cli.main import verb_named
from gpuledger.cli.terminal import ProgressLine
from gpuledger.read import open_trace
from support.command import PATIENCE_S, gpuledger
from support.terminal import in_terminal


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits in a test, so what would be drawn after a while is drawn at once."""
    monkeypatch.setattr(progress_module, "_FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(progress_module, "_EVERY_S", 0.001)


@pytest.mark.usefixtures("at_once")
def test_the_stages_are_named_and_gone_before_the_answer(unpacked: Callable[[str], Path]) -> None:
    sent = in_terminal("report", unpacked("graph.sqlite"), "--no-cache", columns=80)
    drawn, _, answer = sent.rpartition("\r\x1b[K")
    for stage in (
        "reading CUPTI_ACTIVITY_KIND_KERNEL",
        "booking the time",
        "looking for what to fix",
    ):
        assert stage in drawn
    assert "graph.sqlite" in answer
    assert "booking" not in answer


@pytest.mark.usefixtures("at_once")
def test_a_verb_that_takes_long_to_load_says_so(
    unpacked: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(name: str) -> click.Command:
        time.sleep(0.1)
        return verb_named(name)

    monkeypatch.setattr(main_module, "verb_named", slowly)
    assert "starting" in in_terminal("info", unpacked("graph.sqlite"), "--no-cache", columns=80)


def test_a_reader_tells_of_each_table_again_when_it_is_put_into_shape(unpacked: Callable[[str], Path]) -> None:
    told: list[str] = []
    open_trace(unpacked("graph.sqlite"), cache=False, progress=lambda table, _: told.append(table))
    for source, table in (("KERNEL", "kernels"), ("RUNTIME", "calls")):  # which of the two comes first is open
        assert told.index(f"CUPTI_ACTIVITY_KIND_{source}") < told.index(table)


@pytest.mark.usefixtures("at_once")
def test_there_is_none_in_a_pipe_nor_when_asked_to_be_quiet(unpacked: Callable[[str], Path]) -> None:
    assert gpuledger("report", unpacked("graph.sqlite"), "--no-cache").stderr == ""
    assert "reading" not in in_terminal("report", unpacked("graph.sqlite"), "--no-cache", "-q", columns=80)
    assert "reading" not in in_terminal("report", unpacked("graph.sqlite"), "--no-cache", columns=80, TERM="dumb")


@pytest.mark.usefixtures("at_once")
def test_the_line_never_wraps(unpacked: Callable[[str], Path]) -> None:
    sent = in_terminal("report", unpacked("graph.sqlite"), "--no-cache", columns=20)
    drawn = sent.rpartition("\r\x1b[K")[0].split("\r\x1b[K")
    assert len(drawn) > 2
    assert max(map(len, drawn)) < 20


def test_the_clock_goes_on_while_a_stage_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_module, "_FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(progress_module, "_EVERY_S", 0.001)
    line = ProgressLine(is_shown=True)
    line.stage("a long call of numpy")
    until = time.monotonic() + PATIENCE_S
    shown = ""
    while shown.count("a long call") < 3 and time.monotonic() < until:
        shown += capsys.readouterr().err
    line.clear()
    line.clear()
    assert shown.count("a long call") >= 3
    assert (shown + capsys.readouterr().err).endswith("\r\x1b[K")


def test_a_large_file_is_named_before_its_first_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_module, "_LARGE_BYTES", 10)
    large, small = tmp_path / "large\x1b.sqlite", tmp_path / "small.sqlite"
    large.write_bytes(bytes(10))
    small.write_bytes(bytes(9))
    for path in (large, small, tmp_path / "none", "-", None):
        ProgressLine(is_shown=True).begin(path)
    assert capsys.readouterr().err == "\r\x1b[Kreading large\\x1b.sqlite"
