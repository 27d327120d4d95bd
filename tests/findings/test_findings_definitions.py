"""The findings' definitions at their bounds: the last value that counts as one thing, and the first that does not.

Numbers stand here as documents tell them, never as the constants of the source. Times are in microseconds where nothing
else is said.
"""

from __future__ import annotations

import pytest

from gpuledger import build_report
from gpuledger.findings.finding import Finding, PlainSaving, worth_telling
from gpuledger.findings.profiled_run import headline
from gpuledger.findings.rules import RULE_OF
from gpuledger.ledger.device import Device
from gpuledger.trace.model import Gpu, Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.book_checks import analysed
from support.program import Program
from support.sampled_traces import SM_ACTIVE, in_turn, sampled, with_samples
from support.trace_notation import called, of_tables, table, trace

US, MS = 1_000, 1_000_000
LAUNCH = "cudaLaunchKernel"


def told(recorded: Trace) -> dict[str, Finding]:
    """The findings by code, in their order."""
    return {found.code: found for found in build_report(recorded).findings}


def thousand() -> Device:
    """A GPU whose steady stretch is 1,000 ns."""
    [device] = analysed(trace("s0: 0-1000 k"))
    return device


# what is told, and how


@pytest.mark.parametrize(("saving", "is_told"), [(4, False), (5, True)])
def test_half_a_percent_is_worth_telling(saving: int, is_told: bool) -> None:
    assert worth_telling(thousand(), saving) is is_told


@pytest.mark.parametrize(("saving", "confidence"), [(100, "medium"), (101, "high")])
def test_a_saving_of_more_than_a_tenth_is_believed_highly(saving: int, confidence: str) -> None:
    assert RULE_OF["HOST-CODE"].finding(thousand(), "", (), saving, "").confidence == confidence


@pytest.mark.parametrize(("saving", "is_told"), [(19, False), (20, True)])
def test_a_headline_is_about_2_percent_of_the_time(saving: int, is_told: bool) -> None:
    device = thousand()
    first = headline(device, [RULE_OF["HOST-CODE"].finding(device, "", (), saving, "")]).finding
    assert (first is not None) is is_told


