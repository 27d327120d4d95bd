"""From how much on something is told, at its bounds, where no trace is needed; `cases/thresholds.md` has traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuledger import build_report
from gpuledger.analyse.memory.snapshot_figures import Leak, Leaks, SnapshotFigures, snapshot_figures
from gpuledger.attribution.lines import LinePlace
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.idle.kernel_loop import is_what_to_begin_with
from gpuledger.findings.memory.snapshot_findings import snapshot_findings
from gpuledger.findings.plain_host import PlainHost
from gpuledger.findings.profiled_run import headline, main_kernels
from gpuledger.findings.rules import RULE_OF
from gpuledger.findings.words import path_in_claim, path_text, short_text
from gpuledger.ledger.device import Device
from gpuledger.read.snapshot import open_snapshot
from gpuledger.replay.scenario import scenario
from gpuledger.trace.measured import MemorySnapshot
from support.profiles.memory_snapshots import MIB, Program, written
from support.traces.book_checks import analysed
from support.traces.trace_notation import called, trace


def thousand() -> Device:
    """A GPU whose steady stretch is 1,000 ns."""
    [device] = analysed(trace("s0: 0-1000 k"))
    return device


@pytest.mark.parametrize(("share", "is_kept"), [(0.19, False), (0.2, True), (None, True)])
def test_evidence_of_less_than_a_fifth_is_dropped(share: float | None, is_kept: bool) -> None:
    found = Finding("CAST", "", (Evidence("seen", share=share, of="the time"),))
    assert (found.sentences == ("seen",)) is is_kept


@pytest.mark.parametrize(
    ("amount_ns", "claim"),
    [(29, "lost"), (30, "lost, most of all "), (49, "lost, most of all "), (50, "lost, mostly ")],
)
def test_a_claim_names_the_line_of_three_tenths(amount_ns: int, claim: str) -> None:
    line = LinePlace("train.py", 3, "main", amount_ns, 100)
    found = RULE_OF["HOST-CODE"].finding(thousand(), "lost", (Evidence("", line=line),), 10, "")
    assert str(found.claim).partition("at train.py")[0].partition("in main")[0] == claim


def test_nothing_saves_more_than_was_lost() -> None:
    found = RULE_OF["HOST-CODE"].finding(thousand(), "", (), 10, "", low=9, explains=8)
    assert (found.saving_ns, found.explains_ns, found.steps) == (8, 8, 1)


@pytest.mark.parametrize(("part_ns", "begins"), [(19, False), (20, True)])
def test_a_loop_comes_before_the_bound_that_it_holds_a_fifth_of(part_ns: int, begins: bool) -> None:
    bound = Finding("LAUNCH-BOUND", "", (), 100, gpu=0)
    part = Finding("KERNEL-LOOP", "", (), part_ns, gpu=0)
    assert is_what_to_begin_with(part, bound) is begins
    assert not is_what_to_begin_with(replace(part, gpu=1), bound)
    assert not is_what_to_begin_with(replace(part, code="HOST-CODE"), bound)


def test_long_paths_and_names_are_cut() -> None:
    assert path_text(("a", "b", "c", "d")) == "a > b > c > d"
    assert path_text(("a", "b", "c", "d", "e")) == "… > b > c > d > e"
    assert path_text(("a", "a", "b")) == "a > b"
    assert path_in_claim(("a", "b", "c")) == "b > c"
    assert short_text("x" * 100) == "x" * 100
    assert len(short_text("x" * 101)) == 100


def test_evidence_names_twenty_launches() -> None:
    steps = "30 times every 10000: t1: 8000-8003 launch -> s7: 8005-10000"
    [found] = [found for found in build_report(called(steps)).findings if found.code == "HOST-CODE"]
    assert max(len(piece.correlations) for piece in found.evidence) == 20


# memory


@pytest.fixture
def of_memory(tmp_path: Path) -> tuple[MemorySnapshot, SnapshotFigures]:
    """Of a program that holds 8 MiB: nothing but its peak is told."""
    program = Program()
    program.alloc(8 * MIB, "forward (a.py:2)")
    snapshot = open_snapshot(written(tmp_path, program.snapshot()))
    [figures] = snapshot_figures(snapshot)
    return snapshot, figures


def codes(of_memory: tuple[MemorySnapshot, SnapshotFigures], **changed: Any) -> set[str]:
    snapshot, figures = of_memory
    return {found.code for found in snapshot_findings(snapshot, [replace(figures, **changed)])} - {"MEM-PEAK"}


@pytest.mark.parametrize(
    ("leaked", "peak", "told"),
    [(MIB - 1, MIB, set()), (MIB, MIB, {"MEM-LEAK"}), (MIB, 101 * MIB, set()), (2 * MIB, 200 * MIB, {"MEM-LEAK"})],
)
def test_a_leak_is_of_a_mebibyte_and_of_a_hundredth_of_the_peak(
    of_memory: tuple[MemorySnapshot, SnapshotFigures], leaked: int, peak: int, told: set[str]
) -> None:
    leaks = Leaks((Leak(("keep (a.py:5)",), leaked, 3, 3),), 3, "step")
    held = replace(of_memory[1].peak, allocated_bytes=peak)
    assert codes(of_memory, leaks=leaks, peak=held) == told


@pytest.mark.parametrize(
    ("stranded", "held", "told"),
    [(64 * MIB - 1, 0, set()), (64 * MIB, 0, {"MEM-FRAGMENTED"}), (64 * MIB, 256 * MIB, {"MEM-FRAGMENTED"})]
    + [(64 * MIB, 257 * MIB, set())],
)
def test_fragments_are_64_mebibytes_and_a_fifth_of_what_is_reserved(
    of_memory: tuple[MemorySnapshot, SnapshotFigures], stranded: int, held: int, told: set[str]
) -> None:
    layout = replace(
        of_memory[1].end, stranded_bytes=stranded, allocated_bytes=held, awaiting_bytes=0, releasable_bytes=0
    )
    assert codes(of_memory, end=layout) == told


@pytest.mark.parametrize(("taken", "given_back", "told"), [(8, 8, {"ALLOC-CHURN"}), (7, 8, set()), (8, 7, set())])
def test_the_allocator_churns_from_eight_segments_on(
    of_memory: tuple[MemorySnapshot, SnapshotFigures], taken: int, given_back: int, told: set[str]
) -> None:
    churn = replace(of_memory[1].segment_churn, taken=taken, given_back=given_back)
    assert codes(of_memory, segment_churn=churn) == told


# without the profiler


@pytest.mark.parametrize(
    ("tool", "recorded", "cost_ns"),
    [
        ("nsys", "ops: 1-5 aten::mm", (0, 13_000)),
        ("torch.profiler", "ops: 1-5 aten::mm", (1_200, 3_300)),
        ("torch.profiler", "ops: 1-5 aten::mm inputs=[[2,2]]", (2_800, 4_400)),
        ("torch.profiler", "python: 1-5 train.py(3): main", (1_200, 4_800)),
    ],
)
def test_an_event_costs_what_its_tool_records_of_it(tool: str, recorded: str, cost_ns: tuple[int, int]) -> None:
    of_tool = called(recorded, "0-10 launch -> s7: 12-30 gemm")
    of_tool = replace(of_tool, origin=replace(of_tool.origin, tool=tool))
    [device] = analysed(of_tool)
    assert PlainHost(scenario(of_tool, device)).cost_ns == cost_ns


# the headline


@pytest.mark.parametrize(("copied_ns", "is_told"), [(49, False), (50, True)])
def test_a_loss_of_a_twentieth_is_never_passed_over(copied_ns: int, is_told: bool) -> None:
    [device] = analysed(trace(f"s0: 0-{1_000 - copied_ns} k", f"s1: {1_000 - copied_ns}-1000 Host-to-Device"))
    assert (headline(device, ()).loss is not None) is is_told


@pytest.mark.parametrize(
    ("ends", "saving_ns", "names"),
    [
        ((600, 800, 1_000), 0, "a"),
        ((599, 800, 1_000), 0, "ab"),
        ((200, 400, 600, 800, 1_000), 0, "abc"),
        ((199, 398, 597, 796, 995), 0, "abc"),
        ((160, 320, 480, 640, 800, 960), 0, ""),
        ((600, 800, 1_000), 150, "a"),
        ((600, 800, 1_000), 151, "ab"),
        ((600, 800, 1_000), 249, "abc"),
        ((600, 800, 1_000), 250, ""),
    ],
)
def test_few_kernels_that_hold_most_of_the_time_are_the_program(
    ends: tuple[int, ...], saving_ns: int, names: str
) -> None:
    """Up to three that hold three fifths of busy time; so many that a quarter of them is no less than what is saved."""
    [device] = analysed(
        trace(*(f"s0: {start}-{end} {name}" for name, start, end in zip("abcdef", (0, *ends), ends, strict=False)))
    )
    saved = Finding("HOST-CODE", "", (), saving_ns, gpu=device.gpu)
    assert "".join(name for name, _ in main_kernels(device, [saved])) == names
