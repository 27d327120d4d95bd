"""Two runs compared: parts that sum, kernels that pair, refusals, formats, and what real captures say."""

from __future__ import annotations

import itertools
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import gpuledger as gpuledger_package
from gpuledger.analyse.diff.baseline import baseline_content, read_baseline
from gpuledger.analyse.diff.compare import MIX, OVERLAP, UNLIKE, Diff, changes, compare, parts, round_to_sum
from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.noise import Controls, controls
from gpuledger.analyse.diff.pairs import pair_kernels, pair_ranges
from gpuledger.analyse.diff.run_side import RunKernel, RunRange, RunSide, pool_runs
from gpuledger.catalog.kernel_names import label
from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import analyse_devices
from gpuledger.messages import say
from gpuledger.present.views.compare.diff import diff_answer
from gpuledger.present.writers import write
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.trace.measured import PrintedTable, PrintedTables, SummaryRow
from gpuledger.trace.model import NotMeasured
from gpuledger.verbs.compared_sides import told_apart
from support.command import NAMES, ROOT, gpuledger
from support.pages.schemas import schema_of
from support.profiles.nsys_exports import call, minimal, push
from support.profiles.nsys_exports import kernel as kernel_row
from support.profiles.torch_traces import CALL, KERNEL, KERNEL_ARGS, OP, saved
from support.thorough import some
from support.traces.diff_sides import kernel, side
from support.traces.trace_notation import trace

pytestmark = pytest.mark.usefixtures("profiles_read_once")

CORPUS = ROOT.parent / "shared" / "corpus"
TORCH = sorted((ROOT / "captures" / "torch").glob("*.json.gz"))


def read(path: Path, gpu: int | None = None, wanted: Selection | None = None) -> RunSide:
    trace = open_trace(path)
    devices = analyse_devices(trace, path.name, wanted or Selection())
    return side_of(trace, devices, busiest(devices, gpu), path.name)


@pytest.fixture(scope="module")
def captured(unpacked: Callable[[str], Path]) -> dict[str, RunSide]:
    """Every capture as a side."""
    nsys = {name: read(unpacked(f"{name}.sqlite")) for name in NAMES}
    return nsys | {f"torch/{path.name.removesuffix('.json.gz')}": read(path) for path in TORCH}


def by_name(diff: Diff) -> dict[str, int]:
    return {part.name: part.ns for part in diff.parts}


# Parts


def test_new_and_vanished_kernels_are_mix() -> None:
    shared = kernel("shared", 4, 4_000)
    before = side([10_000] * 4, [shared, kernel("old_gemm", 4, 2_000)])
    after = side([10_000] * 4, [shared, kernel("something_new", 4, 800)])
    diff = compare(before, after)
    assert by_name(diff)[MIX] == 200 - 500
    assert [change.pair.level for change in diff.changes] == ["place", "new", "vanished"]


def test_a_few_long_steps_are_unlike_steps() -> None:
    diff = compare(side([1_000] * 9, [kernel("k", 9, 900)]), side([1_000] * 8 + [10_000], [kernel("k", 9, 900)]))
    assert diff.delta_ns == 0
    assert by_name(diff)[UNLIKE] == -1_000
    assert by_name(diff)["idle.host_code"] == 1_000


def test_in_python_two_traces_are_enough(unpacked: Callable[[str], Path], captured: dict[str, RunSide]) -> None:
    loop, batched = (open_trace(unpacked(f"{name}.sqlite")) for name in ("moe_loop", "moe_batched_gemm"))
    diff = gpuledger_package.compare(loop, batched)
    assert diff.verdict == "faster"
    assert diff.delta_ns == compare(captured["moe_loop"], captured["moe_batched_gemm"]).delta_ns
    assert sum(part.ns for part in diff.parts) == diff.delta_ns


