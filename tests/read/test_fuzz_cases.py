"""Every input that a fuzzer ever broke a reader with: each now gives a result, or a refusal in one sentence."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from gpuledger.config import user_families
from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.read import btree, open_trace
from gpuledger.read.ncu.reader import open_kernels
from gpuledger.read.ncu.rep_file import walk
from gpuledger.read.source import look_at
from gpuledger.read.sqlite import open_sqlite
from gpuledger.read.stats_text.tables import runs_in
from gpuledger.runbook.engine import runbook_text
from gpuledger.runbook.read import runbook_of
from gpuledger.selection import Selection
from gpuledger.verbs.report import build_report
from support.command import ROOT

CASES: Final = sorted((ROOT / "tests" / "fuzz_cases").iterdir())


def _trace(path: Path) -> object:
    """A profile, and all that is said of it."""
    return build_report(open_trace(path, cache=False), "case", Selection()).to_dict()


def _folder(path: Path) -> object:
    """A case that is the strings of an export."""
    pytest.importorskip("pyarrow")
    export = path.parent / "export"
    export.mkdir()
    shutil.copy(path, export / f"StringIds{path.suffix}")
    return _trace(export)


READ: Final[dict[str, Callable[[Path], object]]] = {
    ".sqlite": _trace,
    ".json": _trace,
    ".gz": _trace,
    ".arrow": _folder,
    ".parquet": _folder,
    ".csv": lambda path: open_kernels([path], every_metric=True),
    ".ncu-rep": lambda path: walk(look_at(path), DEFAULT_LIMITS),
    ".txt": runs_in,
    ".toml": user_families,
    ".yaml": lambda path: runbook_of(runbook_text(path), path.name),
}
"""How a case is read, by the end of its name."""


OPEN: Final[dict[str, str]] = {}
"""Cases that still break a reader, and why."""


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a_case_gives_a_result_or_a_refusal(case: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if case.name in OPEN:
        request.applymarker(pytest.mark.xfail(reason=OPEN[case.name]))
    path = Path(shutil.copy(case, tmp_path))
    with suppress(GpuledgerError):
        assert READ[case.suffix](path) is not None


def test_what_a_case_of_damage_says(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = Path(shutil.copy(ROOT / "tests" / "fuzz_cases" / "offsets-beyond-the-text.arrow", tmp_path))
    with pytest.raises(GpuledgerError, match="a damaged export"):
        _folder(path)


@pytest.mark.skipif(not btree.is_there(), reason="the decoder was not compiled")
def test_a_key_is_the_rows_id_whatever_is_stored_in_its_place() -> None:
    """SQLite never looks at what a record holds for such a column; a changed file holds something."""
    case = ROOT / "tests" / "fuzz_cases" / "key-column-holds-a-value.sqlite"
    with open_sqlite(look_at(case), DEFAULT_LIMITS, lambda _table, _rows: None) as export:
        ours, theirs = export._decode("t", ["a", "b"]), export._query("t", ["a", "b"])
    assert ours is not None
    for column in ("a", "b"):
        np.testing.assert_array_equal(ours.columns[column], theirs.columns[column])


@pytest.mark.skipif(not btree.is_there(), reason="the decoder was not compiled")
def test_a_circle_of_overflow_pages_is_not_walked() -> None:
    """Its 84 rows share one page, which was read eleven million times before the decoder gave in."""
    case = ROOT / "tests" / "fuzz_cases" / "overflow-pages-in-a-circle.sqlite"
    with open_sqlite(look_at(case), DEFAULT_LIMITS, lambda _table, _rows: None) as export:
        assert export._decode("t", ["b"]) is None


@pytest.mark.skipif(not btree.is_there(), reason="the decoder was not compiled")
def test_records_that_lie_over_each_other_are_not_multiplied(tmp_path: Path) -> None:
    """One page whose 4,000 cells are one text of 50 kB: 200 MB, if each were taken."""
    path = tmp_path / "over.sqlite"
    _write_one_cell_many_times(path, cells=4000, text_bytes=50_000)
    with open_sqlite(look_at(path), DEFAULT_LIMITS, lambda _table, _rows: None) as export:
        assert export._decode_texts("t", "a") is None
        assert export._decode("t", ["a"]) is None


def _write_one_cell_many_times(path: Path, cells: int, text_bytes: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA page_size = 65536")
        database.execute("CREATE TABLE t (a TEXT)")
        database.execute("INSERT INTO t VALUES (?)", ("x" * text_bytes,))
    content = bytearray(path.read_bytes())
    page = memoryview(content)[65536:131072]  # the second page is the table's only leaf
    where = bytes(page[8:10])
    page[3:5] = cells.to_bytes(2, "big")
    page[8 : 8 + 2 * cells] = where * cells
    page.release()
    path.write_bytes(content)


def test_the_harness_still_fuzzes(tmp_path: Path) -> None:
    """Every target takes its own seeds and gives a result: a harness that only fails finds nothing."""
    pytest.importorskip("pyarrow")
    asked = [sys.executable, str(ROOT / "fuzz" / "readers.py"), "all", "3", f"--found={tmp_path}"]
    ran = subprocess.run(
        asked, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    lines = [line for line in ran.stdout.splitlines() if " runs, " in line]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(lines) >= 10
    assert all("0 findings" in line and ", 0 with a result" not in line for line in lines), ran.stdout
