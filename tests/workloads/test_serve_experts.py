"""A server whose experts are spread over ranks, on the CPU: how they are spread and reached changes no token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from gpuledger_workloads import serve as program  # noqa: E402
from gpuledger_workloads.command_lines import serve_parser as parser  # noqa: E402
from gpuledger_workloads.decoder.model import Decoder  # noqa: E402
from gpuledger_workloads.mixture import exchange  # noqa: E402
from gpuledger_workloads.mixture.exchange import StreamRanks, owners  # noqa: E402
from gpuledger_workloads.mixture.experts import MixtureShape, bank  # noqa: E402
from gpuledger_workloads.mixture.routing import Router  # noqa: E402
from gpuledger_workloads.serve import Worker  # noqa: E402
from support.programs.plain_mixture import dumb  # noqa: E402
from support.programs.workload_result import found_by  # noqa: E402
from support.thorough import tries  # noqa: E402

SMALL = ("--decode-batch-size=5", "--decode-ctx-len=11", "--output-len=4", "--max-prefill-tokens=22", "--warmup=1")
ATTENTIONS = ("gqa", "mla", "sparse")


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    """A rank that was refused leaves its group as it is: its process would end."""
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def texts(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[list[int]]:
    """What each sequence says at the end."""
    workers: list[Worker] = []

    class Kept(Worker):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            workers.append(self)

    monkeypatch.setattr(program, "Worker", Kept)
    said = found_by("serve", *SMALL, *arguments)
    assert said["expert_error_share"] < 1e-5
    assert said["logits_error_share"] < 1e-5
    models: list[Any] = [seat.model for seat in workers[0].seats if seat.sequences]
    return [row for model in models for row in model.text[:, :15].tolist()]


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_neither_ranks_nor_dispatch_change_a_token(attention: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = texts(monkeypatch, f"--attention={attention}", "--dispatch=normal", "--world-size=1")
    assert len({tuple(text) for text in alone}) == 5
    for dispatch in ("normal", "low-latency"):
        flags = (f"--attention={attention}", f"--dispatch={dispatch}", "--ranks-as=streams")
        assert texts(monkeypatch, *flags, "--world-size=3") == alone
    assert texts(monkeypatch, *flags, "--world-size=7") == alone  # two ranks have no sequence


def test_processes_and_streams_say_the_same() -> None:
    flags = ("--attention=mla", "--dispatch=low-latency", "--world-size=2", "--shared-experts=1", "--dense-layers=1")
    processes, streams = (
        found_by("serve", *SMALL, *flags, "--backend=gloo"),
        found_by("serve", *SMALL, *flags, "--ranks-as=streams"),
    )
    for said in (processes, streams):
        assert said["checked"] is True
        assert [row["sequences"] for row in said["ranks"]] == [3, 2]
        assert said["expert_error_share"] < 1e-5
    same = ("parameters", "kv_bytes", "prefill_tokens", "decode_tokens", "kv_pages_needed")
    assert [processes[key] for key in same] == [streams[key] for key in same]
    assert (processes["settings"]["ranks_as"], streams["settings"]["ranks_as"]) == ("processes", "streams")


@pytest.mark.parametrize("dispatch", ["normal", "low-latency"])
def test_experts_in_each_others_place_are_noticed(dispatch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = exchange.routes_here

    def came(notes: Any, held: Any, assigned: int) -> Any:
        routed = honest(notes, held, assigned)
        here = routed.experts < len(held)
        return type(routed)(routed.experts.where(~here, len(held) - 1 - routed.experts), routed.weights, assigned)

    monkeypatch.setattr(exchange, "routes_here", came)
    with pytest.raises(SystemExit, match="from what the same experts give without dispatch"):
        found_by("serve", *SMALL, "--ranks-as=streams", "--world-size=2", f"--dispatch={dispatch}")


def test_a_latent_cache_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Decoder.follow

    def follow(self: Any, *arguments: Any) -> Any:
        for layer in self.layers:
            layer.attention.kept.copy_(layer.attention.kept.roll(1, dims=0))
        return honest(self, *arguments)

    monkeypatch.setattr(Decoder, "follow", follow)
    with pytest.raises(SystemExit, match="off by"):
        found_by("serve", *SMALL, "--attention=mla", "--dispatch=low-latency", "--ranks-as=streams", "--world-size=1")


@settings(max_examples=tries(10))
@given(st.data())
def test_spread_experts_give_what_each_token_alone_would_get(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, 4), "ranks")
    experts = data.draw(st.integers(ranks, 7), "experts")
    k = data.draw(st.integers(1, experts), "k")
    counts = data.draw(st.lists(st.integers(0, 5), min_size=ranks, max_size=ranks), "tokens")
    dispatch = exchange.DISPATCHES[data.draw(st.sampled_from(sorted(exchange.DISPATCHES)), "dispatch")]
    shape, drawn = MixtureShape(experts, 8, 4), torch.Generator().manual_seed(ranks * 100 + k)
    made: Any = {"device": "cpu", "dtype": torch.float32, "seed": 3}
    router = Router(torch.randn(experts, 8, generator=drawn), k, None)
    owner = owners(experts, ranks)
    places = []
    for rank in range(ranks):
        held = (owner == rank).nonzero().flatten().tolist()
        places.append(
            exchange.RankExperts(router, bank(shape, range(held[0], held[-1] + 1), **made), owner, max(counts))
        )
    rows = [torch.randn(count, 8, generator=drawn) for count in counts]
    for given_rows, found in zip(rows, dispatch(StreamRanks(ranks, "cpu"), places, rows), strict=True):
        assert found.shape == given_rows.shape
        routed = router(given_rows)
        expected = dumb(given_rows, routed.experts, routed.weights, count=experts, ffn=4, seed=3)
        torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-5)


def test_low_latency_sends_the_same_whatever_the_routing_is_and_the_host_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A graph replays what it saw: no shape may depend on the data, and nothing may be read."""
    shape, owner = MixtureShape(6, 8, 4), owners(6, 2)
    made: Any = {"device": "cpu", "dtype": torch.float32, "seed": 3}
    shapes: list[Any] = []
    honest = StreamRanks.swapped

    def swapped(self: Any, rows: Any, sends: Any, receives: Any) -> Any:
        shapes.append(([each.shape for each in rows], sends, receives))
        return honest(self, rows, sends, receives)

    monkeypatch.setattr(StreamRanks, "swapped", swapped)
    monkeypatch.setattr(StreamRanks, "read", lambda *_: pytest.fail("the host reads"))
    for seed in range(2):
        router = Router(torch.randn(6, 8, generator=torch.Generator().manual_seed(seed)), 2, None)
        places = [
            exchange.RankExperts(router, bank(shape, range(3 * rank, 3 * rank + 3), **made), owner, 4)
            for rank in range(2)
        ]
        exchange.low_latency(StreamRanks(2, "cpu"), places, [torch.ones(4, 8), -torch.ones(1, 8)])
    assert len(shapes) == 4
    assert shapes[:2] == shapes[2:]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_on_a_gpu_a_graph_holds_the_step_of_all_ranks(attention: str) -> None:
    """Capturing fails where the host waits for anything; the check fails where a replay is not what a step is."""
    sizes = ("--layers=2", "--width=256", "--heads=4", "--kv-heads=2", "--vocab=512", "--experts=16", "--ffn=128")
    flags = ("--point=any", "--decode-batch-size=13", "--decode-ctx-len=70", "--output-len=5", "--index-top-k=32")
    ranks = ("--world-size=4", "--ranks-as=streams", "--dispatch=low-latency", "--graph", f"--attention={attention}")
    said: Any = program.run(parser().parse_args(["--device=cuda", *sizes, *flags, *ranks]))
    assert said["checked"] is True
