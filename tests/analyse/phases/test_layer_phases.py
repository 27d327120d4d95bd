"""The phases of a layer: which nanosecond is of which, and that they sum to the step."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger import build_report, open_trace
from gpuledger.analyse.phases.phase_costs import (
    PhaseCosts,
    PhaseGapRow,
    PhaseTimes,
    phase_costs,
    phase_pieces,
    sampled_phases,
)
from gpuledger.analyse.phases.work_phases import NOWHERE, work_phases
from gpuledger.analyse.ranks.job import Job, job
from gpuledger.analyse.ranks.phase_waits import ONE_RANK, KnownJob, phase_waits
from gpuledger.analyse.ranks.rank import rank_summary
from gpuledger.catalog.range_names import layer_of_range, phase_of_range
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.steps import PHASES
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import total
from support.command import ROOT, gpuledger
from support.pages.schemas import schema_of
from support.profiles.nsys_exports import kernel, minimal
from support.traces.book_checks import analysed
from support.traces.program import Program
from support.traces.trace_notation import trace


def costs(of: Trace, wanted: Selection | None = None, asked: tuple[tuple[str, str], ...] = ()) -> PhaseCosts:
    [device] = analysed(of, wanted)
    return phase_costs(of, device, asked)


def busy(of: PhaseCosts) -> dict[str, int]:
    return {cost.phase: cost.time_ns for cost in of.phases}


def layered(steps: int = 4, layers: int = 2) -> Trace:
    """A step of layers with ranges as `gpuledger bench serve` has them, and a sampled token."""
    program = Program()
    for step in range(steps):
        with program.range(f"step {step}"):
            for layer in range(layers):
                with program.range(f"layer{layer}"):
                    with program.range("attention"):
                        program.kernel("gemm", 20)
                        program.kernel("flash_fwd", 30)
                    program.kernel("rms_norm", 10)
                    with program.range("dispatch"):
                        program.kernel("ncclDevKernel_SendRecv", 40)
                    program.host(100)
                    with program.range("expert_gemm"):
                        program.kernel("gemm", 50)
                    with program.range("combine"):
                        program.kernel("ncclDevKernel_SendRecv", 60)
            program.kernel("argmax", 5)
            program.read()
    return program.trace()


def test_phases_idle_time_and_other_work_are_told_and_sum_to_the_steps() -> None:
    summed = costs(layered())
    ranged = {"attention": 400_000, "dispatch": 320_000, "expert_gemm": 400_000, "combine": 480_000}
    assert busy(summed) == ranged | {"norm": 80_000, "sampling": 20_000}
    assert {cost.told_by for cost in summed.phases if cost.phase in ranged} == {("ranges",)}
    assert {cost.phase: cost.visits for cost in summed.phases} == dict.fromkeys((*ranged, "norm"), 8) | {"sampling": 4}
    assert sum(busy(summed).values()) + summed.idle_ns + summed.other_ns == summed.whole_ns
    between = {(place.before, place.after): place for place in summed.between if not place.is_inside}
    waits = between["dispatch", "expert_gemm"]
    assert (waits.times, waits.other_ns, waits.cause) == (4, 0, Cause.HOST_CODE)  # later, the host is ahead
    assert ("attention", "dispatch") not in between  # the norm lies between
    assert between["sampling", "attention"].other_ns + between["sampling", None].other_ns == 4 * 2_000  # the read
    assert ("expert_gemm", "attention") not in between


def test_a_report_tells_phases_of_steps_from_the_middle() -> None:
    """All steps take the same here, so one says what all say; a family alone is not repeated as a phase."""
    rows = layered(steps=9)
    [device] = analysed(rows)
    one, all_steps = sampled_phases(rows, device, 10), sampled_phases(rows, device, 10_000)
    assert isinstance(one, PhaseTimes)
    assert isinstance(all_steps, PhaseTimes)
    assert (one.steps, all_steps.steps) == (1, device.step_count)
    assert {phase: ns * device.step_count for phase, ns in one.phases_ns.items()} == all_steps.phases_ns
    shown = build_report(rows)
    assert "By phase, per step: combine 120 us (" in " ".join(shown.to_text(width=80).split())
    document = shown.to_dict()["layer_phases"]
    assert list(document["phases"]) == [{"phase": phase, "ns": ns} for phase, ns in all_steps.phases_ns.items()]
    alone = trace(*(f"s0: {10 * at}-{10 * at + 9} flash_fwd" for at in range(12)))
    assert sampled_phases(alone, analysed(alone)[0], 10_000) is None
    assert build_report(alone).to_dict()["layer_phases"] is None


def test_a_layer_has_its_phases_and_what_comes_before_them() -> None:
    summed = costs(layered())
    assert not isinstance(summed.layers, NotMeasured)
    assert [layer.layer for layer in summed.layers] == [0, 1, None]
    phases_ns = [ns * (summed.steps or 1) for ns in summed.layers[1].phases_ns.values()]
    assert phases_ns == [200_000, 160_000, 200_000, 240_000, 40_000, 0]
    assert sum(layer.length_ns for layer in summed.layers) * (summed.steps or 1) == summed.whole_ns


@pytest.mark.parametrize(
    ("name", "phase", "layer"),
    [
        ("attention", "attention", -1),
        ("layer 3", "", 3),
        ("model.layers.12.self_attn", "attention", 12),
        ("nn.Module: DeepseekV2DecoderLayer_7", "", 7),
        ("nn.Module: Qwen3MoeAttention_7", "attention", -1),
        ("nn.Module: Qwen3LayerNorm_7", "", -1),
        ("vllm::unified_attention_with_output", "attention", -1),
        ("vllm::moe_forward", "moe", -1),
        ("deep_ep::low_latency_dispatch", "dispatch", -1),
        ("Buffer.combine", "combine", -1),
        ("token_permutation", "dispatch", -1),
        ("token_unpermutation", "combine", -1),
        ("moe_dispatch", "dispatch", -1),
        ("shared_experts", "shared_expert", -1),
        ("compute_batched_gemm", "expert_gemm", -1),
        ("route", "router", -1),
        ("AOTDispatcher Runtime Wrapper Prologue", "", -1),
        ("input_layernorm", "norm", -1),
        ("decoder", "", -1),
        ("", "", -1),
    ],
)
def test_names_of_ranges(name: str, phase: str, layer: int) -> None:
    assert (phase_of_range(name), layer_of_range(name)) == (phase, layer)


def test_the_user_names_phases_by_ranges_or_kernels_before_all_else() -> None:
    summed = costs(layered(), asked=(("norms", "RMS"), ("send", "^dispatch$")))
    assert busy(summed)["norms"] == 80_000
    assert (busy(summed)["send"], "dispatch" in busy(summed)) == (320_000, False)
    assert summed.phases[0].told_by == ("--phase",)


NAMES = ("flash_fwd", "rms_norm", "ncclDevKernel_SendRecv", "deep_ep::dispatch", "deep_ep::combine", "gemm", "moe_gemm")


@given(
    kernels=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 200), st.integers(1, 30), st.sampled_from(NAMES)),
        min_size=1,
        max_size=25,
    ),
    marker=st.sampled_from(("gemm", "rms_norm", "deep_ep::combine")),
    cut=st.tuples(st.integers(0, 60), st.integers(120, 230)),
)
def test_every_nanosecond_of_every_step_is_on_one_line(
    kernels: list[tuple[int, int, int, str]], marker: str, cut: tuple[int, int]
) -> None:
    lines = trace(*(f"s{stream}: {start}-{start + length} {name}" for stream, start, length, name in kernels))
    has_marker = any(name == marker for *_, name in kernels)
    window = None if cut[0] == 0 else (0, cut[1])
    for device in analysed(lines, Selection(kernel_pattern=f"^{marker}$" if has_marker else None, time_ns=window)):
        work = work_phases(lines, device)
        pieces = phase_pieces(device, work)
        ledger = device.ledger
        sums = np.bincount(pieces.tile, weights=pieces.work_ns + pieces.idle_ns, minlength=len(ledger.books))
        assert sums.tolist() == ledger.books.sum(axis=1).tolist()
        assert int(pieces.idle_ns.sum()) == total(ledger.busy.idle)
        assert (pieces.start_ns[1:] == pieces.end_ns[:-1]).all()  # nothing twice, nothing left out
        assert not (pieces.inside & (pieces.before != pieces.after)).any()
        of_phase = pieces.phase != NOWHERE
        assert not pieces.idle_ns[of_phase].any()
        summed = phase_costs(lines, device)
        assert sum(cost.time_ns for cost in summed.phases) + summed.idle_ns + summed.other_ns == device.steady_ns
        for enough in (1, 10**6):
            some = sampled_phases(lines, device, enough)
            assert some is None or sum(some.phases_ns.values()) + some.idle_ns + some.other_ns == some.whole_ns
            if enough > 1 and some is not None:
                assert (some.phases_ns, some.other_ns) == (busy(summed), summed.other_ns)
        own = device.work.of(device.gpu)
        for number, cost in enumerate(summed.phases):
            mine = work.phase == number
            running = device.steady_part_ns(own.start_ns, own.end_ns)[mine].sum()
            assert 0 <= (cost.hidden_ns or 0) <= running - cost.time_ns
        if not isinstance(summed.layers, NotMeasured):
            in_layers_ns = sum(layer.length_ns for layer in summed.layers) * device.step_count
            assert in_layers_ns == pytest.approx(device.steady_ns)


def test_what_one_rank_waits_is_not_measured_and_not_zero() -> None:
    names = ("flash_fwd", "deep_ep::dispatch", "deep_ep::combine")
    rows = trace(*(f"s0: {10 * at}-{10 * at + 9} {names[at % 3]}" for at in range(12)))
    [device] = analysed(rows)
    assert phase_waits(rows, device, None) is ONE_RANK
    silent = trace("s0: 0-10 flash_fwd")
    [device] = analysed(silent)
    assert phase_waits(silent, device, None) == NotMeasured("no communication kernel was recorded")


def test_the_phases_of_an_answer_sum_to_its_steps(unpacked: Callable[[str], Path]) -> None:
    path = unpacked("experts_grouped.sqlite")
    document = json.loads(gpuledger("ranges", path, "--format=json").stdout)
    schema_of("ranges").validate(document)
    phases, gaps, layers = (document[name] for name in ("phases", "phase_gaps", "phase_layers"))
    whole = sum(row["time_ns"] for row in phases)
    assert sum(row["share"] for row in phases) == pytest.approx(1)
    rest = [row["time_ns"] for row in phases if row["phase"] in ("idle", "other work")]
    assert [sum(row[key] for row in gaps) for key in ("idle_ns", "other_ns")] == rest
    assert 18 * sum(row["length_ns"] for row in layers) == pytest.approx(whole if layers else 0)
    assert [row["phase"] for row in phases][:4] == ["router", "dispatch", "expert_gemm", "combine"]
    assert "phase_waits" in document["not_measured"]


def test_where_no_name_tells_all_work_is_of_no_phase_and_that_is_said(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(0, 9), kernel(12, 15)])
    document = json.loads(gpuledger("ranges", path, "--format=json").stdout)
    schema_of("ranges").validate(document)
    assert (document["phases"], list(document["not_measured"])) == ([], ["phases"])
    asked = json.loads(gpuledger("ranges", path, f"--ranks={path}", "--format=json").stdout)
    assert [row["time_ns"] for row in asked["phases"]] == [3, 12]  # idle, of no phase
    assert "no range or kernel is named after a phase" in asked["not_measured"]["phases"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Profiles of `gpuledger bench serve` with eight ranks as streams, 4 layers, 5 decode steps."""
    folder = tmp_path_factory.mktemp("serve")

    def unpacked(name: str) -> Path:
        path = folder / f"{name}.sqlite"
        path.write_bytes(lzma.decompress((ROOT / "captures" / "serve" / f"{name}.sqlite.xz").read_bytes()))
        return path

    return unpacked


