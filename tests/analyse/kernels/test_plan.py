"""What to give to Nsight Compute: the kernels worth it, commands that pick them out, and names that ncu will take."""

from __future__ import annotations

import csv
import json
import lzma
import re
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from io import StringIO
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from gpuledger.analyse.kernels.ncu_plan import (
    COMMUNICATION,
    LITTLE,
    NAMELESS,
    WORTHWHILE,
    NcuPlan,
    NcuRun,
    plan,
)
from gpuledger.capture.ncu import PLACEHOLDER, SETS, Measure, check_metrics, complaint, is_metric, ncu_command
from gpuledger.catalog.kernel_names import parse
from gpuledger.errors import GpuledgerError, NothingRecorded
from gpuledger.ledger.device import analyse_devices
from gpuledger.present.safe_text import shell_lines
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.trace.model import Gpu
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.command import NAMES, ROOT, gpuledger
from support.pages.schemas import schema_of
from support.profiles.nsys_exports import kernel, minimal
from support.thorough import some
from support.traces.program import Program
from support.traces.trace_notation import of_tables, table

TORCH = ROOT / "captures" / "torch"

Launch = tuple[str, int, int]
"""Kernel, grid, nanoseconds."""


def planned(launches: Sequence[Launch], coverage: float = 1.0, *, together: bool = True) -> NcuPlan:
    """The plan of launches one after the other; a step ends with each kernel called `end`, the first is warm-up."""
    names = [name for name, _, _ in launches]
    ends = np.cumsum([ns + 1 for _, _, ns in launches])
    strings = Strings(dict.fromkeys(names))
    rows = table(
        Table.KERNELS,
        strings,
        len(launches),
        start_ns=ends - [ns for _, _, ns in launches],
        end_ns=ends,
        name=names,
        grid=[(grid, 1, 1) for _, grid, _ in launches],
        graph_node=np.full(len(launches), -1),
    )
    trace = of_tables(strings, {Table.KERNELS: rows})
    [device] = analyse_devices(trace, "a", Selection(kernel_pattern="^end$"))
    return plan(trace, device, coverage, together=together)


WARM_UP: list[Launch] = [("a", 1, 500), ("b", 1, 10), ("end", 1, 1000)]
STEP: list[Launch] = [("a", 1, 100), ("b<1>", 1, 30), ("b<2>", 1, 20), ("a", 2, 40), ("end", 1, 10)]


def test_launches_that_are_alike_count_once_and_the_longest_come_first() -> None:
    proposed = planned([*WARM_UP, *STEP * 4])
    assert proposed.steps == 4
    assert [(kernel.name, kernel.grid, kernel.count, kernel.ns) for kernel in proposed.kernels] == [
        ("a", (1, 1, 1), 4, 400),
        ("a", (2, 1, 1), 4, 160),
        ("b<1>", (1, 1, 1), 4, 120),
        ("b<2>", (1, 1, 1), 4, 80),
        ("end", (1, 1, 1), 4, 40),
    ]
    # one of the warm-up is skipped; b<1> and b<2> are one function to ncu, so two of each are taken
    assert proposed.runs == (NcuRun(("a", "b", "end"), 1, 2, 8, 2 * (100 + 40 + 10) + 50),)


@pytest.mark.parametrize(
    ("coverage", "names"), [(0.5, "a"), (0.51, "a a"), (0.7, "a a"), (0.71, "a a b"), (1, "a a b b end")]
)
def test_the_coverage_asked_for_is_reached_and_no_more_is_taken(coverage: float, names: str) -> None:
    proposed = planned([*WARM_UP, *STEP * 4], coverage)
    assert [kernel.function for kernel in proposed.covered] == names.split()
    assert proposed.coverage_share >= coverage
    assert {kernel.left_out for kernel in proposed.kernels} <= {None, LITTLE}


def test_communication_is_never_replayed() -> None:
    proposed = planned([*WARM_UP, *[*STEP, ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1, 300)] * 4])
    [left_out] = [kernel for kernel in proposed.kernels if kernel.left_out]
    assert (left_out.function, left_out.left_out) == ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", COMMUNICATION)
    assert proposed.coverage_share == 1.0
    assert "nccl" not in "".join(name for run in proposed.runs for name in run.functions)


def test_any_layer_stands_for_the_one_that_was_asked_about() -> None:
    """`a` once and `b` twice in each of six layers; the fourth has the 19th launch of `a` in the third step."""
    program = Program()
    for _ in range(4):
        with program.range("step"):
            for layer in range(6):
                with program.range(f"layer{layer}"):
                    for name, us in (("a", 50), ("b<1>", 30), ("b<2>", 20)):
                        program.kernel(name, us)
            program.read()
    rows = program.trace()
    [device] = analyse_devices(rows, "a", Selection(scope_pattern="^layer3$"))
    proposed = plan(rows, device, 1.0)
    assert [(kernel.name, kernel.count) for kernel in proposed.kernels] == [("a", 4), ("b<1>", 4), ("b<2>", 4)]
    [run] = proposed.runs
    assert (run.count, run.launches) == (2, 4)  # two of b are needed, and two of a come along


