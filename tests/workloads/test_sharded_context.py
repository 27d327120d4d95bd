"""A text whose cache is spread over ranks, on the CPU: it reads as it does with one cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from gpuledger_workloads.decoder.model import build  # noqa: E402
from gpuledger_workloads.decoder.size import TINY  # noqa: E402
from gpuledger_workloads.mixture.exchange import StreamRanks  # noqa: E402
from gpuledger_workloads.serving import sharded_context  # noqa: E402
from gpuledger_workloads.serving.sharded_context import KvShard, ShardedText  # noqa: E402
from support.programs.workload_result import found_by  # noqa: E402

SMALL = ("--prompt-len=40", "--chunk-size=16", "--output-len=3", "--page-size=4", "--warmup=0")
ATTENTIONS = ("gqa", "mla", "sparse")


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 60), st.integers(0, 60))
def test_every_position_is_kept_once_and_without_holes(ranks: int, page: int, begin: int, more: int) -> None:
    shards = [KvShard(index, ranks, page) for index in range(ranks)]
    end = begin + more
    dealt = [position for shard in shards for position in shard.kept(begin, end).tolist()]
    assert sorted(dealt) == list(range(begin, end))
    for shard in shards:
        slots = shard.slots(shard.kept(0, end)).tolist()
        assert slots == list(range(len(slots)))
        assert len(slots) <= shard.room(end) < len(slots) + 2 * page


@settings(max_examples=12)
@given(st.sampled_from(ATTENTIONS), st.integers(1, 4), st.integers(1, 5), st.sets(st.integers(1, 19)))
def test_a_text_reads_as_it_does_with_one_cache(attention: str, ranks: int, page: int, cuts: set[int]) -> None:
    size = replace(TINY, attention=attention, layers=1, prompt=20, index_top_k=5)
    alone: Any = build(size, 3, "cpu", "fp32", 1)
    spread = ShardedText(StreamRanks(ranks, "cpu"), size, 3, page, device="cpu", dtype="fp32", seed=1)
    prompt = torch.randint(size.vocab, (size.batch, 20), generator=torch.Generator().manual_seed(3))
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), 20], strict=True):
        found, expected = spread.prefill(prompt[:, begin:end], begin), alone.prefill(prompt[:, begin:end], begin)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for _ in range(3):
        torch.testing.assert_close(spread.step(), alone.step(), rtol=1e-4, atol=1e-5)
    assert torch.equal(spread.text, alone.text)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_run_spreads_pages_over_its_ranks(attention: str) -> None:
    said = found_by("longctx", *SMALL, "--world-size=3", "--ranks-as=streams", f"--attention={attention}")
    assert (said["checked"], said["kv_pages_needed"]) == (True, 4)  # 43 tokens take 11 pages of 4
    assert said["prefill_tokens"] == 40
    assert said["kv_bytes"] * 2 < found_by("longctx", *SMALL, f"--attention={attention}")["kv_bytes"]


def test_processes_read_together() -> None:
    assert found_by("longctx", *SMALL, "--world-size=2", "--backend=gloo", "--attention=mla")["checked"] is True


def test_a_rank_that_is_not_heard_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = sharded_context.merged
    monkeypatch.setattr(sharded_context, "merged", lambda parts: honest(parts[1:]))
    with pytest.raises(SystemExit, match="off by"):
        found_by("longctx", *SMALL, "--world-size=2", "--ranks-as=streams")
