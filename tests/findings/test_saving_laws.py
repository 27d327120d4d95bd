"""What no saving may exceed: the laws that every profile is held to see a claim that breaks them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuledger import Trace, build_report
from gpuledger.verbs.report import Report
from support.program import Program
from support.saving_laws import broken_laws, waits_with_their_gaps_ns


@pytest.fixture(scope="module")
def report() -> Report:
    """Steps that read a number back, so that the GPU runs dry."""
    run = Program()
    for _ in range(12):
        with run.range("step"):
            for _ in range(5):
                run.host(4)
                run.kernel("gemm_tn", 20)
            run.read()
            run.host(60)
    return build_report(run.trace())


def claiming(report: Report, code: str, **claim: Any) -> Report:
    """The same, but for what one finding says."""
    assert code in {found.code for found in report.findings}
    changed = tuple(replace(found, **claim) if found.code == code else found for found in report.findings)
    return replace(report, findings=changed)


def test_what_is_said_keeps_them(report: Report) -> None:
    assert broken_laws(report) == []


def test_more_than_is_lost_is_seen(report: Report) -> None:
    alone, then = broken_laws(claiming(report, "HOST-SYNC", explains_ns=1))
    assert alone.startswith("HOST-SYNC saves ")
    assert (alone[-23:], then[-23:]) == (" ns of 1, the time lost",) * 2


def test_more_than_the_waits_with_their_gaps_is_seen(report: Report) -> None:
    too_much = waits_with_their_gaps_ns(report.main_device) + 1
    broken = broken_laws(claiming(report, "HOST-SYNC", saving_ns=too_much, explains_ns=too_much))
    assert broken == [f"HOST-SYNC saves {too_much} ns of {too_much - 1}, the waits with their gaps"]


def test_more_than_all_idle_time_in_order_is_seen(report: Report) -> None:
    steady = report.main_device.steady_ns
    broken = broken_laws(claiming(report, "HOST-SYNC", then_ns=steady, explains_ns=steady))
    assert any(text.startswith("of idle time ") for text in broken), broken


def launching(host_us: int, *last: str) -> Trace:
    """Steps of 40 kernels of 10 us, before each of which the host takes its time; and a few longer ones."""
    run = Program()
    for _ in range(12):
        with run.range("step"):
            for _ in range(40):
                run.host(host_us)
                run.kernel("gemm_tn", 10)
            for name in last:
                run.kernel(name, 30)
    return run.trace()


def test_a_saving_that_may_be_the_profilers_own_comes_after_a_surer_one() -> None:
    """The host is a little late under the profiler, and would be early enough without it; casts stay."""
    cast = "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda>"
    report = build_report(launching(8, cast))
    found = {finding.code: finding for finding in report.findings}
    assert next(iter(found)) == "CAST"
    assert found["CAST"].saving_ns < found["LAUNCH-BOUND"].saving_ns
    assert (found["CAST"].is_unsure, found["LAUNCH-BOUND"].is_unsure) == (False, True)
    assert "perhaps nothing without the profiler" in " ".join(report.to_text().split())


def test_a_profiler_of_operators_slows_a_host_more_than_one_of_calls() -> None:
    """So the least that faster launches save without it is less."""
    trace, low = launching(20), {}
    for tool in ("nsys", "torch.profiler"):
        seen = replace(trace, origin=replace(trace.origin, tool=tool))
        [found] = [found for found in build_report(seen).findings if found.code == "LAUNCH-BOUND"]
        assert found.plain is not None
        low[tool] = found.plain.low_ns
    assert 0 <= low["torch.profiler"] < low["nsys"] / 2
