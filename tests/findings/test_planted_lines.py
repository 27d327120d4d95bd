"""Programs with one planted line each, recorded on an H200: reports name it, and say no line that they do not know."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from gpuledger import open_trace
from gpuledger.attribution.lines import LinePlace
from gpuledger.findings.profiled_run import diagnose
from gpuledger.selection import Selection
from gpuledger.trace.spans import holds, union
from support.command import ROOT, gpuledger


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of all programs lie in one file, beside each of the exports."""
    unpacked = tmp_path_factory.mktemp("lines")
    with tarfile.open(ROOT / "captures" / "nsys" / "lines.tar.xz") as archive:
        archive.extractall(unpacked, filter="data")
    for export in unpacked.glob("*.sqlite"):
        (unpacked / f"{export.stem}.samples.gz").hardlink_to(unpacked / "all.samples.gz")
    return unpacked


def first_line(profile: Path) -> LinePlace:
    findings = diagnose(open_trace(profile), profile.name, Selection()).findings
    return next(piece.line for finding in findings for piece in finding.evidence if piece.line is not None)


@pytest.mark.parametrize(
    ("program", "where"),
    [
        ("item_deep", "at lines_helpers.py:30 in Meter._scalar"),
        ("lock", "at lines.py:198 in step"),
        ("retry_sleep", "at lines_helpers.py:52 in with_retries"),
        ("numpy_hot", "at lines.py:285 in step -> numpy/_core/fromnumeric.py argsort"),
        ("json_dump", "at lines.py:256 in step -> python3.12/json/__init__.py dump"),
        ("tokenizer", "at lines_helpers.py:61 in tokenize"),
        ("recompile_shape", "at lines.py:325 in step -> torch/_dynamo/eval_frame.py compile_wrapper"),
        ("pin_each_step", "at lines.py:241 in step"),
        ("checkpoint", "at lines.py:268 in save -> torch/serialization.py save"),
        ("loader_workers", "at lines.py:161 in step -> torch/utils/data/dataloader.py _BaseDataLoaderIter.__next__"),
    ],
)
def test_the_planted_line_is_named(folder: Path, program: str, where: str) -> None:
    assert first_line(folder / f"{program}.sqlite").whole.startswith(where)


def test_torchs_stacks_name_the_function_of_a_program_that_is_a_package(folder: Path) -> None:
    place = first_line(folder / "retry_sleep.stacks.json.gz")
    assert place.whole == "in with_retries, which begins at lab/programs/paired/lines_helpers.py:46 -> sleep"


def test_a_thread_that_sleeps_is_seen_there_when_the_system_says_so(folder: Path) -> None:
    trace = open_trace(folder / "retry_sleep.sqlite")
    samples, calls = trace["samples"], trace["calls"]
    stacks = [trace.stacks.texts(stack, trace.strings)[0] for stack in samples["stack"].tolist()]
    asleep = samples.where(np.array([frame.endswith("(lines_helpers.py:52)") for frame in stacks]))
    sleeps = calls.where(np.array(["sleep" in (name or "") for name in calls.texts("name")]))
    recorded, seen = union(sleeps["start_ns"], sleeps["end_ns"]), asleep["end_ns"]
    seen = seen[(seen >= recorded.start_ns[0]) & (seen <= recorded.end_ns[-1])]
    assert len(seen) > 40
    assert holds(recorded, seen).all()


def test_at_80_columns_the_line_number_is_not_cut(folder: Path) -> None:
    claim = gpuledger("report", folder / "retry_sleep.sqlite", COLUMNS="80").stdout
    assert "lines_helpers.py:52" in " ".join(claim.split())
    assert max(map(len, claim.splitlines())) <= 80
