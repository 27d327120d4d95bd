"""The command called within a test does what it does as a process, and leaves the test's process as it was."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import warnings
from pathlib import Path

import pytest

from support.command import gpuledger, gpuledger_process

CALLS = (
    ("--help",),
    ("--version",),
    ("stat", "x"),
    ("stats",),
    ("info", "decode.sqlite"),
    ("info", "no.sqlite"),
    ("report", "decode.sqlite", "--lang=zh"),
    ("report", "decode.sqlite", "--format=json", "--no-cache"),
    ("stats", "decode.sqlite", "--format=csv"),
    ("explain", "HOST-SYNC"),
)


@pytest.mark.parametrize("arguments", CALLS, ids=" ".join)
def test_it_says_and_ends_as_a_process_does(arguments: tuple[str, ...], decode: Path) -> None:
    here = gpuledger(*arguments, cwd=decode.parent, COLUMNS="60")
    assert here == gpuledger_process(*arguments, cwd=decode.parent, COLUMNS="60")
    assert here.stdout or here.stderr


def surroundings() -> dict[str, object]:
    return {
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "files": [os.fstat(number)[:3] for number in range(3)],
        "open": len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0,
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "arguments": sys.argv,
        "collector": (gc.isenabled(), gc.get_threshold()),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        "logging": list(logging.root.handlers),
        "warnings": list(warnings.filters),
    }


@pytest.mark.parametrize("arguments", CALLS, ids=" ".join)
def test_it_leaves_everything_as_it_was(arguments: tuple[str, ...], decode: Path, tmp_path: Path) -> None:
    gpuledger(*arguments, cwd=decode.parent)  # once, so that all is imported
    before, frozen = surroundings(), gc.get_freeze_count()
    gpuledger(*arguments, cwd=decode.parent, COLUMNS="80", GPULEDGER_DEBUG="1", XDG_CACHE_HOME=str(tmp_path))
    assert surroundings() == before
    assert gc.get_freeze_count() <= frozen  # of what was frozen some may be freed, but nothing is added


def test_what_a_process_reads_at_its_start_is_for_a_process() -> None:
    with pytest.raises(ValueError, match="PYTHONHASHSEED is read when a process starts"):
        gpuledger("--version", PYTHONHASHSEED="1")
