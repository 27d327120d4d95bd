"""Places in real runs of `captures/places/places.py` on an H200: the host's time is lost in one known place each."""

from __future__ import annotations

import pytest

from gpuledger import open_trace
from gpuledger.findings.profiled_run import diagnose
from gpuledger.selection import Selection
from support.command import ROOT

PLACES = {
    "function": "ProfilerStep#, before aten::matmul",
    "after": "ProfilerStep#, after aten::relu",
    "loader": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "workers": "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
}
FUNCTIONS = {"function", "after", "loader"}
"""Where torch recorded stacks, the program's own function comes first; where it begins is known, not the line."""


@pytest.mark.parametrize("recorded", ["plain", "stacks"])
@pytest.mark.parametrize("mode", PLACES)
def test_the_place_that_was_planted_is_named(mode: str, recorded: str) -> None:
    run = diagnose(open_trace(ROOT / "captures" / "places" / f"{mode}.{recorded}.json.gz"), mode, Selection())
    first = run.findings[0]
    assert first.code == "HOST-CODE"
    place = next(piece for piece in first.evidence if PLACES[mode] in piece.sentence)
    assert place.share is not None
    assert place.share > 0.85
    if recorded == "stacks" and mode in FUNCTIONS:
        assert "in resize, which begins at places.py:19 -> numpy/fft" in first.sentences[0]
        assert first.claim.endswith(", mostly in resize, which begins at places.py:19")