@pytest.mark.parametrize("dispatch", ["normal", "low_latency"])
def test_every_layer_of_a_served_model_attends_routes_dispatches_multiplies_and_combines(
    served: Callable[[str], Path], dispatch: str
) -> None:
    told = costs(open_trace(served(dispatch), cache=False))
    visits = {cost.phase: cost.visits for cost in told.phases if cost.phase not in ("norm", "lm_head", "sampling")}
    assert visits == dict.fromkeys(("attention", "router", "dispatch", "expert_gemm", "combine"), 4 * 5)
    assert not isinstance(told.layers, NotMeasured)
    assert [layer.layer for layer in told.layers] == [0, 1, 2, 3, None]
    assert told.tell_the_most


def test_inside_a_graph_the_order_of_kernels_tells_phases_and_layers(served: Callable[[str], Path]) -> None:
    """Eight ranks as streams in one graph, and names that tell next to nothing: the grouped GEMM is `device_kernel`."""
    told = costs(open_trace(served("graph"), cache=False))
    assert told.other_ns < 0.01 * told.whole_ns
    assert not isinstance(told.layers, NotMeasured)
    assert [layer.layer for layer in told.layers] == [0, 1, 2, 3, None]
    visits = {cost.phase: cost.visits for cost in told.phases}
    assert visits["attention"] == visits["router"] == visits["expert_gemm"] == 4 * 4 * 8  # steps, layers, ranks
    assert busy(told)["expert_gemm"] > 0.6 * told.whole_ns


