"""Copies that are most of the time: direction, bytes, rate against what their way allows, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import Trace, build_report
from gpuledger.analyse.memory.figures import TO_DEVICE, copies_by_kind, copy_flows
from gpuledger.analyse.nvidia_tables import cuda_gpu_mem_size_sum
from gpuledger.findings.copies import could_be_hidden_ns
from gpuledger.findings.finding import Finding
from gpuledger.findings.fixes import BESIDE
from gpuledger.findings.rules import findings
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.present.views.memory import memory_answer
from gpuledger.present.views.report_parts import verdict
from gpuledger.selection import Selection
from gpuledger.trace.spans import Span
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.call_notation import called
from support.trace_notation import of_tables, table

MS, MB = 1_000_000, 1_000_000
H200 = "NVIDIA H200"


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy; times in ms."""

    start: float
    end: float
    size: int
    kind: str | None = "Host-to-Device"
    host: str | None = "Pinned"
    stream: int = 1


def _program(
    copies: Sequence[Copy], kernels: Sequence[tuple[float, float]] = (), gpu: str = H200, *, are_called: bool = False
) -> Trace:
    """`are_called`: the host calls each copy and waits for it."""
    words = {word for copy in copies for word in (copy.kind, copy.host) if word is not None}
    strings = Strings(dict.fromkeys(("k", "Device", "cudaMemcpyAsync", "runtime", *sorted(words))))

    def code(word: str | None) -> int:
        return -1 if word is None else strings.code(word)

    into = [copy.kind in TO_DEVICE for copy in copies]
    device = strings.code("Device")
    rows = table(
        Table.COPIES,
        strings,
        len(copies),
        start_ns=[round(copy.start * MS) for copy in copies],
        end_ns=[round(copy.end * MS) for copy in copies],
        stream=[copy.stream for copy in copies],
        correlation=list(range(101, 101 + len(copies))),
        kind=[code(copy.kind) for copy in copies],
        bytes=[copy.size for copy in copies],
        src_kind=[code(copy.host) if inward else device for copy, inward in zip(copies, into, strict=True)],
        dst_kind=[device if inward else code(copy.host) for copy, inward in zip(copies, into, strict=True)],
        graph_node=[-1] * len(copies),
    )
    ran = table(
        Table.KERNELS,
        strings,
        len(kernels),
        start_ns=[round(start * MS) for start, _ in kernels],
        end_ns=[round(end * MS) for _, end in kernels],
        stream=[2] * len(kernels),
        name=["k"] * len(kernels),
        graph_node=[-1] * len(kernels),
    )
    calls = table(
        Table.CALLS,
        strings,
        len(copies) if are_called else 0,
        **{name: rows[name] for name in ("start_ns", "end_ns", "correlation")} if are_called else {},
        **{"name": ["cudaMemcpyAsync"] * len(copies), "layer": ["runtime"] * len(copies)} if are_called else {},
    )
    return of_tables(strings, {Table.COPIES: rows, Table.KERNELS: ran, Table.CALLS: calls}, gpu)


def _device(trace: Trace) -> Device:
    [device] = analyse_devices(trace, "test", Selection())
    return device


def _about_copies(trace: Trace) -> list[Finding]:
    return [found for found in build_report(trace).findings if found.code.startswith("COPY-")]


def test_a_memset_is_no_copy_of_pageable_memory_whatever_its_row_says() -> None:
    copies = [Copy(start, start + 4, 400 * MB, "Memset", "Pageable") for start in range(0, 80, 8)]
    memsets = _program(copies, [(start + 4, start + 7) for start in range(0, 80, 8)])
    assert all(found.code != "COPY-PAGEABLE" for found in _about_copies(memsets))
    assert not any(kind.is_pageable for kind in copies_by_kind(memsets, _device(memsets)))
    within = _program([Copy(0, 5, MB, "Device-to-Device", "Pageable"), Copy(5, 9, MB, "Host-to-Device", "Pageable")])
    assert [kind.is_pageable for kind in copies_by_kind(within, _device(within))] == [False, True]