@pytest.mark.parametrize(("low", "is_slowed", "is_unsure"), [(40, True, False), (39, True, True), (39, False, False)])
def test_a_saving_that_may_be_under_half_of_it_is_unsure(low: int, is_slowed: bool, is_unsure: bool) -> None:
    """Half, and a fifth for the host's pace; but not what waits for the GPU, which leaves it idle at any pace."""
    plain = PlainSaving(None, low, 90)
    found = Finding("LAUNCH-BOUND", "", (), 100, None, None, "", "high", 0, "", plain=plain, is_slowed=is_slowed)
    assert (found.is_unsure, found.middle_ns) == (is_unsure, (low + 90) // 2)


@pytest.mark.parametrize(("is_bound", "most"), [(True, 100), (False, 130)])
def test_nothing_said_of_a_finding_exceeds_a_bound_or_what_was_lost(is_bound: bool, most: int) -> None:
    found = Finding("CAST", "", (), 100, None, None, "", "high", 0, "", explains_ns=130, is_bound=is_bound)
    assert found.most_ns == most


@pytest.mark.parametrize(("longer", "shorter", "confidence"), [(900, 110, "high"), (900, 100, "medium")])
def test_nine_tenths_in_one_gap_rest_on_that_gap(longer: int, shorter: int, confidence: str) -> None:
    """Two gaps in which the host runs its own code."""
    second, third = 10 + longer, 20 + longer + shorter
    found = told(
        called(
            f"0-2 {LAUNCH} -> s7: 4-10",
            f"{second - 4}-{second - 2} {LAUNCH} -> s7: {second}-{second + 10}",
            f"{third - 4}-{third - 2} {LAUNCH} -> s7: {third}-{third + 10}",
        )
    )
    assert found["HOST-CODE"].explains_ns == (longer + shorter) * US
    assert found["HOST-CODE"].confidence == confidence


# the order


def code_and_os(rounds: int = 4, us: int = 300) -> Trace:
    """The host runs its own code before every other launch, and reads a file for as long before the others."""
    launches = [at * (us + 2) for at in range(2 * rounds + 1)]
    reads = [begin + 2 for begin in launches[1::2]]
    strings = Strings((LAUNCH, "read", "runtime", "os", "k"))
    calls = table(
        Table.CALLS,
        strings,
        len(launches) + len(reads),
        start_ns=[begin * US for begin in (*launches, *reads)],
        end_ns=[end * US for end in (*(begin + 2 for begin in launches), *(begin + us for begin in reads))],
        correlation=[*range(1, len(launches) + 1), *[-1] * len(reads)],
        name=[LAUNCH] * len(launches) + ["read"] * len(reads),
        layer=["runtime"] * len(launches) + ["os"] * len(reads),
        stack=[-1] * (len(launches) + len(reads)),
    )
    kernels = table(
        Table.KERNELS,
        strings,
        len(launches),
        start_ns=[(begin + 4) * US for begin in launches],
        end_ns=[(begin + 10) * US for begin in launches],
        correlation=range(1, len(launches) + 1),
        graph_node=[-1] * len(launches),
        name=["k"] * len(launches),
    )
    return of_tables(strings, {Table.CALLS: calls, Table.KERNELS: kernels})


def test_findings_that_save_the_same_come_by_their_codes() -> None:
    """The rules are tried in another order: that about calls of the system before that about code."""
    found = told(code_and_os())
    assert found["HOST-CODE"].saving_ns == found["HOST-OS"].saving_ns > 0
    assert list(found) == ["HOST-CODE", "HOST-OS"]


@pytest.mark.parametrize(
    ("code_us", "codes"), [(329, ["HOST-CODE", "UNDER-FILLED"]), (296, ["UNDER-FILLED", "HOST-CODE"])]
)
def test_what_is_sure_comes_before_an_estimate_of_up_to_a_third_more(code_us: int, codes: list[str]) -> None:
    """Kernels of 400 us with blocks for a tenth of the GPU would take 43.15. What is sure saves 79 % of that, or 71."""
    program = Program()
    for _ in range(6):
        program.kernel("k", 400, blocks=10)
        program.wait()
        program.host(code_us)
    program.kernel("k", 400, blocks=10)
    found = told(program.trace(Gpu("test GPU", sm_count=100)))
    assert found["UNDER-FILLED"].saving_ns == pytest.approx(7 * 356_850, abs=10)
    assert found["HOST-CODE"].saving_ns == pytest.approx(6 * code_us * US, rel=0.02)
    assert list(found) == codes


# rules


@pytest.mark.parametrize(("length", "is_told"), [(4, True), (5, False)])
def test_a_kernel_under_5_us_is_tiny(length: int, is_told: bool) -> None:
    program = Program()
    for _ in range(40):
        program.host(20)
        program.kernel("k", length)
    found = told(program.trace())
    is_part = "100.0 % of the kernels take under 5 us, less than a launch" in found["LAUNCH-BOUND"].sentences
    assert ("TINY-KERNELS" in found, is_part) == (False, is_told)


@pytest.mark.parametrize(("kernels", "is_told"), [(9, False), (10, True)])
def test_a_few_kernels_are_no_run_of_tiny_ones(kernels: int, is_told: bool) -> None:
    """The device takes 5 us from one to the next, of 4 us each; the host is ahead."""
    lines = [f"{at}-{at + 1} cudaLaunchKernel -> s7: {40 + 9 * at}-{44 + 9 * at}" for at in range(kernels)]
    assert ("TINY-KERNELS" in told(called(*lines))) == is_told


@pytest.mark.parametrize(("length", "is_told"), [(19, True), (20, False)])
def test_a_copy_under_20_us_is_worth_packing(length: int, is_told: bool) -> None:
    program = Program()
    for _ in range(20):
        program.kernel("k", 50)
        for _ in range(4):
            program.write(length)
    assert ("HOST-COPY" in told(program.trace())) is is_told


def test_a_copy_takes_a_twelfth_of_its_time_from_compute_beside_it() -> None:
    """A copy of 4 ms at the link's rate, before 6 ms of compute that could hide it."""
    strings = Strings(("k", "Host-to-Device", "Pinned", "Device"))
    copies = table(
        Table.COPIES,
        strings,
        1,
        end_ns=[4 * MS],
        stream=[1],
        correlation=[1],
        graph_node=[-1],
        kind=["Host-to-Device"],
        src_kind=["Pinned"],
        dst_kind=["Device"],
        bytes=[200 * MS],
    )
    kernels = table(
        Table.KERNELS, strings, 1, start_ns=[4 * MS], end_ns=[10 * MS], stream=[2], graph_node=[-1], name=["k"]
    )
    found = told(of_tables(strings, {Table.COPIES: copies, Table.KERNELS: kernels}, "NVIDIA H200"))
    assert found["COPY-EXPOSED"].saving_ns == pytest.approx(4 * MS * 11 / 12, abs=2)


@pytest.mark.parametrize(("steps", "is_told"), [(7, True), (8, False)])
def test_a_capture_is_short_if_more_than_a_quarter_is_warm_up(steps: int, is_told: bool) -> None:
    """Two steps of 300 us, and the others of 100."""
    program = Program()
    for length in [300, 300, *[100] * (steps - 2)]:
        with program.range("step"):
            program.kernel("k", length)
    recorded = program.trace()
    [device] = analysed(recorded)
    assert device.steps is not None
    assert (len(device.steps), device.steps.warm_up) == (steps, 2)
    assert ("CAPTURE-WARMUP" in told(recorded)) is is_told


def test_a_drift_costs_half_of_what_the_last_third_takes_longer() -> None:
    """Twelve steps, the last four of which take 30 us longer than the first four."""
    program = Program()
    for length in [*[100] * 4, *[115] * 4, *[130] * 4]:
        with program.range("step"):
            program.kernel("k", length)
    assert told(program.trace())["STEP-DRIFT"].saving_ns == 12 * 30 * US // 2


@pytest.mark.parametrize(("megahertz", "is_told"), [(1_680, True), (1_690, False)])
def test_a_clock_under_85_percent_is_low(megahertz: int, is_told: bool) -> None:
    """Of the H200's 1,980 MHz, which is 1,683."""
    launches = in_turn(["k"], [131_000], 600)
    rows = sampled(launches, {SM_ACTIVE: {"k": 98.0}})[Table.METRICS]
    active = zip(rows["start_ns"].tolist(), rows["value"].tolist(), strict=True)
    both = [
        row
        for stamp, value in active
        for row in ((stamp, SM_ACTIVE, value), (stamp, "GPC Clock Frequency [MHz]", megahertz * 1_000_000))
    ]
    assert ("CLOCKS-LOW" in told(with_samples(launches, both))) is is_told
