"""A range's share of the whole, and what a faster one buys: from tables that were printed, and from profiles."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.diff.run_side import KERNEL_TIME, RangeRole, RunRange, RunSide, range_shares
from gpuledger.changes.named_work import NamedKernels, NamedLines, NamedRanges, named_work
from gpuledger.errors import MeansSeveral
from gpuledger.ledger.device import analyse_devices
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from support.command import gpuledger

TWO_GPUS = {
    # name: instances, ns in all; the first of two tables, the second
    ":combine_all2all": (50, 778_325_358, 759_416_437),
    ":dispatch_all2all": (50, 622_989_600, 629_181_232),
    "NCCL:ncclCommDestroy": (2, 470_919_087, 413_897_143),
    "NCCL:ncclCommInitRankConfig": (2, 394_972_986, 374_980_291),
    ":compute": (50, 255_113_716, 321_413_433),
    "NCCL:ncclGroupEnd": (300, 109_803_916, 109_350_991),
    "NCCL:ncclBroadcast": (258, 105_473_720, 111_846_976),
}
"""Published sums of two ranks, with the communicators' set-up, and collectives inside the program's ranges."""


def table(path: Path, rows: dict[str, tuple[int, int]]) -> Path:
    lines = ["Time (%),Total Time (ns),Instances,Avg (ns),Style,Range"]
    lines += [f"1.0,{total},{count},{total / count},PushPop,{name}" for name, (count, total) in rows.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, Path]:
    first, second = (
        table(tmp_path / f"{name}_nvtx_sum.csv", {range_: (row[0], row[at]) for range_, row in TWO_GPUS.items()})
        for at, name in ((1, "loop"), (2, "batched"))
    )
    return first, second


def side(**ranges: tuple[int, int]) -> RunSide:
    held = tuple(RunRange(name, count, total) for name, (count, total) in ranges.items())
    return RunSide("x", "nsys", KERNEL_TIME, None, (1,), (0,), ranges=held)


def shares(of: RunSide) -> dict[str, float]:
    found = range_shares(of)
    return {each.name: share for each in of.ranges or () if (share := found.share(each)) is not None}


def test_published_tables_give_the_share_of_compute_with_set_up_left_out(published: tuple[Path, Path]) -> None:
    ran = gpuledger("diff", *published, COLUMNS="100")
    [compute] = [line for line in ran.stdout.splitlines() if line.startswith("compute ")]
    assert re.search(r" 15\.4 % +18\.8 %$", compute), compute
    for path, share in zip(published, (15.4, 18.8), strict=True):
        rows = json.loads(gpuledger("ranges", path, "--format=json").stdout)["printed"]
        assert {row["range"]: row["share"] for row in rows}["compute"] == pytest.approx(share / 100, abs=5e-4)
        assert sum(row["share"] or 0 for row in rows) == pytest.approx(1)


def test_amdahl_for_a_range_of_a_table(published: tuple[Path, Path]) -> None:
    ran = gpuledger("whatif", published[0], "--speedup=compute=10", "--format=json")
    told = json.loads(ran.stdout)
    (row,) = told["changes"]
    assert row["part_ns"] / row["now_ns"] == pytest.approx(0.154, abs=5e-4)
    assert row["saving_share"] == pytest.approx(0.139, abs=5e-4)
    assert (row["speed_up"], row["limit"]) == pytest.approx((1 / (1 - 0.9 * 0.154), 1 / (1 - 0.154)), abs=1e-3)
    assert told["sentences"][0] == "compute 10x faster: 1.66 s becomes 1.43 s, which saves 230 ms (13.9 %)."
    assert any(row["assumption"] in sentence for sentence in told["sentences"])


def test_a_range_that_is_the_whole_may_take_no_time_at_all(tmp_path: Path) -> None:
    alone = table(tmp_path / "alone_nvtx_sum.csv", {":compute": (1, 1000)})
    ran = gpuledger("whatif", alone, "--speedup=compute=1e6", "--format=json")
    (row,) = json.loads(ran.stdout)["changes"]
    assert (row["then_ns"], row["speed_up"], row["limit"]) == (0, None, None)


def test_a_round_that_holds_the_others_is_the_whole() -> None:
    nested = side(iter=(50, 1000), compute=(50, 900), dispatch=(50, 60), warmup=(1, 5000))
    assert shares(nested) == {"iter": 1.0, "compute": 0.9, "dispatch": 0.06}
    assert range_shares(nested).names(RangeRole.SET_UP) == ["warmup"]


def test_ranges_of_equal_length_are_not_taken_to_hold_each_other() -> None:
    assert shares(side(attention=(10, 95), mlp=(10, 100))) == pytest.approx({"attention": 95 / 195, "mlp": 100 / 195})


def test_where_a_library_alone_marks_ranges_they_are_the_whole() -> None:
    only = side(**{"NCCL:ncclSend": (10, 30), "NCCL:ncclRecv": (10, 10), "NCCL:ncclCommInitRank": (1, 500)})
    assert shares(only) == {"NCCL:ncclSend": 0.75, "NCCL:ncclRecv": 0.25}


NAMES = ("iter", "compute", "combine", "NCCL:ncclSend", "load_model", "step", "NCCL:ncclCommInit")


@given(st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(1, 100), st.integers(0, 10**9))))
def test_shares_are_shares_and_every_range_has_a_role(ranges: dict[str, tuple[int, int]]) -> None:
    given_side = side(**ranges)
    found = range_shares(given_side)
    assert found.roles.keys() == ranges.keys()
    counted = shares(given_side)
    assert all(0 <= share <= 1 for share in counted.values())
    holding = found.names(RangeRole.HOLDS)
    if found.whole_ns and not holding:
        assert sum(counted.values()) == pytest.approx(1)


def test_what_is_no_part_of_the_whole_is_refused_by_name(published: tuple[Path, Path]) -> None:
    for name, said in (("NCCL:ncclGroupEnd", "is a library's, so it is no part of the whole"), ("x", "has no range")):
        ran = gpuledger("whatif", published[0], f"--speedup={name}=2")
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert said in ran.stderr
    assert gpuledger("whatif", published[0], "--remove=sync").exit_code == 2


@pytest.mark.parametrize("verb", ["report", "gaps", "steps"])
def test_tables_given_for_a_profile_are_told_what_they_are(verb: str, published: tuple[Path, Path]) -> None:
    for path in (published[0], f"{published[0]}::1"):
        ran = gpuledger(verb, path)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert "holds tables of `nsys stats`, not a timeline" in ran.stderr
        assert "nvtx_sum" in ran.stderr
    assert "holds one run, so there is no 7" in gpuledger(verb, f"{published[0]}::7").stderr


def test_text_without_tables_is_no_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n\nNothing was measured.\n")
    for given_path in (path, f"{path}::2"):
        ran = gpuledger("report", given_path)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert "archive" not in ran.stderr


def test_a_profile_answers_by_the_names_that_its_report_prints(unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked("moe_loop.sqlite"))
    (device,) = analyse_devices(trace, "x", Selection())
    names = ("idle.launch", "idle: launch calls", "launch calls", "launch")
    assert len({named_work(trace, device, name).time_ns for name in names}) == 1
    loop = named_work(trace, device, "iter > compute_loop")
    assert isinstance(loop, NamedRanges)
    assert loop.time_ns == named_work(trace, device, "compute_loop").time_ns
    assert loop.time_ns / device.steady_ns == pytest.approx(0.949, abs=1e-3)
    assert named_work(trace, device, "iter").time_ns == pytest.approx(device.steady_ns, rel=1e-3)
    kernel = named_work(trace, device, "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_NNT")
    assert isinstance(kernel, NamedKernels)
    assert 0 < kernel.time_ns <= named_work(trace, device, "gemm").time_ns


def test_every_line_that_a_report_prints_is_a_name(decode: Path) -> None:
    trace = open_trace(decode)
    (device,) = analyse_devices(trace, "x", Selection())
    for language in ("en", "zh"):
        shown = gpuledger("report", decode, "--format=md", f"--lang={language}").stdout
        cells = [line.split("|")[1].strip().replace("\\", "") for line in shown.splitlines() if line.startswith("| ")]
        names = cells[1:-1]  # between the heading and the total
        assert len(names) > 5
        assert {type(named_work(trace, device, f"line:{name}")) for name in names} == {NamedLines}


def test_a_name_of_a_line_and_of_a_range_is_refused_with_both_spellings(unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked("decode.sqlite"))
    (device,) = analyse_devices(trace, "x", Selection())
    with pytest.raises(MeansSeveral, match="'attention' means 2 things") as refused:
        named_work(trace, device, "attention")
    assert refused.value.hint == "say which: line:attention or range:attention"
    assert isinstance(named_work(trace, device, "line:attention"), NamedLines)
    ranged = named_work(trace, device, "range:attention")
    assert isinstance(ranged, NamedRanges)
    assert ranged.time_ns == named_work(trace, device, "layer# > attention").time_ns


def test_shares_of_a_profiles_ranges_are_of_its_steady_steps(unpacked: Callable[[str], Path]) -> None:
    ran = gpuledger("ranges", unpacked("decode.sqlite"), "--format=json")
    rows = {row["range"]: row["share"] for row in json.loads(ran.stdout)["ranges"]}
    assert rows["bench:decode"] == pytest.approx(1, abs=5e-4)
    assert rows["bench:prefill"] is None
