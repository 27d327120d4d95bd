"""Small files that could cost much: memory and time grow with what a file holds, not with its square."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gpuledger import build_report, open_trace
from gpuledger.catalog.kernel_names import parse, without_ids, without_tile
from gpuledger.errors import NothingRecorded
from gpuledger.findings.run_rules import MAX_GPUS
from gpuledger.jobs.run import fleet
from gpuledger.ledger import host
from gpuledger.ledger.activity import calls_in_layers
from gpuledger.read import archive
from gpuledger.read.stream import members
from gpuledger.replay import scenario
from gpuledger.replay.build import dependency_graph
from gpuledger.selection import Selection
from support.command import ROOT, gpuledger
from torture.bombs import BOMBS
from torture.growth import cpu_s, exponent, grown, peak_bytes

sys.path.append(str(ROOT / "benchmarks"))
gen_gpus: Any = importlib.import_module("gen_gpus")

NAMED = {bomb.name: bomb for bomb in BOMBS}


def reported(path: Path) -> object:
    return build_report(open_trace(path), path.name)


@pytest.mark.parametrize("name", ["one correlation id", "one correlation id, torch"])
def test_memory_of_a_report_grows_with_the_rows(tmp_path: Path, name: str) -> None:
    reported(NAMED[name].put(tmp_path, 10))  # what is loaded but once
    assert grown(NAMED[name], tmp_path, 500, 4, lambda path: peak_bytes(lambda: reported(path))) < 1.5


@pytest.mark.parametrize("unit", ["a", "_1", "128x", " ", "const ", "a::"])
def test_a_name_takes_time_by_its_length(unit: str) -> None:
    """20 kB of letters took seconds: each letter began a search for `::`."""

    def used(letters: int) -> float:
        name = f"k<{unit * (letters // len(unit))}x>"
        return cpu_s(lambda: (parse(name).bare, without_tile(name[2:-2]), without_ids(name)))

    used(100)
    assert exponent((4_000, 32_000), (max(used(4_000), 1e-3), max(used(32_000), 1e-3))) < 1.7


def test_ranges_in_ranges_take_time_by_their_number(tmp_path: Path) -> None:
    """2,000 levels took 49 s: each level was added to all around it, and sorted by all of them."""
    bomb = NAMED["nested ranges"]
    gpuledger("ranges", bomb.put(tmp_path, 10), "--no-cache")
    assert grown(bomb, tmp_path, 200, 8, lambda path: cpu_s(lambda: gpuledger("ranges", path, "--no-cache"))) < 1.7


def test_a_deep_nest_is_not_set_in_without_end(tmp_path: Path) -> None:
    """8,000 levels printed 128 MB of blanks: a row of the innermost was set in by 16,000."""
    bomb = NAMED["nested ranges"]
    assert grown(bomb, tmp_path, 400, 4, lambda path: len(gpuledger("ranges", path, "--no-cache").stdout)) < 1.2


@pytest.mark.parametrize(
    ("name", "table"), [("one correlation id", "cuda_kern_exec_sum"), ("ranges around kernels", "nvtx_kern_sum")]
)
def test_pairs_beyond_measure_are_refused_in_a_sentence(tmp_path: Path, name: str, table: str) -> None:
    ran = gpuledger("stats", NAMED[name].put(tmp_path, 2500), f"--report={table}", "--no-cache")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "5,000 rows of the profile pair up 6,250,000 times" in ran.stderr


@pytest.mark.parametrize("name", ["threads", "processes"])
def test_threads_do_not_look_for_their_rows_among_all(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each did: 50,000 threads took 26 s and then all memory, 20,000 processes 37 s."""
    chosen = []

    def counted(*arguments: Any) -> Any:
        chosen.append(arguments)
        return calls_in_layers(*arguments)

    monkeypatch.setattr(host, "calls_in_layers", counted)
    reported(NAMED[name].put(tmp_path, 40))
    assert len(chosen) < 5


def test_the_members_of_an_archive_are_read_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order their names are; each began at the archive's beginning, and 800 of 6 kB took 22 s."""
    path, begun = NAMED["members of an archive"].put(tmp_path, 50), []

    def counted(*arguments: Any) -> Any:
        begun.append(arguments)
        return members(*arguments)

    monkeypatch.setattr(archive, "members", counted)
    with pytest.raises(NothingRecorded, match="not one of 50 profiles"):
        fleet([str(path)], Selection(), count=0)
    assert len(begun) <= 2  # to list them, and to read them


@pytest.mark.parametrize("name", ["NVTX domains", "labels", "names without an index"])
def test_reading_takes_time_by_the_rows(tmp_path: Path, name: str) -> None:
    """Each domain, each label and each five hundred names went over all rows."""
    open_trace(NAMED[name].put(tmp_path, 10))
    assert grown(NAMED[name], tmp_path, 2_000, 8, lambda path: cpu_s(lambda: open_trace(path))) < 1.6


def python_calls(action: Callable[[], object]) -> int:
    """How many functions of the package are called, which does not depend on the machine."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and "gpuledger" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("layout", "verb", "more"),
    [
        ("threads", "report", ("--format=json",)),
        ("processes", "report", ()),
        ("one", "gaps", ()),
        ("processes", "ranges", ()),
        ("threads", "whatif", ()),
        ("threads", "ops", ()),
    ],
)
def test_work_grows_with_the_gpus(tmp_path: Path, layout: str, verb: str, more: tuple[str, ...]) -> None:
    """Each GPU had the graph of all built for it: four times the GPUs took 9 x the time, and 20 x the memory."""
    calls = []
    for gpus in (10, 10, 40):  # the first loads what is loaded but once
        path = gen_gpus.write(tmp_path / f"{gpus}.sqlite", gpus, layout, kernels=15)
        calls.append(python_calls(lambda path=path: gpuledger(verb, path, "--no-cache", *more)))  # type: ignore[misc]
    assert calls[2] < 4.4 * calls[1]


def test_one_graph_is_built_for_all_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def counted(*arguments: Any, **options: Any) -> Any:
        built.append(arguments)
        return dependency_graph(*arguments, **options)

    monkeypatch.setattr(scenario, "dependency_graph", counted)
    reported(gen_gpus.write(tmp_path / "gpus.sqlite", 6, "threads"))
    assert len(built) == 1


def test_a_report_says_how_many_gpus_it_did_not_look_at(tmp_path: Path) -> None:
    path = gen_gpus.write(tmp_path / "gpus.json", MAX_GPUS + 2, "threads", kernels=9)
    said = gpuledger("report", path, "--no-cache").stdout
    assert f"findings and pages are of {MAX_GPUS} of {MAX_GPUS + 2} GPUs" in " ".join(said.split())
    few = gen_gpus.write(tmp_path / "few.json", MAX_GPUS, "threads", kernels=9)
    assert "findings and pages" not in gpuledger("report", few, "--no-cache").stdout
