"""The server's steps, on the CPU: pages and shares are right, ranks go in lockstep, and targets are judged."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from gpuledger_workloads import serve as program  # noqa: E402
from gpuledger_workloads.command_lines import serve_parser as parser  # noqa: E402
from gpuledger_workloads.decoder.model import Decoder  # noqa: E402
from gpuledger_workloads.program import Target, judged, parsed  # noqa: E402
from gpuledger_workloads.serve import Phase, Seat, Worker  # noqa: E402
from gpuledger_workloads.serving.operating_point import (  # noqa: E402
    LAUNCH,
    OperatingPoint,
    ServingLimits,
    chunks,
    expect_fit,
    pages_for,
    readings,
    room_of,
    served_size,
    shares,
)
from support.programs.plain_decoder import plain  # noqa: E402
from support.programs.workload_result import found_by, told  # noqa: E402

SMALL = ("--decode-batch-size=5", "--decode-ctx-len=7", "--output-len=4", "--max-prefill-tokens=15", "--warmup=1")
counts = st.integers(1, 300)


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    """A rank that was refused leaves its group as it is: its process would end."""
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_run_counts_its_tokens_pages_and_steps() -> None:
    said = found_by("serve", *SMALL, "--page-size=4", "--num-pages=15", "--iters=2")
    assert (said["workload"], said["checked"]) == ("serve", True)
    assert said["prefill_tokens"] == 2 * 5 * 7
    assert said["decode_tokens"] == 2 * 5 * (4 - 1)
    assert (said["kv_pages_needed"], said["kv_pages_there"]) == (15, 15)  # 11 tokens take 3 pages of 4, five times
    assert said["kv_bytes"] == 2 * 2 * 5 * 2 * 64 * 16 * 4  # keys and values, layers, sequences, heads, positions
    assert [row["sequences"] for row in said["ranks"]] == [5]
    for name in ("ttft", "itl", "prefill_step", "decode_step"):
        spread = [said[f"{name}_{key}_ms"] for key in ("p10", "median", "p90", "p99")]
        assert spread == sorted(spread)
        assert spread[0] > 0
    assert "verdict" not in said
    assert (said["peak_memory_bytes"], said["slowest_rank"]) == (None, 0)


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_a_mode_measures_one_half(mode: str) -> None:
    said = found_by("serve", *SMALL, f"--mode={mode}", "--warmup=0")
    for other in {"prefill", "decode"} - {mode}:
        assert not [key for key in said if key.startswith(other)]
    assert said[f"{mode}_tokens_per_s"] > 0
    assert set(program.figures(mode)) <= set(said)
    assert ("ttft_p99_ms" in said, "itl_p99_ms" in said) == (mode == "prefill", mode == "decode")


@pytest.mark.parametrize("most", [3, 7, 15, 100], ids="{} tokens of prefill".format)
def test_every_sequence_goes_on_as_a_plain_pass_over_its_text_says(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program checks some; here all, whether prompts are read in chunks, one by one or together."""
    workers: list[Worker] = []

    class Seen(Worker):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            workers.append(self)

    monkeypatch.setattr(program, "Worker", Seen)
    found_by("serve", *SMALL, f"--max-prefill-tokens={most}")
    (worker,) = workers
    (seat,) = worker.seats
    model: Any = seat.model
    assert torch.equal(model.text[:, :7], seat.prompts)
    assert len({tuple(row) for row in seat.prompts.tolist()}) == 5
    for text in model.text[:, :11]:
        assert text[7:].tolist() == plain(model, worker.size, text[:10])[6:].argmax(-1).tolist()


