"""Prefill is told from decode, by ranges first, by attention kernels where both kinds occur."""

from __future__ import annotations

from gpuledger.selection import Selection
from gpuledger.verbs.gaps import gaps
from support.traces.trace_notation import trace


def decoded(prompts: dict[int, int], count: int = 12) -> list[str]:
    """Steps of three kernels and an argmax; in `prompts` one more, and a GEMM so many times as long."""
    lines, now = [], 0
    for step in range(count):
        for name, length in (
            *([("gather", 2)] if step in prompts else []),
            *(("norm", 2), ("gemm", 10 * prompts.get(step, 1)), ("softmax", 3), ("argmax_kernel", 1)),
        ):
            lines.append(f"s0: {now}-{now + length} {name}")
            now += length + 1
    return lines


def test_launches_has_kernels_of_each_family_per_step() -> None:
    rows = gaps(trace(*decoded({})), wanted=Selection(kernel_pattern="argmax")).launches_by_family
    assert {row.family: row.per_step for row in rows} == {"gemm": 1, "norm": 1, "softmax": 1, "sampling": 1}
    assert sum(row.kernels for row in rows) == 48
