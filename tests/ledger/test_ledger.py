"""The books balance, on every profile we have, and say what an independent sweep says."""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Table, open_trace
from gpuledger.ledger.activity import State, activities
from gpuledger.ledger.books import Line, ledger
from gpuledger.ledger.busy import busy, default_window
from gpuledger.ledger.host import host_and_activities
from gpuledger.trace.spans import Span, total
from gpuledger.trace.strings import Strings
from support.book_checks import analysed, check_balance
from support.command import NAMES
from support.corpus import FILES
from support.nsys_exports import call, minimal, push
from support.thorough import some
from support.trace_notation import of_tables, table, trace

NO_CUTS = np.empty(0, np.int64)


@pytest.mark.parametrize("name", NAMES)
def test_the_books_of_a_capture_balance(name: str, unpacked: Callable[[str], Path]) -> None:
    devices = analysed(unpacked(f"{name}.sqlite"))
    assert devices
    for device in devices:
        check_balance(device)


@pytest.mark.parametrize("packed", some(FILES, 3), ids=lambda path: path.name.split("__")[-1])
def test_the_books_of_a_third_party_profile_balance(packed: Path, tmp_path: Path) -> None:
    path = tmp_path / "profile.sqlite"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    for device in analysed(path):
        check_balance(device)


def test_overlapping_streams_count_once() -> None:
    planted_trace = trace("s0: 0-10 gemm", "s1: 5-15 softmax", "s0: 20-30 gemm")
    host, work = host_and_activities(planted_trace)
    books = ledger(work, host, 0, Span(0, 30), np.empty(0, np.int64))
    assert list(books.busy.idle) == [(15, 20)]
    assert {line: ns for line, ns in books.total().items() if line.is_compute} == {
        "compute.gemm": 20,
        "compute.softmax": 5,
    }


def test_the_naive_query_goes_wrong_under_overlap_and_ours_does_not() -> None:
    planted_trace = trace("s0: 0-100 a", "s1: 10-20 b", "s0: 110-120 c")
    kernels = planted_trace[Table.KERNELS]
    order = np.argsort(kernels["start_ns"])
    naive = kernels["start_ns"][order][1:] - kernels["end_ns"][order][:-1]
    assert naive.sum() == -90 + 90
    [device] = analysed(planted_trace)
    assert device.ledger.gaps.length_ns.tolist() == [10]


def test_communication_and_copies_count_only_where_exposed() -> None:
    strings = Strings(["gemm", "ncclDevKernel_AllReduce", "Host-to-Device"])
    kernels = table(
        Table.KERNELS,
        strings,
        2,
        start_ns=[0, 5],
        end_ns=[10, 20],
        stream=[0, 1],
        name=["gemm", "ncclDevKernel_AllReduce"],
    )
    copies = table(Table.COPIES, strings, 1, start_ns=[15], end_ns=[30], stream=[2], kind=["Host-to-Device"])
    work = activities(of_tables(strings, {Table.KERNELS: kernels, Table.COPIES: copies}))
    split = busy(work, 0, Span(0, 40))
    assert [split.compute_ns, *map(total, (split.comm, split.copy, split.idle))] == [10, 10, 10, 10]
    assert (split.hidden_comm_ns, split.hidden_copy_ns) == (5, 5)


kernel_lines = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(1, 15), st.sampled_from(["gemm", "softmax", "nccl"])),
    min_size=1,
    max_size=12,
)


@given(kernel_lines, st.lists(st.integers(0, 80), max_size=4))
def test_books_balance_for_any_kernels_and_any_cuts(lines: list[tuple[int, int, int, str]], cuts: list[int]) -> None:
    drawn = trace(*(f"s{stream}: {start}-{start + length} {name}" for stream, start, length, name in lines))
    host, work = host_and_activities(drawn)
    window = default_window(host, work)
    assert isinstance(window, Span)
    books = ledger(work, host, 0, window, np.array(sorted(set(cuts)), np.int64))
    assert sum(books.total().values()) == books.window_ns
    whole = ledger(work, host, 0, window, NO_CUTS)
    assert whole.total() == books.total()  # where one cuts changes no line


@given(kernel_lines, st.integers(-1000, 10**12))
def test_shifting_time_changes_no_line(lines: list[tuple[int, int, int, str]], shift: int) -> None:
    def total_of(offset: int) -> dict[Line, int]:
        shifted = trace(
            *(f"s{s}: {start + offset}-{start + offset + length} {name}" for s, start, length, name in lines)
        )
        host, work = host_and_activities(shifted)
        window = default_window(host, work)
        assert isinstance(window, Span)
        return ledger(work, host, 0, window, NO_CUTS).total()

    assert total_of(0) == total_of(shift)


