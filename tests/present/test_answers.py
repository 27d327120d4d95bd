"""The verbs that ask one question answer it first, in a sentence whose numbers the tables under it have too."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.findings.about_gaps import code_of_trigger
from gpuledger.findings.pages import codes
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.units import share_text, time_text
from support.command import gpuledger
from support.profiles.nsys_exports import TID, call, insert, kernel, minimal
from support.profiles.torch_traces import CAPTURES
from support.thorough import some

pytestmark = pytest.mark.usefixtures("profiles_read_once")

VERBS = ("steps", "gaps", "memory", "ranges", "ops", "kernels")


def _first(verb: str, profile: Path, *options: str) -> str:
    return gpuledger(verb, profile, *options).stdout.split("\n\n")[0]


def _table(verb: str, profile: Path, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(gpuledger(verb, profile, "--format=json").stdout)[name]
    return rows


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["decode", "two_gloo", "zoo_graph"])
def test_a_sentence_about_each_gpu_comes_first(verb: str, name: str, unpacked: Callable[[str], Path]) -> None:
    first = _first(verb, unpacked(f"{name}.sqlite"))
    assert re.match(r"GPU \d+: .*\.$", first), first
    assert "\n" not in first
    assert "(ns)" not in gpuledger(verb, unpacked(f"{name}.sqlite")).stdout


def test_what_is_said_of_gaps_is_what_the_table_has(unpacked: Callable[[str], Path]) -> None:
    profile = unpacked("decode.sqlite")
    causes = [int(str(row["time_ns"])) for row in _table("gaps", profile, "by_cause")]
    idle = sum(causes)
    first = _first("gaps", profile)
    assert f"({time_text(idle)} of " in first
    assert f"{share_text(max(causes) / idle)} of the idle time is host code." in first
    assert "`gpuledger explain HOST-LOAD`" in gpuledger("gaps", profile).stdout.split("\n\n")[1]


@pytest.mark.parametrize("profile", some(["work", "graph_warm"], 2))
@pytest.mark.parametrize("verb", [*VERBS, "whatif", "whatif --host=2 --launch-cost=2us", "report"])
def test_where_no_steps_are_found_nothing_is_told_per_step(verb: str, profile: str) -> None:
    name, *options = verb.split()
    unpacked = CAPTURES / f"{profile}.json.gz"
    told = [gpuledger(name, unpacked, *options, COLUMNS="250").stdout]
    if verb not in ("whatif", "report"):  # the one is no page, the other has the pages of its findings
        page = gpuledger(name, unpacked, *options, "--format=html").stdout
        told.append(re.sub(r"(?s)<script.*?</script>|<style.*?</style>", "", page))
    for text in told:
        assert re.findall(r"(?i).*(?:per step|steady step|of step|all steps|new step).*", text) == []


def test_tables_for_programs_have_the_same_columns_with_and_without_steps(decode: Path) -> None:
    for verb in ("gaps", "memory", "ranges", "ops", "kernels", "whatif"):
        without, with_steps = (
            json.loads(gpuledger(verb, file, "--format=json").stdout) for file in (CAPTURES / "work.json.gz", decode)
        )
        assert list(without) == list(with_steps)
        tables = [key for key, rows in without.items() if isinstance(rows, list) and rows and with_steps[key]]
        rows = [(without[key][0], with_steps[key][0]) for key in tables if isinstance(without[key][0], dict)]
        assert rows, verb
        assert [list(row) for row, _ in rows] == [list(row) for _, row in rows], verb


def test_where_there_is_nothing_to_say_that_is_said(unpacked: Callable[[str], Path]) -> None:
    profile = unpacked("decode.sqlite")
    assert _first("ops", profile) == "GPU 0: no operators were recorded."
    assert _first("memory", profile, "--time=0.1s:0.1001s").endswith("no copies in the steady steps.")


def test_work_never_waits_less_than_nothing_and_the_cpu_never_longer_than_it_takes(tmp_path: Path) -> None:
    """It was: 'work waits -990 us in the queue', as calls may return after their work; and two threads' waits added."""
    kernels = [kernel(start, start + 900_000, correlationId=start + 1) for start in (0, 1_000_000)]
    launches = [call(row["start"], row["start"] + 995_000, correlationId=row["correlationId"]) for row in kernels]
    waits = [call(100_000, 1_900_000, nameId=4, correlationId=7 + more, globalTid=TID + more) for more in (0, 1)]
    path = minimal(tmp_path / "a.sqlite", KERNEL=kernels, RUNTIME=[*launches, *waits])
    with sqlite3.connect(path) as database:
        insert(database, "StringIds", [{"id": 4, "value": "cudaStreamSynchronize_v3020"}])
    database.close()
    told = gpuledger("gaps", path).stdout
    assert "work waits 0 ns in the queue (median)" in told
    assert "The CPU waits 1.80 ms for the GPU: 2 calls." in told
    [queue] = _table("gaps", path, "queue")
    assert (queue["queued_p10_ns"], queue["queued_p90_ns"]) == (0, 0)
    assert (
        _first("gaps", path)
        == "GPU 0: idle 5.3 % of the window (100 us of 1.90 ms), in one gap; 95.0 % of the idle time is launch calls."
    )
    assert gpuledger("gaps", path).stdout.split("\n\n")[1].startswith("Most of it: ")
    for verb in ("gaps", "memory"):  # there are no steps
        assert "steady steps" not in gpuledger(verb, path).stdout
    assert " · 2 kernels\n" in gpuledger("info", path).stdout
    assert " · 1 kernel\n" in gpuledger("info", minimal(tmp_path / "b.sqlite", KERNEL=kernels[:1])).stdout


