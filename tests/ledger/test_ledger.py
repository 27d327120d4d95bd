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
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import Line, ledger
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.window import default_window
from gpuledger.trace.spans import Span
from support.command import NAMES
from support.profiles.corpus import FILES
from support.profiles.nsys_exports import call, minimal, push
from support.thorough import some
from support.traces.book_checks import analysed, check_balance
from support.traces.trace_notation import of_tables, trace

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
    from gpuledger.findings.run_rules import findings

    loop = open_trace(unpacked("moe_loop.sqlite"))
    ranked = findings(loop, analysed(loop))
    assert ranked[0].code == "LAUNCH-BOUND"
    assert "488 launches per step" in ranked[0].claim
    [slow], [fast] = analysed(loop), analysed(unpacked("moe_batched_gemm.sqlite"))
    saved = slow.steady_ns / slow.step_count - fast.steady_ns / fast.step_count
    assert ranked[0].saving_ns_per_step == pytest.approx(saved, rel=0.2)


def test_states_are_in_order_of_precedence() -> None:
    assert State.COMPUTE < State.COMM < State.COPY < State.IDLE


def test_the_report_of_nothing_is_one_sentence(tmp_path: Path) -> None:
    from support.command import gpuledger
    from support.profiles.nsys_exports import minimal, push

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
