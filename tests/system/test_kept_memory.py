"""Who keeps freed memory: a command, for its life; never whoever uses the package."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

import gpuledger
from gpuledger.cli.main import main, verb_named
from gpuledger.system.resources import keep_freed_memory


class _Library:
    """A C library that notes how it is set."""

    def __init__(self) -> None:
        self.settings: list[tuple[int, int]] = []

    def mallopt(self, option: int, value: int) -> int:
        self.settings.append((option, value))
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> _Library:
    seen = _Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: seen)
    return seen


def test_a_command_keeps_its_memory(library: _Library) -> None:
    with (
        patch.object(sys, "argv", ["gpuledger", "--version"]),
        patch("gpuledger.cli.main._prepare_streams"),  # those of the test stay as they are
        pytest.raises(SystemExit),
    ):
        main()
    assert library.settings == [(-8, 1), (-3, 16 << 20), (-1, 2**31 - 1)]


def test_a_library_does_not_decide_for_its_process(decode: Path, library: _Library) -> None:
    gpuledger.open_trace(decode)
    assert CliRunner().invoke(verb_named("info"), [str(decode)]).exit_code == 0
    assert library.settings == []


def test_a_c_library_without_the_setting_goes_on_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    keep_freed_memory()
