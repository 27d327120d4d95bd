"""Operators: who launched what, what it cost, how much arithmetic it was; checked against plain counts of the JSON."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import Table, Trace, open_trace
from gpuledger.analyse.light.operator_costs import operator_costs
from gpuledger.analyse.operators.arithmetic import COUNTERS, Inputs, parse_inputs, work_done
from gpuledger.analyse.operators.graph_launches import Runs
from gpuledger.analyse.operators.graph_places import graph_names
from gpuledger.analyse.operators.operators import Ops, nest, ops
from gpuledger.catalog.gpus import PEAKS, TYPES, peak_flops
from gpuledger.cli.main import verb_named
from gpuledger.errors import GpuledgerError
from gpuledger.ledger import ranges as ranges_module
from gpuledger.ledger.ranges import innermost
from gpuledger.present.views.work.operators import OpsAnswer, operator_sentences, ops_answer
from gpuledger.selection import Selection
from gpuledger.trace.model import Gpu, NotMeasured
from gpuledger.verbs.report import build_report
from support.command import ROOT
from support.profiles.opened import trace_of
from support.profiles.torch_traces import COUNTED, OURS
from support.traces.launched_ops import LAYER, Launch, Op, captured, graph_of, layers, traced, whole


def analysed(found: Sequence[Op], launches: Sequence[Launch]) -> Ops:
    trace = traced(found, launches)
    return ops(trace, whole(trace)[0])


# Examples.


def test_time_goes_to_the_innermost_operator_and_to_all_around_it() -> None:
    result = analysed(
        [Op("aten::linear", 0, 100), Op("aten::mm", 10, 60), Op("aten::empty", 20, 25), Op("aten::relu", 105, 120)],
        [Launch(30, 40, ((50, 250, "gemm"),)), Launch(70, 75, ((250, 260, "copy"),)), Launch(110, 115, ())],
    )
    by_name = {each.name: each for each in result.by_name}
    assert [each.name for each in result.by_name] == ["aten::mm", "aten::linear", "aten::relu", "aten::empty"]
    linear, mm = by_name["aten::linear"], by_name["aten::mm"]
    assert (linear.count, linear.host_ns, linear.host_self_ns) == (1, 100, 50)
    assert (linear.device_ns, linear.device_self_ns, linear.kernels, linear.launches) == (210, 10, 2, 2)
    assert (mm.host_ns, mm.host_self_ns, mm.device_ns, mm.device_self_ns, mm.kernels) == (50, 45, 200, 200, 1)
    assert (by_name["aten::relu"].host_self_ns, by_name["aten::relu"].device_ns) == (15, 0)
    assert (result.device_ns, result.attributed_ns, result.attributed_share) == (210, 210, 1.0)


def test_only_the_launching_thread_counts() -> None:
    found = [Op("forward", 0, 100, tid=1), Op("MmBackward0", 50, 90, tid=2)]
    result = analysed(found, [Launch(60, 70, ((80, 180, "gemm"),), tid=2), Launch(60, 70, ((200, 230, "k"),), tid=3)])
    assert {each.name: each.device_ns for each in result.by_name} == {"MmBackward0": 100}
    assert (result.attributed_ns, result.device_ns) == (100, 130)


def test_an_operator_inside_one_of_its_name_is_in_the_total_once() -> None:
    found = [Op("aten::to", 0, 100), Op("aten::to", 10, 60), Op("aten::copy_", 20, 50)]
    by_name = {each.name: each for each in analysed(found, [Launch(30, 40, ((50, 80, "copy"),))]).by_name}
    to = by_name["aten::to"]
    assert (to.count, to.host_ns, to.host_self_ns, to.device_ns, to.kernels, to.launches) == (2, 100, 70, 30, 1, 1)


def test_operators_are_told_apart_by_their_inputs() -> None:
    small, large = '[[2, 2], [2, 2]]\n["float", "float"]', '[[9, 9], [9, 9]]\n["float", "float"]'
    found = [Op("aten::mm", 0, 10, inputs=small), Op("aten::mm", 20, 30, inputs=large), Op("aten::mm", 40, 50)]
    launches = [Launch(at + 2, at + 4, ((at + 5, at + 6 + at, "gemm"),)) for at in (0, 20, 40)]
    result = analysed(found, launches)
    assert [(each.inputs, each.device_ns) for each in result.by_inputs] == [(None, 41), (large, 21), (small, 1)]
    assert [(each.count, each.device_ns) for each in result.by_name] == [(3, 63)]


def test_a_graph_belongs_to_the_operator_and_annotation_around_its_launch() -> None:
    graph = Launch(10, 20, ((30, 40, "a"), (40, 60, "b")), name="cudaGraphLaunch")
    found = [Op("replay", 0, 30), Op("decode", 0, 30, kind="push_pop"), Op("ProfilerStep#3", 0, 99, kind="push_pop")]
    result = analysed(found, [graph, Launch(50, 55, ((70, 80, "c"),))])
    [replayed] = result.by_name
    assert (replayed.kernels, replayed.launches, replayed.device_ns) == (2, 1, 30)
    assert (result.annotated_ns, result.attributed_ns, result.device_ns) == (30, 30, 40)  # a step is no annotation


def test_the_stretch_that_counts_is_by_the_work_not_by_the_host() -> None:
    """The host runs ahead: both operators ran before the first kernel did."""
    found = [Op("warm", 0, 10), Op("steady", 10, 20)]
    trace = traced(found, [Launch(2, 4, ((100, 200, "a"),)), Launch(12, 14, ((200, 300, "b"),))])
    [device] = build_report(trace, "test", Selection(time_ns=(150, None))).devices
    result = ops(trace, replace(device, steps=None))
    assert [(each.name, each.device_ns) for each in result.by_name] == [("steady", 100)]


# Laws.


def spread(tree: Any, start: int, level: int, found: list[Op], launches: list[Launch]) -> int:
    """Lays a tree of operators out in time: leaves are launches; gives where it ends."""
    at = start + 1
    name, below = tree
    mine = len(found)
    found.append(Op(name, start, start))
    for each in below:
        if isinstance(each, int):
            launches.append(
                Launch(at, at + 2, ((1000 * len(launches) + 10_000, 1000 * len(launches) + 10_000 + each, "k"),))
            )
            at += 3
        else:
            at = spread(each, at, level + 1, found, launches)
    found[mine] = Op(name, start, at + 1)
    return at + 2


names = st.sampled_from(["aten::a", "aten::b", "aten::c"])
trees = st.recursive(
    st.tuples(names, st.lists(st.integers(1, 500), max_size=3)),
    lambda below: st.tuples(names, st.lists(st.one_of(below, st.integers(1, 500)), max_size=4)),
    max_leaves=12,
)


@given(st.lists(trees, min_size=1, max_size=4), st.lists(st.integers(1, 500), min_size=1, max_size=3))
def test_books_of_any_nest_balance(forest: list[Any], loose: list[int]) -> None:
    found: list[Op] = []
    launches: list[Launch] = []
    at = 0
    for tree in forest:
        at = spread(tree, at, 0, found, launches)
    inside = sum(kernel[1] - kernel[0] for launch in launches for kernel in launch.kernels)
    for each in loose:
        launches.append(
            Launch(at, at + 1, ((1000 * len(launches) + 10_000, 1000 * len(launches) + 10_000 + each, "k"),))
        )
        at += 2
    result = analysed(found, launches)
    assert result.device_ns == inside + sum(loose)
    for groups in (result.by_name, result.by_inputs):
        assert sum(each.device_self_ns for each in groups) == result.attributed_ns == inside
        assert all(0 <= each.device_self_ns <= each.device_ns <= inside for each in groups)
        assert all(0 <= each.host_self_ns <= each.host_ns for each in groups)
        counted = [op for op, counts in zip(found, result.counted, strict=True) if counts]
        assert sum(each.count for each in groups) == len(counted)
    roots = [op for op in found if not any(o is not op and o.start <= op.start and op.end <= o.end for o in found)]
    if result.counted.all():
        assert sum(each.host_self_ns for each in result.by_name) == sum(op.end - op.start for op in roots)
    expected: Counter[str] = Counter()
    for launch in launches:
        around = {op.name for op in found if op.start <= launch.start and launch.end <= op.end}
        expected.update({name: sum(end - start for start, end, _ in launch.kernels) for name in around})
    assert {each.name: each.device_ns for each in result.by_name if each.device_ns} == dict(expected)


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(1, 2)), min_size=1, max_size=12)


@given(spans, spans)
def test_the_innermost_range_is_the_shortest_that_holds_the_call(
    ranges: list[tuple[int, int, int]], calls: list[tuple[int, int, int]]
) -> None:
    """Whatever the bounds: also for ranges that overlap without nesting, are empty, or have the same bounds."""
    found = [Op("o", start, start + length, tid) for start, length, tid in ranges]
    launches = [Launch(start, start + length, ((50, 51, "k"),), tid) for start, length, tid in calls]
    trace = traced(found, launches)
    rows, called = nest(trace, "op").rows, trace[Table.CALLS]
    for limit in (10**9, 1):  # all pairs at once, and bit by bit
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranges_module, "_MOST_PAIRS", limit)
            chosen = innermost(rows, called).tolist()
        for launch, at in zip(launches, chosen, strict=True):
            holding = [
                op.end - op.start
                for op in found
                if op.tid == launch.tid and op.start <= launch.start and launch.end <= op.end
            ]
            assert (found[at].end - found[at].start == min(holding)) if holding else at == -1


# Hostile.


def test_operators_that_overlap_without_nesting_cost_no_time_twice() -> None:
    found = [Op("outer", 0, 100), Op("left", 10, 60), Op("right", 40, 90)]
    result = analysed(found, [Launch(45, 50, ((60, 160, "k"),)), Launch(70, 80, ((160, 170, "k"),))])
    by_name = {each.name: each for each in result.by_name}
    assert by_name["outer"].host_self_ns == 20
    assert (by_name["outer"].device_ns, by_name["outer"].device_self_ns) == (110, 0)
    assert by_name["left"].device_self_ns + by_name["right"].device_self_ns == result.attributed_ns == 110


def test_kernels_without_a_launch_are_in_no_operator() -> None:
    trace = traced([Op("aten::mm", 0, 100)], [Launch(10, 20, ((30, 40, "k"),))])
    lost = trace[Table.KERNELS].replaced("correlation", np.array([77]))
    trace = replace(trace, tables={**trace.tables, Table.KERNELS: lost})
    result = ops(trace, whole(trace)[0])
    assert (result.attributed_ns, result.device_ns, result.attributed_share) == (0, 10, 0.0)


def test_without_operators_coverage_is_not_measured() -> None:
    result = analysed([], [Launch(10, 20, ((30, 40, "k"),))])
    assert (result.by_name, result.by_inputs) == ((), ())
    assert isinstance(result.attributed_share, NotMeasured)
    assert isinstance(result.annotated_share, NotMeasured)


def test_a_deep_nest_is_no_trouble() -> None:
    deep = 3000
    found = [Op("recursive", at, 10_000 - at) for at in range(deep)]
    result = analysed(found, [Launch(5000, 5001, ((20_000, 20_100, "k"),))])
    assert [(each.count, each.device_ns, each.host_ns) for each in result.by_name] == [(deep, 100, 10_000)]


# The same sums by another road: plain Python over the JSON.

CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
OPERATORS = ("cpu_op", "Operator")
WORK = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")


def plain_sums(path: Path) -> tuple[dict[str, int], dict[str, int], int]:
    """GPU time by operator name, self and total, and in all: events one by one, nothing of the package used."""
    with gzip.open(path) as file:
        recorded = json.load(file, parse_float=str)["traceEvents"]
    events = [event for event in recorded if event.get("ph") == "X" and event.get("cat") in (*CALLS, *OPERATORS, *WORK)]
    for event in events:
        event["start"] = int(Decimal(event["ts"]) * 1000)
        event["end"] = event["start"] + int(Decimal(event.get("dur", 0)) * 1000)
    calls: dict[int, Any] = {}
    for event in events:
        if event["cat"] in CALLS and "correlation" in event["args"]:
            known = calls.setdefault(event["args"]["correlation"], event)
            if event["start"] < known["start"]:
                calls[event["args"]["correlation"]] = event
    threads: dict[Any, list[Any]] = {}
    operators = [e for e in events if e["cat"] in OPERATORS and "ProfilerStep#" not in e["name"]]
    for event in [*operators, *calls.values()]:
        threads.setdefault((event["pid"], int(event["tid"])), []).append(event)
    around: dict[int, list[Any]] = {}
    for thread in threads.values():
        holding: list[Any] = []
        for event in sorted(thread, key=lambda each: each["start"]):  # operators before calls that begin with them
            holding = [op for op in holding if op["end"] >= event["start"]]
            if event["cat"] in OPERATORS:
                holding.append(event)
            else:
                around[event["args"]["correlation"]] = [op for op in holding if op["end"] >= event["end"]]
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    everything = 0
    for event in events:
        if event["cat"] in WORK:
            length = event["end"] - event["start"]
            everything += length
            holding = around.get(event.get("args", {}).get("correlation"), [])
            if holding and length:
                own[min(reversed(holding), key=lambda op: op["end"] - op["start"])["name"]] += length
                total.update(dict.fromkeys({op["name"] for op in holding}, length))
    return dict(own), dict(total), everything


@pytest.mark.parametrize("path", COUNTED, ids=lambda path: path.name.split("__")[-1])
def test_gpu_time_by_operator_equals_a_plain_count(path: Path) -> None:
    trace = trace_of(path)
    try:
        found = [ops(trace, device) for device in whole(trace)]
    except GpuledgerError:
        pytest.skip("no GPU work in this one")
    own, total, everything = plain_sums(path)
    ours: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for result in found:
        ours[0].update({each.name: each.device_self_ns for each in result.by_name if each.device_self_ns})
        ours[1].update({each.name: each.device_ns for each in result.by_name if each.device_ns})
    assert dict(ours[0]) == own
    assert dict(ours[1]) == total
    assert sum(result.device_ns for result in found) == everything


# How much work.

BF16 = "c10::BFloat16"


def inputs(*shapes: Sequence[int], kind: str = BF16) -> str:
    return f"{json.dumps(shapes)}\n{json.dumps([kind if shape else 'Scalar' for shape in shapes])}"


@pytest.mark.parametrize(
    ("name", "shapes", "flops"),
    [
        ("aten::mm", ([512, 2048], [2048, 3072]), 2 * 512 * 2048 * 3072),
        ("aten::addmm", ([640], [888, 2880], [2880, 640], [], []), 2 * 888 * 2880 * 640),
        ("aten::bmm", ([4, 1024, 64], [4, 64, 96]), 2 * 4 * 1024 * 64 * 96),
        ("aten::baddbmm", ([4, 10, 12], [4, 10, 11], [4, 11, 12]), 2 * 4 * 10 * 11 * 12),
        ("aten::matmul", ([2, 1, 3, 4], [5, 4, 6]), 2 * 2 * 5 * 3 * 4 * 6),
        ("aten::matmul", ([4], [4]), 2 * 4),
        ("aten::linear", ([4, 128, 2048], [3072, 2048], []), 2 * 4 * 128 * 2048 * 3072),
        ("aten::_grouped_mm", ([100, 64], [8, 64, 32]), 2 * 100 * 64 * 32),
        (
            "aten::_cudnn_attention_forward",
            ([4, 16, 1, 128], [4, 4, 147, 128], [4, 4, 147, 128]),
            4 * 4 * 16 * 147 * 128,
        ),
        ("aten::_flash_attention_forward", ([16, 559, 16, 64],) * 3, 4 * 16 * 16 * 559 * 559 * 64),
        ("aten::_cudnn_attention_backward", ([4, 16, 1024, 64],) * 4, 10 * 4 * 16 * 1024 * 1024 * 64),
        ("aten::mm", ([512, 2048], [2047, 3072]), None),
        ("aten::mm", ([512, 2048],), None),
        ("aten::_flash_attention_forward", ([559, 16, 64],) * 3, None),  # several lengths in one: not recorded
    ],
)
def test_operations_follow_from_shapes(name: str, shapes: tuple[list[int], ...], flops: int | None) -> None:
    read = parse_inputs(inputs(*shapes))
    assert read is not None
    counted = COUNTERS[name](read)
    assert (counted and counted.flops) == flops
    assert counted is None or counted.kind == "bf16"
    assert counted is None or counted.is_bound == ("attention" in name)


def test_the_rate_and_mfu_of_a_known_product() -> None:
    """As measured on an H200: 8192 x 8192 x 8192 in bf16 within 1,364,823 ns is 805.6 TFLOP/s, 81.4 % of 989.4."""
    square = inputs([8192, 8192], [8192, 8192])
    found = [Op("aten::matmul", 0, 100, inputs=square), Op("aten::mm", 10, 90, inputs=square)]
    trace = traced(found, [Launch(20, 30, ((100, 1_364_923, "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT"),))])
    [device] = whole(trace)
    done = work_done(trace, device, ops(trace, device))
    [work] = done.work  # matmul is not counted beside the mm inside it
    assert (work.name, work.count, work.flops, work.device_ns) == ("aten::mm", 1, 2 * 8192**3, 1_364_823)
    assert work.flops_per_s == pytest.approx(805.6e12, rel=1e-4)
    assert work.peak_share == pytest.approx(0.8142, abs=1e-4)
    assert device.steady_ns == 1_364_903  # from the launch call on
    assert done.mfu == pytest.approx(2 * 8192**3 / 989.4e12 / 1_364_903e-9)
    assert (done.coverage, done.is_bound, done.without_peak_share) == (1.0, False, 0.0)


@pytest.mark.parametrize(
    ("name", "shapes", "moved", "rows"),
    [
        ("aten::mm", ([8, 4096], [4096, 28672]), 2 * (8 * 4096 + 4096 * 28672 + 8 * 28672), 8),
        ("aten::linear", ([2, 4, 64], [32, 64], []), 2 * (8 * 64 + 64 * 32 + 8 * 32), 8),
        ("aten::addmm", ([32], [8, 64], [64, 32]), 2 * (8 * 64 + 64 * 32 + 8 * 32), 8),
        ("aten::bmm", ([4, 8, 64], [4, 64, 32]), 2 * 4 * (8 * 64 + 64 * 32 + 8 * 32), 0),
    ],
)
def test_a_product_moves_its_matrices_once(name: str, shapes: tuple[list[int], ...], moved: int, rows: int) -> None:
    read = parse_inputs(inputs(*shapes))
    assert read is not None
    counted = COUNTERS[name](read)
    assert counted is not None
    assert (counted.moved_bytes, counted.rows) == (moved, rows)


def product_of(rows: int, gpu: str = "NVIDIA H200", kind: str = BF16) -> Any:
    shapes = inputs([rows, 4096], [4096, 28672], kind=kind)
    return work_of([Op("aten::mm", 10, 90, inputs=shapes)], gpu=gpu).work[0]


def test_few_rows_are_bound_by_the_bytes_of_the_weights() -> None:
    few, many = product_of(8), product_of(4096)
    assert (few.is_memory_bound, many.is_memory_bound) == (True, False)
    assert few.memory_ns == pytest.approx(few.moved_bytes / 4_800, rel=1e-3)  # 4.8 TB/s
    assert few.roof_share == pytest.approx(few.memory_ns / few.device_ns)
    assert many.roof_share == pytest.approx(many.peak_share)


def test_a_product_without_peak_or_type_has_no_roof() -> None:
    for work in (product_of(8, gpu="some GPU"), product_of(8, kind="c10::Odd")):
        assert (work.is_memory_bound, work.roof_share) == (False, None)


def test_products_of_few_rows_are_a_matter_of_the_batch() -> None:
    """Said without a saving; nothing is said of products of many rows."""
    said = {}
    for rows in (8, 4096):
        shapes = inputs([rows, 4096], [4096, 28672])
        trace = traced([Op("aten::mm", 10, 90, inputs=shapes)], [Launch(20, 30, ((100, 160_100, "gemm"),))])
        [device] = whole(trace)
        said[rows] = " ".join(operator_sentences(device, operator_costs(trace, device)))
    assert "100.0 % of the GPU time is in matrix products of few rows (8 in the largest)" in said[8]
    assert "Up to about 100 rows take hardly longer" in said[8]
    assert "aten::mm with 8 rows is far from it, at 30." in said[8]
    assert "few rows" not in said[4096]


def work_of(found: list[Op], kernel: str = "gemm", gpu: str = "NVIDIA H200") -> Any:
    trace = traced(found, [Launch(20, 30, ((100, 1100, kernel),))], gpu=gpu)
    [device] = whole(trace)
    return work_done(trace, device, ops(trace, device))


def test_an_outer_operator_counts_where_nothing_inside_can_be_counted() -> None:
    [work] = work_of([Op("aten::linear", 0, 99, inputs=inputs([8, 16], [32, 16])), Op("custom", 10, 90)]).work
    assert (work.name, work.flops, work.device_ns) == ("aten::linear", 2 * 8 * 16 * 32, 1000)


def test_an_operator_that_launched_nothing_is_not_counted() -> None:
    done = work_of([Op("aten::mm", 0, 10, inputs=inputs([8, 16], [16, 32])), Op("other", 15, 90)])
    assert (done.work, done.flops) == ((), 0)
    assert isinstance(done.mfu, NotMeasured)
    assert done.coverage == 0.0


def test_an_unknown_gpu_has_no_mfu() -> None:
    done = work_of([Op("aten::mm", 0, 90, inputs=inputs([8, 16], [16, 32]))], gpu="Unheard-of 9000")
    assert done.work[0].flops_per_s is not None
    assert done.work[0].peak_share is None
    assert isinstance(done.mfu, NotMeasured)
    assert "Unheard-of 9000" in done.mfu.reason


@pytest.mark.parametrize(
    ("kernel", "gpu", "kind"),
    [
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x256x32", "NVIDIA H200", "tf32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_ffma", "NVIDIA H200", "fp32"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>", "NVIDIA H200", "fp32"),
        ("triton_mm", "NVIDIA H200", "fp32 or tf32"),
        ("triton_mm", "Tesla V100-SXM2-16GB", "fp32"),
    ],
)
def test_kernels_tell_whether_float_is_tf32(kernel: str, gpu: str, kind: str) -> None:
    [work] = work_of([Op("aten::mm", 0, 90, inputs=inputs([8, 16], [16, 32], kind="float"))], kernel, gpu).work
    assert work.kind == kind
    assert isinstance(work.peak, NotMeasured) == (kind == "fp32 or tf32")


def test_a_convolution_takes_its_output_from_the_backward_pass() -> None:
    images, weight, output = [32, 64, 56, 56], [128, 64, 3, 3], [32, 128, 28, 28]
    forward = Op("aten::cudnn_convolution", 0, 90, inputs=inputs(images, weight))
    back = Op("aten::convolution_backward", 200, 290, inputs=inputs(output, images, weight))
    once = 2 * 32 * 28 * 28 * 128 * 64 * 9
    [alone] = work_of([forward]).work
    assert (alone.flops, alone.is_bound) == (once * 4, True)  # as large as the input
    trace = traced([forward, back], [Launch(20, 30, ((100, 200, "c"),)), Launch(220, 230, ((300, 500, "c"),))])
    [device] = whole(trace)
    done = work_done(trace, device, ops(trace, device)).work
    assert {work.name: (work.flops, work.is_bound) for work in done} == {
        "aten::cudnn_convolution": (once, False),
        "aten::convolution_backward": (2 * once, True),
    }


@pytest.mark.parametrize(
    "text", [None, "", "\n", "[", "{}", "[1, 2]\nnull", '\n["float"]', "[[-1, 2]]", '[["a"]]\n[3]', "[[1e9]]"]
)
def test_odd_inputs_count_nothing(text: str | None) -> None:
    found = parse_inputs(text)
    assert found is None or all(counter(found) is None for counter in COUNTERS.values())


def test_inputs_are_read_however_they_are_laid_out() -> None:
    pretty = (
        json.dumps([[512, 2048], [2048, 3072], []], indent=2) + "\n" + json.dumps(["float", "", "Scalar"], indent=2)
    )
    found = parse_inputs(pretty)
    assert found is not None
    assert found[:2] == (((512, 2048), (2048, 3072), ()), ("float", "", "Scalar"))
    assert parse_inputs('\n["float"]') == Inputs((), ("float",))


@pytest.mark.parametrize(
    ("name", "kind", "tera"),
    [
        ("Tesla V100-SXM2-32GB", "fp16", 125),
        ("NVIDIA A100-SXM4-80GB", "bf16", 312),
        ("NVIDIA H100 80GB HBM3", "fp8", 1978.9),
        ("NVIDIA H100 PCIe", "bf16", 756),
        ("NVIDIA H200", "tf32", 494.7),
        ("NVIDIA B200", "bf16", 2250),
        ("NVIDIA L4", "bf16", 121),
        ("NVIDIA L40S", "fp8", 733),
        ("NVIDIA A10", "fp16", 125),
        ("NVIDIA GeForce RTX 4090", "fp16", 165.2),
        ("AMD Instinct MI250X", "bf16", 191.5),
        ("AMD Instinct MI300X", "bf16", 1307.4),
        ("Tesla V100-SXM2-32GB", "bf16", None),
        ("NVIDIA A10G", "fp16", 70),
        ("NVIDIA L40", "fp16", 181.05),
        ("NVIDIA H200 NVL", "fp16", None),
        ("NVIDIA GH200 480GB", "fp16", 989.4),
        ("NVIDIA GeForce RTX 4090 D", "fp16", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "fp16", None),
        ("", "fp16", None),
    ],
)
def test_peaks_are_dense_or_not_known(name: str, kind: str, tera: float | None) -> None:
    peak = peak_flops(Gpu(name), kind)
    assert isinstance(peak, NotMeasured) if tera is None else peak == pytest.approx(tera * 1e12)


def test_part_of_a_gpu_has_no_peak() -> None:
    assert isinstance(peak_flops(Gpu("AMD Instinct MI300X", sm_count=38), "bf16"), NotMeasured)
    assert peak_flops(Gpu("AMD Instinct MI300X", sm_count=304), "bf16") == 1307.4e12
    assert all(set(peaks.tera) <= set(TYPES) for peaks in PEAKS)


# Names for the work inside graphs.


def named(found: list[Op], launches: list[Launch]) -> tuple[dict[Any, int], float | None]:
    trace = traced(found, launches)
    result = graph_names(trace, whole(trace)[0])
    assert result.device_ns == sum(
        end - start for launch in launches if "Graph" in launch.name for start, end, _ in launch.kernels
    )
    return {each.path: each.count for each in result.work}, result.named_share


def test_a_graph_takes_the_names_of_an_equal_eager_run() -> None:
    found, launches, at = layers(0, 2, "warm_up")
    names_found, share = named(found, [*launches, graph_of(2, at), graph_of(2, at + 200, ("sampling",))])
    assert names_found[("warm_up", "layer0", "aten::norm")] == 2
    assert names_found[("warm_up", "layer1", "aten::gemm2")] == 2
    assert names_found[None] == 1
    assert share == pytest.approx(16 / 17)


def test_a_run_within_one_pass_is_preferred_to_one_across_two() -> None:
    first, launched, at = layers(0, 3, "pass")
    second, more, at = layers(at, 3, "pass")
    names_found, share = named([*first, *second], [*launched, *more, graph_of(3, at)])
    assert share == 1.0
    assert names_found[("pass", "layer2", "aten::attention")] == 1


def test_where_runs_differ_only_what_they_agree_on_is_a_name() -> None:
    found, launches, at = layers(0, 4, "pass")
    names_found, share = named(found, [*launches, graph_of(1, at)])  # any of the four layers would do
    assert share == 1.0
    assert set(names_found) == {(f"aten::{kernel}",) for kernel in LAYER}


def test_other_grids_and_short_runs_are_no_match() -> None:
    found, launches, at = layers(0, 2, "warm_up")
    other = [replace(launch, grid=7) for launch in launches]
    assert named(found, [*other, graph_of(2, at)]) == ({None: 8}, 0.0)
    short = Launch(
        at, at + 5, tuple((at + 9 * k, at + 9 * k + 5, n) for k, n in enumerate(("x", "y", "norm", "gemm"), 1))
    )
    assert named(found, [*launches, replace(short, name="cudaGraphLaunch")]) == ({None: 4}, 0.0)


def test_a_recorded_capture_names_the_nodes_in_order() -> None:
    found, launches, at = captured(0, LAYER)
    names_found, share = named(found, [*launches, graph_of(1, at), graph_of(1, at + 100)])
    assert names_found == {("capture", f"aten::{kernel}"): 2 for kernel in LAYER}
    assert share == 1.0


def test_a_capture_of_another_length_names_nothing() -> None:
    found, launches, at = captured(0, LAYER)
    assert named(found, [*launches, graph_of(2, at)]) == ({None: 8}, 0.0)


def test_two_captures_of_one_length_name_only_what_they_agree_on() -> None:
    first, launched, at = captured(0, ("norm", "gemm", "attention", "gemm2"))
    second, more, at = captured(at, ("norm", "gemm", "pooling", "gemm2"))
    names_found, share = named([*first, *second], [*launched, *more, graph_of(1, at)])
    agreed: dict[Any, int] = {("capture", f"aten::{kernel}"): 1 for kernel in ("norm", "gemm", "gemm2")}
    assert names_found == {**agreed, None: 1}
    assert share == 0.75


def test_an_equal_run_overrules_a_capture_that_denies_it() -> None:
    found, launches, at = layers(0, 1, "warm_up")
    lying, calls, at = captured(at, ("norm", "gemm", "attention", "other"))
    names_found, _ = named([*found, *lying], [*launches, *calls, graph_of(1, at)])
    assert ("warm_up", "layer0", "aten::gemm2") in names_found


def capture_named(name: str) -> Trace:
    folders = (ROOT / "captures" / "torch", ROOT.parent / "shared" / "captures" / "torch")
    path = next((folder / name for folder in folders if (folder / name).exists()), None)
    if path is None:
        pytest.skip(f"no {name} beside the checkout")
    return open_trace(path)


@pytest.mark.parametrize(("name", "outer"), [("graph_warm", "warm_up"), ("graph_capture_only", "capture")])
def test_a_real_graph_is_named_whole(name: str, outer: str) -> None:
    """Four layers, replayed five times; two warm-ups and the capture in the profile, or the capture alone."""
    trace = capture_named(f"{name}.json.gz")
    [device] = whole(trace)
    result = graph_names(trace, device)
    assert (result.launches, result.named_share) == (5, 1.0)
    counts = {each.path: each.count for each in result.work}
    for layer in range(4):
        for part in ("attention", "mlp"):
            assert counts[(outer, f"layer{layer}", part, "aten::matmul", "aten::mm")] == 2 * 5


def test_real_products_reach_what_was_measured() -> None:
    """An H200's products of 8192 x 8192 matrices, one of each type, in one trace."""
    trace = capture_named("work.json.gz")
    [device] = whole(trace)
    done = work_done(trace, device, ops(trace, device))
    rates = {(work.name, work.kind): (work.flops_per_s or 0) / 1e12 for work in done.work if work.flops == 2 * 8192**3}
    assert {key: round(rate) for key, rate in rates.items()} == {
        ("aten::mm", "bf16"): 806,
        ("aten::mm", "fp16"): 809,
        ("aten::_scaled_mm", "fp8"): 1590,
    }
    assert done.coverage == 1.0


