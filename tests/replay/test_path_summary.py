"""What the critical path of a run is made of, what lies beside it, and how `gpuledger whatif` tells it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.present.views.critical import path_sentence, path_sentences
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.path_summary import PathSide, PathSummary, path_summary
from gpuledger.replay.scenario import Scenario, replay_window, scenario, scenarios
from gpuledger.trace.model import Trace
from support.command import gpuledger
from support.pages.schemas import schema_of
from support.traces.book_checks import analysed
from support.traces.program import Program
from support.traces.trace_notation import trace

US = 1_000


def summary_of(of: Trace) -> PathSummary:
    [device] = analysed(of)
    return path_summary(of, scenario(of, device))


def looped(*, beside_us: int) -> Trace:
    """Five steps: a long kernel that is read, and one on another stream that the next step's first call waits for."""
    program = Program()
    for step in range(5):
        with program.range(f"step {step}"):
            with program.range("work"):
                program.kernel("gemm_long", 200)
            program.kernel("beside", beside_us, stream=9)
            program.read()
            program.wait()
            program.host(30)
    return program.trace()


def test_a_summary_sums_to_the_steady_steps() -> None:
    of = looped(beside_us=50)
    summary = summary_of(of)
    [device] = analysed(of)
    assert summary.steps == device.step_count
    assert sum(part.total_ns or 0 for part in summary.parts) == summary.whole_ns == device.steady_ns
    assert sum(map(summary.side_share, PathSide)) == pytest.approx(1)


def test_what_is_on_the_path_and_how_the_host_waited_for_it() -> None:
    summary = summary_of(looped(beside_us=50))
    [gemm, copy] = summary.operations
    steps = summary.steps or 1
    assert (gemm.name, gemm.time_ns * steps, gemm.gpu_share) == ("gemm_long", gemm.times * 200 * US, 1)
    assert (copy.name, copy.line) == ("Device-to-Host", "copy")
    waits = {call.name: call.waits for call in summary.calls}
    assert waits["cudaMemcpyAsync"] > 0
    assert waits["cudaLaunchKernel"] == 0
    assert summary.ranges[0].name == "work"


def test_a_kernel_beside_the_path_has_slack_and_buys_nothing() -> None:
    [beside] = summary_of(looped(beside_us=50)).off_path
    assert (beside.name, beside.saving_ns, beside.times) == ("beside", 0, beside.launches)
    assert beside.slack_ns is not None
    assert 100 * US < beside.slack_ns < 200 * US


def test_a_kernel_on_the_path_is_not_beside_it() -> None:
    summary = summary_of(looped(beside_us=400))
    assert summary.operations[0].name == "beside"
    [gemm] = summary.off_path
    assert gemm.name == "gemm_long"


def test_a_part_of_the_steps_is_told_per_step_as_all_of_them() -> None:
    of = looped(beside_us=50)
    [device] = analysed(of)
    part = replay_window(of, device, enough=1, fewest=1)
    some = path_summary(of, Scenario(of, device, part, dependency_graph(of, part.host, part.work)))
    every = summary_of(of)
    [model] = scenarios(of, [device], enough=10**6)
    assert model.is_whole
    assert (some.steady_steps, every.steady_steps) == (device.step_count, None)
    assert str(path_sentences(some)[1]).startswith("GPU 0: the path is that of 1 of the ")
    assert path_sentences(every) == [path_sentence(every)]
    assert (some.steps, sum(part.total_ns or 0 for part in some.parts)) == (1, part.measured_ns)
    assert every.steps is not None
    assert some.whole_ns == pytest.approx(every.whole_ns / every.steps, rel=0.05)
    assert [operation.name for operation in some.operations] == [operation.name for operation in every.operations]
    [beside], [of_all] = some.off_path, every.off_path
    assert (beside.name, beside.launches, beside.saving_ns) == (of_all.name, 1, 0)


def test_the_sentence_names_the_side_with_the_most_time() -> None:
    summary = summary_of(looped(beside_us=50))
    assert summary.side_share(PathSide.GPU) > summary.side_share(PathSide.HOST)
    said = path_sentence(summary)
    assert said.startswith("GPU 0: of ")
    assert " GPU: compute: gemm 200 us, copies 2.00 us; host " in said


def test_kernels_alone_have_a_path_too() -> None:
    summary = summary_of(trace("s0: 0-10 gemm", "s0: 12-20 gemm", "s1: 3-5 softmax"))
    assert summary.whole_ns == 20
    assert (summary.calls, summary.ranges) == ((), ())
    assert summary.parts
    assert summary.operations


@pytest.mark.parametrize("name", ["decode", "zoo_node"])
def test_the_verb_answers_in_every_format(name: str, unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    profile = unpacked(f"{name}.sqlite")
    document = json.loads(gpuledger("whatif", profile, "--format=json").stdout)
    schema_of("whatif").validate(document)
    assert sum(row["share"] for row in document["path"]) == pytest.approx(1, abs=1e-4)
    text = gpuledger("whatif", profile, COLUMNS="80").stdout
    assert text.startswith("GPU 0: of ")
    assert max(map(len, text.splitlines())) <= 80
    assert "| Part" in gpuledger("whatif", profile, "--format=md").stdout
    page = tmp_path / "critical.html"
    assert gpuledger("whatif", profile, "-o", page).exit_code == 0
    assert "The critical path" in page.read_text()


def test_a_profile_without_gpu_work_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"traceEvents": []}')
    answer = gpuledger("whatif", empty)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("error: empty.json: ")
