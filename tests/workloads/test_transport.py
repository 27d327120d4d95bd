"""Tokens between ranks: each copy arrives once where its experts are, comes back, and its bytes are counted exactly."""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from gpuledger_workloads import transport  # noqa: E402
from gpuledger_workloads.command_lines import TRANSPORT_SIZES as SIZES  # noqa: E402
from gpuledger_workloads.command_lines import transport_parser as parser  # noqa: E402
from gpuledger_workloads.device import settle  # noqa: E402
from gpuledger_workloads.mixture.exchange import agreed, exchange, exchanged_counts, layout, owners  # noqa: E402
from gpuledger_workloads.ranks import Rank, over_ranks  # noqa: E402
from support.programs.workload_result import told  # noqa: E402


def options(*arguments: str) -> argparse.Namespace:
    """Settled options, with the sizes of the launch point unless they are given."""
    made = parser().parse_args(["--device=cpu", *arguments])
    settle(made)
    for name, (large, _, _) in SIZES.items():
        setattr(made, name, getattr(made, name) or large)
    return made


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    told(parser(), transport.run, ["--device=cpu", *arguments])
    return json.loads(capsys.readouterr().out)


def virtual(settings: argparse.Namespace, ranks: int) -> list[Any]:
    return [transport.point(settings, Rank(index, ranks, "gloo", "cpu")) for index in range(ranks)]


def test_a_token_travels_once_to_each_rank_that_owns_one_of_its_experts() -> None:
    experts = torch.tensor([[0, 1, 5], [4, 5, 3], [2, 3, 2]])
    found = layout(experts, torch.tensor([0, 0, 1, 1, 2, 2]), 3)
    assert found.counts.tolist() == [1, 2, 2]
    assert found.order[:5].tolist() == [0, 1, 2, 0, 1]
    assert found.targets[:5].tolist() == [0, 1, 1, 2, 2]
    assert found.goes.tolist() == [[True, False, True], [False, True, True], [False, True, False]]


@st.composite
def routings(draw: st.DrawFn) -> tuple[int, Any, list[Any]]:
    """Ranks, the owner of each expert (some may own none), and the experts of each rank's tokens (some have none)."""
    ranks, count = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    owner = draw(st.lists(st.integers(0, ranks - 1), min_size=count, max_size=count))
    topk = draw(st.integers(1, count))
    token = st.permutations(range(count)).map(lambda order: order[:topk])
    tokens = [draw(st.lists(token, max_size=7)) for _ in range(ranks)]
    return ranks, torch.tensor(owner), [torch.tensor(each, dtype=torch.long).view(-1, topk) for each in tokens]


def delivered(rows: list[Any], counts: list[list[int]]) -> list[list[Any]]:
    """What an all-to-all does, by lists: `rows[source]` in the order of sending, and who gets how many."""
    inboxes: list[list[Any]] = [[] for _ in rows]
    for sent, split in zip(rows, counts, strict=True):
        left = list(sent)
        for target, count in enumerate(split):
            inboxes[target] += left[:count]
            left = left[count:]
        assert left == []
    return inboxes


@given(routings())
def test_every_copy_arrives_once_at_its_owner_and_finds_its_way_back(routing: tuple[int, Any, list[Any]]) -> None:
    ranks, owner, experts = routing
    laid = [layout(each, owner, ranks) for each in experts]
    counts = [each.counts.tolist() for each in laid]
    rows = [
        [(source, token) for token in each.order.tolist()[: sum(split)]]
        for source, (each, split) in enumerate(zip(laid, counts, strict=True))
    ]
    inboxes = delivered(rows, counts)
    for target, inbox in enumerate(inboxes):
        wanted = [
            (source, token)
            for source, chosen in enumerate(experts)
            for token, mine in enumerate(chosen.tolist())
            if any(owner[expert] == target for expert in mine)
        ]
        assert inbox == wanted  # each once, by source, then by token
    received = [[split[target] for split in counts] for target in range(ranks)]
    assert delivered(inboxes, received) == rows
    for each, split in zip(laid, counts, strict=True):
        copies = sum(split)
        assert split == each.goes.sum(0).tolist()
        assert len(each.order) == len(each.targets) >= copies
        assert each.targets.tolist()[:copies] == sorted(each.targets.tolist()[:copies])
        assert not each.order[copies:].any()
        assert not each.targets[copies:].any()