def test_a_host_of_another_pace_is_told_from_a_changed_program() -> None:
    """As seen on an H200: eager decode took 5 to 9 ms per step from run to run, with the same kernels and launches."""
    work = [kernel("k", 40, 40_000)]
    slow, fast = side([9_000] * 40, work), side([5_000] * 40, work)
    assert compare(slow, fast).is_host_alone
    text = write(diff_answer(compare(slow, fast)).document(), "text", width=80)
    assert "Careful: both sides run the same kernels" in text
    assert not compare(slow, slow).is_host_alone
    assert not compare(slow, side([5_000] * 40, work, launches=[1] * 40)).is_host_alone  # a graph
    assert not compare(slow, side([5_000] * 40, [kernel("k", 20, 20_000)])).is_host_alone
    assert not compare(slow, side([5_000] * 40, work, runs=[20, 20])).is_host_alone  # several runs show the noise


kernels = st.builds(
    kernel,
    st.sampled_from(["a", "b<1>", "b<2>", "nvjet_64x8_v", "nvjet_128x8_v", "ampere_sgemm_64x32_tn", "relu_kernel"]),
    calls=st.integers(1, 10**5),
    time_ns=st.integers(0, 10**7),
    grid=st.sampled_from([(1, 1, 1), (2, 1, 1)]),
    place=st.sampled_from([(), ("layer#",)]),
)


@st.composite
def sides(draw: st.DrawFn) -> RunSide:
    steps = draw(st.integers(1, 12))
    lengths = draw(st.lists(st.integers(0, 10**12), min_size=steps, max_size=steps))
    unique = {(drawn.bare, drawn.grid, drawn.place): drawn for drawn in draw(st.lists(kernels, max_size=8))}
    lines = {
        name: draw(st.lists(st.integers(0, 10**9), min_size=steps, max_size=steps))
        for name in draw(st.sets(st.sampled_from(["comm", "copy", "idle.launch", "idle.sync"])))
    }
    return side(lengths, [*unique.values()], lines=lines)


@given(sides(), sides())
def test_parts_sum_to_the_difference(before: RunSide, after: RunSide) -> None:
    diff = compare(before, after, anyway=True)
    assert sum(part.ns for part in diff.parts) == diff.delta_ns == after.median_ns - before.median_ns


@given(sides(), sides(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_part_of_both_sides_is_after_less_before(
    before: RunSide, after: RunSide, overlap_before: int, overlap_after: int
) -> None:
    overlapping = replace(before, overlap_ns=overlap_before), replace(after, overlap_ns=overlap_after)
    for part in diff_answer(compare(*overlapping, anyway=True)).parts:
        if part.before_ns is not None and part.after_ns is not None:
            assert abs(part.after_ns - part.before_ns - part.ns) <= 1, part  # each is rounded


def test_parts_that_shorten_a_step_are_below_zero_on_both_sides() -> None:
    before = replace(side([1_000] * 9, [kernel("k", 9, 900)]), overlap_ns=9 * 30)
    after = replace(side([1_000] * 8 + [10_000], [kernel("k", 9, 900)]), overlap_ns=9 * 50)
    rows = {row.part: (row.before_ns, row.after_ns, row.ns) for row in diff_answer(compare(before, after)).parts}
    assert (rows[OVERLAP], rows[UNLIKE]) == ((-30, -50, -20), (0, -1_000, -1_000))


@given(sides())
def test_against_itself_everything_is_zero(run: RunSide) -> None:
    diff = compare(run, run, anyway=True)
    assert diff.verdict == "no change"
    assert diff.delta_ns == 0
    assert all(part.ns == 0 for part in diff.parts)
    assert all(change.delta_ns == 0 for change in diff.changes)


def test_which_side_comes_first_does_not_change_the_pairs() -> None:
    before = side([0], [kernel("b<1>", time_ns=0), kernel("nvjet_64x8_v", time_ns=0)])
    after = side([0], [kernel("ampere_sgemm_64x32_tn", time_ns=2), kernel("a", time_ns=0)])
    there, back = (by_name(compare(*pair, anyway=True)) for pair in ((before, after), (after, before)))
    assert there == {name: -ns for name, ns in back.items()}


@given(sides(), sides())
def test_the_way_back_is_the_way_there(before: RunSide, after: RunSide) -> None:
    there, back = (by_name(compare(*pair, anyway=True)) for pair in ((before, after), (after, before)))
    assert there.keys() == back.keys()
    assert all(abs(there[name] + back[name]) <= 1 for name in there)


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20))
def test_rounded_numbers_sum_and_stay_near(amounts: list[float]) -> None:
    total = round(sum(amounts))
    whole = round_to_sum(amounts, total)
    assert sum(whole) == total
    assert all(abs(number - amount) <= 1.01 for number, amount in zip(whole, amounts, strict=True))


