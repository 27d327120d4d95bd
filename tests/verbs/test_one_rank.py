"""One rank of several: as if it had been recorded alone."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from gpuledger import GpuledgerError, diff, fleet, open_trace, ranges, steps, whatif
from gpuledger.analyse.ranks.rank import rank_traces
from gpuledger.jobs.run import fleet as run_fleet
from gpuledger.ledger.device import analyse_devices
from gpuledger.present.views.compare.fleet import rank_phases
from gpuledger.present.views.steps import steps_answer
from gpuledger.selection import SLOWEST, Selection
from support.command import ROOT, gpuledger

CAPTURES = ROOT / "captures"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Four processes on one GPU in one file, and a folder with a file for each of two ranks."""
    with TemporaryDirectory() as name, tarfile.open(CAPTURES / "nsys" / "two_nccl.tar.xz") as archive:
        archive.extractall(Path(name) / "two", filter="data")
        (Path(name) / "gloo.sqlite").write_bytes(lzma.decompress((CAPTURES / "serve" / "gloo.sqlite.xz").read_bytes()))
        yield Path(name)


def test_a_rank_of_a_file_is_what_it_would_be_alone(folder: Path) -> None:
    path = folder / "gloo.sqlite"
    alone = [one.trace for one in rank_traces(open_trace(path, cache=False), Selection())]
    for number, trace in enumerate(alone):
        [device] = analyse_devices(trace, "alone", Selection())
        rows = steps(path, wanted=Selection(rank=number)).steps
        assert rows == steps_answer("alone", trace, [device]).steps
    answers = ranges(path, ranks=(str(path),)), ranges(path, wanted=Selection(rank=2))
    visits = [{row.phase: row.visits for row in answer.phases}["attention"] for answer in answers]
    assert visits == [4 * 2 * 4, 5 * 2]  # steps, layers, and ranks: alone it has a steady step more
    assert diff(path, path, Selection(rank=1)).delta_ns == 0


def test_a_rank_of_a_folder_is_its_file_and_the_slowest_is_whom_others_wait_for(folder: Path) -> None:
    answers = [steps(folder / "two" / f"rank{number}.sqlite").steps for number in (0, 1)]
    assert [steps(folder / "two", wanted=Selection(rank=number)).steps for number in (0, 1)] == answers
    assert steps(folder / "two", wanted=Selection(rank=SLOWEST)).steps in answers
    faster = whatif(folder / "gloo.sqlite", [("host", 2.0)], wanted=Selection(rank=SLOWEST))
    assert "which saves" in faster.headline


def test_phases_by_rank_are_those_of_each_rank_alone(folder: Path) -> None:
    path = folder / "gloo.sqlite"
    shown = fleet(path, workers=0, phases=True)
    ranks = run_fleet([str(path)], Selection(), count=0, phases=True).job.ranks
    for number, rank in enumerate(ranks):
        of_rank = ranges(path, wanted=Selection(rank=number)).phases
        named = {phase: time for phase, time in rank.phases_ns if time}
        assert {each.phase: each.time_ns for each in of_rank if each.time_ns} == named
        assert sum(row.time_ns for row in shown.phases if row.rank == rank.label) == pytest.approx(
            sum(each.time_ns for each in of_rank) / rank.step_count
        )
    assert fleet(path, workers=0).phases == ()


def test_phases_by_rank_stand_in_the_order_of_a_layer(folder: Path) -> None:
    """Also one that the first rank has not: its window ends before the head."""
    whole = run_fleet([str(folder / "gloo.sqlite")], Selection(), count=0).job.ranks[0]
    phases_of = {"attention": 1, "idle": 1, "other work": 1}
    ranks = [replace(whole, phases_ns=tuple(times.items())) for times in (phases_of, {"lm_head": 1, **phases_of})]
    assert [row.phase for row in rank_phases(ranks)] == 2 * ["attention", "lm_head", "idle", "other work"]


def test_what_is_no_rank_is_refused(folder: Path) -> None:
    with pytest.raises(GpuledgerError, match="no rank 4 in it"):
        steps(folder / "gloo.sqlite", wanted=Selection(rank=4))
    with pytest.raises(GpuledgerError, match="no rank 2 in it"):
        steps(folder / "two", wanted=Selection(rank=2))
    with pytest.raises(GpuledgerError, match="no rank 1 in it"):
        steps(folder / "two" / "rank0.sqlite", wanted=Selection(rank=1))
    assert "expected a number, or slowest" in gpuledger("steps", folder / "gloo.sqlite", "--rank=x").stderr