@given(st.integers(1, 300), st.integers(1, 40))
def test_experts_are_shared_out_evenly(count: int, ranks: int) -> None:
    owner = owners(count, ranks).tolist()
    held = [owner.count(rank) for rank in range(ranks)]
    assert owner == sorted(owner)
    assert sum(held) == count
    assert max(held) - min(held) <= 1


def test_a_layout_asks_the_device_for_nothing() -> None:
    """Tensors without numbers cannot answer, so that whoever asks fails."""
    at = transport.TransportLoad(
        tokens=torch.empty(5, 16, device="meta"),
        experts=torch.empty(5, 3, dtype=torch.long, device="meta"),
        weights=torch.empty(5, 3, device="meta"),
        owner=owners(8, 4, "meta"),
        room=5,
    )
    laid, shares = transport.laid_out(at, 4)
    assert (laid.order.shape, laid.counts.shape, shares.shape) == ((15,), (4,), (15,))
    with pytest.raises((RuntimeError, NotImplementedError)):
        laid.counts.tolist()


def test_the_launch_point_sends_two_megabytes_per_rank() -> None:
    """256 tokens, 8 of 256 experts, 8 ranks: 5.3 ranks per token, 4.6 of them remote; 32 x 4.63 x 7168 x 2 bytes."""
    settings = options("--dtype=bf16", "--world-size=8")
    places = virtual(settings, 8)
    goes = [transport.laid_out(at, 8)[0].goes for at in places]
    copies = sum(int(each.sum()) for each in goes)
    remote = copies - sum(int(each[:, rank].sum()) for rank, each in enumerate(goes))
    assert [len(at.tokens) for at in places] == [32] * 8
    assert copies / 256 == pytest.approx(5.3, abs=0.15)
    assert remote / 256 == pytest.approx(4.63, abs=0.15)
    assert remote / 8 * 7168 * 2 == pytest.approx(2.1e6, rel=0.04)
    assert sum(transport.chances(settings)) == pytest.approx(5.3, abs=0.01)
    assert sum(transport.chances(settings)) * 7 / 8 == pytest.approx(4.635, abs=0.01)


@pytest.mark.parametrize(("count", "topk", "ranks"), [(6, 2, 3), (7, 3, 4), (5, 5, 2), (3, 1, 5)])
def test_the_expected_ranks_are_the_average_over_all_choices(count: int, topk: int, ranks: int) -> None:
    settings = options(f"--num-experts={count}", f"--topk={topk}", f"--world-size={ranks}")
    owner = owners(count, ranks).tolist()
    distinct = [len({owner[expert] for expert in chosen}) for chosen in combinations(range(count), topk)]
    assert sum(transport.chances(settings)) == pytest.approx(sum(distinct) / len(distinct))


@pytest.mark.parametrize("routing", ["random", "uniform"])
@pytest.mark.parametrize(("count", "topk"), [(1, 1), (5, 3), (7, 7), (64, 6)])
def test_a_token_has_an_expert_once(routing: str, count: int, topk: int) -> None:
    settings = options(f"--routing={routing}", f"--num-experts={count}", f"--topk={topk}", "--decode-batch-size=50")
    experts, weights = transport.routed(settings)
    assert experts.shape == weights.shape == (50, topk)
    assert all(len(set(row)) == topk and max(row) < count for row in experts.tolist())


def sums(settings: argparse.Namespace, ranks: int, factors: list[float]) -> list[Any]:
    """Each rank's weighted sums, token by token and expert by expert; the rank of an expert multiplies."""
    found = []
    for at in virtual(settings, ranks):
        whole = torch.zeros_like(at.tokens)
        for token, (chosen, weights) in enumerate(zip(at.experts.tolist(), at.weights.tolist(), strict=True)):
            for expert, weight in zip(chosen, weights, strict=True):
                whole[token] += weight * factors[int(at.owner[expert])] * at.tokens[token]
        found.append(whole)
    return found


EMPTY = (
    "--decode-batch-size=2",
    "--hidden-size=8",
    "--num-experts=2",
    "--topk=1",
)  # a rank has no token, one no expert
SMALL = ("--decode-batch-size=12", "--hidden-size=8", "--num-experts=9", "--topk=3")