# Pairs


@given(st.lists(kernels, max_size=12), st.lists(kernels, max_size=12))
def test_every_kernel_is_in_exactly_one_pair(before: list[RunKernel], after: list[RunKernel]) -> None:
    pairs = pair_kernels(before, after)
    for given_kernels, held in ((before, [pair.before for pair in pairs]), (after, [pair.after for pair in pairs])):
        assert sorted(map(id, given_kernels)) == sorted(id(member) for group in held for member in group)
    assert all(bool(pair.before) == (pair.level != "new") for pair in pairs)
    assert all(bool(pair.after) == (pair.level != "vanished") for pair in pairs)


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        (kernel("k", place=("a",)), kernel("k", place=("a",)), "place"),
        (kernel("k", place=("a",)), kernel("k", place=("b",)), "shape"),
        (kernel("k", grid=(1, 1, 1)), kernel("k", grid=(2, 1, 1)), "name"),
        (kernel("void ns::k<(int)128>(int)"), kernel("k<128>"), "place"),
        (kernel("k<128>"), kernel("k<256>"), "function"),
        (
            kernel("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"),
            kernel("nvjet_sm90_tst_128x8_64x12_4x1_v_bz_TNT"),
            "function",
        ),
        (kernel("triton_poi_fused_add_12"), kernel("triton_poi_fused_add_7"), "function"),
        (kernel("ampere_sgemm_64x32_tn"), kernel("nvjet_sm90_tst_64x8_v"), "family"),
    ],
)
def test_levels_of_pairs(before: RunKernel, after: RunKernel, level: str) -> None:
    assert [pair.level for pair in pair_kernels([before], [after])] == [level]


def launched_by(name: str, operator: str, inputs: str = "", calls: int = 24) -> RunKernel:
    return replace(kernel(name, calls), operator=operator, inputs=inputs)


def test_kernels_whose_names_cannot_match_pair_by_the_operator_that_launched_them() -> None:
    flash, mm = "aten::_flash_attention_forward", "aten::mm"
    before = [
        launched_by("flash_fwd_kernel", flash),
        launched_by("sm90_gemm", mm, "[[8, 4], [4, 4]]"),
        launched_by("sm90_gemm_splitk", mm, "[[8, 4], [4, 4]]"),
        launched_by("sm90_wide_gemm", mm, "[[8, 4], [4, 16]]"),
        launched_by("reduce_old", ""),
    ]
    after = [
        launched_by("Cijk_wide", mm, "[[8, 4], [4, 16]]"),
        launched_by("attn_fwd", flash),
        launched_by("Cijk_small", mm, "[[8, 4], [4, 4]]"),
        launched_by("brand_new", "aten::new"),
    ]
    pairs = pair_kernels(before, after)
    assert {(pair.level, *(kernel.name for kernel in (*pair.before, *pair.after))) for pair in pairs} == {
        ("operator", "flash_fwd_kernel", "attn_fwd"),
        ("operator", "sm90_gemm", "sm90_gemm_splitk", "Cijk_small"),
        ("operator", "sm90_wide_gemm", "Cijk_wide"),
        ("new", "brand_new"),
        ("vanished", "reduce_old"),
    }


