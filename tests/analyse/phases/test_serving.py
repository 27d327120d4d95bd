"""The serving ledger: batches from names, the cost of a step by its batch, tokens a second, what lies between steps."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.phases.serving import Serving, StepModel, non_negative, serving
from gpuledger.catalog.batches import UNKNOWN, Batch, batch_of, scheduler_part
from gpuledger.catalog.range_names import is_dalis
from gpuledger.ledger.device import analyse_devices
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.verbs.steps import steps
from support.command import ROOT, gpuledger
from support.traces import trace_notation as notation

SPELLINGS = {
    "execute_context_9(8155)_generation_37(37)": Batch("vLLM", 9, 8155, 37, 37),
    "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)": Batch(
        "vLLM", 9, 8155, 37, 37, UNKNOWN, 42919, 7671310
    ),
    "execute_new_3_cached_5": Batch("vLLM", 3, UNKNOWN, 5, 5),
    "step[DECODE bs=64]": Batch("SGLang", 0, 0, 64, 64, pairs=0),
    "step[EXTEND bs=2 toks=14721]": Batch("SGLang", 2, 14721, 0, 0),
    "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]": Batch(
        "SGLang", 0, 0, 64, 128, UNKNOWN, 131072, 0
    ),
    "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]": Batch(
        "SGLang", 1, 5, 1, 1, UNKNOWN, 20, 40
    ),
    "decode[bs=117/128 tok=117 d=117]": Batch("ATOM", 0, 0, 117, 117, 128, pairs=0),
    "prefill[bs=2 tok=14721 ctx=[7803, 6918] sqsq=1 sqsk=108745533 sk=14721]": Batch(
        "ATOM", 2, 14721, 0, 0, UNKNOWN, 14721, 108745533
    ),
    "decode[bs=128 tok=384 p=2 d=126]": Batch("ATOM", 2, 258, 126, 126),
    "bench:decode[bs=256 tok=256]": Batch("gpuledger bench", 0, 0, 256, 256, pairs=0),
    "[Executor] _forward_step 7: 1 ctx reqs, 30 ctx tokens, 4 gen reqs": Batch("TensorRT-LLM", 1, 30, 4, 4),
    "[Executor] _forward_step 7: 0 ctx reqs, 4 gen reqs": Batch("TensorRT-LLM", 0, 0, 4, 4),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_step_says_its_batch(name: str) -> None:
    assert batch_of(name) == SPELLINGS[name]


@pytest.mark.parametrize(
    "name",
    [
        "decode",
        "decode[3]",
        "bench:decode",
        "step[IDLE bs=0]",
        "step[DRAFT_EXTEND bs=4]",
        "execute_model",
        "",
        "step[bs=]",
    ],
)
def test_other_ranges_say_none(name: str) -> None:
    assert batch_of(name) is None


@given(st.text(max_size=80), st.sampled_from([*SPELLINGS]), st.integers(0, 80))
def test_damaged_names_are_no_trouble(junk: str, name: str, where: int) -> None:
    batch_of(name[:where] + junk + name[where:])
    batch_of(name.replace("37", "9" * 5000))


def test_parts_of_an_engine_are_told_by_function_and_not_by_file() -> None:
    assert scheduler_part("vllm/v1/core/sched/scheduler.py(164): schedule") == "scheduling"
    assert scheduler_part("srt/managers/scheduler.py(2919): event_loop_overlap") == ""
    assert scheduler_part("detokenize") == "detokenizing"
    assert not is_dalis("[Executor] _forward_step 7: 0 ctx reqs, 4 gen reqs")
    assert is_dalis("[Executor] RunGPU")


BASE, PER_PREFILL, PER_REQUEST, BUBBLE = 900_000, 2_000, 15_000, 120_000


def served(
    batches: list[tuple[int, int, int]], *, noise: float = 0.0, late: int = -1, planning: int = 0
) -> tuple[Trace, Serving]:
    """An engine that takes exactly what the constants say for each (prefill requests, prefill tokens, decodes).

    Of the 120 us between steps, it schedules for 60 us and detokenizes for 30 us. Step `late` takes 20 times as long.
    While the host plans for a prompt's length, the GPU waits for `planning` or a tenth more or less.
    """
    draw = np.random.default_rng(1)
    lines, now, launches = list[str](), 1_000_000, 0
    for number, (reading, tokens, decoding) in enumerate(batches):
        took = BASE + PER_PREFILL * tokens + PER_REQUEST * (reading + decoding)
        took = round(took * (1 + noise * draw.standard_normal())) * (20 if number == late else 1)
        begin = now - BUBBLE + 100_000  # the host opens the step 20 us before its first kernel
        step = f"execute_context_{reading}({tokens})_generation_{decoding}({decoding})"
        lines.append(f"ranges: {begin}-{now + took} {step}")
        lines.append(
            f"ranges: {begin - 70_000}-{begin - 10_000} schedule; {now + took}-{now + took + 30_000} detokenize"
        )
        half, waits = now + took // 2, round(planning * draw.uniform(0.9, 1.1)) if reading else 0
        took += waits
        for first, last in ((now, half), (half + waits, now + took)):
            called = begin + 5_000 * launches % 7_000
            lines.append(f"{called}-{called + 2_000} launch -> s0: {first}-{last} k graph={UNKNOWN}")
            launches += 1
        now += took + BUBBLE
    trace = notation.trace(*lines)
    [device] = analyse_devices(trace, "made", Selection())
    answer = serving(trace, device, 3.6)
    assert isinstance(answer, Serving)
    return trace, answer


def mixed_batches(count: int) -> list[tuple[int, int, int]]:
    draw = np.random.default_rng(0)
    return [
        (1, int(draw.integers(32, 512)), int(draw.integers(0, 40)))
        if number % 4 == 0
        else (0, 0, int(draw.integers(1, 64)))
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def made() -> tuple[Trace, Serving]:
    return served(mixed_batches(60))


def test_the_fit_finds_what_a_token_and_a_request_cost(made: tuple[Trace, Serving]) -> None:
    model = made[1].model
    assert isinstance(model, StepModel)
    costs = {cost.term: cost.each_ns for cost in model.costs}
    assert costs["step"] == pytest.approx(BASE, rel=0.01)
    assert costs["prefill token"] == pytest.approx(PER_PREFILL, rel=0.01)
    assert costs["decode token"] == pytest.approx(PER_REQUEST, rel=0.01)
    assert model.error < 1e-3
    assert model.r2 > 0.999
    assert sum(cost.share for cost in model.costs) == pytest.approx(1, abs=1e-3)


def test_what_the_host_takes_inside_a_step_is_no_cost_of_a_token() -> None:
    """The GPU waits 20 ms in each step with prefill, as one capture of the H200 has it; a token still costs 2 us."""
    answer = served(mixed_batches(60), planning=20_000_000)[1]
    assert isinstance(answer.model, StepModel)
    costs = {cost.term: cost.each_ns for cost in answer.model.costs}
    assert costs["prefill token"] == pytest.approx(PER_PREFILL, rel=0.01)
    mixed = next(kind for kind in answer.kinds if kind.kind == "mixed")
    assert mixed.idle_inside_ns == pytest.approx(20_000_000, rel=0.05)
    assert mixed.error_share is not None
    assert mixed.error_share < 0.1
    assert sum(cost.share for cost in answer.model.costs) == pytest.approx(1, abs=1e-3)


def test_one_slow_step_in_noise_does_not_bend_the_fit() -> None:
    model = served(mixed_batches(60), noise=0.02, late=30)[1].model
    assert isinstance(model, StepModel)
    assert model.error < 0.03
    assert {cost.term: cost.each_ns for cost in model.costs}["step"] == pytest.approx(BASE, rel=0.05)


def test_tokens_times_and_prices(made: tuple[Trace, Serving]) -> None:
    answer, batches = made[1].figures, mixed_batches(60)
    steps = sum(BASE + PER_PREFILL * tokens + PER_REQUEST * (c + g) for c, tokens, g in batches)
    assert answer.engine == "vLLM"
    assert answer.window_ns == pytest.approx(steps + 59 * BUBBLE, rel=1e-6)
    assert (answer.prefill_tokens, answer.decode_tokens) == (sum(b[1] for b in batches), sum(b[2] for b in batches))
    assert answer.decode_tokens_per_s == pytest.approx(answer.decode_tokens * 1e9 / answer.window_ns)
    assert answer.million_price == pytest.approx(3.6 / 3600 * answer.window_ns / 1e9 / answer.decode_tokens * 1e6)
    assert answer.token_median_ns is not None
    assert answer.token_p99_ns is not None
    assert answer.token_median_ns <= answer.token_p99_ns
    assert sum(kind.steps for kind in made[1].kinds) == 60


def test_the_host_between_steps_sums_to_the_idle_time(made: tuple[Trace, Serving]) -> None:
    doing = {row.doing: row.time_ns for row in made[1].between}
    assert doing["scheduling"] == 59 * 60_000
    assert doing["detokenizing"] == 59 * 30_000
    assert sum(doing.values()) == made[1].figures.idle_between_ns == 59 * BUBBLE


def test_steps_that_do_not_vary_are_not_fitted() -> None:
    alike, few = served([(0, 0, 8)] * 40)[1], served(mixed_batches(6))[1]
    assert isinstance(alike.model, NotMeasured)
    assert "do not vary enough" in alike.model.reason
    assert isinstance(few.model, NotMeasured)
    assert "a fit needs" in few.model.reason
    assert (alike.figures.token_median_ns, alike.figures.token_p99_ns) == (BASE + 8 * PER_REQUEST + BUBBLE,) * 2


def test_a_profile_without_batches_says_so() -> None:
    trace = notation.trace("s0: 0-10")
    answer = steps(trace)
    assert "no range around GPU work says the batch of a step" in answer.not_measured["serving"]
    assert (answer.serving, answer.batches) == ((), ())


def test_tokens_a_second_are_those_of_the_engines_own_clock(tmp_path: Path) -> None:
    """Recorded on an H200; the engine's clock said 2,436 tokens of decode in 846.2 ms."""
    profile = tmp_path / "batches.sqlite"
    profile.write_bytes(lzma.decompress((ROOT / "captures" / "serve" / "batches.sqlite.xz").read_bytes()))
    answer = json.loads(gpuledger("steps", profile, "--gpu-hour-price=3", "--format=json").stdout)
    [figures] = answer["serving"]
    assert (figures["decode_tokens"], figures["prefill_tokens"], figures["steps"]) == (2436, 1054, 104)
    assert figures["decode_tokens_per_s"] == pytest.approx(2436 / 0.8462, rel=0.02)
    assert figures["fit_error_share"] < 0.05
    assert figures["graph_rows"] > figures["padding_rows"] > 0
    batches = answer["batches"]
    assert 0 <= batches[0]["start_ns"] < batches[-1]["end_ns"] < 1e9  # counted from where GPU work starts
    doing = {row["doing"] for row in answer["between_steps"]}
    assert {"scheduling", "sampling", "detokenizing", "preparing inputs"} <= doing


@given(st.integers(0, 2**32 - 1))
def test_no_cost_is_negative_and_those_left_are_least_squares(seed: int) -> None:
    draw = np.random.default_rng(seed)
    design, wanted = draw.random((30, 4)), draw.standard_normal(30)
    costs = non_negative(design, wanted)
    slope = design.T @ (wanted - design @ costs)
    assert (costs >= 0).all()
    assert (np.abs(slope[costs > 0]) <= 1e-6).all()
