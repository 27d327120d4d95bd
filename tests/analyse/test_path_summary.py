"""What the critical path of a run is made of, what lies beside it, and how `gpuledger critical` tells it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gpuledger.analyse.path_summary import PathSide, PathSummary, path_summary
from gpuledger.present.views.critical import critical_sheets, path_sentence, path_sentences
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.scenario import Scenario, excerpt, scenario, scenarios
from gpuledger.trace.model import Trace
from support.book_checks import analysed
from support.command import ROOT, gpuledger
from support.program import Program
from support.trace_notation import trace

SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "schemas" / "gpuledger.critical-1.json").read_text()))
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
    assert sum(time for _, time, _ in summary.lines) == summary.whole_ns == device.steady_ns
    assert sum(map(summary.side_ns, PathSide)) == summary.whole_ns


def test_what_is_on_the_path_and_how_the_host_waited_for_it() -> None:
    summary = summary_of(looped(beside_us=50))
    [gemm, copy] = summary.operations
    assert (gemm.name, gemm.path_ns, gemm.path_ns == gemm.gpu_ns) == ("gemm_long", gemm.times * 200 * US, True)
    assert (copy.name, copy.line) == ("Device-to-Host", "copy")
    waits = {call.name: call.waits for call in summary.calls}
    assert waits["cudaMemcpyAsync"] > 0
    assert waits["cudaLaunchKernel"] == 0
    assert summary.ranges[0].name == "work"


def test_a_kernel_beside_the_path_has_slack_and_buys_nothing() -> None:
    [beside] = summary_of(looped(beside_us=50)).beside
    assert (beside.name, beside.saved_ns, beside.beside) == ("beside", 0, beside.launches)
    assert beside.slack_ns is not None
    assert 100 * US < beside.slack_ns < 200 * US


def test_a_kernel_on_the_path_is_not_beside_it() -> None:
    summary = summary_of(looped(beside_us=400))
    assert summary.operations[0].name == "beside"
    [gemm] = summary.beside
    assert gemm.name == "gemm_long"


def test_a_part_of_the_steps_is_told_per_step_as_all_of_them() -> None:
    of = looped(beside_us=50)
    [device] = analysed(of)
    part = excerpt(of, device, enough=1, fewest=1)
    some = path_summary(of, Scenario(of, device, part, dependency_graph(of, part.host, part.work)))
    every = summary_of(of)
    [model] = scenarios(of, [device], enough=10**6)
    assert model.is_whole
    assert (some.steady_steps, every.steady_steps) == (device.step_count, None)
    assert str(path_sentences(some)[1]).startswith("GPU 0: the path is that of 1 of the ")
    assert path_sentences(every) == [path_sentence(every)]
    assert (some.steps, sum(time for _, time, _ in some.lines)) == (1, part.measured_ns)
    assert every.steps is not None
    assert some.whole_ns == pytest.approx(every.whole_ns / every.steps, rel=0.05)
    assert [operation.name for operation in some.operations] == [operation.name for operation in every.operations]
    [beside], [of_all] = some.beside, every.beside
    assert (beside.name, beside.launches, beside.saved_ns) == (of_all.name, 1, 0)


def test_the_sentence_names_the_side_with_the_most_time() -> None:
    summary = summary_of(looped(beside_us=50))
    assert summary.side_ns(PathSide.GPU) > summary.side_ns(PathSide.HOST)
    said = path_sentence(summary)
    assert said.startswith("GPU 0: of ")
    assert " GPU: compute: gemm 200 us, copies 2.00 us; host " in said


def test_kernels_alone_have_a_path_too() -> None:
    summary = summary_of(trace("s0: 0-10 gemm", "s0: 12-20 gemm", "s1: 3-5 softmax"))
    assert summary.whole_ns == 20
    assert (summary.calls, summary.ranges) == ((), ())
    assert [sheet.name for sheet in critical_sheets(summary)][:2] == ["critical_path_gpu0", "critical_operations_gpu0"]


@pytest.mark.parametrize("name", ["decode", "zoo_node"])
def test_the_verb_answers_in_every_format(name: str, unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    profile = unpacked(f"{name}.sqlite")
    document = json.loads(gpuledger("critical", profile, "--format=json").stdout)
    SCHEMA.validate(document)
    [parts] = [table["rows"] for table in document["tables"] if table["table"] == "critical_path_gpu0"]
    assert sum(row["total_ns"] for row in parts[:-1]) == parts[-1]["total_ns"]
    text = gpuledger("critical", profile, COLUMNS="80").stdout
    assert text.startswith("GPU 0: of ")
    assert max(map(len, text.splitlines())) <= 80
    assert "| Part" in gpuledger("critical", profile, "--format=md").stdout
    page = tmp_path / "critical.html"
    assert gpuledger("critical", profile, "-o", page).exit_code == 0
    assert "The critical path" in page.read_text()


def test_a_profile_without_gpu_work_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"traceEvents": []}')
    answer = gpuledger("critical", empty)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("error: empty.json: ")