def test_an_operator_of_a_trace_pairs_kernels_of_two_gpus(tmp_path: Path) -> None:
    runs = []
    for gpu, name, length in (("NVIDIA H100", "flash_fwd_kernel", 4), ("AMD Instinct MI300X", "attn_fwd", 40)):
        events = [
            one | {"ts": float(str(one["ts"])) + 100 * turn, "args": (args | {"correlation": turn})}
            for turn in range(6)
            for one, args in (
                (OP, {"Input Dims": [[8, 4]]}),
                (CALL, {}),
                (KERNEL | {"name": name, "dur": length}, KERNEL_ARGS),
            )
        ]
        path = saved(tmp_path / f"{name}.json", events, deviceProperties=[{"id": 0, "name": gpu}])
        runs.append(path)
    assert read(runs[0]).kernels[0].operator == "aten::mm"
    ran = gpuledger("diff", *runs, "--anyway")
    assert ran.exit_code == 0
    assert "operator" in ran.stdout
    assert "vanished" not in ran.stdout


def test_generic_kernels_pair_by_what_is_called_in_them() -> None:
    names = [f"vectorized_elementwise_kernel<4, {what}<float>, 1>" for what in ("MulFunctor", "AddFunctor")]
    longer = [name.replace("1>", "2>") for name in names]
    pairs = pair_kernels([kernel(name) for name in names], [kernel(name) for name in reversed(longer)])
    assert {(pair.before[0].name[30:40], pair.after[0].name[30:40]) for pair in pairs} == {
        (name[30:40], name[30:40]) for name in names
    }


# May they be compared?


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("a/x.sqlite", "b/y.sqlite", ("x.sqlite", "y.sqlite")),
        ("cells/mode=loop/p.sqlite", "cells/mode=bmm/p.sqlite", ("mode=loop/p.sqlite", "mode=bmm/p.sqlite")),
        ("p.sqlite", "old/p.sqlite", ("p.sqlite", "old/p.sqlite")),
        ("/p.sqlite", "p.sqlite", ("/p.sqlite", "p.sqlite")),
        ("p.sqlite", "p.sqlite", ("p.sqlite", "p.sqlite")),
    ],
)
def test_files_of_one_name_are_told_apart_by_their_folders(before: str, after: str, names: tuple[str, str]) -> None:
    assert told_apart(before, after) == names


def test_a_run_with_steps_and_one_without_are_refused(captured: dict[str, RunSide]) -> None:
    with pytest.raises(GpuledgerError, match=r"graph.json.gz has steps .* graph_warm.json.gz has none"):
        compare(captured["torch/graph_warm"], captured["torch/graph"])


# Captures


def test_parts_sum_on_all_captures_pairwise(captured: dict[str, RunSide]) -> None:
    for before, after in itertools.permutations(captured.values(), 2):
        pairs = pair_kernels(before.kernels, after.kernels, before.steps, after.steps)
        amounts = parts(before, after, changes(pairs, before.steps, after.steps))
        assert sum(part.ns for part in amounts) == after.median_ns - before.median_ns


def test_random_exports_are_compared_without_surprise(unpacked: Callable[[str], Path]) -> None:
    paths = some(sorted(unpacked("random.tar").glob("*.sqlite")), 40)
    runs = [read(path) for path in paths]
    for before, after in itertools.pairwise(runs):
        diff = compare(before, after, anyway=True)
        assert sum(part.ns for part in diff.parts) == diff.delta_ns
        shown = diff_answer(diff).document()
        valid(json.loads(write(shown, "json")))
        assert max(map(len, write(shown, "text", width=80).splitlines())) <= 80
        assert write(shown, "md")


def test_every_capture_against_itself_is_no_change(captured: dict[str, RunSide]) -> None:
    for run in captured.values():
        diff = compare(run, run)
        assert (diff.verdict, diff.delta_ns) == ("no change", 0)
        assert all(part.ns == 0 for part in diff.parts)
        assert {change.pair.level for change in diff.changes} <= {"place", "name"}
        assert all(pair.unchanged for pair in diff.ranges)


