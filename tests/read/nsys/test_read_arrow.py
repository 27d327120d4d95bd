"""parquetdir and arrowdir give the Trace that SQLite gives."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger import MissingPackage, Table, UnreadableProfile, open_trace
from support.command import gpuledger


@pytest.mark.parametrize("container", ["parquetdir", "arrowdir"])
def test_all_containers_give_equal_traces(container: str, unpacked: Callable[[str], Path], decode: Path) -> None:
    theirs = open_trace(unpacked(f"decode.{container}.tar"))
    ours = open_trace(decode)
    assert set(theirs.tables) == set(ours.tables)
    for table, rows in ours.tables.items():
        assert theirs[table] == rows, table
    assert theirs.same_events(ours)
    assert theirs.health == ours.health
    assert theirs.origin.container == container
    assert theirs.origin.tool_version == ours.origin.tool_version == "2025.3.2"


@pytest.mark.parametrize("container", ["parquetdir", "arrowdir"])
def test_all_containers_give_equal_tables(container: str, unpacked: Callable[[str], Path], decode: Path) -> None:
    folder = unpacked(f"decode.{container}.tar")
    arguments = ("--report=nvtx_kern_sum,cuda_api_sum", "--format=csv")
    assert gpuledger("stats", folder, *arguments).stdout == gpuledger("stats", decode, *arguments).stdout


def test_without_pyarrow_one_sentence_says_what_to_install(
    unpacked: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpacked("decode.parquetdir.tar")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackage, match="needs pyarrow") as raised:
        open_trace(folder)
    assert "pip install 'gpuledger[arrow]'" in raised.value.hint


@pytest.mark.parametrize("container", ["parquetdir", "arrowdir"])
def test_a_damaged_table_is_refused_in_one_sentence(
    container: str, unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    shutil.copytree(unpacked(f"decode.{container}.tar"), folder)
    [kernels] = folder.glob("CUPTI_ACTIVITY_KIND_KERNEL.*")
    kernels.chmod(0o644)
    kernels.write_bytes(kernels.read_bytes()[:100])
    with pytest.raises(UnreadableProfile, match="damaged export"):
        open_trace(folder)


def test_a_missing_table_is_absent(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tmp_path / "export"
    shutil.copytree(unpacked("decode.arrowdir.tar"), folder)
    (folder / "CUPTI_ACTIVITY_KIND_KERNEL.arrow").unlink()
    trace = open_trace(folder)
    assert Table.KERNELS in trace.absent
    assert len(trace[Table.CALLS]) == 5917