symbols = st.lists(st.integers(0, 2), max_size=14)


@given(symbols, st.lists(symbols.filter(len), min_size=1, max_size=3))
def test_runs_are_the_longest_that_occur(eager: list[int], sequences: list[list[int]]) -> None:
    made = Runs(np.array(eager, np.intp), [np.array(each, np.intp) for each in sequences])
    for sequence, runs in zip(sequences, made, strict=True):
        covered = set()
        for run in runs:
            covered |= set(range(run.start, run.start + run.length))
            wanted = sequence[run.start : run.start + run.length]
            places = [at for at in range(len(eager)) if eager[at : at + run.length] == wanted]
            assert sorted(run.equal.tolist()) == places
            longer = sequence[run.start : run.start + run.length + 1]
            assert len(longer) == run.length or all(eager[at : at + len(longer)] != longer for at in range(len(eager)))
        assert covered == {at for at, symbol in enumerate(sequence) if symbol in eager}


# The tables and the verb.


def answer_of(trace: Trace) -> OpsAnswer:
    [device] = whole(trace)
    return ops_answer("a", trace, [device], [operator_costs(trace, device)])


def test_host_against_device() -> None:
    found = [Op("aten::to", 0, 60), Op("aten::_to_copy", 5, 55), Op("aten::copy_", 10, 50), Op("aten::item", 200, 290)]
    found += [Op("aten::embedding", 300, 340), Op("aten::_local_scalar_dense", 205, 280)]
    launches = [
        Launch(20, 30, ((40, 90, "cast"),)),
        Launch(210, 270, (), name="cudaStreamSynchronize"),
        Launch(310, 320, ((330, 360, "indexSelect"),), name="cuLaunchKernelEx"),
        Launch(350, 355, ((360, 400, "void deep_ep::intranode::dispatch<8>(int)"),)),
        Launch(370, 374, ((400, 410, "a"), (410, 420, "b")), name="cudaGraphLaunch"),
    ]
    host = answer_of(traced(found, launches)).host
    rows = [(row.kind, row.name, row.where, row.count, row.per_step, row.host_ns, row.gpu_ns) for row in host]
    assert rows == [
        ("launch call", "cudaLaunchKernel", None, 2, None, 15.0, 90.0),
        ("launch call", "cuLaunchKernelEx", None, 1, None, 10.0, 30.0),
        ("launch call", "cudaGraphLaunch", None, 1, None, 4.0, 20.0),
        ("dtype move", "aten::to", None, 1, None, 60.0, 50.0),
        ("dtype move", "aten::_to_copy", None, 1, None, 50.0, 50.0),
        ("dtype move", "aten::copy_", None, 1, None, 40.0, 50.0),
        ("indexing", "aten::embedding", None, 1, None, 40.0, 30.0),
        ("waiting call", "cudaStreamSynchronize", "aten::item > aten::_local_scalar_dense", 1, None, 60.0, None),
        ("communication kernel", "void deep_ep::intranode::dispatch<8>(int)", None, 1, None, 5.0, 40.0),
    ]