@pytest.mark.parametrize("mode", ["prefill", "decode", "all"])
def test_a_cache_that_is_wrong_is_noticed(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Decoder.follow

    def follow(self: Any, *arguments: Any) -> Any:
        for layer in self.layers:
            layer.attention.values.copy_(layer.attention.values.roll(1, dims=0))
        return honest(self, *arguments)

    monkeypatch.setattr(Decoder, "follow", follow)
    with pytest.raises(SystemExit, match="off by"):
        found_by("serve", *SMALL, f"--mode={mode}")


def test_a_target_that_is_missed_ends_with_3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "targets.json").write_text('{"itl_p99_ms": "<= 1e9"}')
    options = ["--device=cpu", *SMALL, "--target=decode_tokens_per_s>=1e15", f"--targets={tmp_path / 'targets.json'}"]
    with pytest.raises(SystemExit) as end:
        told(parser(), program.run, options)
    assert end.value.code == 3
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"] == "FAIL"
    assert [(row["name"], row["wanted"], row["verdict"]) for row in said["targets"]] == [
        ("decode_tokens_per_s", ">= 1e+15", "FAIL"),
        ("itl_p99_ms", "<= 1000000000", "PASS"),
    ]
    assert [row["found"] for row in said["targets"]] == [said["decode_tokens_per_s"], said["itl_p99_ms"]]


@given(st.sampled_from([">=", "<="]), st.floats(-1e6, 1e6), st.floats(allow_nan=True))
def test_a_target_is_judged_by_its_sign(sign: str, wanted: float, found: float) -> None:
    (row,) = judged([Target("x_ms", sign, wanted)], {"x_ms": found})["targets"]
    met = found >= wanted if sign == ">=" else found <= wanted
    assert row["verdict"] == ("PASS" if met else "FAIL")
    assert parsed(f"x_ms {sign}{wanted!r}") == Target("x_ms", sign, wanted)


@pytest.mark.parametrize("text", ["[]", '{"itl_p99_ms": 3}', '{"itl_p99_ms": "about 3"}', "{"])
def test_a_wrong_file_of_targets_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match="error: --targets: "):
        found_by("serve", f"--targets={path}")


def seen(sequences: int, work: list[float], wait: list[float], first_ms: list[float]) -> dict[str, Any]:
    phase, nothing = Phase(tuple(work), tuple(wait)), Phase((), ())
    told = {"sequences": sequences, "kv_pages": sequences, "kv_bytes": 8 * sequences, "peak_bytes": None}
    return {
        **told,
        "prefill": phase if first_ms else nothing,
        "decode": nothing if first_ms else phase,
        "ttft_ms": first_ms,
    }


def test_a_step_takes_as_long_as_its_slowest_rank() -> None:
    answers = [
        seen(2, [10, 10, 40], [30, 2, 0], []),
        seen(1, [40, 5, 1], [1, 6, 38], []),
        seen(0, [0] * 3, [40, 12, 40], []),
    ]
    found = program.node_figures(Namespace(mode="decode", iters=1), OperatingPoint(3, 100, 4), (), answers)
    assert found["decode_tokens"] == 9
    assert found["decode_tokens_per_s"] == round(9 / (41 + 12 + 40) * 1e3, 1)
    assert (found["itl_median_ms"], found["decode_step_median_ms"]) == (40, 40)
    assert found["decode_step_p10_ms"] == 16  # work in a step: 40, 10, 40
    assert found["slowest_rank"] == 0
    assert [row["wait_share"] for row in found["ranks"]] == [round(32 / 92, 4), round(45 / 91, 4), 1.0]
    assert [row["work_ms"] for row in found["ranks"]] == [60, 46, 0]


def test_a_rank_without_sequences_is_not_the_slowest() -> None:
    """Ranks that are streams of one GPU take turns: what an idle one takes is the others' work."""
    answers = [seen(0, [50, 50], [0, 0], []), seen(1, [40, 45], [1, 1], []), seen(0, [60, 60], [0, 0], [])]
    found = program.node_figures(Namespace(mode="decode", iters=1), OperatingPoint(1, 100, 3), (), answers)
    assert found["slowest_rank"] == 1


def test_the_first_token_is_there_when_the_last_of_its_prompt_was_read() -> None:
    seat = Seat(0, 5, readings(5, 7, 15), torch.zeros(0), None)  # two prompts at a time
    assert seat.first_tokens_ms([10, 20, 5, 99], 7) == [10, 10, 30, 30, 35]
    seat = Seat(0, 2, readings(2, 7, 4), torch.zeros(0), None)  # each in two chunks
    assert seat.first_tokens_ms([10, 20, 5, 1], 7) == [30, 36]