def test_a_graph_that_was_recorded_as_a_whole_is_of_no_phase(served: Callable[[str], Path]) -> None:
    """It ran between the kernels that choose tokens, and was said to be sampling: 67.5 % of the time."""
    told = costs(open_trace(served("batches"), cache=False))
    assert busy(told)["sampling"] < 0.01 * told.whole_ns
    assert told.other_ns > 0.6 * told.whole_ns


def test_ranks_that_share_a_gpu_go_through_their_phases_each_on_its_own(served: Callable[[str], Path]) -> None:
    """Four processes, two layers, four steps: not as often as they interleave."""
    path = served("gloo")
    told = costs(open_trace(path, cache=False))
    assert {cost.visits for cost in told.phases if cost.phase in ("attention", "dispatch", "combine")} == {4 * 2 * 4}
    rows = json.loads(gpuledger("ranges", path, "--format=json").stdout)["ranges"]
    steps = [row for row in rows if row["range"] == "bench:decode"]
    assert [row["instances"] for row in steps] == [5] * 4
    assert all(row["share"] <= 1 for row in rows if row["share"] is not None)


def ggml(*, mixture: bool, layers: int = 4, tokens: int = 12) -> Trace:
    """A prompt and tokens as llama.cpp runs them: no range, no call, tokens chosen on the CPU; (kernel, us)."""
    add, silu = (
        ("k_bin_bcast<&(op_add(float, float)), float>", 2),
        ("unary_gated_op_kernel<&(op_silu(float)), float>", 3),
    )
    norm, rope, store = ("rms_norm_f32<1024, true>", 5), ("rope_neox<true, float>", 2), ("k_set_rows<float, long>", 2)
    reads = (("quantize_mmq_q8_1<1>", 2), ("mul_mat_q<(ggml_type)12, 128>", 60), ("mul_mat_q_stream_k_fixup<12>", 2))
    writes = (("quantize_q8_1", 2), ("mul_mat_vec_q<(ggml_type)12, 1>", 20))

    def step(*, many: bool) -> list[tuple[str, int]]:
        product = reads if many else writes
        core = (("flash_attn_ext_f16<128, 8>", 30),) if many else (("flash_attn_ext_vec<128, 1>", 12),)
        expert = (("mm_ids_helper<4>", 2), *reads) if many else (("quantize_q8_1", 2), ("mul_mat_vec_q_moe<12>", 20))
        router = (("mul_mat_f<float>" if many else "mul_mat_vec_f<float, 1>", 4), ("topk_moe_cuda<64>", 3))
        fed = (*router, *expert, *expert, silu, *expert) if mixture else (*product, *product, silu, *product)
        attends = (norm, *product, rope, *product, rope, *product, store, store, *core, *product, add)
        return [("k_get_rows<float>", 2), *(*attends, norm, *fed, add) * layers, norm, *writes]

    kernels = [*step(many=True), *step(many=False) * tokens]
    ends = np.cumsum([us + 1 for _, us in kernels]).tolist()
    return trace(*(f"s0: {end - us}-{end} void {name}(float*)" for (name, us), end in zip(kernels, ends, strict=True)))


