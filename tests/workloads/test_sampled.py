"""Programs to be sampled, on the CPU: they run, a window is timed, and what cannot run here says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from lab.programs import sampled  # noqa: E402


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch 2.13 warns of its own sparse tensors, once
def test_each_program_has_a_window_or_says_why_not(tmp_path: Path) -> None:
    output = tmp_path / "times.jsonl"
    names = ["eager_attention", "graph_decode", "elementwise", "irregular", "numerical", "small_products", "triton"]
    sampled.main([*names, "--device=cpu", "--seconds=0.001", f"--output={output}"])
    rows = {row["program"]: row for row in map(json.loads, output.read_text().splitlines())}
    assert rows.keys() == set(names)
    assert rows.pop("triton")["error"] == "RuntimeError: Triton compiles for a GPU"
    assert all(row["steps"] >= sampled.FEWEST and row["step_ns"] > 0 for row in rows.values())


def test_an_unknown_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        sampled.main(["lama_bf16"])
    assert stopped.value.code == 2
    assert "no program lama_bf16" in capsys.readouterr().err