def test_kernels_that_no_number_suits_get_runs_of_their_own() -> None:
    """`often` has 90 launches before the steady steps, `once` has 4 in all: no skip is right for both."""
    launches = [*[("often", 1, 1)] * 90, ("end", 1, 1000), *[("often", 1, 9), ("once", 1, 9), ("end", 1, 1)] * 4]
    assert [(run.functions, run.skip) for run in planned(launches).runs] == [(("end", "once"), 1), (("often",), 90)]


def test_where_names_are_not_told_apart_each_function_gets_a_run() -> None:
    proposed = planned([*WARM_UP, *STEP * 4], together=False)
    assert sorted(run.functions for run in proposed.runs) == [("a",), ("b",), ("end",)]


def taken(launches: Sequence[Launch], run: NcuRun) -> list[int]:
    """What ncu does: of each function and configuration that match, skip some launches and take some."""
    seen: Counter[tuple[str, int]] = Counter()
    positions = []
    for position, (name, grid, _) in enumerate(launches):
        function = parse(name).short
        if function in run.functions:
            if run.skip <= seen[function, grid] < run.skip + run.count:
                positions.append(position)
            seen[function, grid] += 1
    return positions


kernels = st.tuples(st.sampled_from(["a", "b<1>", "b<2>", "c"]), st.integers(1, 2), st.integers(1, 99))


@given(st.lists(kernels, max_size=12), st.lists(kernels, min_size=1, max_size=8), st.integers(2, 6), st.booleans())
def test_the_runs_meet_every_kernel_after_the_warm_up(
    before: list[Launch], step: list[Launch], steps: int, together: bool
) -> None:
    launches = [*before, ("end", 1, 5000), *[*step, ("end", 1, 1)] * steps]
    proposed = planned(launches, together=together)
    steady = len(launches) - proposed.steps * (len(step) + 1)
    met = [position for run in proposed.runs for position in taken(launches, run)]
    assert sum(run.launches for run in proposed.runs) == len(met)
    assert sum(run.ns for run in proposed.runs) == sum(launches[position][2] for position in met)
    profiled = {(launches[position][0], launches[position][1]) for position in met if position >= steady}
    assert profiled >= {(kernel.name, kernel.grid[0]) for kernel in proposed.covered}
    assert together or all(len(run.functions) == 1 for run in proposed.runs)


def test_the_command_is_what_ncu_wants() -> None:
    command = ncu_command(["a", "f{lambda()#1}"], 3, 1, Measure.of_set("full"), "ncu-run", ["python", "x.py", "--n=1"])
    assert command == (
        "ncu",
        "--set=full",
        "--clock-control=none",
        "--filter-mode=per-launch-config",
        "--kernel-name-base=function",
        r"--kernel-name=regex:^(a|f\{lambda\(\)#1\})$",
        "--launch-skip=3",
        "--launch-count=1",
        "--nvtx",
        "--target-processes=all",
        "--export=ncu-run",
        "python",
        "x.py",
        "--n=1",
    )
    assert Measure.of_metrics(["a__b", "c__d"]).options == ("--metrics=a__b,c__d",)
    assert ncu_command(["a"], 0, 1, Measure.of_set("basic"), "e")[-1] == PLACEHOLDER


@given(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=1), min_size=1))
def test_the_filter_takes_these_names_and_no_others(names: list[str]) -> None:
    [option] = [
        argument
        for argument in ncu_command(names, 0, 1, Measure.of_set("full"), "e")
        if argument.startswith("--kernel-name=")
    ]
    pattern = re.compile(option.removeprefix("--kernel-name=regex:"))
    for name in names:
        assert pattern.search(name)
        assert not pattern.search(f"{name}\N{SNOWMAN}")
        assert not pattern.search(f"\N{SNOWMAN}{name}")


def pasted(lines: Sequence[str]) -> list[str]:
    """What a POSIX shell makes of a command; the program itself is replaced by one that prints its arguments."""
    script = (
        "show() { for each; do printf '%s\\0' \"$each\"; done; }\n" + re.sub(r"\A\w+", "show", "\n".join(lines)) + "\n"
    )
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("width", [20, 40, 80, None])
def test_a_command_comes_back_from_the_shell_as_it_was(width: int | None) -> None:
    nasty = ["--name=regex:^(a|b c|d'e)$", "x" * 100, "'" * 30, "a b", "--empty=", '$HOME `id` \\ "q"', "*", "~", "é|ü"]
    lines = shell_lines(["ncu", *nasty], width)
    assert pasted(lines) == nasty
    assert width is None or max(map(len, lines)) <= width


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)),
    st.integers(12, 90),
)
def test_any_command_comes_back_from_the_shell(arguments: list[str], width: int) -> None:
    assert pasted(shell_lines(["ncu", *arguments], width)) == arguments