def test_a_loop_against_one_batched_gemm(captured: dict[str, RunSide]) -> None:
    diff = compare(captured["moe_loop"], captured["moe_batched_gemm"])
    assert diff.verdict == "faster"
    assert 13 < diff.before.median_ns / diff.after.median_ns < 15
    before, after = diff.before.launches, diff.after.launches
    assert before is not None
    assert after is not None
    assert (before.calls / diff.before.steps, after.calls / diff.after.steps) == (488, 33)
    assert before.time_ns / before.calls < after.time_ns / after.calls  # fewer, and each of them dearer
    split = by_name(diff)
    assert min(split, key=lambda name: split[name]) == "idle.behind"
    assert isinstance(diff.controls, Controls)
    assert set(diff.controls.names) == {"dispatch_single", "combine_single"}
    renamed = [pair.name for pair in diff.ranges if pair.level == "renamed"]
    assert renamed == ["compute_loop -> compute_batched_gemm"]


def test_one_program_under_two_profilers_runs_the_same_kernels(captured: dict[str, RunSide]) -> None:
    diff = compare(captured["decode"], captured["torch/decode"])
    assert diff.overlap.before_share == diff.overlap.after_share == 1
    assert abs(by_name(diff)[MIX]) < 0.02 * diff.before.median_ns
    assert any("different profilers" in note for note in diff.notes)


@pytest.mark.skipif(not CORPUS.exists(), reason="no third-party profiles beside the checkout")
def test_a_training_step_of_two_gpus_with_op_ids(tmp_path: Path) -> None:
    runs = []
    for when in ("before", "after"):
        packed = CORPUS / "nsys" / f"GindaChen+nsys-ai__tests__fixtures__mfu_2gpu_{when}.sqlite.xz"
        path = tmp_path / f"{when}.sqlite"
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        runs.append(read(path, gpu=0, wanted=Selection(any_level=True)))
    diff = compare(*runs)
    assert sum(part.ns for part in diff.parts) == diff.delta_ns
    assert {change.pair.level for change in diff.changes if sum(change.ns) > 1_000} == {"place"}
    assert all(abs(change.calls[0] - change.calls[1]) < 0.1 for change in diff.changes)
    shared = [pair for pair in diff.ranges if pair.level == "name"]
    assert {"aten::linear", "aten::to", "FlashAttnFunc"} <= {pair.name for pair in shared}
    assert not any("op_id" in pair.name for pair in diff.ranges)
    assert any("GPU 1, not shown" in note for note in diff.notes)


@pytest.mark.skipif(not CORPUS.exists(), reason="no third-party profiles beside the checkout")
def test_a_training_step_on_another_gpu() -> None:
    stem = "facebookresearch+HolisticTraceAnalysis__tests__data__trace_diff__"
    control, test = (CORPUS / "torch" / f"{stem}{name}__{name}.json.gz" for name in ("control", "test"))
    ran = gpuledger("diff", control, test)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "different GPUs: NVIDIA A100-PG509-200, Tesla V100-SXM2-16GB" in ran.stderr
    content = json.loads(gpuledger("diff", control, test, "--anyway", "--format=json").stdout)
    assert sum(part["ns"] for part in content["parts"]) == content["step_delta_ns"]
    assert content["verdict"] == "slower"


# Ranges and controls


def a_range(
    name: str, host_ns: int, *, calls: dict[str, int] | None = None, wait_ns: int = 0, instances: int = 4
) -> RunRange:
    held = {"launch": 8} if calls is None else calls
    return RunRange(name, instances, host_ns, 0, wait_ns, (), held, {"k": 4})


def test_where_nothing_changed_there_is_no_control() -> None:
    same = side([1_000] * 4, ranges=[a_range("a", 4_000), a_range("b", 2_000)])
    guards = controls(same, same, pair_ranges(same.ranges or (), same.ranges or (), 4, 4), 0)
    assert isinstance(guards, NotMeasured)


def test_ranges_numbered_through_pair_without_their_numbers() -> None:
    old = [a_range(f"step {number}", 100, instances=1) for number in (1, 2)]
    new = [a_range(f"step {number}", 100, instances=1) for number in (7, 8)]
    [pair] = pair_ranges(old, new, 2, 2)
    assert (pair.level, pair.name) == ("numbers", "step #")
    assert pair.before is not None
    assert pair.before.instances == 2


