"""`gpuledger export --fix`: the timeline as it would be with a finding fixed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import gpuledger
from support.profiles.perfetto_decoder import decode as decoded


@pytest.fixture
def attn(unpacked: Callable[[str], Path]) -> Path:
    """A capture with HOST-LOAD."""
    return unpacked("attn.sqlite")


def test_a_fixed_finding_is_gone_from_the_timeline(attn: Path, tmp_path: Path) -> None:
    target = tmp_path / "fixed.pftrace"
    ran = gpuledger("export", attn, "-o", target, "--fix=host-load")
    assert ran.stderr.startswith("GPU 0: 54.6 ms -> ")
    fixed = decoded(target.read_bytes())
    assert "HOST-LOAD" not in {each.name for each in fixed.on("findings")}
    assert "replayed" in {each.name for each in fixed.on("notes")}
    assert sum(each.end - each.start for each in fixed.on("critical path")) < 20 * 10_000_000


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--fix=NONSENSE",), "there is no finding NONSENSE"),
        (("--fix=CAPTURE-LOSS",), "CAPTURE-LOSS has no change to replay"),
        (("--fix=COMM-EXPOSED",), "has no finding COMM-EXPOSED"),
    ],
)
def test_what_cannot_be_fixed_is_refused(attn: Path, tmp_path: Path, arguments: tuple[str, ...], error: str) -> None:
    ran = gpuledger("export", attn, "-o", tmp_path / "a.pftrace", *arguments)
    assert ran.exit_code == 1
    assert error in ran.stderr
    assert not (tmp_path / "a.pftrace").exists()


def test_tables_and_jobs_are_as_recorded(attn: Path, decode: Path, tmp_path: Path) -> None:
    assert gpuledger("export", attn, "-o", tmp_path / "t.parquet", "--fix=HOST-LOAD").exit_code == 2
    assert gpuledger("export", attn, decode, "-o", tmp_path / "t.pftrace", "--fix=HOST-LOAD").exit_code == 2


def test_a_written_timeline_cannot_be_fixed(tmp_path: Path) -> None:
    written = tmp_path / "a.pftrace"
    written.write_bytes(b"")
    ran = gpuledger("view", written, "--fix=HOST-LOAD", "--no-browser")
    assert (ran.exit_code, ran.stdout) == (2, "")
