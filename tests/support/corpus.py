"""Profiles that others made, where they lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import ROOT

CORPUS = ROOT.parent / "shared" / "corpus" / "nsys"


FILES = sorted(CORPUS.glob("*.sqlite.xz"))


def corpus_file(ending: str) -> Path:
    """The one file whose name ends so; the test is skipped where the corpus is not there."""
    if not CORPUS.is_dir():
        pytest.skip("the corpus of third-party profiles is not here")
    [path] = [path for path in CORPUS.parent.glob("*/*") if path.name.endswith(ending)]
    return path
