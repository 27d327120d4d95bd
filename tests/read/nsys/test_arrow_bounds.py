"""Folders of Parquet and Arrow files whose tables are larger, or other, than they look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuledger import open_trace
from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read import no_progress
from gpuledger.read.nsys import other_exports
from gpuledger.read.nsys.other_exports import ArrowExport
from torture.growth import peak_bytes

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def folder_of(path: Path, kernels: Any, suffix: str) -> Path:
    path.mkdir()
    for name, table in (("StringIds", pa.table({"id": [1], "value": ["k"]})), (KERNELS, kernels)):
        if suffix == ".parquet":
            parquet.write_table(table, path / f"{name}.parquet")
            continue
        with pa.OSFile(str(path / f"{name}.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=10_000)
    return path


def test_rows_are_counted_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal values take a few bytes of Parquet, and eight each of memory for each column."""
    same = pa.array([7]).take(pa.array([0] * 5_000))
    path = folder_of(tmp_path / "a", pa.table({"start": same, "end": same, "demangledName": same}), ".parquet")
    asked: list[str] = []
    monkeypatch.setattr(other_exports, "_of_parquet", lambda file, _: asked.append(file.stem))
    with pytest.raises(UnreadableProfile, match=f"table {KERNELS} has more than 1,000 rows"):
        open_trace(path, limits=Limits(rows_per_table=1000))
    assert asked == []


def test_rows_of_a_stream_are_counted_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = pa.array([7]).take(pa.array([0] * 50_000))
    path = folder_of(tmp_path / "a", pa.table({"start": same, "end": same, "demangledName": same}), ".arrow")
    monkeypatch.setattr(other_exports, "_of_stream", lambda *_: pytest.fail("read whole"))
    with pytest.raises(UnreadableProfile, match=f"table {KERNELS} has more than 1,000 rows"):
        open_trace(path, limits=Limits(rows_per_table=1000))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_equal_values_take_no_more_room_here_than_in_the_file(tmp_path: Path, suffix: str) -> None:
    """1.9 MB took 5.9 GB: eight bytes for each value of each column, several times."""
    equal = pa.array([7]).take(pa.array([0] * 1_000_000))
    names = ("start", "end", "demangledName", "deviceId", "globalPid", "streamId")
    path = folder_of(tmp_path / "a", pa.table(dict.fromkeys(names, equal)), suffix)
    export = ArrowExport(path, suffix, Limits(), no_progress)
    export.integers("StringIds", ("id",))
    assert peak_bytes(lambda: export.integers(KERNELS, names)) < 12 * 1_000_000


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_column_that_is_there_twice_is_refused_in_a_sentence(tmp_path: Path, suffix: str) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["start", "end", "end"])
    with pytest.raises(UnreadableProfile) as refusal:
        open_trace(folder_of(tmp_path / "a", table, suffix))
    assert refusal.value.found == f"{KERNELS} has two columns end"
