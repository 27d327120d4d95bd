"""The headline, the first finding and the books say the same, on every profile there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuledger.catalog.kernel_families import OTHER
from gpuledger.findings.profiled_run import LITTLE, LOSS, ProfiledRun, headline
from gpuledger.ledger.activity import GRAPH_FAMILY
from gpuledger.ledger.busy import NEEDS
from gpuledger.ledger.causes import Cause, idle_label
from gpuledger.ledger.levels import COVERAGE
from gpuledger.present.views.report_parts import next_command, verdict
from gpuledger.selection import Selection
from gpuledger.trace.model import Gpu
from gpuledger.units import share_text
from gpuledger.verbs.report import build_report
from support.call_notation import called
from support.command import ROOT
from support.corpus import CORPUS, corpus_file
from support.opened import report_of, trace_of
from support.program import Program
from support.saving_laws import broken_laws
from support.thorough import some

OURS = sorted(path.name.removesuffix(".xz") for path in (ROOT / "captures" / "nsys").glob("*.sqlite.xz"))
TORCH = sorted((ROOT / "captures" / "torch").glob("*.json.gz"))
OTHERS = sorted(path.name for path in (*CORPUS.glob("*.sqlite.xz"), *(CORPUS.parent / "torch").glob("*.json.gz")))

NOBODYS = (Cause.UNRECORDED, Cause.LOST, Cause.TAIL)


def check(run: ProfiledRun) -> None:
    """What every report keeps."""
    device, said = run.main_device, str(verdict(run))
    told = headline(device, run.findings)
    total = device.ledger.total()
    busy = sum(ns for line, ns in total.items() if not line.is_idle) / device.ledger.window_ns
    assert told.busy_share == pytest.approx(busy)
    figure = busy if told.steps is None else told.steady_busy_share
    assert f"busy {share_text(figure)}" in said, "the first number is the steps', or the window's where there are none"
    if told.steps is not None and told.coverage < COVERAGE:
        assert share_text(told.coverage) in said, "steps that cover less than the window say so"
    losses = {str(line.label): ns for line, ns in device.line_ns.items() if not (line.is_compute or line.is_idle)}
    losses |= {str(idle_label(at)): ns for at, ns in device.idle_by_trigger.items() if at not in NOBODYS}
    largest = max(losses, key=lambda label: losses[label], default=None)
    if largest is not None and losses[largest] >= LOSS * device.steady_ns and not run.is_graph_capture:
        about = 0 if told.finding is None else max(told.finding.explains_ns, told.finding.saving_ns)
        assert 2 * about >= losses[largest] or largest in said, f"{largest} is passed over: {said}"
        assert "No fix stands out" not in said
    if "No fix stands out" in said:
        most = [line.family for line, ns in device.shown_ns.items() if line.is_compute and 2 * ns >= device.steady_ns]
        assert not most or most[0] in (OTHER, GRAPH_FAMILY) or most[0] in said, f"{most[0]} is passed over: {said}"
        assert device.coverage >= 0.5 or told.unrecorded is None
        assert not any(finding.saving_ns >= LITTLE * device.steady_ns for finding in run.findings)
    assert broken_laws(run) == []
    for finding in run.findings:
        for evidence in finding.evidence:
            assert evidence.share is None or 0 <= evidence.share <= 1
            assert evidence.share is None or evidence.of, f"a share of nothing: {evidence.sentence}"
            assert len(evidence.correlations) <= 20


@pytest.mark.parametrize("name", some(OURS, 3, first=2))
def test_our_captures_are_told_as_they_are_booked(name: str, unpacked: Callable[[str], Path]) -> None:
    check(report_of(unpacked(name)))


@pytest.mark.parametrize("path", TORCH, ids=[path.name for path in TORCH])
def test_our_torch_captures_are_told_as_they_are_booked(path: Path) -> None:
    check(report_of(path))


@pytest.mark.parametrize("name", some(OTHERS, 4))
def test_public_profiles_are_told_as_they_are_booked(name: str) -> None:
    path = corpus_file(name)
    if not any(len(trace_of(path)[table]) for table in NEEDS):
        pytest.skip("nothing ran on a GPU")
    check(report_of(path))


def one_step(prepares_us: int, name: str = "ProfilerStep#3") -> Program:
    program = Program()
    with program.range(name):
        program.host(prepares_us)
        for _ in range(100):
            program.kernel("gemm", 20)
        program.wait()
    return program


@pytest.mark.parametrize("name", ["ProfilerStep#3", "step 7", "bench:decode"])
def test_a_step_begins_where_its_range_opens(name: str) -> None:
    """What it does before it launches anything is the host's own code, and can be saved."""
    run = build_report(one_step(3_000, name).trace())
    assert run.window.start_ns == 0
    assert run.findings[0].code == "HOST-CODE"
    assert run.findings[0].saving_ns == pytest.approx(3_000_000, rel=0.01)
    assert "The GPU waits 3.01 ms" in str(verdict(run))


