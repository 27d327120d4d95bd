"""`gpuledger report -`: a profile that arrives on standard input."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.errors import GpuledgerError
from gpuledger.system import files
from support.command import called, gpuledger

REFUSED = [(b"", "stdin: the file is empty"), (b"nonsense", "stdin: not a profile")]


def test_the_answer_is_that_of_the_file(unpacked: Callable[[str], Path]) -> None:
    profile = unpacked("graph.sqlite")
    piped = called(["report", "-"], {}, stdin=profile)
    assert piped.exit_code == 0
    assert piped.stdout == gpuledger("report", profile).stdout.replace("graph.sqlite", "stdin", 1)


def test_nothing_is_left_behind(
    tmp_path: Path, unpacked: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert called(["gaps", "-"], {"GPULEDGER_CACHE": "always"}, stdin=unpacked("graph.sqlite")).exit_code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("content", "said"), REFUSED)
def test_what_is_no_profile_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(content)
    refused = called(["report", "-"], {}, stdin=tmp_path / "given")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: {said}")


def test_a_terminal_is_not_waited_for() -> None:
    ours, theirs = os.openpty()
    try:
        refused = called(["report", "-"], {}, stdin=Path(os.ttyname(theirs)))
    finally:
        os.close(ours)
        os.close(theirs)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: standard input is a terminal, and holds no profile\n")
    assert "gpuledger report -" in refused.stderr


def test_where_it_cannot_be_kept_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with (
        (tmp_path / "given").open("wb+") as stream,
        pytest.raises(GpuledgerError) as refusal,
        files.spool_to_file(stream),
    ):
        pytest.fail("there is no such folder")
    assert "TMPDIR" in refusal.value.hint
