"""A long prompt in chunks, on the CPU: chunks change nothing, faults are named, and a stall ends the program."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from gpuledger_workloads import longctx as program  # noqa: E402
from gpuledger_workloads.decoder import model as attention_module  # noqa: E402
from gpuledger_workloads.decoder.model import (  # noqa: E402
    Decoder,
    build,
    chunk_attention,
)
from gpuledger_workloads.decoder.size import DecoderSize  # noqa: E402
from gpuledger_workloads.serving.operating_point import chunks  # noqa: E402
from support.programs.plain_decoder import plain  # noqa: E402
from support.programs.workload_result import found_by  # noqa: E402

TINY = DecoderSize(layers=2, width=32, heads=4, kv_heads=2, ffn=48, vocab=61, batch=2, prompt=24)
SMALL = ("--prompt-len=40", "--chunk-size=16", "--output-len=3", "--warmup=1")


@settings(max_examples=12)
@given(st.data())
def test_chunks_of_any_length_give_what_a_plain_pass_gives(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([TINY, replace(TINY, kv_heads=1), replace(TINY, experts=3, top_k=2)]))
    cuts = sorted(data.draw(st.sets(st.integers(1, size.prompt - 1)), label="cuts"))
    model: Any = build(size, 4, "cpu", "fp32", seed=1)
    prompt = torch.randint(size.vocab, (size.batch, size.prompt), generator=torch.Generator().manual_seed(2))
    for begin, end in zip([0, *cuts], [*cuts, size.prompt], strict=True):
        logits = model.prefill(prompt[:, begin:end], begin)
    expected = torch.stack([plain(model, size, text)[-1] for text in prompt])
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(model.text[:, : size.prompt], prompt)
    assert model.text[:, size.prompt].tolist() == expected.argmax(-1).tolist()
    assert model.position.tolist() == [size.prompt]


@given(st.integers(1, 9), st.integers(0, 20), st.sampled_from([(4, 4), (4, 2), (6, 1)]))
def test_a_chunk_sees_what_torch_calls_lower_right(length: int, before: int, heads: tuple[int, int]) -> None:
    """What a GPU is given instead of a mask; here torch makes the mask of it."""
    from torch.nn.attention.bias import causal_lower_right

    drawn = torch.Generator().manual_seed(length)
    query = torch.randn(2, heads[0], length, 8, generator=drawn)
    keys, values = torch.randn(2, 2, heads[1], length + before, 8, generator=drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says why no kernel of a GPU will do
        expected = torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=causal_lower_right(length, length + before), enable_gqa=True
        )
    torch.testing.assert_close(chunk_attention(query, keys, values), expected)


def test_a_run_tells_chunk_by_chunk() -> None:
    said = found_by("longctx", *SMALL, "--iters=2", "--page-size=8", "--num-pages=6")
    assert (said["workload"], said["checked"]) == ("longctx", True)
    assert [(row["from_token"], row["to_token"], row["chunks"]) for row in said["chunks"]] == [
        (0, 16, 1),
        (16, 32, 1),
        (32, 40, 1),
    ]
    assert (said["kv_pages_needed"], said["kv_pages_there"]) == (6, 6)  # 43 tokens
    assert said["prefill_tokens"] == 40
    assert said["kv_bytes"] == 2 * 2 * 1 * 2 * 64 * 16 * 4  # keys and values, layers, sequence, heads, positions
    assert said["ttft_ms"] == pytest.approx(sum(row["total_ms"] for row in said["chunks"]), abs=1e-3)
    assert min(said["prefill_tokens_per_s"], said["last_to_first_chunk"], said["itl_p99_ms"]) > 0
    assert said["peak_memory_bytes"] is None
    assert said["peak_memory_bytes_reason"]


def test_a_long_run_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("gpuledger_workloads.program._EVERY_S", 0.0)
    found_by("longctx", *SMALL)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tokens: ")]
    assert [line.partition(",")[0] for line in lines] == ["tokens: 16 of 40", "tokens: 32 of 40", "tokens: 40 of 40"]
    assert all(line.endswith(" tokens/s") for line in lines)


@given(st.integers(1, 90), st.integers(1, 30), st.integers(1, 3))
def test_the_table_of_chunks_holds_all_of_them_in_few_rows(length: int, chunk: int, batch: int) -> None:
    parts = chunks(length, chunk)
    rows = program.table(parts, [2.0] * len(parts), batch)
    assert len(rows) <= program.ROWS
    assert [rows[0]["from_token"], *(row["to_token"] for row in rows)] == [*(row["from_token"] for row in rows), length]
    assert sum(row["chunks"] for row in rows) == len(parts)
    for row in rows:
        tokens = batch * (row["to_token"] - row["from_token"])
        assert row["tokens_per_s"] == pytest.approx(tokens / row["total_ms"] * 1e3, abs=0.1)


def test_the_slowdown_compares_chunks_of_one_length() -> None:
    parts = chunks(40, 16)  # the last has 8 tokens
    passes: Any = [
        program.Passed([1.0, 2.0, 9.0], [4.0], None, None, []),
        program.Passed([3.0, 6.0, 9.0], [6.0], None, None, []),
    ]
    found = program.figures(passes, parts, TINY)
    assert found["last_to_first_chunk"] == 2.0
    assert found["ttft_ms"] == 2 + 4 + 9
    assert found["prefill_tokens_per_s"] == round(80 / 15 * 1e3, 1)
    assert found["itl_median_ms"] == 5


def test_chunks_that_see_too_little_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def upper_left(query: Any, keys: Any, values: Any) -> Any:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(query, keys, values, is_causal=True, enable_gqa=True)

    monkeypatch.setattr(attention_module, "chunk_attention", upper_left)
    with pytest.raises(SystemExit, match="the logits after 512 tokens in three chunks are off by"):
        found_by(
            "longctx",
        )
    monkeypatch.setattr(program, "check_chunks", lambda *_: 0.0)  # the second check notices by itself
    with pytest.raises(SystemExit, match="the logits of the last chunk are off by"):
        found_by(
            "longctx",
        )


def test_a_cache_that_loses_a_chunk_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Decoder.step

    def step(self: Any) -> Any:
        for layer in self.layers:
            layer.attention.values[:, :, 64:320] = 0
        return honest(self)

    monkeypatch.setattr(Decoder, "step", step)
    with pytest.raises(SystemExit, match="off by"):
        found_by("longctx", "--prompt-len=500")


@pytest.mark.parametrize(
    ("method", "number", "place"), [("prefill", 7, "chunk 2"), ("step", 1, "decode step 1")], ids=["chunk", "step"]
)
def test_logits_that_are_not_finite_are_named(
    method: str, number: int, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, calls = getattr(Decoder, method), 0

    def faulty(self: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1  # of prefill: four to check, one to warm up, then the chunks
        logits = honest(self, *arguments)
        return torch.full_like(logits, math.inf) if calls == number else logits

    monkeypatch.setattr(Decoder, method, faulty)
    with pytest.raises(SystemExit, match=f"^error: the logits of {place} are not finite$"):
        found_by("longctx", *SMALL)


STALLS = """
import time
from gpuledger_workloads import longctx
from gpuledger_workloads.command_lines import longctx_parser as parser
from gpuledger_workloads.decoder.model import Decoder
honest = Decoder.prefill
def prefill(self, prompt, begin=0):
    if prompt.shape[1] == 16 and begin == 32:
        time.sleep(600)
    return honest(self, prompt, begin)
Decoder.prefill = prefill
arguments = ["--device=cpu", "--prompt-len=64", "--chunk-size=16", "--stall-timeout=8", "--output-len=1"]
longctx.run(parser().parse_args(arguments))
"""


def test_a_stall_ends_the_program_with_a_sentence_that_names_the_chunk() -> None:
    done = subprocess.run([sys.executable, "-c", STALLS], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: stalled: chunk 3 of 4, tokens 32 to 48, did not end within 8 s" in done.stderr
    assert "Traceback" not in done.stderr