PROFILES = [*(f"{name}.sqlite" for name in NAMES), "decode.json.gz", "graph.json.gz", "work.json.gz"]


@pytest.mark.usefixtures("profiles_read_once")
@pytest.mark.parametrize(("name", "width"), some(list(zip(PROFILES, cycle(["60", "80", "132"]), strict=False)), 2))
def test_every_capture_has_a_plan_that_says_the_same_in_every_format(
    name: str, width: str, unpacked: Callable[[str], Path]
) -> None:
    profile = TORCH / name if name.endswith(".gz") else unpacked(name)
    ran = gpuledger("kernels", profile, "--format=json", "--", "python", "a b.py", "--x=$1")
    assert ran.exit_code == 0, ran.stderr
    content = json.loads(ran.stdout)
    schema_of("ncuplan").validate(content)
    shares = [kernel["share"] for kernel in content["kernels"]]
    assert sum(shares) == pytest.approx(1, abs=0.5e-6 * len(shares))  # each is rounded to a millionth
    assert content["coverage_share"] >= 0.95
    assert content["is_worthwhile"] is (content["kernels_share"] >= WORTHWHILE)

    rows = list(csv.DictReader(StringIO(gpuledger("kernels", profile, "--set=verdict", "--format=csv").stdout)))
    assert [row["name"] for row in rows] == [kernel["name"] for kernel in content["kernels"]]
    assert [row["left_out"] == "" for row in rows] == [kernel["left_out"] is None for kernel in content["kernels"]]

    markdown = gpuledger("kernels", profile, "--set=verdict", "--format=md").stdout
    html = MarkdownIt("commonmark").enable("table").render(markdown)
    assert html.count("<tr>") == 1 + sum(kernel["left_out"] is None for kernel in content["kernels"])
    assert html.count("<pre>") == 1

    text = gpuledger("kernels", profile, "--", "python", "a b.py", "--x=$1", COLUMNS=width).stdout
    blocks = [block for block in text.split("\n\n") if block.startswith("ncu ")]
    assert [["ncu", *pasted(block.splitlines())] for block in blocks] == content["commands"]
    assert max(len(line) for block in blocks for line in block.splitlines()) <= int(width)


@pytest.mark.parametrize("form", ["text", "json", "md"])
def test_where_kernels_are_hardly_any_of_the_step_the_plan_says_so(form: str, decode: Path) -> None:
    """The steps of this capture load code for 42 of 47 ms: no kernel could make them shorter."""
    ran = gpuledger("kernels", decode, "--set=verdict", f"--format={form}")
    assert ran.exit_code == 0
    if form == "json":
        content = json.loads(ran.stdout)
        assert not content["is_worthwhile"]
        assert content["commands"]
        assert content["kernels_share"] == pytest.approx(sum(kernel["step_share"] for kernel in content["kernels"]))
    else:
        assert "Profiling kernels is hardly worth it here: all are 1.1 % of the step" in " ".join(ran.stdout.split())


@given(st.integers(1, 400))
def test_a_plan_knows_whether_kernels_are_next_to_nothing(busy_ns: int) -> None:
    """A kernel in a window of 2,000 ns that a copy fills."""
    strings = Strings(dict.fromkeys(("k", "Host-to-Device")))
    node = {"graph_node": [-1]}
    copies = table(Table.COPIES, strings, 1, end_ns=[2000], stream=[1], kind=["Host-to-Device"], **node)
    kernels = table(Table.KERNELS, strings, 1, end_ns=[busy_ns], name=["k"], grid=[(1, 1, 1)], **node)
    trace = of_tables(strings, {Table.COPIES: copies, Table.KERNELS: kernels})
    [device] = analyse_devices(trace, "a", Selection())
    proposed = plan(trace, device, 1.0)
    assert proposed.is_worthwhile is (busy_ns >= 100)
    assert proposed.covered
    assert proposed.runs


def test_what_is_measured_decides_the_cost(decode: Path) -> None:
    def cost(*options: str) -> float:
        seconds: float = json.loads(gpuledger("kernels", decode, "--coverage=0.95", "--format=json", *options).stdout)[
            "expected_seconds"
        ]
        return seconds

    verdict, full, roofline, basic = (cost(f"--set={name}") for name in SETS)
    assert roofline < verdict < full
    assert verdict == cost()
    assert full > roofline > basic > cost("--metrics=dram__bytes.sum") > 0


