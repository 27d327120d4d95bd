"""Programs in several variants, on the CPU: they run, variants agree, and a failure is told, not hidden.

What they lose, and that they lose it for the reason that they name, shows only on a GPU.
"""

from __future__ import annotations

import gc
import json
import math
import weakref
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from support.command import ROOT

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from gpuledger_workloads.device import captured  # noqa: E402
from lab.programs import pairs  # noqa: E402
from lab.programs.paired import PairedProgram, busy, fresh, library, planted, structures, unseen  # noqa: E402

PAGES = ROOT / "src" / "gpuledger" / "findings" / "explain"
NEEDS = {
    **dict.fromkeys(("hf_tolist", "hf_stop_strings", "hf_moe", "hf_autocast", "hf_graph"), "transformers"),
    **dict.fromkeys(("grad_norms", "adamw_loop", "bert_transfers", "bert_one_by_one"), "transformers"),
    **dict.fromkeys(("llama_float32", "eager_attention", "adamw_foreach_off", "llama_tuned"), "transformers"),
    **dict.fromkeys(("gpt2_gelu", "gpt2_eager", "bert_float32", "bert_eager", "llama_compiled"), "transformers"),
    **dict.fromkeys(("resnet_pageable", "resnet_collate", "resnet_item", "resnet_transforms"), "torchvision"),
    **dict.fromkeys(("resnet_metrics", "vit_empty_cache", "resnet_nchw", "resnet_tuned"), "torchvision"),
    **dict.fromkeys(("resnet_forward_nchw", "resnext_nchw", "vit_float32"), "torchvision"),
}
"""The packages that programs of models need."""
EVERY = (
    *planted.PROGRAMS,
    *library.PROGRAMS,
    *planted.TOGETHER,
    *structures.PROGRAMS,
    *busy.PROGRAMS,
    *unseen.PROGRAMS,
    *fresh.PROGRAMS,
    *library.JAX,
)
TORCH_ALONE = (
    *(*planted.TOGETHER, *structures.PROGRAMS[:3], *busy.DECODERS, *busy.OPERATORS, *fresh.PROGRAMS),
    *(program for program in unseen.PROGRAMS if program.name not in NEEDS),
)


def named(name: str) -> PairedProgram:
    (program,) = (program for program in EVERY if program.name == name)
    return program


def norms(program: PairedProgram, steps: int = 2) -> dict[str, list[float]]:
    """Of each variant's first outputs."""
    built = {variant: build("cpu") for variant, build in program.variants.items()}
    with torch.no_grad():
        return {
            variant: [float(step(index).float().norm()) for index in range(steps)] for variant, step in built.items()
        }


class Reads(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
    """Counts the numbers that the host reads from tensors: each of them is a wait on a GPU."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += "_local_scalar_dense" in str(function)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", [*(program.name for program in TORCH_ALONE), *NEEDS])
def test_the_variants_of_a_program_compute_the_same(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    first, *others = norms(named(name)).values()
    assert all(norm > 0 for norm in first) or name not in NEEDS
    for other in others:
        assert other == pytest.approx(first, rel=1e-2)


def test_fused_attention_without_a_mask_sees_no_later_token() -> None:
    """What transformers is given no mask for must still be causal."""
    pytest.importorskip("transformers")
    model, _ = busy.llama_forward("cpu", rows=1, length=4, width=256)
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        whole, start = (model(input_ids=given, use_cache=False).logits for given in (ids, ids[:, :2]))
    assert torch.allclose(whole[:, :2].float(), start.float(), atol=1e-2)


def test_a_program_that_allows_tf32_allows_it_to_no_other() -> None:
    pytest.importorskip("transformers")
    before = torch.get_float32_matmul_precision()
    step = named("llama_float32").variants["tf32"]("cpu")
    with torch.no_grad():
        step(0)
    assert torch.get_float32_matmul_precision() == before


class Passes(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
    """Counts operators by name, and the types of what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.types: set[Any] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        self.names[str(function).removeprefix("aten.").split(".")[0]] += 1
        if torch.is_tensor(output):
            self.types.add(output.dtype)
        return output


def passes(name: str, variant: str) -> Passes:
    """What one step of a program does."""
    step = named(name).variants[variant]("cpu")
    counted = Passes()
    with torch.no_grad(), counted:
        step(0)
    return counted


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("kv_cat", "cat"),
        ("contiguous_copies", "clone"),
        ("pointwise_chain", "tanh"),
        ("small_grid", "softmax"),
        ("expert_loop_gemms", "mm"),
        ("decode_small_batch", "cat"),
    ],
)
def test_a_fixed_busy_program_does_without_what_is_wrong(name: str, operator: str) -> None:
    bad, fixed = (passes(name, variant).names[operator] for variant in ("bad", "fixed"))
    assert bad > fixed
    assert fixed <= 1


