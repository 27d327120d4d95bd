"""Our tables equal NVIDIA's, digit for digit: on real captures, and on random exports full of corners."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger import NotMeasured, Trace, open_trace
from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS
from gpuledger.present.views.nvidia import nvidia_sheet
from gpuledger.present.writers.csv import sheet_csv
from support.command import CAPTURES, NAMES, gpuledger
from support.profiles.nsys_exports import call, kernel, minimal, push
from support.thorough import some

REPORT_NAMES = list(NVIDIA_REPORTS)


def ours(trace: Trace, name: str) -> str:
    """Our CSV; empty where NVIDIA leaves an empty file."""
    report = NVIDIA_REPORTS[name]
    sheet = nvidia_sheet(report, trace)
    return "" if isinstance(sheet, NotMeasured) or not sheet.rows else sheet_csv(sheet)


def nvidias(folder: Path, name: str) -> str:
    path = folder / f"{name}.csv"
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("capture", NAMES)
def test_every_table_of_a_capture_equals_nvidias(capture: str, unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked(f"{capture}.sqlite"))
    for name in REPORT_NAMES:
        assert ours(trace, name) == nvidias(CAPTURES / f"{capture}.nsys-stats", name), name


@pytest.mark.parametrize("part", some(range(4), 2))
def test_every_table_of_a_random_export_equals_nvidias(part: int, unpacked: Callable[[str], Path]) -> None:
    exports = some(sorted(unpacked("random.tar").glob("*.sqlite"))[part::4], 3)
    assert len(exports) >= 17
    for path in exports:
        trace = open_trace(path)
        for name in REPORT_NAMES:
            assert ours(trace, name) == nvidias(path.with_suffix(""), name), (path.name, name)


def test_all_thirteen_tables_are_there() -> None:
    answers = {path.stem for path in CAPTURES.glob("*.nsys-stats/*.csv")}
    assert len(REPORT_NAMES) == 13
    assert set(REPORT_NAMES) <= answers  # each has a non-empty answer of NVIDIA's somewhere


@pytest.mark.parametrize("name", ["cuda_gpu_kern_sum", "nvtx_gpu_proj_sum", "cuda_gpu_mem_size_sum"])
def test_the_command_prints_the_very_bytes(name: str, decode: Path) -> None:
    ran = gpuledger("stats", decode, "--report", name, "--format", "csv")
    assert ran.exit_code == 0
    assert ran.stdout == nvidias(CAPTURES / "decode.nsys-stats", name)


@pytest.mark.parametrize("name", ["cuda_gpu_mem_time_sum", "osrt_sum"])
def test_a_table_that_nvidia_leaves_empty_has_a_header_and_says_so(name: str, unpacked: Callable[[str], Path]) -> None:
    ran = gpuledger("stats", unpacked("attn.sqlite"), "--report", name, "--format", "csv")
    assert ran.exit_code == 0
    assert ran.stdout.startswith("Time (%),Total Time (ns),")
    assert ran.stdout.count("\n") == 1
    assert f"{name}: no data" in ran.stderr


def test_a_table_whose_rows_all_fall_away_is_an_answer(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(5, 9)], RUNTIME=[call(1, 2)], NVTX=[push(7, 8, "late")])
    ran = gpuledger("stats", path, "--report=nvtx_gpu_proj_sum", "--format=csv")
    assert (ran.exit_code, ran.stdout.count("\n")) == (0, 1)
    assert "nvtx_gpu_proj_sum: no data" in ran.stderr


def test_the_random_exports_are_reproducible(tmp_path: Path, unpacked: Callable[[str], Path]) -> None:
    """The generator still writes what NVIDIA was asked about, so that the set can be extended."""
    import sqlite3

    from support.profiles.random_export import write

    write(tmp_path / "again.sqlite", 7)
    dumps = []
    for path in (unpacked("random.tar") / "random007.sqlite", tmp_path / "again.sqlite"):
        database = sqlite3.connect(path)
        dumps.append(list(database.iterdump()))
        database.close()
    assert dumps[0] == dumps[1]