SEED = {
    "loop": {
        "cuda_api_sum": [
            ("cudaMemcpyAsync", 475600, 2613668540),
            ("cudaStreamSynchronize", 442800, 1778504126),
            ("cudaLaunchKernel", 253800, 1662288454),
        ],
        "nvtx_sum": [
            (":combine_single", 200, 7024131684),
            (":dispatch_single", 200, 6526328065),
            (":compute_loop", 200, 4208569565),
        ],
        "cuda_gpu_kern_sum": [("copy_kernel", 51200, 75339544), ("gemvx::kernel<int, float>", 19600, 36531415)],
    },
    "batched": {
        "cuda_api_sum": [
            ("cudaMemcpyAsync", 559800, 2318022480),
            ("cudaStreamSynchronize", 494200, 2174905673),
            ("cudaLaunchKernel", 189000, 907236987),
        ],
        "nvtx_sum": [
            (":combine_single", 200, 5945415861),
            (":dispatch_single", 200, 5521849413),
            (":compute_batched_gemm", 200, 3173195501),
        ],
        "cuda_gpu_kern_sum": [("copy_kernel", 51200, 75334572), ("gemmSN_TN_kernel<float>", 200, 19217374)],
    },
}
"""Published tables of a mixture-of-experts layer, before and after its experts became one batched GEMM."""


def tables(name: str) -> PrintedTables:
    return PrintedTables(
        name,
        {
            report: PrintedTable(report, tuple(SummaryRow(text, count, total) for text, count, total in rows))
            for report, rows in SEED[name].items()
        },
    )


def test_tables_of_nsys_stats_tell_number_and_cost_of_launches_apart() -> None:
    before, after = (side_of_tables(tables(name), name) for name in ("loop", "batched"))
    diff = compare(before, after)
    assert (diff.verdict, isinstance(diff.interval, NotMeasured)) == (None, True)
    assert before.launches is not None
    assert after.launches is not None
    assert after.launches.calls / before.launches.calls - 1 == pytest.approx(-0.255, abs=5e-4)
    assert after.launches.time_ns / before.launches.time_ns - 1 == pytest.approx(-0.454, abs=5e-4)
    assert sum(part.ns for part in diff.parts) == diff.delta_ns
    assert isinstance(diff.controls, Controls)
    assert set(diff.controls.names) == {"combine_single", "dispatch_single"}
    assert diff.controls.ratio - 1 == pytest.approx(-0.154, abs=5e-4)
    [pair] = [pair for pair in diff.ranges if pair.level == "renamed"]
    assert pair.before is not None
    assert pair.after is not None
    raw = pair.after.host_ns / pair.before.host_ns
    assert raw - 1 == pytest.approx(-0.246, abs=5e-4)
    assert raw / diff.controls.ratio - 1 == pytest.approx(-0.109, abs=5e-4)


def test_names_that_nsys_cut_short_are_still_told_apart() -> None:
    names = [f"void at::native::elementwise_kernel<(int)128, (int){size}, void at::native::gpu_ker…" for size in (2, 4)]
    rows = tuple(SummaryRow(name, 1, 10) for name in names)
    printed = side_of_tables(PrintedTables("x", {"cuda_gpu_kern_sum": PrintedTable("cuda_gpu_kern_sum", rows)}), "x")
    assert len({held.bare for held in printed.kernels}) == 2
    assert {label(held.name).partition("…")[0] for held in printed.kernels} == {"elementwise_kernel"}


def test_ranges_of_tables_that_disagree_are_no_controls() -> None:
    def run(outer: int, inner: int) -> RunSide:
        rows = tuple(SummaryRow(name, 10, ns) for name, ns in ((":iter", outer), (":same", inner)))
        kernels = PrintedTable("cuda_gpu_kern_sum", (SummaryRow("k", 1, 10),))
        return side_of_tables(
            PrintedTables("x", {"nvtx_sum": PrintedTable("nvtx_sum", rows), "cuda_gpu_kern_sum": kernels}), "x"
        )

    old, new = run(1_000, 100), replace(run(500, 99), ranges=(*(run(500, 99).ranges or ()), RunRange("new", 10, 5)))
    assert isinstance(compare(old, new).controls, NotMeasured)
    named = compare(old, new, control="same").controls
    assert isinstance(named, Controls)
    assert named.ratio == pytest.approx(0.99)