def test_float64_is_gone_from_the_fixed_program() -> None:
    bad, fixed = (torch.float64 in passes("float64_by_accident", variant).types for variant in ("bad", "fixed"))
    assert (bad, fixed) == (True, False)


@pytest.mark.parametrize("name", ["hf_tolist", "hf_stop_strings", "hf_graph", "hf_autocast", "grad_norms"])
def test_a_fixed_program_reads_no_number_on_the_host(name: str) -> None:
    """Else its loss would not be gone, and what the bad one loses would not be what it names."""
    pytest.importorskip("transformers")
    step = named(name).variants["fixed"]("cpu")
    with torch.no_grad(), Reads() as reads:
        step(0)
    assert reads.count == 0


class Model:
    """Something that a step needs."""


def test_a_replayed_step_keeps_what_the_graph_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph knows addresses only: it would read the memory of whoever has it next."""
    cuda = SimpleNamespace(
        Stream=MagicMock(), stream=MagicMock(), current_stream=MagicMock(), CUDAGraph=MagicMock(), graph=MagicMock()
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    model = Model()
    seen = weakref.ref(model)
    replay = captured(partial(id, model))
    del model
    gc.collect()
    assert replay() == id(seen())
    assert cuda.CUDAGraph.return_value.replay.call_count == 1
    del replay
    assert seen() is None


def test_a_program_that_waits_reads_numbers() -> None:
    with torch.no_grad(), Reads() as reads:
        planted.TOGETHER[0].variants["bad"]("cpu")(0)
    assert reads.count > 0


def test_every_name_stands_once_and_every_finding_has_a_page() -> None:
    assert len({program.name for program in EVERY}) == len(EVERY)
    codes = {code for program in EVERY for code in program.findings}
    assert not [code for code in codes if not (PAGES / f"{code}.md").is_file()]
    assert all(program.edit for program in EVERY)
    assert all(list(program.variants) == ["bad", "fix1", "fix2", "fixed"] for program in planted.TOGETHER)


def test_rounds_are_outermost_and_each_window_is_a_line(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    options = ["planted", "--only=casts", "--device=cpu", "--rounds=2", "--steps=2", f"--output={output}"]
    with torch.no_grad():  # which the program switches off for its whole process
        pairs.main(options)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["variant"], row["round"]) for row in rows] == [("bad", 1), ("fixed", 1), ("bad", 2), ("fixed", 2)]
    for row in rows:
        assert row["steps"] == len(row["host_step_ns"]) == 2
        assert row["wall_ns"] >= sum(row["host_step_ns"])
        assert row["step_ns"] == row["wall_ns"] // 2


def test_some_programs_and_variants_are_chosen_by_name(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    chosen = ["--only=casts,sleep", "--variant=fixed", "--first-round=4", "--rounds=1", "--steps=1"]
    with torch.no_grad():
        pairs.main(["planted", "--device=cpu", f"--output={output}", *chosen])
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["program"], row["variant"], row["round"]) for row in rows] == [
        ("sleep", "fixed", 4),
        ("casts", "fixed", 4),
    ]


def test_a_variant_that_fails_is_a_line_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: str) -> Any:
        raise RuntimeError(f"no such thing on {device}")

    def nothing(_: str) -> Any:
        return lambda _: torch.full((2,), math.nan)

    program = PairedProgram("broken", "", (), "none", {"bad": broken, "fixed": nothing})
    monkeypatch.setattr(pairs, "programs_of", lambda _: [program])
    output = tmp_path / "rows.jsonl"
    with torch.no_grad():
        pairs.main(["planted", "--device=cpu", "--rounds=1", f"--output={output}"])
    errors = [json.loads(line)["error"] for line in output.read_text().splitlines()]
    assert errors == ["RuntimeError: no such thing on cpu", "ArithmeticError: the last output's norm is nan"]


@pytest.mark.parametrize("arguments", [["no_such_group"], [], ["planted", "--device=tpu"]], ids=" ".join)
def test_a_wrong_command_line_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        pairs.main(arguments)
    assert refused.value.code == 2
    assert "error: " in capsys.readouterr().err