def test_names_that_cannot_be_typed_are_left_out(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(1, 5), kernel(6, 20, demangledName=4)])
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO StringIds VALUES (4, 'x\x1b[31m`id`')")
    database.close()
    ran = gpuledger("kernels", path, "--coverage=1")
    assert ran.exit_code == 0
    assert "\x1b" not in ran.stdout
    assert "regex:^(k)$" in ran.stdout
    assert f"left out: 1 kernel, 77.8 % of the kernel time: {NAMELESS}." in ran.stdout


def test_a_profile_whose_kernels_are_all_unknown_is_refused(tmp_path: Path) -> None:
    copy = {"start": 1, "end": 9, "bytes": 8, "copyKind": 1, "correlationId": 1, "globalPid": 1 << 24, "streamId": 7}
    ran = gpuledger("kernels", minimal(tmp_path / "a.sqlite", MEMCPY=[copy]), "--set=verdict")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: no kernel ran on GPU 0 in the steady steps")


def test_all_names_that_ncu_printed_are_names() -> None:
    """Of a report with every section, ncu 2025.3, H200."""
    packed = ROOT / "tests" / "golden" / "ncu_metric_names.txt.xz"
    names = lzma.decompress(packed.read_bytes()).decode().split()
    assert len(names) == 2227
    assert [name for name in names if not is_metric(name)] == []


@pytest.mark.parametrize(
    "name",
    [
        "group:memory__chart",
        "regex:sm__.*",
        "breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__time_duration",
    ],
)
def test_what_else_ncu_takes_for_a_metric(name: str) -> None:
    assert is_metric(name)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("sm__throughput.avg.pct_of_peak_sustained", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("dram__throughput.avg.pct_of_peak_sustained", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("dram_bytes.sum", "dram__bytes.sum"),
        ("sm.throughput.avg.pct_of_peak_sustained_elapsed", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("sm__cycles_active:avg", "sm__cycles_active.avg"),
        ("sm__cycles_active-avg", "sm__cycles_active.avg"),
        ("sm__cycles_active__avg", "sm__cycles_active.avg"),
        ("SM__cycles_active.avg", "sm__cycles_active.avg"),
        ("smps__inst_executed.sum", "smsp__inst_executed.sum"),
        ("l1text__t_bytes.sum.per_second", "l1tex__t_bytes.sum.per_second"),
        ("dram__bytes.total", "dram__bytes.sum"),
        ("dram__bytes.mean.per_sec", "dram__bytes.avg.per_second"),
        ("sm__throughput.pct_of_peak_sustained_elapsed", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("lts__t_sector_hit_rate.percent", "lts__t_sector_hit_rate.pct"),
        (
            "breakdown:sm__throughput.avg.pct_of_peak_sustained",
            "breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_one_that_was_meant(wrong: str, meant: str) -> None:
    assert not is_metric(wrong)
    assert complaint(wrong) == f"{wrong} is no metric: did you mean {meant}?"


@pytest.mark.parametrize(
    "wrong", ["DRAM Frequency", "occupancy", "", ".", "__", "a.b.c.d", "sm__x.avg.avg.avg", "sm__\n.sum"]
)
def test_what_cannot_be_mended_is_told_how_names_are_built(wrong: str) -> None:
    assert not is_metric(wrong)
    assert "is no metric: " in complaint(wrong)


@given(st.text())
def test_any_text_is_a_name_or_has_a_complaint(name: str) -> None:
    assert is_metric(name) or complaint(name).startswith(f"{name} is no metric: ")


def test_wrong_metrics_are_all_told_at_once_before_the_profile_is_read() -> None:
    listed = "sm__throughput.avg.pct_of_peak_sustained,gpu__time_duration.sum,dram_bytes.sum"
    ran = gpuledger("kernels", "no-such-file", f"--metrics={listed}")
    assert (ran.exit_code, ran.stdout) == (1, "")
    first, second = ran.stderr.splitlines()[:2]
    assert first.startswith("error: sm__throughput.avg.pct_of_peak_sustained is no metric: did you mean sm__throughput")
    assert second == "       dram_bytes.sum is no metric: did you mean dram__bytes.sum?"
    with pytest.raises(GpuledgerError, match="no metric in the list"):
        check_metrics(" , ")
    assert check_metrics(" a__b.sum, c__d ,a__b.sum") == ("a__b.sum", "c__d")


def test_other_makers_gpus_are_refused(decode: Path) -> None:
    trace = open_trace(decode)
    amd = replace(trace, origin=replace(trace.origin, gpus=(Gpu("AMD Instinct MI300X"),)))
    (device,) = analyse_devices(amd, "x", Selection())
    with pytest.raises(NothingRecorded, match="NVIDIA GPUs only"):
        plan(amd, device, 0.95)