def test_the_check_knows_right_sums() -> None:
    settings = options(*SMALL)
    for factors, same in (([1.0] * 3, True), ([1.0, 2.0, 3.0], False)):
        for index, whole in enumerate(sums(settings, 3, factors)):
            rank = Rank(index, 3, "gloo", "cpu")
            transport.checked(transport.point(settings, rank), whole, rank.index, "fp32", same_everywhere=same)


@pytest.mark.parametrize(
    "fault", ["a token lost", "tokens swapped", "weights forgotten", "the wrong rank", "not a number"]
)
def test_the_check_notices(fault: str) -> None:
    settings, rank = options(*SMALL), Rank(1, 3, "gloo", "cpu")
    at = transport.point(settings, rank)
    whole = sums(settings, 3, [1.0, 1.0, 1.0] if fault != "the wrong rank" else [1.0, 3.0, 2.0])[1]
    if fault == "a token lost":
        whole[2] = 0
    elif fault == "tokens swapped":
        whole[:2] = whole[:2].flip(0)
    elif fault == "weights forgotten":
        whole = at.tokens
    elif fault == "not a number":
        whole[3, 3] = float("nan")
    with pytest.raises(SystemExit, match="on rank 1 a token came back wrong"):
        transport.checked(at, whole, rank.index, "fp32", same_everywhere=fault != "the wrong rank")


def test_one_rank_runs_here_and_sends_nothing_away(capsys: pytest.CaptureFixture[str]) -> None:
    found = ran(capsys, "--iters=3", "--warmup-iters=1", *SMALL)
    assert (found["checked"], found["remote_bytes"], found["local_bytes"]) == (True, 0, 12 * 8 * 4)
    assert found["bandwidth_bytes_per_s"] is None  # nothing moved: no rate, rather than one of 0
    assert found["settings"]["warmup"] == 1
    assert found["ranks_per_token"] == found["expected_ranks_per_token"] == 1.0
    for phase in (*transport.PHASES, "round_trip"):
        low, middle, high = (found[f"{phase}_{point}_ms"] for point in ("p10", "median", "p99"))
        assert 0 < low <= middle <= high


def test_a_program_that_loses_weights_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = transport.laid_out

    def wrong(at: Any, ranks: int) -> Any:
        laid, shares = right(at, ranks)
        return laid, torch.ones_like(shares)

    monkeypatch.setattr(transport, "laid_out", wrong)
    with pytest.raises(SystemExit, match=r"^error: on rank 0 a token came back wrong") as end:
        ran(capsys, "--iters=1", "--warmup=0", *SMALL)
    assert isinstance(end.value.code, str)  # which is exit code 1


