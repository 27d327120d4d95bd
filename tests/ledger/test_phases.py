"""Prefill is told from decode, by ranges first, by attention kernels where both kinds occur."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.steps import PHASES, Phases, phases
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from gpuledger.verbs.idle import gaps
from support.book_checks import analysed
from support.command import gpuledger
from support.trace_notation import of_tables, table, trace

PREFILL = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>()"
DECODE = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>()"


def told(given: Trace, *edges: int) -> Phases:
    host, work = host_and_activities(given)
    return phases(given, work, host, 0, np.array(edges))


def words(found: Phases) -> list[str]:
    return [PHASES[each] for each in found.of_step]


def launched_in(*names: str) -> Trace:
    """One kernel of 10 ns in each of these ranges."""
    count = len(names)
    strings = Strings(dict.fromkeys([*names, "k", "cudaLaunchKernel", "push_pop", "runtime", ""]))
    starts = 100 * np.arange(count)
    kernels = table(
        Table.KERNELS, strings, count, start_ns=starts + 20, end_ns=starts + 30, correlation=starts, name=["k"] * count
    )
    calls = table(
        Table.CALLS,
        strings,
        count,
        start_ns=starts + 1,
        end_ns=starts + 2,
        correlation=starts,
        name=["cudaLaunchKernel"] * count,
        layer=["runtime"] * count,
    )
    ranges = table(
        Table.RANGES, strings, count, start_ns=starts, end_ns=starts + 10, name=list(names), kind=["push_pop"] * count
    )
    return of_tables(strings, {Table.KERNELS: kernels, Table.CALLS: calls, Table.RANGES: ranges})


def test_the_decode_capture_has_prefill_before_its_steps(unpacked: Callable[[str], Path]) -> None:
    [device] = analysed(unpacked("decode.sqlite"))
    assert words(device.phases) == ["decode"] * 20
    assert PHASES[device.phases.before] == "prefill"
    shown = gpuledger("steps", unpacked("decode.sqlite"), COLUMNS="80").stdout
    assert "prefill  before the steps" in shown


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("bench:prefill", "prefill"),
        ("decode_step 3", "decode"),
        ("execute_context_2(512)_generation_0(0)", "prefill"),
        ("execute_context_0(0)_generation_8(8)", "decode"),
        ("execute_8192_context_9(sq8155)_generation_37(sq37)", "mixed"),
        ("extend", "prefill"),
        ("extended_model", ""),
        ("forward", ""),
        ("## decoder fp8 ##", ""),
        ("TransformerDecoderLayer", ""),
        ("decoded", ""),
        ("decode[bs=8]", "decode"),
        ("step[DECODE bs=32]", "decode"),
        ("decoding", "decode"),
        ("step[EXTEND bs=1]", "prefill"),
        ("prefilled_cache", ""),
    ],
)
def test_a_range_says_what_it_is(name: str, phase: str) -> None:
    assert words(told(launched_in(name), 0, 100)) == [phase]


def test_ranges_tell_steps_apart() -> None:
    assert words(told(launched_in("prefill", "decode", "decode"), 0, 100, 200, 300)) == ["prefill", "decode", "decode"]


def test_kernels_tell_where_both_kinds_occur() -> None:
    both = trace(f"s0: 0-10 {PREFILL}", f"s0: 20-30 {DECODE}", f"s0: 40-44 {PREFILL}", f"s0: 44-50 {DECODE}")
    assert words(told(both, 0, 20, 40, 60)) == ["prefill", "decode", "mixed"]


def test_tritons_kernel_for_prompts_tells_prefill_beside_one_for_decode() -> None:
    """`_fwd_kernel` extends a context in vLLM and SGLang: a step of both on an MI300X was called decode."""
    both = trace("s0: 0-10 _fwd_kernel", "s0: 10-14 paged_attention", "s0: 20-30 paged_attention")
    assert words(told(both, 0, 20, 40)) == ["mixed", "decode"]


def test_training_is_not_called_prefill() -> None:
    assert not told(trace(f"s0: 0-10 {PREFILL}", "s0: 20-30 gemm"), 0, 20, 40).known


@pytest.mark.parametrize(
    "training", ["backward", "Optimizer.step#AdamW.step", "autograd::engine::evaluate_function: MulBackward0"]
)
def test_a_program_that_trains_has_no_phases(training: str) -> None:
    assert words(told(launched_in("decode"), 0, 100)) == ["decode"]
    assert not told(launched_in("decode", training), 0, 100, 200).known


def test_kernels_of_gradients_are_training_too() -> None:
    both = (f"s0: 0-10 {PREFILL}", f"s0: 20-30 {DECODE}")
    assert told(trace(*both), 0, 20, 40).known
    assert not told(trace(*both, "s0: 30-40 void flash_bwd_kernel_backward<128>()"), 0, 20, 50).known


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


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ({0: 8}, [1] + [2] * 11),
        ({0: 8, 4: 8}, [1, 2, 2, 2, 1] + [2] * 7),
        ({}, [0] * 12),
        ({3: 1}, [0] * 12),  # another kernel in a step that takes no longer is no prompt
    ],
)
def test_prefill_is_told_by_what_is_launched_where_no_name_tells(prompts: dict[int, int], expected: list[int]) -> None:
    recorded = trace(*decoded(prompts))
    work = host_and_activities(recorded)[1]
    ends = work.end_ns[work.name == recorded.strings.code("argmax_kernel")].tolist()
    assert list(told(recorded, 0, *ends).of_step) == expected


def test_steady_steps_are_those_after_the_last_prompt() -> None:
    steps = analysed(trace(*decoded({0: 8, 4: 8})), Selection(kernel_pattern="argmax"))[0].steps
    assert steps is not None
    assert steps.warm_up == 5


def test_launches_has_kernels_of_each_family_per_step() -> None:
    rows = gaps(trace(*decoded({})), wanted=Selection(kernel_pattern="argmax")).launches_by_family
    assert {row.family: row.per_step for row in rows} == {"gemm": 1, "norm": 1, "softmax": 1, "sampling": 1}
    assert sum(row.kernels for row in rows) == 48