def test_a_range_that_is_no_step_leaves_the_window_at_the_first_launch() -> None:
    assert build_report(one_step(3_000, "load the model").trace()).window.start_ns == 3_000_000


def test_a_recording_that_is_mostly_before_gpu_work_says_so_first() -> None:
    program = Program()
    with program.range("load the model"):
        program.host(90_000)
    for _ in range(100):
        program.kernel("gemm", 20)
    program.wait()
    said = str(verdict(build_report(program.trace())))
    assert said.startswith("GPU work begins 90.0 ms into the recording, after 97.8 % of it. GPU busy ")
    late = Selection(time_ns=(1_000_000, None))
    assert str(verdict(build_report(program.trace(), wanted=late))).startswith("GPU busy "), "a part was asked for"


def busy_program(**microseconds: int) -> Program:
    """Ten rounds of these kernels, launched well ahead of the GPU."""
    program = Program()
    for _ in range(10):
        for name, us in microseconds.items():
            program.kernel(name, us)
    program.wait()
    return program


def test_a_kernel_that_is_the_program_is_named_and_comes_next() -> None:
    run = build_report(busy_program(octree_walk=900, scan=50, emit=50).trace(), "octree.sqlite")
    assert "Of the time 89.9 % in octree_walk." in str(verdict(run))
    assert [str(line) for line in next_command(run)] == ["next: gpuledger kernels octree.sqlite -- COMMAND"]


def test_a_kernel_of_an_amd_gpu_is_not_given_to_nsight_compute() -> None:
    trace = busy_program(octree_walk=900, scan=50).trace()
    of_amd = replace(trace, origin=replace(trace.origin, gpus=(Gpu("AMD Instinct MI300X"),)))
    run = build_report(of_amd, "octree.db")
    assert "Of the time 94.7 % in octree_walk." in str(verdict(run))
    assert not any("gpuledger kernels" in line for line in next_command(run))


def test_many_kernels_are_not_the_program() -> None:
    """Nor are a few where a fix saves more than a quarter of their time."""
    many = build_report(busy_program(**{f"kernel_{number}": 100 for number in range(10)}).trace())
    assert "Of the time" not in str(verdict(many))
    late = Program()
    for _ in range(20):
        late.host(400)
        late.kernel("walk", 450)
        late.wait()
    run = build_report(late.trace())
    assert run.findings[0].saving_ns > 0.25 * 20 * 450_000
    assert "Of the time" not in str(verdict(run))


@pytest.mark.parametrize(("early_us", "is_told"), [(3, False), (4, True)])
def test_clocks_that_differ_are_told(early_us: int, is_told: bool) -> None:
    """No work begins before its launch."""
    trace = called("0-2 cudaLaunchKernel -> s7: 4-10", f"20-22 cudaLaunchKernel -> s7: {20 - early_us}-40")
    text = build_report(trace).to_text(width=300)
    assert (f"1 of 2 launches seem to come after their work began, by up to {early_us}.00 us" in text) == is_told
