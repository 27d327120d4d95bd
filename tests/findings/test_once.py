"""What happens once is start-up: told as such, after what every step loses, and never divided by steps."""

from __future__ import annotations

from typing import Any

import pytest

from gpuledger.errors import NothingRecorded
from gpuledger.findings.profiled_run import ProfiledRun, diagnose
from gpuledger.ledger.levels import AT_START
from gpuledger.present.views.report_parts import verdict
from gpuledger.selection import Selection
from support.corpus import corpus_file
from support.launched_ops import Launch, Op, captured, traced
from support.opened import trace_of
from support.program import Program

CAPTURES = "bs_32_rank0.json.gz", "graph_capture_rank_0.1773709679453551615.pt.trace.json.gz"


def forward(program: Program, layers: int = 6) -> None:
    for kernel in ("norm", "gemm_a", "act", "gemm_b") * layers:
        program.kernel(kernel, 60)


def told(program: Program) -> ProfiledRun:
    return diagnose(program.trace(), "run", Selection())


def codes(run: ProfiledRun) -> list[str]:
    return [finding.code for finding in run.findings]


@pytest.mark.parametrize("name", [None, "iteration"])
def test_an_upload_of_weights_keeps_no_steps_from_being_found(name: str | None) -> None:
    """It was: no steps, COPY-BOUND, copies take 96.5 % of the time."""
    program = Program()
    for _ in range(200):
        program.write(5_000)
    for _ in range(20):
        with program.range(name or "main"):
            program.write(20)
            forward(program)
            program.read()
            program.host(300)
    run = told(program)
    [device] = run.devices
    assert device.steps is not None
    assert len(device.steps) in (19, 20)
    assert "COPY-BOUND" not in codes(run)
    assert "Before the steps, start-up takes 1.00 s, once, mostly exposed copies." in str(verdict(run))


def test_code_that_is_loaded_before_the_steps_is_told_after_what_they_lose() -> None:
    program = Program()
    program.kernel("fill", 5)
    program.host(1_500_000)
    forward(program)
    for step in range(20):
        with program.range(f"step {step}"):
            forward(program)
            program.read()
            program.host(300)
    run = told(program)
    said = str(verdict(run))
    assert run.devices[0].step_count == 20
    assert said.index("per step while the host runs its own code") < said.index("Before the steps, start-up takes 1.5")
    assert run.findings[0].saving_ns < 20 * 301_000


def test_a_phase_of_kernels_before_the_steps_is_no_start() -> None:
    program = Program()
    for number in range(200):
        program.kernel(f"sort_{number}", 300)
    for step in range(20):
        with program.range(f"step {step}"):
            forward(program)
            program.read()
    run = told(program)
    assert AT_START < 0.5
    assert run.devices[0].steps is None
    assert "start-up" not in str(verdict(run))


def test_what_one_of_many_steps_has_is_not_divided_by_them() -> None:
    program = Program()
    for step in range(12):
        with program.range(f"step {step}"):
            forward(program)
            program.read()
            if step == 5:
                program.host(50_000)
                program.read()
    run = told(program)
    [host] = [finding for finding in run.findings if finding.code == "HOST-CODE"]
    assert str(host.claim).startswith("the GPU waits 50.0 ms, once in 12 steps, while")
    assert (host.saving_ns, host.confidence) == (0, "low")
    assert str(verdict(run)).endswith(
        "1 of 12 steps takes unusually long: 51.5 ms against 1.45 ms, most of it idle: host code."
    )


def test_a_call_in_which_a_library_sets_itself_up_is_no_allocation() -> None:
    """It was: HOST-ALLOC, saves 297 ms, allocate once at start-up."""
    launches, at = [], 0
    for number in range(60):
        launches.append(Launch(at, at + 5_000, ((at + 7_000, at + 90_000, f"k{number}"),)))
        at += 100_000
        if number == 30:
            launches.append(Launch(at, at + 300_000_000, (), name="cudaFree"))
            at += 300_000_000
        launches.append(Launch(at, at + 2_000, (), name="cudaMalloc"))
    run = diagnose(traced([], launches), "run", Selection())
    assert codes(run) == ["COLD-START"]
    assert str(run.findings[0].claim) == "libraries are loaded and set up: 300 ms, once"
    assert run.findings[0].saving_ns == 0


@pytest.mark.parametrize(("later", "is_cold"), [(12, True), (2, False)])
def test_the_first_call_of_an_operator_sets_something_up(later: int, is_cold: bool) -> None:
    """Not where so few others follow that nobody knows how long one takes."""
    ops, launches, at = [], [Launch(0, 5_000, ((7_000, 50_000, "fill"),))], 100_000
    for number in range(later + 1):
        took = 80_000_000 if number == 0 else 200_000
        ops.append(Op("aten::cudnn_convolution", at, at + took))
        launches.append(Launch(at + took - 10_000, at + took - 5_000, ((at + took, at + took + 90_000, "conv"),)))
        at += took + 50_000
    run = diagnose(traced(ops, launches), "run", Selection())
    assert ("COLD-START" in codes(run)) is is_cold


@pytest.mark.parametrize("name", CAPTURES)
def test_a_recording_of_graph_captures_says_so_first(name: str) -> None:
    run = diagnose(trace_of(corpus_file(name)), "run", Selection())
    assert codes(run) == ["CAPTURE-WARMUP"]
    assert str(verdict(run)).startswith("This is a recording of CUDA graphs being captured: ")
    assert "per step" not in str(verdict(run))


def graphs(captures: int, launches: int) -> ProfiledRun:
    """Captures of thirty launches, with a kernel before each, and then launches of a graph of three kernels."""
    ops: list[Any] = []
    calls: list[Any] = []
    at = 0
    for _ in range(captures):
        calls.append(Launch(at, at + 5, ((at + 6, at + 9, "fill"),)))
        more_ops, more, at = captured(at + 20, ["norm", "gemm", "act"] * 10)
        ops, calls = [*ops, *more_ops], [*calls, *more]
    for _ in range(launches):
        nodes = tuple((at + 10 + 5 * place, at + 14 + 5 * place, "gemm") for place in range(3))
        calls.append(Launch(at, at + 5, nodes, name="cudaGraphLaunch"))
        at += 50
    return diagnose(traced(ops, calls), "run", Selection())


def test_graphs_that_are_launched_after_their_capture_are_no_capture() -> None:
    assert codes(graphs(4, 0))[0] == "CAPTURE-WARMUP"
    assert "CAPTURE-WARMUP" not in codes(graphs(4, 60))


def test_a_file_in_which_graphs_are_only_captured_is_refused_as_that() -> None:
    ops, calls, _ = captured(0, ["norm", "gemm"])
    with pytest.raises(NothingRecorded, match="CUDA graphs are captured in it, and nothing runs"):
        diagnose(traced(ops, calls), "run", Selection())


@pytest.mark.parametrize(
    "name", ["benchmark_result_2869224_1695835535_trace.json.gz", "simple_add__input__trace.json.gz"]
)
def test_libraries_that_load_for_seconds_are_a_cold_start(name: str) -> None:
    """It was: HOST-ALLOC, the GPU waits 12.0 s while the host allocates or frees memory."""
    run = diagnose(trace_of(corpus_file(name)), "run", Selection())
    assert "Libraries are loaded and set up: 1" in str(verdict(run))
    assert "HOST-ALLOC" not in codes(run)[:1]