def test_what_the_requirements_say_about_pages() -> None:
    assert pages_for(163_840, 64) == 2_560 <= 4_096
    room = ServingLimits(num_pages=4096, page_size=64, max_seq_len=32768, max_batch_size=256, max_prefill_tokens=16384)
    assert expect_fit(LAUNCH, room, ranks=8) == 33 * 32


@given(counts, counts, counts, counts, st.integers(1, 9), counts)
def test_a_point_fits_exactly_if_its_pages_can_be_handed_out(
    batch: int, context: int, output: int, page: int, ranks: int, there: int
) -> None:
    room = ServingLimits(there, page, max_seq_len=600, max_batch_size=300, max_prefill_tokens=1)
    left = [there] * ranks
    for sequence in range(batch):  # hand out, token by token, to one rank after the other
        for token in range(context + output):
            left[sequence % ranks] -= token % page == 0
    if min(left) < 0:
        with pytest.raises(SystemExit):
            expect_fit(OperatingPoint(batch, context, output), room, ranks)
    else:
        assert expect_fit(OperatingPoint(batch, context, output), room, ranks) == there - min(left)


@given(st.integers(0, 40), st.integers(1, 60), st.integers(1, 200))
def test_every_token_is_read_once_in_order_and_no_step_is_too_large(sequences: int, context: int, most: int) -> None:
    read = [0] * sequences
    for step in readings(sequences, context, most):
        assert 0 < (step.last - step.first) * (step.end - step.begin) <= most
        for row in range(sequences)[step.rows]:
            assert read[row] == step.begin
            read[row] = step.end
    assert read == [context] * sequences
    assert len(readings(sequences, context, most)) <= len(readings(sequences + 1, context, most))


@given(counts, st.integers(1, 400))
def test_shares_are_whole_and_even(batch: int, ranks: int) -> None:
    found = shares(batch, ranks)
    assert (sum(found), len(found)) == (batch, ranks)
    assert max(found) - min(found) <= 1
    assert list(found) == sorted(found, reverse=True)


@given(counts, counts)
def test_chunks_tile_a_text(length: int, most: int) -> None:
    assert [token for begin, end in chunks(length, most) for token in range(begin, end)] == list(range(length))
    assert max(end - begin for begin, end in chunks(length, most)) <= most


def test_on_a_gpu_the_point_is_the_launch_point_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--attention-type gqa --mode all --decode-batch-size 256 --decode-ctx-len 2000 --output-len 100 "
    flags += "--num-pages 4096 --page-size 64 --max-seq-len 32768 --max-batch-size 256 --max-prefill-tokens 16384 "
    flags += "--disable-prefix-cache --disable-chunked-prefill"
    options = parser().parse_args(flags.split())
    usual = parser().parse_args(["--disable-prefix-cache", "--disable-chunked-prefill"])
    for each in (options, usual):
        each.device = "cuda"
        assert program.settled_point(each) == LAUNCH
        room_of(each, prefill_on_cpu=1)
        assert served_size(each, batch=1, prompt=1).attention == "gqa"
    assert options == usual
    sparse = Namespace(**{**vars(usual), "attention": "dsa"})
    assert served_size(sparse, batch=1, prompt=1).attention == "sparse"
    with pytest.raises(SystemExit):
        program.settled_point(Namespace(**{**vars(usual), "output_len": 32}))
    assert "--output-len=32 is another point" in capsys.readouterr().err
    free = Namespace(**{**vars(usual), "output_len": 32, "point": "any"})
    assert program.settled_point(free) == OperatingPoint(256, 2000, 32)


@pytest.mark.parametrize("batch", [1, 3])
def test_two_ranks_go_in_lockstep_also_where_one_has_nothing(batch: int) -> None:
    said = found_by("serve", "--world-size=2", "--backend=gloo", *SMALL[1:], f"--decode-batch-size={batch}")
    assert [row["sequences"] for row in said["ranks"]] == [batch - batch // 2, batch // 2]
    assert [row["kv_pages"] for row in said["ranks"]] == [batch - batch // 2, batch // 2]
    assert (said["prefill_tokens"], said["decode_tokens"]) == (batch * 7, batch * 3)
    assert said["checked"] is True
    if batch == 1:
        assert said["slowest_rank"] == 0