def test_copies_at_the_links_rate_save_only_what_compute_can_cover() -> None:
    """400 MB in 9 of 10 ms are 44 of the H200's 50 GB/s; 1 ms of compute can hide 1 ms of it."""
    [bound] = _about_copies(_program([Copy(0, 9, 400 * MB)], [(9, 10)]))
    assert bound.code == "COPY-BOUND"
    assert bound.claim == (
        "copies not overlapped with compute take 90.0 % of the time, "
        "mostly host to device, pinned memory: 400 MB at 44.4 GB/s"
    )
    assert (bound.saving_ns, bound.explains_ns) == (1 * MS, 9 * MS)
    assert bound.assumption.endswith("only fewer bytes help")
    [flow] = bound.evidence
    assert flow.sentence == (
        "100.0 % of the copies' time host to device, pinned memory: one copy of 400 MB, at 44.4 GB/s; "
        "with pinned memory the link does about 50.0 GB/s"
    )
    assert (flow.span, flow.copy, flow.moved_bytes) == (Span(0, 9 * MS), "Host-to-Device", 400 * MB)
    assert (flow.correlations, flow.count, flow.share) == ((101,), 1, 1.0)
    assert str(bound.fix).startswith("at the link's rate only fewer bytes help")  # and not to pin what is pinned


def test_copies_below_the_rate_also_save_what_reaching_it_would() -> None:
    """100 MB need 2 of the 9 ms: 7 ms go, and 1 ms of compute hides one of the other two."""
    [bound] = _about_copies(_program([Copy(0, 9, 100 * MB)], [(9, 10)]))
    assert bound.saving_ns == 8 * MS
    assert str(bound.fix).startswith("large copies below the link's rate")


def test_copies_that_nothing_makes_faster_still_come_first() -> None:
    [bound] = build_report(_program([Copy(0, 9, 440 * MB), Copy(9, 10, 44 * MB)])).findings
    assert (bound.code, bound.saving_ns, bound.explains_ns) == ("COPY-BOUND", 0, 10 * MS)
    assert bound.assumption == "the copies run at full speed: only fewer bytes help"


def test_compute_that_hides_copies_already_hides_no_others() -> None:
    """Weights streamed from the host beside the layer before: the link is the bound, and nothing is left to overlap."""
    copies = [Copy(start, start + 10, 480 * MB) for start in range(0, 40, 10)]
    beside = [(start + 1, start + 4) for start in range(0, 40, 10)]
    for alone, free_ms in (([], 0), ([(40, 43)], 3)):
        device = _device(_program(copies, [*beside, *alone]))
        assert could_be_hidden_ns(device, device.exposed_ns(LineKind.COPY)) == free_ms * MS


@pytest.mark.parametrize("compute_ms", [0.02, 0.5])
def test_the_headline_is_about_the_copies_though_little_is_saved(compute_ms: float) -> None:
    text = build_report(_program([Copy(0, 10, 480 * MB)], [(10, 10 + compute_ms)])).to_text()
    assert "GPU busy 100.0 %. Copies not overlapped with compute take 9" in text
    assert "faster kernels" not in text


def test_small_copies_are_to_be_packed() -> None:
    copies = [Copy(at / 100, at / 100 + 0.009, 4_000) for at in range(100)]
    [bound] = _about_copies(_program(copies))
    assert str(bound.fix).endswith("pack them into a few large ones")
    assert bound.evidence[0].count == 100
    assert len(bound.evidence[0].correlations) == 20


@pytest.mark.parametrize(
    ("kind", "host", "size", "limit", "advice"),
    [
        ("Device-to-Host", "Pinned", 440, "with pinned memory the link does about 50.0 GB/s", "at the link's rate"),
        # 4.8 TB/s of memory: 2.4 for copies, which read and write
        ("Device-to-Device", None, 20_000, "memory allows 2.40 TB/s, since a copy reads and writes", "at full memory"),
        ("Memset", None, 40_000, "device memory does 4.80 TB/s", "clear only what is read"),
        ("Peer-to-Peer", None, 3_600, "the largest of them reach 400 GB/s", "at the link's rate"),
        ("Host-to-Host", None, 100, "the link's rate is unknown", "at the link's rate"),
    ],
)
def test_each_way_has_its_limit_and_its_advice(kind: str, host: str | None, size: int, limit: str, advice: str) -> None:
    [bound] = _about_copies(_program([Copy(0, 9, size * MB, kind, host)], [(9, 10)]))
    [flow] = bound.sentences
    assert limit in flow
    assert str(bound.fix).startswith(advice)
    assert (bound.evidence[0].copy, bound.evidence[0].moved_bytes) == (kind, size * MB)


