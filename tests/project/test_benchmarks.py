"""The benchmarks at small sizes: what is measured is true, answers are compared, the page is written.

No time is asserted.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.command import ROOT

BENCHMARKS = ROOT / "benchmarks"
sys.path.append(str(BENCHMARKS))  # as for `python benchmarks/run.py`

answers: Any = importlib.import_module("harness.answers")
aims: Any = importlib.import_module("harness.aims")
books: Any = importlib.import_module("harness.books")
contests: Any = importlib.import_module("harness.contests")
inputs: Any = importlib.import_module("harness.inputs")
measure: Any = importlib.import_module("harness.measure")
mutations: Any = importlib.import_module("harness.mutations")
memory: Any = importlib.import_module("harness.memory")
page: Any = importlib.import_module("harness.page")
peers: Any = importlib.import_module("harness.peers")
quick: Any = importlib.import_module("harness.quick")
results: Any = importlib.import_module("harness.results")

KERNELS, EVENTS = 2_000, 1_200
FAST = {"runs": 1, "limit_s": 120.0, "looks_at_memory": False}
linux = pytest.mark.skipif(not memory.can_be_read(), reason="the system does not say what processes use")


def python(code: str, *arguments: str, **options: Any) -> Any:
    return measure.Command((sys.executable, "-c", code, *arguments), **options)


def nobody() -> dict[str, Any]:
    return {name: peers.Peer(name, None, "") for name in peers.ALL}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def export(work: Path) -> Path:
    found: Path = inputs.export_of(KERNELS, work)
    return found


def run(*arguments: str, work: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--work", str(work), "--runs=1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


# The whole command


def test_one_command_measures_compares_and_writes_the_page(work: Path, export: Path, tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(f"# Before\n\n{page.BEGIN}\nof last week\n{page.END}\n\nafter\n")
    nsys = tmp_path / "nsys"  # says what NVIDIA's would, by way of ours
    nsys.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && echo 'nsys version 1.2.3.4' && exit\nfor last; do :; done\n"
        f'"{sys.executable}" -m gpuledger stats "$last" --report={contests.TABLES} --format=csv\n'
    )
    nsys.chmod(0o755)
    options = (f"--sizes={KERNELS}", f"--events={EVENTS}", "--only", "stats", "report", "torch")
    ran = run(*options, f"--nsys={nsys}", f"--write={document}", work=work)
    assert ran.returncode == 0, ran.stderr
    text = document.read_text()
    assert text.startswith(f"# Before\n\n{page.BEGIN}\n")
    assert text.endswith(f"{page.END}\n\nafter\n")
    assert "of last week" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert [line for line in table if line.startswith("| task | program | ")] == [
        f"| task | program | {aims.count(size)} | own / file | same answer |" for size in (KERNELS, EVENTS)
    ]
    assert {line.count(" | ") for line in table} == {4}
    assert any(re.search(r"nsys stats 1\.2\.3 \|.*yes: (\d+) of \1 lines", line) for line in table)
    assert any("| gpuledger report, cold |" in line and "yes: window and busy time, by SQL" in line for line in table)
    assert any(f"| {peers.HTA}, two tables | - |" in line and line.endswith("| not installed |") for line in table)
    assert f"Not installed: {', '.join(peers.WANTED)}." in text
    assert str(work) not in text
    assert str(tmp_path) not in text


def test_our_page_has_the_markers_and_names_every_contest() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    assert page.replaced(page.replaced(text, "x"), "y").count("\ny\n") == 1
    names = {contest.name for contest in every_contest(Path("nowhere"))}
    assert names == set(re.findall(r"^\| (\w+) \| `", text, re.MULTILINE))


def every_contest(folder: Path) -> list[Any]:
    place, known = contests.Place(folder, nobody()), Path(__file__)
    found = [contests.start_contest(), contests.torch_contest(known, 1, place)]
    return [*found, *contests.nsys_contests(known, 1, books.Books(0, 0), place)]


# Inputs


def test_the_books_of_an_input_are_plain_sql(export: Path) -> None:
    import sqlite3
    from contextlib import closing

    found = books.books_of(export)
    assert books.books_of(export) == found  # from its file
    with closing(sqlite3.connect(export)) as db:
        rows = [
            row
            for name in ("KERNEL", "MEMCPY", "MEMSET")
            for row in db.execute(f'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_{name}')
        ]
    busy, reached = 0, 0
    for start, end in sorted(rows):
        busy += max(0, end - max(start, reached))
        reached = max(reached, end)
    assert found.busy_ns == busy
    assert found.window_ns > busy


# Measuring


CHILD = 'own = b"x" * (64 << 20); import time; time.sleep(1)'
PARENT = """if True:
    import mmap, subprocess, sys
    with open(sys.argv[1], "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    touched = sum(mapped[::4096])
    subprocess.run([sys.executable, "-c", sys.argv[2]])
"""


@linux
def test_memory_is_that_of_all_processes_and_leaves_mapped_files_out(tmp_path: Path) -> None:
    size = 64 << 20
    (tmp_path / "file").write_bytes(bytes(size))
    found = measure.once(python(PARENT, str(tmp_path / "file"), CHILD), 60.0, looks_at_memory=True)
    assert isinstance(found, measure.Measured), found
    assert size < found.memory.own_bytes < 2 * size
    assert found.memory.resident_bytes > 2 * size


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (python("import sys; sys.exit('no such luck')"), "exit 1: no such luck"),
        (python("import os; os.abort()"), "exit -6: "),
        (measure.Command(("/no/such/program",)), "/no/such/program: No such file or directory"),
        (python("", first=lambda: "not ready"), "not ready"),
        (python("import sys; sys.stderr.buffer.write(bytes([255])); sys.exit(3)"), "exit 3: \ufffd"),
    ],
)
def test_what_fails_is_a_reason(command: Any, reason: str) -> None:
    found = measure.measured(command, measure.Pace(**FAST))
    assert isinstance(found, measure.Failed)
    assert found.reason.startswith(reason)


@linux
def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    child = ("sh", "-c", 'echo $$ > "$0"; exec sleep 600', str(tmp_path / "child"))
    command = measure.Command(("sh", "-c", '"$@"; :', "sh", *child))
    assert measure.measured(command, measure.Pace(1, 2.0)) == measure.Failed("stopped after 2 s")
    stat = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    for _ in range(1000):  # it has the signal; dying takes a moment
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("the child lives on")


# Contests and rows


def contest(ours: Any, *others: Any, **options: Any) -> Any:
    return contests.Contest("report", "a task", 1000, 100, ours, others, **options)


def rows_of(found: Any) -> list[Any]:
    return list(results.Bench(measure.Pace(**FAST)).rows(found))


def test_an_answer_that_cannot_be_read_is_a_disagreement() -> None:
    ours = contests.Entry("gpuledger", python("print('{}')"))
    found = contest(ours, contests.Entry("other", python("print('{')"), answers.same_breakdown))
    [_, row] = rows_of(found)
    assert not row.agreement.same
    assert row.agreement.said.startswith("an answer cannot be read: ")


def test_a_replay_says_whether_it_is_exact(work: Path, export: Path) -> None:
    place = contests.Place(work, nobody())
    found = {each.name: each for each in contests.nsys_contests(export, KERNELS, books.books_of(export), place)}
    assert rows_of(found["replay"])[0].agreement.same


# Answers


HEADING = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns)"


@pytest.mark.parametrize(
    ("theirs", "same", "said"),
    [
        ("0.2,211273,20,10563.6,1.0,k", True, "2 of 2 lines"),
        ("0.2,211273,20,10563.7,1.0,k", True, "2 of 2 lines, 1 with a tie rounded otherwise"),
        ("0.2,211273,20,10563.8,1.0,k", False, "1 of 2 lines"),
        ("0.2,211273,20,10563.5,1.0,k", False, "1 of 2 lines"),
        ("0.3,211273,20,10563.7,1.0,k", False, "1 of 2 lines"),
        ("0.2,211273,20,many,1.0,k", False, "1 of 2 lines"),
        ("0.2,211273", False, "1 of 2 lines"),
        ("", False, "2 lines against 1"),
    ],
)
def test_tables_are_compared_line_by_line(theirs: str, same: bool, said: str) -> None:
    ours = f"{HEADING}\n\n0.2,211273,20,10563.6,1.0,k\n"
    assert answers.same_tables(ours, f"{HEADING}\n{theirs}\n") == answers.Agreement(same=same, said=said)


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(-3, 3))
def test_only_a_tie_may_be_rounded_otherwise(total: int, instances: int, tenths: int) -> None:
    ours = f"0.1,{total},{instances},{10 * total // instances / 10:.1f},1.0,k"
    shown = (10 * total // instances + tenths) / 10
    theirs = f"0.1,{total},{instances},{shown:.1f},1.0,k"
    is_tie = tenths == 1 and 20 * total % instances == 0 and 20 * total // instances % 2 == 1
    assert answers.same_tables(ours, theirs).same == (tenths == 0 or is_tie)


def test_nothing_agrees_with_nothing() -> None:
    assert not answers.same_tables("", "").same
    assert not answers.same_text("", "").same
    assert not answers.same_kernels("Name,Instances,Total Time (ns)\n", "[]").same


@pytest.mark.parametrize(
    ("row", "same"),
    [
        ({"kernel_name": "k", "invocations": 3, "total_ms": 1.23}, True),
        ({"kernel_name": "k", "invocations": 3, "total_ms": 1.24}, True),  # 1.235 ms: a tie
        ({"kernel_name": "k", "invocations": 3, "total_ms": 1.25}, False),
        ({"kernel_name": "k", "invocations": 4, "total_ms": 1.23}, False),
        ({"kernel_name": "other", "invocations": 3, "total_ms": 1.23}, False),
    ],
)
def test_kernels_are_compared_with_nsys_ai(row: dict[str, object], same: bool) -> None:
    ours = "Name,Instances,Total Time (ns)\nk,3,1235000\n"
    assert answers.same_kernels(ours, json.dumps([row])).same is same


def report(**lines: int) -> str:
    ledger = [{"line": name.replace("_", "."), "ns": ns} for name, ns in lines.items()]
    return json.dumps({"devices": [{"window_ns": 100, "ledger": ledger, "hidden_comm_ns": 5}]})


def test_the_ledger_is_compared_with_hta() -> None:
    ours = report(compute_gemm=30, compute_attention=20, comm=10, idle_sync=40)
    theirs = {"compute_us": 0.05, "exposed_us": 0.01, "kernel_us": 0.065}
    assert answers.same_breakdown(ours, json.dumps(theirs)).same
    for key in theirs:
        wrong = answers.same_breakdown(ours, json.dumps({**theirs, key: theirs[key] + 0.002}))
        assert not wrong.same
        assert " us against " in wrong.said


def test_a_report_is_compared_with_the_rows_of_its_export() -> None:
    compared = answers.same_books(books.Books(window_ns=100, busy_ns=60))
    assert compared(report(compute_gemm=50, comm=10, idle_sync=40)).same
    assert not compared(report(compute_gemm=50, comm=11, idle_sync=39)).same
    assert compared(report(compute_gemm=50, comm=10, idle_sync=39)).said == "the lines add up to 99 ns of 100 ns"


# Aims, growth, the page


def row(name: str, size: int, wall_s: float, program: str = "", own_bytes: int = 0, **options: Any) -> Any:
    found = contests.Contest(name, "a task", size, 100, contests.Entry("", None), ())
    used = memory.Memory(own_bytes, own_bytes)
    return results.Row(found, program, measure.Measured(wall_s, wall_s, 1, "", used), **options)


# The guard


@pytest.mark.parametrize(
    ("ratios", "slower", "verdict"),
    [
        ((4.1, 2.0), True, "SLOWER"),
        ((2.0, 4.1), True, "SLOWER"),  # a sleep, which takes no processor
        ((4.0, 4.0), False, "as before"),
        ((0.9, 1.2), False, "as before"),
        ((0.9, 0.9), False, "much faster"),
    ],
)
def test_slower_than_there_is_room_for(ratios: tuple[float, float], slower: bool, verdict: str) -> None:
    found = quick.Guarded("report", 1.0, ratios, (2.0, 2.0), 2.0)
    assert found.is_slower is slower
    assert found.said.endswith(f"stored 2.00 x and 2.00 x: {verdict}")


# Mutations

CODE = '''"""At most 3 of them, and not more."""

LIMIT: Final[Literal[2]] = 10


@cached(7)
def first(gaps: Annotated[int, 4]) -> Literal[5]:
    if not gaps:
        return say("none of {count}, and not 8", count=9)
    if (len(gaps)) < LIMIT and gaps:
        print(f"{gaps + 6}")
    return max(gaps) - é
'''


def test_each_place_is_mutated_and_a_message_a_type_and_a_decorator_are_none(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(CODE)
    found = {(change.kind, change.after.strip()) for seed in range(40) for change in mutations.drawn([path], 99, seed)}
    assert found == {
        *(("number", f"LIMIT: Final[Literal[2]] = {number}") for number in (20, 13, 7)),
        ("not", "if gaps:"),
        ("guard", "if not (not gaps):"),
        *(("comparison", f"if (len(gaps)) {operator} LIMIT and gaps:") for operator in ("<=", ">=")),
        ("boolean", "if (len(gaps)) < LIMIT or gaps:"),
        ("extreme", "return min(gaps) - é"),
        ("sign", "return max(gaps) + é"),
    }
    boundaries = {change.after.strip() for change in mutations.drawn([path], 99, 1) if change.is_boundary}
    assert boundaries <= {"if (len(gaps)) <= LIMIT and gaps:"}


@given(st.integers(0, 9), st.integers(0, 99))
def test_the_same_seed_draws_the_same_changes_of_one_place_each(count: int, seed: int) -> None:
    path = BENCHMARKS / "harness" / "mutations.py"
    drawn = mutations.drawn([path], count, seed)
    assert drawn == mutations.drawn([path], count, seed)
    assert len(drawn) == count
    whole = path.read_text().splitlines()
    for change in drawn:
        changed = change.text.splitlines()
        assert len(changed) == len(whole)
        assert sum(now != before for now, before in zip(changed, whole, strict=True)) == 1


# Peers
