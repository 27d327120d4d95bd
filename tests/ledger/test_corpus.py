"""Profiles that others made, where they lie beside the checkout: none of them may surprise the reader."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gpuledger import NotMeasured, Table
from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS, by_name
from gpuledger.present.views.nvidia import nvidia_sheet
from support.command import gpuledger
from support.profiles.corpus import FILES
from support.profiles.opened import plain, trace_of
from support.thorough import some

pytestmark = pytest.mark.skipif(not FILES, reason="no third-party profiles beside the checkout")


@pytest.fixture(params=some(FILES, 2), ids=lambda path: path.name.split("__")[-1])
def profile(request: pytest.FixtureRequest) -> Path:
    return plain(request.param)


def test_info_and_stats_answer_or_refuse_in_one_sentence(profile: Path) -> None:
    for verb in ("info", "stats"):
        ran = gpuledger(verb, profile)
        assert ran.exit_code == 0 or (ran.exit_code == 1 and ran.stdout == "" and ran.stderr.startswith("error: "))
        assert "Traceback" not in ran.stderr


def test_every_table_is_made_or_refused(profile: Path) -> None:
    trace = trace_of(profile)
    for report in NVIDIA_REPORTS.values():
        sheet = nvidia_sheet(report, trace)
        assert isinstance(sheet, NotMeasured) or all(len(row) == len(sheet.columns) for row in sheet.rows)


def test_totals_per_kernel_equal_an_independent_query(profile: Path) -> None:
    trace = trace_of(profile)
    if Table.KERNELS in trace.absent:
        pytest.skip("no kernels in this one")
    database = sqlite3.connect(f"{profile.as_uri()}?mode=ro", uri=True)
    asked = database.execute(
        "SELECT value, count(*), sum(end - start), min(end - start), max(end - start)"
        " FROM CUPTI_ACTIVITY_KIND_KERNEL LEFT JOIN StringIds ON id = demangledName GROUP BY value"
    ).fetchall()
    database.close()
    ours = {(g.name, g.times.count, g.times.total, g.times.least, g.times.most) for g in by_name(trace)}
    assert ours == set(asked)
