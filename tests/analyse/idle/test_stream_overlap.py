"""Kernels that overlap on one stream: counted, named, and no longer than what they share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Trace, open_trace
from gpuledger.analyse.idle.overlap import StreamOverlap, stream_overlap
from gpuledger.ledger.device import analyse_devices
from gpuledger.selection import Selection
from support.command import ROOT, gpuledger
from support.profiles.opened import plain
from support.traces.trace_notation import trace


def overlap_of(made: Trace) -> StreamOverlap:
    [device] = analyse_devices(made, "test", Selection())
    return stream_overlap(made, device)


@pytest.fixture(scope="module")
def pdl() -> Path:
    """One program with and without programmatic dependent launch."""
    return plain(ROOT / "captures" / "nsys" / "pdl.tar.xz")


@pytest.mark.parametrize(("name", "early"), [("dependent", True), ("serial", False)])
def test_dependent_launches_of_a_real_program(pdl: Path, name: str, early: bool) -> None:
    """Each consumer begins some 10 us before its producer ends, if its launch allows it."""
    found = overlap_of(open_trace(pdl / f"{name}.sqlite"))
    if not early:
        assert (found.kernels, found.overlap_ns, found.pairs) == (0, 0, ())
        return
    [pair] = found.pairs
    assert ("producer" in pair.before, "consumer" in pair.name, pair.count == found.kernels) == (True, True, True)
    assert 9_000 < found.overlap_ns / found.kernels < 11_000


def test_the_verb_says_so(pdl: Path) -> None:
    told = " ".join(gpuledger("gaps", pdl / "dependent.sqlite").stdout.split())
    assert "On one stream, 4 kernels per step begin before the one before them ends" in told
    assert "programmatic dependent launch" in told
    assert "On one stream" not in gpuledger("gaps", pdl / "serial.sqlite").stdout


kernels = st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(1, 20))


@given(st.lists(kernels, min_size=1, max_size=12))
def test_overlap_is_what_durations_have_more_than_they_cover(made: list[tuple[int, int, int]]) -> None:
    found = overlap_of(trace(*(f"s{stream}: {start}-{start + length} k" for stream, start, length in made)))
    more = 0
    for stream in range(3):
        mine = [(start, start + length) for owner, start, length in made if owner == stream]
        covered = {instant for start, end in mine for instant in range(start, end)}
        more += sum(end - start for start, end in mine) - len(covered)
    assert found.overlap_ns == more == sum(pair.overlap_ns for pair in found.pairs)
