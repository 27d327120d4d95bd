"""One part of the decoder alone: it computes what it computes inside, and notices when it does not."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpuledger_workloads import mock  # noqa: E402
from gpuledger_workloads.command_lines import MOCK_PARTS as PARTS  # noqa: E402
from gpuledger_workloads.command_lines import mock_parser as parser  # noqa: E402
from gpuledger_workloads.decoder.size import size_of  # noqa: E402
from gpuledger_workloads.device import error_of, settle  # noqa: E402


def options(*arguments: str) -> Any:
    return parser().parse_args(["--device=cpu", "--iters=2", "--warmup=1", *arguments])


@pytest.mark.parametrize("experts", ["0", "4"])
@pytest.mark.parametrize("part", PARTS)
def test_a_part_gives_what_it_gives_in_the_model(part: str, experts: str) -> None:
    found = mock.run(options(f"--part={part}", f"--experts={experts}"))
    assert found["checked"]
    assert found["error_share"] < 1e-5
    assert found["median_ms"] > 0
    assert (found["workload"], found["settings"]["part"], found["settings"]["layers"]) == ("mock", part, 1)


def test_a_layer_is_its_attention_and_then_its_mlp() -> None:
    given = options("--part=layer", "--seed=3")
    settle(given)
    size = size_of(given, layers=1)
    layer, whole = mock.mocked(size, given)
    given.part = "mlp"
    mlp, same = mock.mocked(size, given)
    assert error_of(layer(), whole) < 1e-5
    assert error_of(mlp(), same) < 1e-5
    assert torch.equal(whole, same)


def test_a_part_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = mock._attention
    monkeypatch.setattr(mock, "_attention", lambda *given: right(*given) * 1.05)
    with pytest.raises(SystemExit, match="the attention alone is off by"):
        mock.run(options("--part=attention"))