# The command


def valid(content: Any, document: str = "diff") -> None:
    schema_of(document).validate(json.loads(json.dumps(content)))


@pytest.fixture(scope="module")
def moe(unpacked: Callable[[str], Path]) -> tuple[Path, Path]:
    return unpacked("moe_loop.sqlite"), unpacked("moe_batched_gemm.sqlite")


def test_a_baseline_stands_for_its_profile(moe: tuple[Path, Path], tmp_path: Path) -> None:
    saved = tmp_path / "base.json"
    ran = gpuledger("diff", moe[0], "--save-baseline", saved)
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr == f"Wrote {saved}\n"
    from_profile = json.loads(gpuledger("diff", *moe, "--format=json").stdout)
    from_baseline = json.loads(gpuledger("diff", saved, moe[1], "--format=json").stdout)
    assert from_baseline == from_profile
    again = gpuledger("diff", moe[0], "--save-baseline", saved)
    assert (again.exit_code, again.stderr.splitlines()[0]) == (1, f"error: {saved}: exists already")


def test_a_baseline_comes_back_as_it_was(captured: dict[str, RunSide]) -> None:
    for run in captured.values():
        assert read_baseline(baseline_content(run), "x") == run
        valid(json.loads(baseline_content(run)), "baseline")


def test_idle_time_is_told_by_trigger_and_against_an_older_baseline_by_cause(captured: dict[str, RunSide]) -> None:
    """A part is never the trigger of one side less the cause of the other, which may have the same name."""
    new = captured["decode"]
    content = json.loads(baseline_content(new))
    del content["idle_ns"]
    old = read_baseline(json.dumps(content).encode(), "old.json")
    assert not old.knows_triggers
    for before, after in ((old, new), (new, old)):
        assert {part.ns for part in compare(before, after).parts} == {0}
    behind = Line("idle.behind")
    assert behind in new.shown_mean_ns
    assert behind not in old.shown_mean_ns
    other = captured["graph"]
    assert by_name(compare(new, other))["idle.load"] == pytest.approx(-new.idle_ns["load"] / new.steps, abs=1)


def test_a_baseline_of_a_gpu_without_a_name(captured: dict[str, RunSide]) -> None:
    """What we call it is a sentence of ours, which can be said in another language; the file holds its text."""
    run = replace(next(iter(captured.values())), gpu_name=say("unknown GPU"))
    assert read_baseline(baseline_content(run), "x").gpu_name == "unknown GPU"


