"""Fixtures of the timeline tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traces.rank_traces import generator


@pytest.fixture(scope="session")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eight") / "ranks"
    generator().write_job(folder, ranks=8, events=6 * 24 * 4 * 3, steps=3, late=2, packed=True)
    return folder