@pytest.mark.parametrize(("ranks", "routing", "sizes"), [(2, "random", SMALL), (3, "uniform", EMPTY)])
def test_ranks_move_what_the_formula_says(
    capsys: pytest.CaptureFixture[str], ranks: int, routing: str, sizes: tuple[str, ...]
) -> None:
    arguments = ("--dtype=bf16", f"--routing={routing}", f"--world-size={ranks}", *sizes)
    found = ran(capsys, "--iters=5", "--warmup=1", *arguments)
    settings = options(*arguments)
    batch = settings.decode_batch_size
    owner = owners(settings.num_experts, ranks).tolist()
    experts, _ = transport.routed(settings)
    rows = experts.tolist()
    for rank, row in enumerate(found["ranks"]):
        mine = rows[rank * batch // ranks : (rank + 1) * batch // ranks]
        targets = [target for chosen in mine for target in {owner[expert] for expert in chosen}]
        assert (row["tokens"], row["copies"]) == (len(mine), len(targets))
        assert row["local_bytes"] == targets.count(rank) * 8 * 2
        assert row["remote_bytes"] == (len(targets) - targets.count(rank)) * 8 * 2
    assert sum(row["returned_bytes"] for row in found["ranks"]) == found["remote_bytes"]
    assert found["bandwidth_bytes_per_s"] == pytest.approx(
        1e3 * found["most_remote_bytes"] / found["dispatch_median_ms"], rel=1e-3
    )
    assert found["checked"]
    assert 0 <= found["slowest_rank"] < ranks
    assert ("expected_remote_bytes" in found) == (routing == "random")


@pytest.mark.parametrize("mode", transport.WAYS)
@pytest.mark.parametrize(("ranks", "sizes"), [(1, SMALL), (3, EMPTY), (5, SMALL)])
def test_streams_bring_home_what_processes_do(
    capsys: pytest.CaptureFixture[str], mode: str, ranks: int, sizes: tuple[str, ...]
) -> None:
    arguments = ("--iters=2", "--warmup=0", f"--mode={mode}", f"--world-size={ranks}", "--ranks-as=streams", *sizes)
    found = ran(capsys, *arguments)  # which checks all sums
    batch = options(*arguments).decode_batch_size
    room = -(-batch // ranks)
    assert sum(row["tokens"] for row in found["ranks"]) == batch
    if mode == "low-latency":
        assert {row["remote_bytes"] for row in found["ranks"]} == {(ranks - 1) * room * 8 * 4}
        copies = sum(row["copies"] for row in found["ranks"])
        assert found["padding_share"] == pytest.approx(1 - copies / (ranks * ranks * room), abs=1e-4)
        assert "expected_remote_bytes" not in found


def test_low_latency_over_processes_moves_the_same_whatever_the_routing(capsys: pytest.CaptureFixture[str]) -> None:
    found = ran(capsys, "--iters=2", "--warmup=0", "--mode=low-latency", "--world-size=2", "--backend=gloo", *SMALL)
    assert [row["remote_bytes"] for row in found["ranks"]] == [6 * 8 * 4] * 2
    assert found["checked"]


def moved(rank: Rank, _: argparse.Namespace) -> dict[str, Any]:
    """Rank 1 sends nothing, and rank 2 gets nothing: rows of several shapes and types."""
    send = {0: [1, 2, 0], 1: [0, 0, 0], 2: [3, 1, 0]}[rank.index]
    counts = agreed(torch.tensor(send), exchanged_counts(torch.tensor(send), rank))
    names = torch.arange(sum(send)) + 10 * rank.index
    flat = exchange(names, counts.send, counts.receive, rank)
    wide = exchange(names.to(torch.bfloat16).view(-1, 1, 1).expand(-1, 2, 3), counts.send, counts.receive, rank)
    back = exchange(wide, counts.receive, counts.send, rank)
    return {
        "counts": (counts.send, counts.receive),
        "flat": flat.tolist(),
        "wide": (tuple(wide.shape), str(wide.dtype), wide[:, 1, 2].tolist()),
        "back": back[:, 0, 0].tolist(),
    }


def test_rows_of_any_type_take_the_way_there_and_back_also_where_a_rank_has_none() -> None:
    answers = over_ranks(moved, options("--world-size=3"))
    assert answers is not None
    assert [each["counts"] for each in answers] == [
        ([1, 2, 0], [1, 0, 3]),
        ([0, 0, 0], [2, 0, 1]),
        ([3, 1, 0], [0, 0, 0]),
    ]
    assert [each["flat"] for each in answers] == [[0, 20, 21, 22], [1, 2, 23], []]
    assert [each["wide"] for each in answers] == [
        ((4, 2, 3), "torch.bfloat16", [0, 20, 21, 22]),
        ((3, 2, 3), "torch.bfloat16", [1, 2, 23]),
        ((0, 2, 3), "torch.bfloat16", []),
    ]
    assert [each["back"] for each in answers] == [[0, 1, 2], [], [20, 21, 22, 23]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_on_a_gpu(capsys: pytest.CaptureFixture[str], backend: str) -> None:
    told(parser(), transport.run, ["--device=cuda", f"--backend={backend}", "--iters=5", *SMALL])
    assert json.loads(capsys.readouterr().out)["checked"]


def test_what_a_rank_takes_beyond_the_shortest_is_waiting() -> None:
    times = {"dispatch": np.array([[1.0, 2.0], [3.0, 2.0]]), "combine": np.array([[1.0, 1.0], [1.0, 1.0]])}
    assert transport.waiting(times) == round(2 / 12, 4)
    assert transport.waiting({phase: of_rank[:1] for phase, of_rank in times.items()}) is None
    assert transport.waiting({phase: 0 * of_rank for phase, of_rank in times.items()}) is None