def test_a_baseline_of_a_file_whose_name_is_not_utf8(captured: dict[str, RunSide]) -> None:
    run = replace(next(iter(captured.values())), name="run\udcff\x9b.sqlite")
    content = baseline_content(run)
    assert b"\\u009b" in content
    assert read_baseline(content, "x").name == "run?\x9b.sqlite"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"length_ns": []}, "it has no steps"),
        ({"run_steps": [3]}, "its runs do not have its steps"),
        ({"books_ns": [[1, 2]] * 4}, "its books do not balance"),
        ({"idle_ns": {"load": 1}}, "its idle time is not that of its books"),
        ({"idle_ns": {"sunshine": 0}}, "its idle time is not that of its books"),
        ({"whole": "year"}, "whole is none of"),
        ({"kernels": [{"name": 1}]}, "Expected `str`, got `int`"),
        ({"schema": "gpuledger.baseline/9"}, "Invalid value 'gpuledger.baseline/9'"),
        ({"length_ns": None}, "Expected `array`, got `null`"),
        ({"length_ns": [10**400] * 4}, "a number in it is beyond what 64 bits hold"),
    ],
)
def test_a_damaged_baseline_is_refused_in_one_sentence(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    content = json.loads(baseline_content(side([100] * 4, [kernel("k", 4)])))
    with pytest.raises(UnreadableProfile, match=reason):
        read_baseline(json.dumps(content | change).encode(), "base.json")
    path = tmp_path / "base.json"
    path.write_text(json.dumps(content)[:300])
    ran = gpuledger("diff", path, path)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: base.json: not a whole baseline: ")


def test_several_runs_of_the_same_are_pooled(moe: tuple[Path, Path], tmp_path: Path) -> None:
    for folder, profile in zip(("before", "after"), moe, strict=True):
        (tmp_path / folder).mkdir()
        for number in range(2):
            (tmp_path / folder / f"run{number}.sqlite").write_bytes(profile.read_bytes())
    for sides_given in (("before", "after"), ("before/*.sqlite", "after/run?.sqlite")):
        ran = gpuledger("diff", *sides_given, "--format=json", cwd=tmp_path)
        assert ran.exit_code == 0
        content = json.loads(ran.stdout)
        assert (content["before"]["run_steps"], content["after"]["run_steps"]) == ([49, 49], [49, 49])
        assert sum(part["ns"] for part in content["parts"]) == content["step_delta_ns"]
    assert not any("One run a side" in note for note in content["notes"])


@given(sides(), sides())
def test_pooling_a_run_with_itself_changes_no_mean(run: RunSide, after: RunSide) -> None:
    twice = pool_runs([run, run], "twice")
    assert twice.mean_ns == run.mean_ns
    diff, expected = (compare(before, after, anyway=True) for before in (twice, run))
    assert [change.calls for change in diff.changes] == [change.calls for change in expected.changes]


def made_export(path: Path, lengths: list[int], name: str = "step") -> Path:
    """One kernel and one launch in each step, which takes so long."""
    rows: dict[str, list[dict[str, Any]]] = {"KERNEL": [], "RUNTIME": [], "NVTX": []}
    now = 0
    for number, length in enumerate(lengths, 1):
        rows["NVTX"].append(push(now, now + length - 10, name))
        rows["RUNTIME"].append(call(now + 10, now + 20, correlationId=number))
        rows["KERNEL"].append(kernel_row(now + 30, now + length - 20, correlationId=number))
        now += length
    return minimal(path, **rows)


def test_hostile_names_are_shown_harmless(tmp_path: Path) -> None:
    nasty = "<script>|`a`\x1b[31m"
    before = made_export(tmp_path / "a.sqlite", [1_000 + number % 3 for number in range(20)], nasty)
    after = made_export(tmp_path / "b.sqlite", [2_000 + number % 3 for number in range(20)], nasty)
    text = gpuledger("diff", before, after).stdout
    assert "\x1b" not in text
    assert "% slower" in text
    assert "<script>" not in gpuledger("diff", before, after, "--format=md").stdout
    content = json.loads(gpuledger("diff", before, after, "--format=json").stdout)
    assert content["ranges"][0]["range"] == nasty


def test_a_kernels_time_is_how_long_it_ran_and_overlap_is_a_part_of_its_own() -> None:
    """radixSort beside a GEMM: 28 us before; then 29 us, of which 4 beside nothing. It did not become faster."""
    apart = trace("s0: 0-30000 gemm", "s1: 30000-58000 radixSort")
    beside = trace("s0: 0-30000 gemm", "s1: 5000-34000 radixSort")
    sides = []
    for recorded in (apart, beside):
        devices = analyse_devices(recorded, "x", Selection())
        sides.append(side_of(recorded, devices, devices[0], "x"))
    changed = compare(*sides, anyway=True)
    each = {change.pair.first.bare: change.each_ns for change in changed.changes}
    assert each == {"gemm": (30_000, 30_000), "radixSort": (28_000, 29_000)}
    split: dict[str, int] = {part.name: part.ns for part in changed.parts}
    assert (split["time per call"], split["overlap"]) == (1_000, -25_000)
    assert sum(split.values()) == changed.after.median_ns - changed.before.median_ns == -24_000
