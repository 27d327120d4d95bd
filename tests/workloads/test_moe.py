"""`bench moe` on a CPU: every mode computes what a dumb loop does, routes keep their laws, faults are noticed."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import (  # noqa: E402
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from gpuledger.present.views.runs.bench import bench_document  # noqa: E402
from gpuledger.present.writers import write  # noqa: E402
from gpuledger_workloads import moe  # noqa: E402
from gpuledger_workloads.command_lines import ROUTINGS  # noqa: E402
from gpuledger_workloads.command_lines import moe_parser as parser  # noqa: E402
from gpuledger_workloads.device import counted, inside, needs, refused_where_full, tally  # noqa: E402
from gpuledger_workloads.mixture import routing  # noqa: E402
from gpuledger_workloads.mixture.experts import (  # noqa: E402  # noqa: E402
    MODES,
    ExpertWeights,
    MixtureShape,
    Oracle,
    bank,
    computed,
    mixed,
)
from gpuledger_workloads.mixture.routing import Routed, Router, planned  # noqa: E402
from support.command import ROOT  # noqa: E402
from support.programs.plain_mixture import dumb, likeliest  # noqa: E402
from support.programs.workload_result import found_by  # noqa: E402
from support.thorough import tries  # noqa: E402

SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "schemas" / "gpuledger.bench-1.json").read_text()))
SHORT = ("--iters=2", "--warmup=0")
CPU: dict[str, Any] = {"device": "cpu", "dtype": torch.float32}
MODE = pytest.mark.parametrize("mode", MODES)


def asked(*arguments: str) -> Any:
    options = parser().parse_args(["--device=cpu", "--iters=2", "--warmup=1", *arguments])
    assert moe.complete(options) is None
    return options


def close(found: Any, expected: Any) -> bool:
    """To 1e-4 of the norm of all; of the same shape."""
    off, whole = float((found.double() - expected).norm()), float(expected.norm())
    return found.shape == expected.shape and off <= 1e-4 * whole + 1e-6


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[Any, Any, Routed, MixtureShape, int]:
    """Experts from some number on, tokens, and their routes, some of which may lead nowhere."""
    seed, first = draw(st.integers(0, 9)), draw(st.integers(0, 3))
    width, ffn = draw(st.sampled_from([1, 3, 4, 8, 12])), draw(st.sampled_from([1, 4, 5, 8]))
    count = draw(st.integers(1, 6))
    k = draw(st.integers(1, count))
    rows = [draw(st.permutations(range(count)))[:k] for _ in range(draw(st.integers(0, 8)))]
    here = [[draw(st.booleans()) for _ in row] for row in rows] if draw(st.booleans()) else [[True] * k for _ in rows]
    kept = [
        [expert if flag else count for expert, flag in zip(*pair, strict=True)] for pair in zip(rows, here, strict=True)
    ]
    source = torch.Generator().manual_seed(seed)
    experts = torch.tensor(kept, dtype=torch.long).view(len(rows), k)
    weights = torch.rand(len(rows), k, generator=source).where(experts < count, 0.0)
    held = bank(MixtureShape(count + first, width, ffn), range(first, first + count), seed=seed, **CPU)
    hidden = torch.randn(len(rows), width, generator=source)
    return held, hidden, Routed(experts, weights, int((experts < count).sum())), MixtureShape(count, width, ffn), seed


def test_two_tokens_by_hand() -> None:
    """One expert doubles its input, up to silu(1) = 1 / (1 + 1 / e); the other gives its negative."""
    held = bank(MixtureShape(2, 1, 1), range(2), seed=0, **CPU)
    held.up[:] = torch.tensor([[[0.0], [2.0]], [[0.0], [-1.0]]])
    held.up[:, 0] = 1.0  # the gate of a token that is 1
    held.down.fill_(1.0)
    routed = Routed(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0.75, 0.25], [1.0, 0.0]]), 4)
    silu = 1 / (1 + math.exp(-1))
    for mode in MODES:
        found = mixed(mode, held, torch.ones(2, 1), routed)
        assert found.flatten().tolist() == pytest.approx([(0.75 * 2 - 0.25) * silu, -silu])


@MODE
@settings(max_examples=tries(20))
@given(drawn=mixtures())
def test_every_mode_is_the_dumb_loop(mode: str, drawn: Any) -> None:
    held, hidden, routed, shape, seed = drawn
    expected = dumb(
        hidden, routed.experts, routed.weights, count=shape.experts, ffn=shape.ffn, seed=seed, first=held.first
    )
    assert close(mixed(mode, held, hidden, routed), expected)
    assert torch.equal(mixed(mode, held, hidden, routed), computed(mode, held, hidden, routed))
    if mode == "grouped":
        assert close(mixed(mode, dataclasses.replace(held, product=None), hidden, routed), expected)


def test_grouped_products_where_torch_has_them() -> None:
    """Rows of 16 bytes are needed; elsewhere segment by segment."""
    assert bank(MixtureShape(2, 5, 8), range(2), seed=0, **CPU).grouped_by == "segments"
    if hasattr(torch.nn.functional, "grouped_mm"):
        assert bank(MixtureShape(2, 8, 8), range(2), seed=0, **CPU).grouped_by == "grouped_mm"


def test_what_the_host_must_know() -> None:
    """Tensors without numbers: an operation whose result the host would have to read cannot run on them."""
    if not hasattr(torch.nn.functional, "grouped_mm"):
        pytest.skip("this torch has no grouped product")
    with FakeTensorMode():
        up, down = torch.empty(4, 16, 8, dtype=torch.bfloat16), torch.empty(4, 8, 8, dtype=torch.bfloat16)
        held = ExpertWeights(up, down, 0, torch.nn.functional.grouped_mm)
        hidden = torch.empty(6, 8, dtype=torch.bfloat16)
        router = Router(torch.empty(4, 8, dtype=torch.bfloat16), 2, None)
        routed = router(hidden)
        assert mixed("grouped", held, hidden, routed).shape == hidden.shape
        with pytest.raises(DataDependentOutputException):
            mixed("batched_gemm", held, hidden, routed)
        with pytest.raises(DynamicOutputShapeException):
            mixed("loop", held, hidden, routed)


@given(st.integers(1, 9), st.data())
def test_the_router_takes_the_likeliest(count: int, data: st.DataObject) -> None:
    k, seed = data.draw(st.integers(1, count)), data.draw(st.integers(0, 99))
    hidden = routing.tokens(5, 6, seed=seed, **CPU)
    made = routing.router(count, k, 6, None, seed=seed, **CPU)
    routed = made(hidden)
    experts, shares = likeliest(hidden, made.weight, k)
    assert routed.experts.tolist() == experts
    assert routed.weights.tolist() == [pytest.approx(row, abs=1e-5) for row in shares]
    plan = planned("uniform", 5, count, k, seed=seed)
    forced = dataclasses.replace(made, plan=plan)(hidden)
    assert torch.equal(forced.experts, plan)
    assert torch.equal(forced.weights, routed.weights)


@given(st.sampled_from(ROUTINGS[1:]), st.integers(0, 40), st.integers(1, 9), st.data())
def test_a_plan_has_distinct_experts_and_depends_on_the_seed_alone(
    routing: str, count: int, experts: int, data: st.DataObject
) -> None:
    k, seed = data.draw(st.integers(1, experts)), data.draw(st.integers(0, 9))
    plan = planned(routing, count, experts, k, seed=seed)
    assert plan is not None
    assert plan.shape == (count, k)
    assert all(len(set(row)) == k and min(row) >= 0 and max(row) < experts for row in plan.tolist())
    torch.manual_seed(count)
    assert torch.equal(plan, planned(routing, count, experts, k, seed=seed))


@given(st.integers(0, 40), st.integers(1, 9), st.data())
def test_uniform_and_hot(count: int, experts: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, experts))
    uniform = planned("uniform", count, experts, k, seed=1)
    assert uniform is not None
    loads = torch.bincount(uniform.flatten(), minlength=experts)
    assert int(loads.max() - loads.min()) <= 1
    hot = planned("hot", count, experts, k, seed=1)
    assert hot is not None
    assert len(set(hot[:, 0].tolist())) == min(1, count)
    others = torch.bincount(hot[:, 1:].flatten(), minlength=experts).tolist()
    if count:
        del others[int(hot[0, 0])]
    assert not others or max(others) - min(others) <= 1


def test_popularity_falls_as_a_power() -> None:
    """Draws of one expert: the r-th popular one has its share, to four standard deviations."""
    tokens, experts, exponent = 20_000, 8, 1.2
    plan = planned("power-law", tokens, experts, 1, exponent=exponent, seed=3)
    assert plan is not None
    loads = [load for _, load in Counter(plan.flatten().tolist()).most_common()]
    whole = sum(rank**-exponent for rank in range(1, experts + 1))
    for rank, load in enumerate(loads, start=1):
        share = rank**-exponent / whole
        assert abs(load - tokens * share) < 4 * math.sqrt(tokens * share * (1 - share))


def test_imbalance() -> None:
    assert routing.imbalance([3, 3, 3]) == 1.0
    assert routing.imbalance([6, 0, 0]) == 3.0
    assert routing.imbalance([0, 0]) is None


@pytest.mark.parametrize("routing_name", ROUTINGS)
@pytest.mark.parametrize("mode", ["loop", "batched_gemm", "grouped", "both", "all"])
def test_the_program(mode: str, routing_name: str) -> None:
    result = found_by(
        "moe",
        "--iters=2",
        "--warmup=0",
        f"--mode={mode}",
        f"--routing={routing_name}",
        "--num-experts=6",
        "--batch-size=21",
    )
    assert result["workload"] == "moe"
    assert result["checked"] is True
    SCHEMA.validate(json.loads(write(bench_document(result), "json")))
    rows = result.get("modes", [{"mode": mode, **result}])
    wanted = {"both": ["loop", "batched_gemm"], "all": list(MODES)}.get(mode, [mode])
    assert [row["mode"] for row in rows] == wanted
    for row in rows:
        assert row["p10_ms"] <= row["median_ms"] <= row["p90_ms"] <= row["p99_ms"]
        assert row["launches"] is row["syncs"] is row["copies"] is None
        assert row["error_share"] < 1e-4
    assert result["launches_reason"] == "not measured on a CPU"
    assert ("exponent" in result["settings"]) == (routing_name == "power-law")
    if routing_name == "uniform":
        assert (result["imbalance"], result["experts_used"]) == (1.0, 6)


def test_hot_padding_and_load() -> None:
    """21 tokens, all with expert h and one of 5 others: 6 x 21 rows for 42."""
    result = found_by(
        "moe",
        "--iters=2",
        "--warmup=0",
        "--mode=all",
        "--routing=hot",
        "--num-experts=6",
        "--batch-size=21",
        "--hidden-dim=64",
        "--ffn-dim=16",
    )
    assert [row["padding_share"] for row in result["modes"]] == [0, pytest.approx(1 - 42 / 126, abs=1e-6), 0]
    assert result["imbalance"] == 3.0
    assert result["weight_bytes"] == 6 * 3 * 64 * 16 * 4
    assert result["least_bytes"] == result["weight_bytes"] + (6 * 64 + 2 * 21 * 64) * 4


@pytest.mark.parametrize("arguments", [(), ("--routing=power-law", "--num-experts=16", "--ffn-dim=24")])
def test_flop_as_torch_counts_them(arguments: tuple[str, ...]) -> None:
    layer = moe.build(asked(*arguments))
    with FlopCounterMode(display=False) as counter:
        layer("loop")
    assert moe.loaded(layer).flop == counter.get_total_flops()


def test_weights_depend_on_the_seed_and_the_expert_alone() -> None:
    whole = bank(MixtureShape(5, 8, 4), range(5), seed=7, **CPU)
    part = bank(MixtureShape(5, 8, 4), range(3, 5), seed=7, **CPU)
    assert torch.equal(whole.up[3:], part.up)
    assert torch.equal(whole.down[3:], part.down)
    other = bank(MixtureShape(5, 8, 4), range(5), seed=8, **CPU)
    every = torch.cat((whole.up, other.up))
    assert len({tuple(each.flatten().tolist()) for each in every}) == 10


def refused(layer: Any, found: Any, seed: int = 0) -> str:
    with pytest.raises(SystemExit) as end:
        Oracle(layer.shape, layer.router, layer.hidden, seed, "fp32").checked(found, "grouped")
    return str(end.value.code)


@MODE
@pytest.mark.parametrize("routing_name", ROUTINGS)
def test_two_experts_in_each_others_place_are_noticed(mode: str, routing_name: str) -> None:
    layer = moe.build(asked(f"--routing={routing_name}"))
    oracle = Oracle(layer.shape, layer.router, layer.hidden, 0, "fp32")
    assert oracle.checked(layer(mode), mode) < 1e-4
    layer.held.up[[0, 1]] = layer.held.up[[1, 0]]
    assert "a token is off by" in refused(layer, layer(mode))


def test_other_faults_are_noticed() -> None:
    layer = moe.build(asked())
    right = layer("grouped")
    assert "off by" in refused(layer, right.roll(1, 0))
    assert "off by" in refused(layer, right * 1.01)
    assert "off by" in refused(layer, right, seed=1)
    assert "off by nan" in refused(layer, torch.full_like(right, math.nan))
    assert "came out" in refused(layer, right[:-1])
    one_wrong = right.clone()
    one_wrong[-1] = one_wrong[0]
    assert "off by" in refused(layer, one_wrong)
    twice = dataclasses.replace(layer.router, plan=torch.zeros(32, 2, dtype=torch.long))
    assert "twice" in refused(dataclasses.replace(layer, router=twice), right)


def test_a_router_that_takes_the_least_likely_is_noticed() -> None:
    layer = moe.build(asked())

    class Upside(Router):
        def __call__(self, hidden: Any) -> Routed:
            return Router(-self.weight, self.k, None)(hidden)

    upside = Upside(layer.router.weight, layer.router.k, None)
    assert "likeliest" in refused(dataclasses.replace(layer, router=upside), layer.hidden)


def test_a_wrong_result_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    right = MODES["grouped"]
    forgets = dataclasses.replace(right, combine=lambda *given: right.combine(*given) * 0.5)
    monkeypatch.setitem(MODES, "grouped", forgets)
    with pytest.raises(SystemExit, match=r"error: grouped: a token is off by 0\.5 of"):
        found_by("moe", *SHORT, "--mode=all", "--routing=uniform", "--batch-size=1")


def test_calls_by_what_they_do() -> None:
    names = ["cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaStreamSynchronize"]
    calls = tally([*names, "cudaDeviceSynchronize", "cudaEventRecord", "aten::mm", "cudaMemsetAsync", "cudaMalloc"])
    assert (calls.launches, calls.syncs, calls.copies, calls.reason) == (3, 2, 1, "")
    nothing = tally(["aten::mm", "cudaStreamSynchronize"])
    assert (nothing.launches, nothing.syncs, nothing.copies) == (None, None, None)
    assert "another profiler" in nothing.reason


def test_only_what_began_in_the_marked_range_counts() -> None:
    """As torch.profiler tells it on a CPU; the range on a GPU's own time line has the same name and is not meant."""
    a = torch.ones(3, 3)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        a.exp()
        with torch.profiler.record_function("mark"):
            a.log()
        a.sin()
    events = list(profiler.events())
    names = set(inside(events, "mark"))
    assert "aten::log" in names
    assert not names & {"aten::exp", "aten::sin"}
    device = SimpleNamespace(name="mark", device_type=SimpleNamespace(name="CUDA"), time_range=events[0].time_range)
    assert set(inside([*events, device], "mark")) == names


def test_steps_are_done_even_where_they_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank, which counts, may wait in them."""
    done: list[int] = []
    assert counted(lambda: done.append(1), "cpu").reason == "not measured on a CPU"
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "7")
    assert "Nsight Systems" in counted(lambda: done.append(1), "cuda").reason
    assert len(done) == 4


def test_a_full_device_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (3_000_000_000, 4_000_000_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 1_000_000_000)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 500_000_000)
    needs("batched_gemm", 3_500_000_000, "cuda")
    needs("batched_gemm", 10**15, "cpu")
    with pytest.raises(SystemExit, match=r"batched_gemm needs about 3.6 GB of GPU memory, and 3.5 GB are free"):
        needs("batched_gemm", 3_600_000_000, "cuda:0")
    for error in (
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ):
        with pytest.raises(SystemExit, match="memory is full"), refused_where_full():
            raise error
    with pytest.raises(RuntimeError, match="shapes"), refused_where_full():
        raise RuntimeError("shapes differ")