def test_a_gpu_that_is_not_known_is_measured_by_its_own_largest_copies() -> None:
    """27.7 GB/s are more than the PCIe 3.0 that is assumed for such a GPU: nothing is to be had from a higher rate."""
    copies = [Copy(at, at + 0.9, 25 * MB) for at in range(9)]
    [bound] = _about_copies(_program(copies, [(9, 10)], gpu="unknown GPU"))
    assert bound.saving_ns == 1 * MS
    assert "the largest of them reach 27.8 GB/s, taken as the maximum" in bound.sentences[0]


@pytest.mark.parametrize(
    ("around", "places", "told", "headline"),
    [
        (True, ["load", "load", "store"], "55.6 % of the copies' time launched in epoch > load", True),
        (True, ["load", "store", "save"], "100.0 % of the copies' time launched in epoch", True),
        (False, ["load", "store", "save"], "44.4 % of the copies' time launched in save", False),  # with the longest
    ],
)
def test_copies_are_placed_where_most_of_their_time_was_launched(
    around: bool, places: list[str], told: str, headline: bool
) -> None:
    """It was the place of the longest copy, and the first sentence said that most of the time was there."""
    names = ("Host-to-Device", "cudaMemcpyAsync_v3020", "runtime", "epoch", "load", "store", "save", "push_pop")
    strings = Strings(dict.fromkeys(names))
    starts, ends = [2 * MS, 4 * MS, 7 * MS], [4 * MS, 7 * MS, 11 * MS]
    launched = [start - MS for start in starts]
    copies = table(
        Table.COPIES,
        strings,
        3,
        start_ns=starts,
        end_ns=ends,
        correlation=[1, 2, 3],
        kind=["Host-to-Device"] * 3,
        bytes=[100 * MB, 150 * MB, 200 * MB],
        graph_node=[-1] * 3,
    )
    calls = table(
        Table.CALLS,
        strings,
        3,
        start_ns=[at + 10 for at in launched],
        end_ns=[at + MS // 2 for at in launched],
        tid=[7] * 3,
        correlation=[1, 2, 3],
        name=["cudaMemcpyAsync_v3020"] * 3,
        layer=["runtime"] * 3,
        stack=[-1] * 3,
    )
    named = [("epoch", 0, 12 * MS)] * around + [
        (name, at, at + 3 * MS // 4) for name, at in zip(places, launched, strict=True)
    ]
    ranges = table(
        Table.RANGES,
        strings,
        len(named),
        start_ns=[start for _, start, _ in named],
        end_ns=[end for *_, end in named],
        tid=[7] * len(named),
        name=[name for name, *_ in named],
        kind=["push_pop"] * len(named),
        open=[False] * len(named),
    )
    trace = of_tables(strings, {Table.COPIES: copies, Table.CALLS: calls, Table.RANGES: ranges}, H200)
    [bound] = _about_copies(trace)
    flow, place = bound.evidence
    assert place.sentence == told
    assert (flow.ranges, flow.call, flow.tid) == ((), "cudaMemcpyAsync", 7)
    assert (flow.span, flow.correlations, place.span) == (Span(7 * MS, 11 * MS), (3, 2, 1), Span(7 * MS, 11 * MS))
    assert (f"mostly {place.place}." in str(verdict(build_report(trace)))) is headline


def test_pages_that_move_by_themselves_are_no_copies_that_somebody_could_launch_otherwise() -> None:
    found = build_report(_program([Copy(0, 9, 100 * MB, "Unified Host-to-Device", None)], [(9, 10)])).findings
    assert [finding.code for finding in found] == ["UNIFIED-MEMORY"]


def test_pageable_memory_is_named_first_where_pinning_saves_the_most() -> None:
    """40 MB in 8 ms; from pinned memory they take 0.8 ms, less than the compute."""
    first, rest = _about_copies(_program([Copy(0, 8, 40 * MB, host="Pageable")], [(8, 10)]))
    assert (first.code, first.saving_ns) == ("COPY-PAGEABLE", 7_200_000)
    assert (rest.code, rest.saving_ns) == ("COPY-EXPOSED", 800_000)
    [told] = first.evidence
    assert told.sentence == (
        "100.0 % of their time host to device, pageable memory: one copy of 40.0 MB, at 5.00 GB/s; "
        "with pinned memory the link does about 50.0 GB/s"
    )
    assert (told.span, told.moved_bytes, told.correlations) == (Span(0, 8 * MS), 40 * MB, (101,))


def test_copies_on_several_streams_share_the_link() -> None:
    """400 MB on each of four streams take 8 of 10 ms at 50 GB/s; without calls that wait they ran side by side."""
    copies = [Copy(10 * at, 10 * at + 10, 400 * MB, host="Pageable", stream=at) for at in range(4)]
    [found] = [each for each in _about_copies(_program(copies, are_called=True)) if each.code == "COPY-PAGEABLE"]
    assert found.saving_ns == pytest.approx(4 * 2 * MS, rel=0.02)


def test_copies_that_are_most_of_the_time_come_before_a_part_of_them_that_could_be_pinned() -> None:
    copies = [Copy(0, 8, 400 * MB), Copy(8, 9, 5 * MB, host="Pageable")]
    first, second = _about_copies(_program(copies, [(9, 10)]))
    assert [first.code, second.code] == ["COPY-BOUND", "COPY-PAGEABLE"]
    assert (first.saving_ns, second.saving_ns) == (1 * MS, 900_000)


def test_copies_that_compute_can_cover_are_exposed_not_bound() -> None:
    [exposed] = _about_copies(_program([Copy(0, 4, 200 * MB)], [(4, 10)]))
    assert (exposed.code, exposed.explains_ns) == ("COPY-EXPOSED", 4 * MS)
    assert exposed.saving_ns == pytest.approx(4 * MS * (1 - BESIDE))  # what it takes from compute beside it
    assert exposed.sentences[0] == "40.0 % of the time"
    assert exposed.evidence[1].copy == "Host-to-Device"
    assert exposed.fix == "keep data on the device, or copy one step ahead on a side stream from pinned memory"


def test_copies_within_the_device_are_not_told_to_use_pinned_memory() -> None:
    [exposed] = _about_copies(_program([Copy(0, 4, 200 * MB, "Device-to-Device", "Device")], [(4, 10)]))
    assert exposed.code == "COPY-EXPOSED"
    assert (exposed.fix or "").startswith("write results in place, or where they are used")


def test_copies_of_which_some_have_no_size_have_no_rate() -> None:
    """5 MB in the first of 9 ms: the other 8 ms are not slow, but unknown."""
    found = _about_copies(_program([Copy(0, 1, 5 * MB, host="Pageable"), Copy(1, 9, -1, host="Pageable")], [(9, 10)]))
    assert [(finding.code, finding.saving_ns) for finding in found] == [("COPY-BOUND", 1 * MS)]
    assert "bytes were not recorded" in found[0].sentences[0]


COPIES = st.builds(
    lambda start, length, *rest: Copy(start / 10, (start + length) / 10, *rest),
    st.integers(0, 90),
    st.integers(1, 30),
    st.sampled_from([-1, 0, 1_000, 5 * MB, 400 * MB]),
    st.sampled_from(["Host-to-Device", "Device-to-Host", "Device-to-Device", "Peer-to-Peer", "Memset", "odd", None]),
    st.sampled_from(["Pageable", "Pinned", "Unknown", None]),
)
SPANS = st.builds(lambda start, length: (start / 10, (start + length) / 10), st.integers(0, 90), st.integers(1, 30))


@given(st.lists(COPIES, min_size=1, max_size=6), st.lists(SPANS, max_size=3), st.sampled_from([H200, "unknown GPU"]))
def test_no_saving_is_more_than_the_exposed_copies(
    copies: list[Copy], kernels: list[tuple[float, float]], gpu: str
) -> None:
    """Whatever is recorded of them: kinds, memories and bytes may be missing."""
    trace = _program(copies, kernels, gpu)
    device, about = _device(trace), _about_copies(trace)
    exposed = device.exposed_ns(LineKind.COPY)
    assert sum(flow.exposed_ns for flow in copy_flows(trace, device)) == exposed
    assert all(0 <= found.saving_ns <= exposed for found in about)
    by_code = {found.code: found.saving_ns for found in about}
    assert by_code.get("COPY-BOUND", 0) + by_code.get("COPY-PAGEABLE", 0) <= exposed
    assert not {"COPY-BOUND", "COPY-EXPOSED"} <= set(by_code)
    if exposed > device.steady_ns / 2:
        assert replace(build_report(trace).findings[0], edit=None) in [replace(found, edit=None) for found in about]


# Communication of one rank


def _with_communication(comm_us: int, compute_us: int, steps: int = 20) -> Trace:
    """Every step computes, then communicates; the host is far ahead."""
    lines: list[str] = []
    at = 1_000
    for _ in range(steps):
        for length, name in ((compute_us, "gemm"), (comm_us, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL")):
            lines.append(f"{2 * len(lines)}-{2 * len(lines) + 1} cudaLaunchKernel -> s7: {at}-{at + length} {name}")
            at += length
    return called(*lines)


def _communication(trace: Trace) -> Finding:
    return next(finding for finding in findings(trace, [_device(trace)]) if finding.code == "COMM-EXPOSED")


def test_much_communication_is_a_finding_where_compute_cannot_hide_it() -> None:
    """One rank's communication may be waiting for others, which needs no compute to go away."""
    finding = _communication(_with_communication(comm_us=900, compute_us=100))
    assert finding.is_bound
    assert finding.claim.endswith("of communication not overlapped with compute")
    assert any(sentence.startswith("compute can hide at most") for sentence in finding.sentences)
    assert "gpuledger fleet" in str(finding.fix)
    hidden = _communication(_with_communication(comm_us=300, compute_us=700))
    assert not hidden.is_bound
    assert "gpuledger fleet" not in str(hidden.fix)


def test_much_communication_is_a_finding_where_hiding_it_saves_nothing() -> None:
    """The host needs as long as the step takes: a third of it communicates."""
    lines = []
    for step in range(20):
        at = 1_000 * step
        lines += [
            f"{at}-{at + 500} cudaLaunchKernel -> s7: {at + 505}-{at + 800} gemm",
            f"{at + 500}-{at + 1000} cudaLaunchKernel -> s7: {at + 1005}-{at + 1305} ncclDevKernel_AllReduce",
        ]
    finding = _communication(called(*lines))
    assert finding.claim == "300 us per step of communication not overlapped with compute"
    assert finding.edit is None


@given(st.integers(1, 2_000), st.integers(1, 2_000))
def test_communication_saves_no_more_than_it_takes(comm_us: int, compute_us: int) -> None:
    trace = _with_communication(comm_us, compute_us)
    device = _device(trace)
    for finding in findings(trace, [device]):
        if finding.code == "COMM-EXPOSED":
            assert finding.saving_ns <= finding.explains_ns <= device.exposed_ns(LineKind.COMM)


def test_bytes_that_were_not_recorded_are_no_number() -> None:
    """As of torch's memsets on AMD: two of them are not -2 bytes, and nobody knows their rate."""
    copies = [Copy(0, 1, -1, "Memset", "Device"), Copy(1, 2, -1, "Memset", "Device"), Copy(2, 3, 40 * MB)]
    trace = _program(copies, [(3, 10)])
    report = build_report(trace)
    by_kind = {copied.kind: copied for copied in copies_by_kind(trace, report.main_device)}
    assert (by_kind["Memset"].total_bytes, by_kind["Memset"].bytes_per_s) == (None, None)
    assert by_kind["Host-to-Device"].total_bytes == 40 * MB
    first, *_ = memory_answer("made", trace, [report.main_device]).sentences
    assert "move at least 40.0 MB" in first
    assert [sized.operation for sized in cuda_gpu_mem_size_sum(trace)] == ["[CUDA memcpy Host-to-Device]"]
