"""`bench ep` on a CPU: ranks together compute what each could compute alone, also where some have nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed")

from gpuledger.present.views.runs.bench import bench_document  # noqa: E402
from gpuledger.present.writers import write  # noqa: E402
from gpuledger_workloads import ep, moe  # noqa: E402
from gpuledger_workloads.command_lines import ep_parser as parser  # noqa: E402
from gpuledger_workloads.mixture.exchange import layout, owners  # noqa: E402
from gpuledger_workloads.mixture.routing import planned  # noqa: E402
from gpuledger_workloads.ranks import Rank, over_ranks  # noqa: E402
from support.command import ROOT  # noqa: E402
from support.programs.ep_ranks import compared, faulty  # noqa: E402

SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "schemas" / "gpuledger.bench-1.json").read_text()))
TESTS = str(Path(__file__).parents[1])
CASES = {
    1: [([7], "random"), ([0], "random"), ([5], "hot")],
    2: [([6, 9], "random"), ([0, 4], "power-law"), ([5, 0], "hot"), ([0, 0], "uniform"), ([1, 1], "uniform")],
    3: [([4, 0, 7], "random"), ([0, 0, 3], "hot"), ([0, 0, 0], "random"), ([5, 5, 5], "power-law")],
}


def asked(*arguments: str) -> Any:
    options = parser().parse_args(["--device=cpu", "--iters=3", "--warmup=1", *arguments])
    assert moe.complete(options) is None
    return options


def ranked(work: Any, options: Any) -> list[Any]:
    """Started processes find the modules of this folder as this one does."""
    found = over_ranks(work, options)
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    known = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([TESTS, str(ROOT / "src"), *([known] if known else [])]))
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("count", "experts", "k"), [(1, 3, 2), (2, 5, 3), (3, 7, 4)])
def test_ranks_compute_what_a_dumb_loop_does(count: int, experts: int, k: int) -> None:
    """Uneven experts, ranks without tokens, no tokens at all; every mode; twice the same bits."""
    options = asked(
        f"--world-size={count}", f"--num-experts={experts}", f"--experts-per-token={k}", "--hidden-dim=8", "--ffn-dim=5"
    )
    options.cases = CASES[count]
    found = ranked(compared, options)
    assert max(each["error"] for each in found) < 1e-5
    assert sorted(expert for each in found for expert in each["held"]) == list(range(experts))
    sizes = [len(each["held"]) for each in found]
    assert max(sizes) - min(sizes) <= 1
    weights, tokens_of_last_case = zip(*(each["own"] for each in found), strict=True)
    assert len(set(weights)) == len(set(tokens_of_last_case)) == count  # each has its own
    for case, (tokens, _) in enumerate(CASES[count]):
        traffic = [each["traffic"][case] for each in found]
        for here, (send, wanted, receive, _) in enumerate(traffic):
            assert send == wanted  # once to each rank that has one of its experts
            assert receive == [other[0][here] for other in traffic]
        assert sum(assigned for *_, assigned in traffic) == k * sum(tokens)


def test_the_program_on_two_ranks() -> None:
    arguments = ["--mode=all", "--tokens-per-rank=0,9", "--num-experts=5", "--hidden-dim=16", "--ffn-dim=8"]
    result: Any = ep.run(asked(*arguments, "--routing=hot", "--backend=gloo"))
    assert result["checked"] is True
    SCHEMA.validate(json.loads(write(bench_document(result), "json")))
    assert [row["mode"] for row in result["modes"]] == ["loop", "batched_gemm", "grouped"]
    assert [(row["mode"], row["rank"]) for row in result["ranks"]][2:4] == [("batched_gemm", 0), ("batched_gemm", 1)]
    assert all(list(row) == list(result["ranks"][0]) for row in result["ranks"])
    rows = [row for row in result["ranks"] if row["mode"] == "loop"]
    assert [row["tokens"] for row in rows] == [0, 9]
    assert sum(row["assigned"] for row in rows) == 18
    for row in result["ranks"]:
        assert 0 < row["comm_share"] <= 1
        assert row["comm_ms"] <= row["median_ms"]
        assert row["sent_bytes"] == row["dispatch_bytes"] + row["combine_bytes"]
    # tokens of 16 numbers of 4 bytes, 2 places of 8 bytes; 16 bytes to say how many come
    away = rows[0]["received"]
    assert [row["dispatch_bytes"] for row in rows] == [16, away * (64 + 16) + 16]
    assert [row["combine_bytes"] for row in rows] == [away * 64, 0]
    assert result["modes"][0]["sent_bytes"] == 32 + away * 144
    assert result["expert_imbalance"] == 2.5
    assert result["ranks_per_token"] == pytest.approx(sum(row["sent_tokens"] for row in rows) / 9, rel=1e-3)
    assert result["staged_through_host"] is False
    for mode in result["modes"]:
        both = [row["median_ms"] for row in result["ranks"] if row["mode"] == mode["mode"]]
        assert mode["median_ms"] >= max(both) - 1e-3  # the median of the slowest is no less than the slowest median
        assert mode["slowest_rank"] == both.index(max(both))


def test_no_tokens_at_all_on_one_rank() -> None:
    result: Any = ep.run(asked("--world-size=1", "--batch-size=0", "--mode=grouped"))
    assert (result["rank_imbalance"], result["rank_imbalance_reason"]) == (None, "no rank has tokens")
    assert (result["tokens_per_s"], result["sent_bytes"], result["ranks_per_token"]) == (0, 0, None)


def test_experts_in_each_others_place_are_noticed_by_a_rank() -> None:
    options = asked("--world-size=2", "--mode=grouped", "--routing=uniform")
    options.tokens_per_rank = [8, 8]
    with pytest.raises(SystemExit, match=r"error: rank [01]: grouped: a token is off by"):
        ranked(faulty, options)


def test_a_token_goes_to_so_many_ranks() -> None:
    """Top 8 of 256 over 8 ranks: 5.3 distinct ones by chance, 4.63 of them remote; a plan of one rank's 4096 tokens."""
    plan = planned("power-law", 4096, 256, 8, exponent=0.0, seed=0)
    assert plan is not None
    sent = layout(plan, owners(256, 8), 8)
    ranks = float(sent.counts.sum()) / 4096
    assert ranks == pytest.approx(5.3, abs=0.05)
    assert ranks * 7 / 8 == pytest.approx(4.63, abs=0.05)


def test_time_in_collectives_is_that_between_the_marks() -> None:
    communication = ep.Communication(Rank(0, 1, "gloo", "cpu"))
    with communication():  # warm-up: before the first pass
        pass
    assert communication.times_ms() == []
    communication._passes = [[(1.0, 1.5), (2.0, 2.25)], []]
    assert communication.times_ms() == [750.0, 0.0]


def test_nccl_without_gpus_is_one_sentence() -> None:
    with pytest.raises(SystemExit, match="nccl moves memory of GPUs only"):
        ep.run(asked("--backend=nccl"))


def test_under_torchrun_rank_0_alone_speaks() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [
        "-m",
        "gpuledger_workloads.ep",
        "--device=cpu",
        "--iters=1",
        "--warmup=0",
        "--mode=loop",
        "--format=json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout[done.stdout.index("{") :])  # as `gpuledger bench ep` tells it
    assert (result["workload"], result["settings"]["world_size"], len(result["ranks"])) == ("ep", 2, 2)