def test_every_row_has_a_cell_for_every_column() -> None:
    found, launches, at = layers(0, 2, "warm_up")
    found.append(Op("aten::mm", at, at + 50, inputs=inputs([8, 16], [16, 32])))
    trace = traced(found, [*launches, Launch(at + 10, at + 20, ((at + 30, at + 60, "gemm"),)), graph_of(2, at + 100)])
    answer = answer_of(trace)
    made = [answer.sheet(name, is_exact=is_exact) for name in answer.tables() for is_exact in (True, False)]
    assert [*answer.tables()] == ["coverage", "operators", "by_shape", "host", "graph_work"]
    assert all(len(row) == len(sheet.columns) for sheet in made for row in sheet.rows)
    assert all(sheet.rows for sheet in made)


def test_the_verb_names_the_operator_that_holds_the_host() -> None:
    """Of each decode step, about 45 ms go into one operator on the host, and hardly anything on the GPU."""
    ran = CliRunner().invoke(
        verb_named("ops"), [str(next(p for p in OURS if p.name.startswith("decode"))), "--format=json"]
    )
    assert ran.exit_code == 0
    slowest = max(json.loads(ran.stdout)["operators"], key=lambda row: row["host_self_ns"] or 0)
    assert slowest["name"] == "aten::_cudnn_attention_forward"
    assert slowest["host_self_ns"] / slowest["count"] > 4_000_000