@pytest.mark.parametrize("mixture", [False, True])
def test_llama_cpp_is_told_apart_by_its_kernels(mixture: bool) -> None:
    """Its prompt is prefill by products of two matrices; what quantizes the input of a product goes with it."""
    rows = ggml(mixture=mixture)
    [device] = analysed(rows)
    assert device.steps is not None
    assert [PHASES[phase] for phase in device.phases.of_step] == ["prefill"] + ["decode"] * (len(device.steps) - 1)
    assert device.steps.warm_up == 1
    told = phase_costs(rows, device)
    per_step = {cost.phase: cost.time_ns // device.step_count for cost in told.phases if cost.time_ns}
    fed = {"router": 4 * 7, "dispatch": 4 * 2, "expert_gemm": 4 * 67} if mixture else {"mlp": 4 * 69}
    residuals_and_norms = 4 * (2 + 5 + 2) + 4 * 5 + 5
    assert per_step == {"attention": 4 * 108, **fed, "norm": residuals_and_norms, "lm_head": 22}
    assert told.other_ns < 0.01 * told.whole_ns
    assert not isinstance(told.layers, NotMeasured)
    assert [layer.layer for layer in told.layers] == [0, 1, 2, 3, None]


def test_a_place_is_named_by_both_its_phases() -> None:
    places = costs(layered()).between
    assert isinstance(places[0], PhaseGapRow)
    assert [place.idle_ns + place.other_ns for place in places] == sorted(
        (place.idle_ns + place.other_ns for place in places), reverse=True
    )


def rank_of_two(turns: list[tuple[int, int]]) -> Trace:
    """In each turn of 1 ms attention, then a dispatch and a combine that this rank comes to when it likes.

    They end at fixed instants: 400 us and 900 us after the turn began.
    """
    lines = []
    for turn, (dispatch, combine) in enumerate(turns):
        us = 1_000 * turn
        lines += [
            f"s0: {1_000 * us}-{1_000 * (us + dispatch)} flash_fwd",
            f"s0: {1_000 * (us + dispatch)}-{1_000 * (us + 400)} deep_ep::dispatch",
            f"s0: {1_000 * (us + combine)}-{1_000 * (us + 900)} deep_ep::combine",
        ]
    return trace(*lines)


def known(traces: list[Trace], wanted: Selection) -> Job:
    return job([rank_summary(rank, f"rank{number}", wanted) for number, rank in enumerate(traces)])


def test_with_all_ranks_a_collective_is_waiting_and_transfer() -> None:
    wanted = Selection(kernel_pattern="combine")
    early, late = rank_of_two([(100, 500)] * 4), rank_of_two([(300, 600)] * 4)
    for number, (rank, waits) in enumerate(((early, (200, 100)), (late, (0, 0)))):
        [device] = analysed(rank, wanted)
        told = phase_waits(rank, device, KnownJob(known([early, late], wanted), (number,)))
        assert not isinstance(told, NotMeasured)
        in_all = {wait.phase: wait for wait in told if wait.layer is None}
        assert [in_all[name].wait_ns for name in ("dispatch", "combine")] == [4_000 * wait for wait in waits]
        assert [in_all[name].transfer_ns for name in ("dispatch", "combine")] == [400_000, 1_200_000]
        assert [(wait.collectives, wait.matched) for wait in in_all.values()] == [(4, 4)] * 2
        by_layer = [wait for wait in told if wait.layer is not None]
        assert {wait.layer for wait in by_layer} == {0}
        assert sum(wait.wait_ns for wait in by_layer) == sum(wait.wait_ns for wait in in_all.values())


ARRIVALS = st.lists(st.tuples(st.integers(1, 399), st.integers(401, 899)), min_size=3, max_size=3)


@settings(max_examples=15)
@given(ARRIVALS, ARRIVALS)
def test_waiting_and_transfer_are_never_more_than_the_collective_runs(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    wanted = Selection(kernel_pattern="combine")
    traces = [rank_of_two(first), rank_of_two(second)]
    merged = known(traces, wanted)
    for number, rank in enumerate(traces):
        [device] = analysed(rank, wanted)
        told = phase_waits(rank, device, KnownJob(merged, (number,)))
        assert not isinstance(told, NotMeasured)
        for wait in told:
            assert wait.matched <= wait.collectives
            assert 0 <= wait.wait_ns + wait.transfer_ns <= wait.running_ns
