"""One program seen by nsys and by torch.profiler: the same kernels, as often a step, in the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger import Table, Trace, open_trace
from gpuledger.catalog.kernel_names import parse
from support.command import ROOT
from support.traces.book_checks import analysed

TORCH = ROOT / "captures" / "torch"
NAMES = ("attn", "decode", "graph", "moe_batched_gemm", "moe_loop")


def per_step(trace: Trace) -> tuple[Counter[str], float]:
    """How often each kernel runs in a steady step, by canonical name, and the time of all of them."""
    [device] = analysed(trace)
    assert device.steps is not None
    kernels = trace[Table.KERNELS]
    steady = kernels.where(device.begins_steady(kernels["start_ns"]))
    counts = Counter(parse(name or "").canonical for name in steady.texts("name"))
    each = Counter({name: round(count / device.step_count) for name, count in counts.items()})
    # what follows the choice of a token opens the next step, and nothing opens the first
    assert all(abs(count - each[name] * device.step_count) <= 1 for name, count in counts.items())
    return each, int(steady.duration_ns.sum()) / device.step_count


@pytest.mark.parametrize("name", NAMES)
def test_nsys_and_torch_agree_on_a_step(name: str, unpacked: Callable[[str], Path]) -> None:
    of_nsys, nsys_ns = per_step(open_trace(unpacked(f"{name}.sqlite")))
    of_torch, torch_ns = per_step(open_trace(TORCH / f"{name}.json.gz"))
    assert of_torch == of_nsys
    assert torch_ns == pytest.approx(nsys_ns, rel=0.02)


@pytest.mark.parametrize("name", ["attn", "decode", "graph"])
def test_they_agree_on_how_many_there_are(name: str, unpacked: Callable[[str], Path]) -> None:
    nsys, torch = open_trace(unpacked(f"{name}.sqlite")), open_trace(TORCH / f"{name}.json.gz")
    assert len(nsys[Table.KERNELS]) == len(torch[Table.KERNELS])
    assert int(torch[Table.KERNELS].duration_ns.sum()) == pytest.approx(
        int(nsys[Table.KERNELS].duration_ns.sum()), rel=0.02
    )
    assert sorted(torch[Table.KERNELS]["grid"].tolist()) == sorted(nsys[Table.KERNELS]["grid"].tolist())