def test_decode_loses_its_time_to_loading_code(decode: Path) -> None:
    [device] = analysed(decode)
    assert device.steps is not None
    assert (device.steps.source, device.step_count) == ("marked by the range 'bench:decode'", 20)
    shares = {line: ns / device.steady_ns for line, ns in device.line_ns.items()}
    assert shares[Line("idle.host_code")] == pytest.approx(0.86, abs=0.01)
    (trigger, _), (time, _) = next(iter(device.triggers.items()))
    assert trigger == "load"
    assert time / device.step_count == pytest.approx(41.7e6, rel=0.02)


@pytest.mark.parametrize("hidden", [False, True], ids=["with ranges", "ranges hidden"])
def test_graph_replays_are_steps(hidden: bool, unpacked: Callable[[str], Path]) -> None:
    opened = open_trace(unpacked("graph.sqlite"), only=[t for t in Table if not (hidden and t is Table.RANGES)])
    if hidden:
        opened = of_tables(opened.strings, dict(opened.tables))
    [device] = analysed(opened)
    assert device.steps is not None
    assert len(device.steps) == 20
    assert device.steps.source == (
        "ended by token-sampling kernels" if hidden else "marked by the range 'bench:decode'"
    )


def test_steps_are_found_in_kernels_alone(unpacked: Callable[[str], Path]) -> None:
    opened = open_trace(unpacked("moe_batched_gemm.sqlite"), only=[Table.KERNELS])
    [device] = analysed(of_tables(opened.strings, dict(opened.tables)))
    assert device.steps is not None
    assert device.steps.source == "inferred from repeating kernels"
    assert 49 <= len(device.steps) <= 51


def test_steps_tile_the_time(unpacked: Callable[[str], Path]) -> None:
    for name in ("decode", "graph", "moe_loop", "two_gloo"):
        for device in analysed(unpacked(f"{name}.sqlite")):
            assert device.steps is not None
            assert (device.steps.length_ns > 0).all()
            assert int(device.steps.length_ns.sum()) == int(device.steps.edges_ns[-1] - device.steps.edges_ns[0])


def test_batching_saves_what_the_launch_bound_finding_predicts(unpacked: Callable[[str], Path]) -> None:
    from gpuledger.findings.rules import findings

    loop = open_trace(unpacked("moe_loop.sqlite"))
    ranked = findings(loop, analysed(loop))
    assert ranked[0].code == "LAUNCH-BOUND"
    assert "488 launches per step" in ranked[0].claim
    [slow], [fast] = analysed(loop), analysed(unpacked("moe_batched_gemm.sqlite"))
    saved = slow.steady_ns / slow.step_count - fast.steady_ns / fast.step_count
    assert ranked[0].saving_ns_per_step == pytest.approx(saved, rel=0.2)


def test_two_processes_on_one_gpu_pay_for_switching(unpacked: Callable[[str], Path]) -> None:
    [device] = analysed(unpacked("two_gloo.sqlite"))
    assert device.line_ns[Line("idle.context_switch")] > 0
    assert {trigger for trigger, _ in device.triggers} >= {"context_switch"}


def test_states_are_in_order_of_precedence() -> None:
    assert State.COMPUTE < State.COMM < State.COPY < State.IDLE


def test_the_report_of_nothing_is_one_sentence(tmp_path: Path) -> None:
    from support.command import gpuledger
    from support.nsys_exports import minimal, push

    ran = gpuledger("report", minimal(tmp_path / "a.sqlite", NVTX=[push(0, 5, "step")]))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: a.sqlite: no GPU work was recorded")


@pytest.mark.parametrize(
    ("said", "asked", "calls", "why"),
    [
        (
            "System X. CUDA tracing data was not collected.",
            "NvtxEvents",
            0,
            "nsys: System X. CUDA tracing data was not",
        ),
        ("No CUDA events collected. Does it?", "NvtxEvents", 0, "; CUDA was not traced, but NvtxEvents\n"),
        ("No CUDA events collected. Does it?", "Cuda", 0, "ranges 1\n"),
        (
            "Not all CUDA events might have been collected",
            "Cuda",
            2,
            "; 2 calls put kernels on the GPU, and the profile",
        ),
    ],
)
def test_the_report_of_nothing_says_what_the_recording_says_of_it(
    said: str, asked: str, calls: int, why: str, tmp_path: Path
) -> None:
    """It was: counts alone, and why stood in `info`, far down."""
    from support.command import gpuledger

    path = minimal(tmp_path / "a.sqlite", NVTX=[push(0, 5, "step")], RUNTIME=[call(1, 2)] * calls)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE DIAGNOSTIC_EVENT (severity INTEGER, text TEXT)")
        database.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        database.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (2, ?)", (said,))
        database.execute("INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_EVENT_TYPE', ?)", (asked,))
    database.close()
    ran = gpuledger("report", path)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert why in ran.stderr


