"""A metric of 0, or beyond all measure, in one launch of an ncu CSV costs no other launch its result."""

from __future__ import annotations

import csv
import io
import lzma
from pathlib import Path

import pytest

from gpuledger.read.ncu.reader import open_kernels
from support.command import ROOT, gpuledger


@pytest.mark.parametrize("value", ["0", "1e308"])
def test_a_peak_that_cannot_be_is_left_out(tmp_path: Path, value: str) -> None:
    text = lzma.decompress((ROOT / "captures/ncu/layer_raw.csv.xz").read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(text)))[:4]
    for column in (at for at, name in enumerate(rows[0]) if name.endswith("peak_sustained")):
        rows[2][column] = value
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    ran = gpuledger("kernels", path, "--format=json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    told = [note for note in open_kernels([path]).health if note.code == "values-implausible"]
    assert bool(told) is (value == "1e308")
