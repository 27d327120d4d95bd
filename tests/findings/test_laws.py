"""What findings and books keep whatever a program does; `cases/` has the examples."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Trace, build_report
from gpuledger.analyse.memory.figures import copy_flows
from gpuledger.findings.copies.flows import could_be_hidden_ns
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import variation
from support.traces.book_checks import analysed, check_balance
from support.traces.program import programmed
from support.traces.trace_notation import called, traced


def device_of(trace: Trace) -> Device:
    [device] = analysed(trace)
    return device


@given(st.integers(0, 2), st.integers(1, 60), st.integers(1, 20), st.integers(10, 3_000))
def test_books_balance_however_a_thread_is_fed(thread: int, launches: int, at_once: int, wait_us: int) -> None:
    """It waits before every few launches; kernels take 5 us."""
    lines, at = [], 0
    for number in range(launches):
        if number % at_once == 0:
            lines.append(f"t{thread}: {at + 3}-{at + wait_us} sem_wait")
            at += wait_us + 2
        lines.append(f"t{thread}: {at}-{at + 2} launch -> s7: {at + 4}-{at + 9}")
        at += 3
    device = device_of(called(*lines))
    assert sum(device.idle_by_trigger.values()) == sum(ns for line, ns in device.line_ns.items() if line.is_idle)


SPANS = st.tuples(st.integers(0, 5_000), st.integers(1, 2_000)).map(lambda span: f"{span[0]}-{span[0] + span[1]}")


@given(st.lists(SPANS, min_size=1, max_size=8), st.lists(SPANS, max_size=6), st.lists(SPANS, max_size=4))
def test_books_balance_wherever_pages_move(moved: list[str], kernels: list[str], calls: list[str]) -> None:
    """Also with no calls at all, and where calls and kernels have nothing to do with each other."""
    trace = called(
        *(f"{span} sync" for span in calls),
        *(f"s0: {span} Unified Device-to-Host" for span in moved),
        *(f"s0: {span} k correlation={number}" for number, span in enumerate(kernels, 1)),
    )
    check_balance(device_of(trace))
    build_report(trace)


@given(every=st.integers(3, 9), times=st.integers(3, 5), more=st.integers(500, 20_000), ahead=st.integers(0, 1))
def test_period_and_cost_are_those_of_the_program(every: int, times: int, more: int, ahead: int) -> None:
    step = "range step: kernel gemm 900; kernel norm 90; read"
    round_ = f"{every - 1 - ahead} times: {step}; end; end; {step}; host {more}; read; end; {ahead} times: {step}"
    varies = variation(device_of(programmed(f"{times} times: {round_}; end; end; end; 2 times: {step}")))
    assert varies is not None
    assert varies.periodic is not None
    assert (varies.periodic.every, len(varies.periodic.steps)) == (every, times)
    assert abs(varies.periodic.more_ns - 1_000 * more * times) < 1_000 * 50 * times


def test_compute_that_hides_copies_already_hides_no_others() -> None:
    """Weights streamed from the host beside the layer before: the link is the bound, and nothing is left to overlap."""
    for alone, free_ns in (("", 0), ("s2: 40-43", 3_000_000)):
        streamed = "4 times every 10: s1: 0-10 Host-to-Device memory=Pinned bytes=480MB; s2: 1-4"
        device = device_of(traced(f"in ms\ngpu NVIDIA H200\n{streamed}\n{alone}"))
        assert could_be_hidden_ns(device, device.exposed_ns(LineKind.COPY)) == free_ns


def tenths(start: int, length: int) -> str:
    return f"{start / 10}-{(start + length) / 10}"


COPIES = st.builds(
    lambda start, length, size, kind, memory: f"s1: {tenths(start, length)} {kind} bytes={size} memory={memory}",
    st.integers(0, 90),
    st.integers(1, 30),
    st.sampled_from(["-1", "0", "1000", "5MB", "400MB"]),
    st.sampled_from(["Host-to-Device", "Device-to-Host", "Device-to-Device", "Peer-to-Peer", "Memset", "odd", "-"]),
    st.sampled_from(["Pageable", "Pinned", "Unknown", "-"]),
)
KERNELS = st.builds(lambda start, length: f"s2: {tenths(start, length)}", st.integers(0, 90), st.integers(1, 30))


@given(st.lists(COPIES, min_size=1, max_size=6), st.lists(KERNELS, max_size=3), st.sampled_from(["NVIDIA H200", "odd"]))
def test_no_saving_is_more_than_the_exposed_copies(copies: list[str], kernels: list[str], gpu: str) -> None:
    """Whatever is recorded of them: kinds, memories and bytes may be missing."""
    trace = traced("\n".join(["in ms", f"gpu {gpu}", "tables calls", *copies, *kernels]))
    device, found = device_of(trace), build_report(trace).findings
    about = [each for each in found if each.code.startswith("COPY-")]
    exposed = device.exposed_ns(LineKind.COPY)
    assert sum(flow.exposed_ns for flow in copy_flows(trace, device)) == exposed
    assert all(0 <= each.saving_ns <= exposed for each in about)
    by_code = {each.code: each.saving_ns for each in about}
    assert by_code.get("COPY-BOUND", 0) + by_code.get("COPY-PAGEABLE", 0) <= exposed
    assert not {"COPY-BOUND", "COPY-EXPOSED"} <= set(by_code)
    if exposed > device.steady_ns / 2:
        assert found[0] in about


@given(st.integers(1, 2_000), st.integers(1, 2_000))
def test_communication_saves_no_more_than_it_takes(comm_us: int, compute_us: int) -> None:
    """Every step computes, then communicates; the host is far ahead."""
    lines = []
    for step in range(20):
        at = 1_000 + step * (comm_us + compute_us)
        middle, end = at + compute_us, at + compute_us + comm_us
        lines.append(f"{4 * step}-{4 * step + 1} launch -> s7: {at}-{middle} gemm")
        lines.append(
            f"{4 * step + 2}-{4 * step + 3} launch -> s7: {middle}-{end} ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
        )
    trace = called(*lines)
    exposed = device_of(trace).exposed_ns(LineKind.COMM)
    for finding in build_report(trace).findings:
        assert finding.code != "COMM-EXPOSED" or finding.saving_ns <= finding.explains_ns <= exposed