def test_users_add_families_of_their_own(decode: Path, tmp_path: Path) -> None:
    import json

    from support.command import gpuledger

    (tmp_path / "pyproject.toml").write_text('[tool.gpuledger.families]\nours = ["nvjet_.*"]\n')
    ran = gpuledger("report", decode, "--format=json", cwd=tmp_path)
    lines = {line["line"]: line["ns"] for line in json.loads(ran.stdout)["devices"][0]["ledger"]}
    assert "compute.ours" in lines
    (tmp_path / "mine.toml").write_text('[families]\ncommunication = ["nvjet_.*"]\n')
    ran = gpuledger("report", decode, "--format=json", "--families=mine.toml", cwd=tmp_path)
    lines = {line["line"]: line["ns"] for line in json.loads(ran.stdout)["devices"][0]["ledger"]}
    assert lines["comm"] > 0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("families = 3", "families is not a table"),
        ('[families]\na = "x"', "family 'a' is not a list of patterns"),
        ('[families]\na = ["("]', "'(' is no regular expression"),
        ("[", "cannot be read as TOML"),
    ],
)
def test_bad_families_are_refused_in_one_sentence(content: str, complaint: str, decode: Path, tmp_path: Path) -> None:
    from support.command import gpuledger

    (tmp_path / "mine.toml").write_text(content)
    ran = gpuledger("gaps", decode, "--families=mine.toml", cwd=tmp_path)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: mine.toml: ")
    assert complaint in ran.stderr


def corpus(name: str, folder: Path) -> Path:
    packed = next((path for path in FILES if name in path.name), None)
    if packed is None:
        pytest.skip("no third-party profiles beside the checkout")
    path = folder / "profile.sqlite"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path


def test_a_gpu_that_copies_is_not_idle(tmp_path: Path) -> None:
    from gpuledger.findings.rules import findings

    opened = open_trace(corpus("h100_2gpu_1s", tmp_path))
    devices = analysed(opened)
    for device in devices:
        assert device.ledger.total()[Line("copy")] / device.ledger.window_ns == pytest.approx(0.97, abs=0.005)
        assert total(device.ledger.busy.idle) / device.ledger.window_ns < 0.01
        assert "idle.unattributed" not in device.ledger.total()  # launched before the capture, not lost
    assert findings(opened, devices)[0].code == "COPY-BOUND"


def test_graphs_traced_whole_are_work_and_said_to_be_opaque(tmp_path: Path) -> None:
    from gpuledger.findings.rules import findings

    opened = open_trace(corpus("result_2_7B", tmp_path))
    [device] = analysed(opened)
    assert device.ledger.total()[Line("compute.graph")] == pytest.approx(7.8e9, rel=0.01)
    assert [finding.code for finding in findings(opened, [device])] == ["CAPTURE-GRAPHS-OPAQUE"]


def test_time_range_and_device_narrow_the_window(decode: Path) -> None:
    import json

    from support.command import gpuledger

    def window(*options: str) -> int:
        ran = gpuledger("report", decode, "--format=json", *options)
        assert ran.exit_code == 0, ran.stderr
        content = json.loads(ran.stdout)
        assert sum(line["ns"] for line in content["devices"][0]["ledger"]) == content["window_ns"]
        return int(content["window_ns"])

    assert window("--time=0.1s:0.35s") == 250_000_000
    assert window("--time=:1ms") == 1_000_000
    assert window("--range=prefill") == pytest.approx(57.4e6, rel=0.01)
    assert window("--device=0") == window()
    for options, complaint in (
        (["--device=7"], "nothing ran on GPU 7"),
        (["--time=5s:6s"], "nothing in that time window"),
        (["--time=5s:6s"], "between 0 and 1."),
        (["--range=zzz"], "no range matches 'zzz'"),
    ):
        ran = gpuledger("report", decode, *options)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert complaint in ran.stderr
    assert gpuledger("gaps", decode, "--time=soon").exit_code == 2


def test_large_copies_are_not_called_small(tmp_path: Path) -> None:
    from gpuledger.findings.rules import findings

    opened = open_trace(corpus("Mordred", tmp_path))
    codes = [finding.code for finding in findings(opened, analysed(opened))]
    assert "HOST-COPY" not in codes
    assert "COPY-PAGEABLE" in codes