def test_every_trigger_leads_to_a_finding_that_can_be_explained() -> None:
    found = {code_of_trigger(trigger) for trigger in TRIGGERS}
    assert found - {None} <= set(codes())
    assert {"HOST-SYNC", "LAUNCH-BOUND", "HOST-LOAD"} <= found


def test_a_saving_that_may_be_the_profilers_own_is_told_so(unpacked: Callable[[str], Path]) -> None:
    unsure, sure = unpacked("experts_grouped.sqlite"), unpacked("numpy_samples.sqlite")
    for form in ("--brief", "--format=text", "--format=md"):
        told = " ".join(gpuledger("report", unsure, form).stdout.split())
        assert re.search(
            r"perhaps only \d+(\.\d+)? us per step without the profiler, which slows each call", told, re.I
        )
        assert "perhaps only" not in gpuledger("report", sure, form).stdout.lower()


def test_info_lists_processes_without_gpu_work_in_one_row_where_they_are_many(tmp_path: Path) -> None:
    """A recording of a whole system had 133 of them, and its inventory began with three screens of zeros."""
    elsewhere = [call(50, 60 + at, correlationId=9 + at, globalTid=TID + ((at + 1) << 24)) for at in range(12)]
    path = minimal(tmp_path / "system.sqlite", KERNEL=[kernel(100, 200)], RUNTIME=[call(10, 20), *elsewhere])
    shown = gpuledger("info", path).stdout
    assert re.search(r"12 others +12 +12 +0 +0\n", shown), shown
    assert len(json.loads(gpuledger("info", path, "--format=json").stdout)["processes"]) == 13
    few = minimal(tmp_path / "few.sqlite", KERNEL=[kernel(100, 200)], RUNTIME=[call(10, 20), *elsewhere[:8]])
    assert "others" not in gpuledger("info", few).stdout


def test_a_command_to_go_on_with_can_be_pasted_whatever_the_profile_is_called(tmp_path: Path) -> None:
    minimal(tmp_path / "my run.sqlite", KERNEL=[kernel(100, 200)], RUNTIME=[call(10, 20)])
    assert gpuledger("info", "my run.sqlite", cwd=tmp_path).stdout.endswith("next: gpuledger stats 'my run.sqlite'\n")
    one = minimal(tmp_path / "it's one.sqlite", KERNEL=[kernel(100, 10_000_100)], RUNTIME=[call(10, 20)])
    words = shlex.split(gpuledger("report", one, COLUMNS="500").stdout.splitlines()[-1])
    assert words[-3:] == [one.name, "--", "COMMAND"]
