"""One profile of many ranks: `fleet` says of it what it says of the same capture cut into one profile per rank."""

from __future__ import annotations

import json
import lzma
import random
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuledger import GpuledgerError, open_trace
from gpuledger.analyse.ranks.rank import rank_traces
from gpuledger.cli.main import verb_named
from gpuledger.jobs import run
from gpuledger.present.views.compare.fleet import FleetAnswer
from gpuledger.rows import labels_of
from gpuledger.selection import Selection
from gpuledger.trace.tables import Kind
from support.command import gpuledger
from support.profiles.corpus import corpus_file
from support.profiles.nsys_exports import call, insert, kernel, push
from support.profiles.random_export import HOST
from support.profiles.split_export import split_by_rank
from support.thorough import tries
from support.traces.rank_traces import generator

Unpack = Callable[[str], Path]
ALL_REDUCE, GEMM, LAUNCH = 10, 11, 12
NAMES = {ALL_REDUCE: "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", GEMM: "gemm_tn", LAUNCH: "cudaLaunchKernel_v7000"}
US = 1_000
THREADED = (102,)
"""Processes with a thread for each of their GPUs; others drive all of them from one."""


def process(number: int) -> int:
    return HOST | number << 24


def export(path: Path, *ranks: tuple[int, int, list[tuple[int, int, int]]], environment: tuple[str, ...] = ()) -> Path:
    """An export of ranks, each a process, a device and its kernels (name, start, end in us), on stream 7."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous = OFF")
        insert(database, "StringIds", [{"id": number, "value": text} for number, text in NAMES.items()])
        for place, (number, device, kernels) in enumerate(ranks):
            for position, (name, start, end) in enumerate(kernels):
                where = {"globalPid": process(number), "deviceId": device, "correlationId": 1000 * place + position}
                row = kernel(start * US, end * US, demangledName=name, shortName=name, **where)
                insert(database, "CUPTI_ACTIVITY_KIND_KERNEL", [row])
                thread = process(number) | number + (device if number in THREADED else 0)
                launch = {"globalTid": thread, "correlationId": where["correlationId"]}
                began = (start - 5) * US
                insert(database, "CUPTI_ACTIVITY_KIND_RUNTIME", [call(began, began + US, nameId=LAUNCH, **launch)])
                if name == GEMM:
                    step = push(began - 10, began + 2 * US, "step", globalTid=thread)
                    insert(database, "NVTX_EVENTS", [step])
        database.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT)")
        database.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1794716790126630187, '2026-11-15')")
        database.execute("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT)")
        database.execute("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)")
        database.executemany("INSERT INTO TARGET_INFO_GPU VALUES (?, 'test GPU')", [(gpu,) for gpu in range(8)])
        seen = [(device, device, number) for number, device, _ in ranks]
        database.executemany("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, ?)", seen)
        database.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        given = [("PROCESS_0:ENVIRONMENT_VARIABLE", text) for text in environment]
        database.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", given)
    database.close()
    return path


def steps(late_us: int = 0, count: int = 4, *, end_us: int = 0, talks: bool = True) -> list[tuple[int, int, int]]:
    """A rank that computes and then communicates, `late_us` longer than others."""
    kernels = []
    for begin in range(100, 100 + 400 * count, 400):
        kernels.append((GEMM, begin, begin + 100 + late_us))
        if talks:
            kernels.append((ALL_REDUCE, begin + 110 + late_us, begin + 300 + end_us))
    return kernels


def printed(*arguments: str | Path) -> dict[str, Any]:
    arguments = (*arguments, "--workers=0", "--format=json")
    ran = CliRunner().invoke(verb_named("fleet"), [str(each) for each in arguments], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def answers(*arguments: str | Path) -> str:
    """What the command says, with ranks numbered instead of named, and without the notes, which name files."""
    document = printed(*arguments)
    tables = {name: document[name] for name in labels_of(FleetAnswer)}
    labels = [row["rank"] for row in tables["ranks"]]
    for rows in tables.values():
        for row in rows:
            row.pop("profile", None)
    text = json.dumps([tables, document["late"], document["findings"]])
    for number, label in sorted(enumerate(labels), key=lambda item: -len(item[1])):
        text = text.replace(json.dumps(label)[1:-1], f"the {number}th")
    return text


def labels(document: dict[str, Any]) -> list[str]:
    return [row["rank"] for row in document["ranks"]]


# Real captures


def test_two_processes_on_one_gpu_are_two_ranks(unpacked: Unpack, tmp_path: Path) -> None:
    path = unpacked("two_gloo.sqlite")
    assert len(split_by_rank(path, tmp_path / "split")) == 2
    assert answers(path) == answers(tmp_path / "split")
    document = printed(path)
    assert (document["profiles"], labels(document)) == (1, ["process 456", "process 457"])
    [shared] = [note["sentence"] for note in document["health"] if note["code"] == "gpu-shared"]
    assert shared.startswith("2 ranks share GPU 0, ")


def test_a_rank_has_the_rows_of_a_profile_of_it_alone(unpacked: Unpack, tmp_path: Path) -> None:
    path = unpacked("two_gloo.sqlite")
    ranks = rank_traces(open_trace(path), Selection())
    for rank, alone in zip(ranks, map(open_trace, split_by_rank(path, tmp_path / "split")), strict=True):
        assert rank.trace.tables.keys() == alone.tables.keys()
        for table, rows in rank.trace.tables.items():
            for column in table.schema.columns:
                values = (
                    each.texts(column.name) if column.kind is Kind.TEXT else each[column.name].tolist()
                    for each in (rows, alone[table])
                )
                assert len(set(map(str, values))) == 1, (table, column.name)


def test_two_gpus_of_a_published_profile_are_two_ranks(tmp_path: Path) -> None:
    path = tmp_path / "both.sqlite"
    path.write_bytes(lzma.decompress(corpus_file("mfu_2gpu_after.sqlite.xz").read_bytes()))
    assert len(split_by_rank(path, tmp_path / "split")) == 2
    assert answers(path) == answers(tmp_path / "split")
    assert labels(printed(path)) == ["GPU 0", "GPU 1"]


# By hand


def test_who_is_late_is_told_from_one_profile(tmp_path: Path) -> None:
    path = export(tmp_path / "all.sqlite", *((100 + rank, rank, steps(40 * (rank == 2))) for rank in range(4)))
    document = printed(path)
    assert labels(document) == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert [row["rank"] for row in document["stragglers"]] == ["GPU 2"]
    assert [row["matched"] for row in document["ranks"]] == [4] * 4


def test_one_process_may_be_several_ranks(tmp_path: Path) -> None:
    path = export(tmp_path / "all.sqlite", (100, 0, steps()), (100, 1, steps(30)), (200, 1, steps(10)))
    split_by_rank(path, tmp_path / "split")
    assert answers(path) == answers(tmp_path / "split")
    assert labels(printed(path)) == ["process 100 on GPU 0", "process 100 on GPU 1", "process 200 on GPU 1"]
    assert labels(printed(path, "--device=1")) == ["process 100 on GPU 1", "process 200 on GPU 1"]


def test_a_thread_for_each_gpu_is_its_ranks(tmp_path: Path) -> None:
    """The ranges of one thread are no steps of a GPU that another one drives."""
    together = export(tmp_path / "a.sqlite", (102, 0, steps()), (102, 1, steps(30)))
    apart = export(tmp_path / "b.sqlite", (200, 0, steps()), (201, 1, steps(30)))
    assert answers(together) == answers(apart)


def joined(folder: Path, path: Path) -> Path:
    """Traces of torch.profiler as one of a process with a thread for each GPU."""
    traces = [json.loads(file.read_text()) for file in sorted(folder.iterdir())]
    events = []
    for rank, trace in enumerate(traces):
        for event in trace["traceEvents"]:
            details = event.get("args", {})
            for key in ("correlation", "External id"):
                if key in details:
                    details[key] += 1_000_000 * rank
            if "device" in details:
                event["pid"] = details["device"] = rank
            elif isinstance(event["tid"], int):
                event["tid"] += rank
            events.append(event)
    traces[0].pop("distributedInfo")
    path.write_text(json.dumps(traces[0] | {"traceEvents": events}))
    return path


def test_the_gpus_of_a_torch_trace_are_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = generator()
    monkeypatch.setattr(jobs, "CLOCK_ERROR_NS", 1)  # as they are on one clock in the joined trace
    jobs.write_job(tmp_path / "split", ranks=3, events=6 * 24 * 8 * 3, steps=3, late=2)
    of_each, of_one = printed(tmp_path / "split"), printed(joined(tmp_path / "split", tmp_path / "all.json"))
    assert [row["rank"] for row in of_one["ranks"]] == ["GPU 0", "GPU 1", "GPU 2"]
    for column in ("steps", "step_ns", "compute_ns", "matched", "late"):
        assert [row[column] for row in of_one["ranks"]] == [row[column] for row in of_each["ranks"]], column
    assert [row["rank"] for row in of_one["stragglers"]] == ["GPU 2"]


def test_ranks_of_one_capture_have_one_clock(tmp_path: Path) -> None:
    """Its collectives end 40 us later on one rank, every time: no clock is to blame, in one file or in two."""
    path = export(tmp_path / "all.sqlite", (100, 0, steps()), (101, 1, steps(end_us=40)))
    split_by_rank(path, tmp_path / "split")
    for one_or_two in (path, tmp_path / "split"):
        found = run.fleet([str(one_or_two)], Selection(), count=0).job
        assert [clock.offset_ns for clock in found.clocks] == [0, 0]
    with sqlite3.connect(tmp_path / "split" / "rank01.sqlite") as other:
        other.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = 1")
    other.close()
    found = run.fleet([str(tmp_path / "split")], Selection(), count=0).job
    assert [clock.offset_ns for clock in found.clocks] == [0, 40 * US]


def test_what_takes_no_part_in_collectives_is_no_rank(tmp_path: Path) -> None:
    """A process that tries out kernels, and what a rank leaves on another's GPU."""
    ranks = [(100, 0, steps()), (101, 1, steps(20))]
    plain = export(tmp_path / "plain.sqlite", *ranks)
    path = export(tmp_path / "all.sqlite", *ranks, (101, 0, [(GEMM, 50, 60)]), (300, 0, steps(talks=False)))
    assert answers(path) == answers(plain)
    lost = [note["sentence"] for note in printed(path)["health"] if note["code"] == "rank-loss"]
    assert lost == [
        "process 101 on GPU 0 ran 1 kernel and takes no part in collectives: not counted as a rank",
        "process 300 on GPU 0 ran 4 kernels and takes no part in collectives: not counted as a rank",
    ]


def test_the_environment_is_the_ranks_or_that_of_the_launcher_of_all(tmp_path: Path) -> None:
    third = ("RANK=2", "WORLD_SIZE=4")
    alone = export(tmp_path / "a.sqlite", (100, 0, steps()), (101, 0, steps(talks=False)), environment=third)
    assert labels(printed(alone)) == ["rank 2"]
    node = export(tmp_path / "b.sqlite", (100, 0, steps()), (101, 1, steps()), environment=third)
    document = printed(node)
    assert (labels(document), document["world_size"]) == (["GPU 0", "GPU 1"], None)


def test_profiles_of_many_ranks_go_together(tmp_path: Path) -> None:
    """One of each host, whose clocks differ: one offset for all ranks of a host."""
    (tmp_path / "job").mkdir()
    ranks = [(100, 0, steps()), (101, 1, steps(20))]
    export(tmp_path / "job" / "node0.sqlite", *ranks)
    later = [
        (pid, gpu, [(name, start + 7000, end + 7000) for name, start, end in kernels]) for pid, gpu, kernels in ranks
    ]
    with sqlite3.connect(export(tmp_path / "job" / "node1.sqlite", *later)) as other:
        other.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = 1")
    other.close()
    assert labels(printed(tmp_path / "job")) == [
        "GPU 0 of node0.sqlite",
        "GPU 1 of node0.sqlite",
        "GPU 0 of node1.sqlite",
        "GPU 1 of node1.sqlite",
    ]
    found = run.fleet([str(tmp_path / "job")], Selection(), count=0)
    assert (found.profiles, found.analysed) == (2, 2)
    assert [clock.offset_ns for clock in found.job.clocks] == [0, 0, 7000 * US, 7000 * US]
    assert [part.matched for part in found.job.parts] == [4] * 4


def test_times_count_from_where_the_profiles_work_begins(tmp_path: Path) -> None:
    """One rank begins 400 us after the other: the same stretch is looked at on both."""
    path = export(tmp_path / "all.sqlite", (100, 0, steps()), (101, 1, steps(20)[2:]))
    found = run.fleet([str(path)], Selection(time_ns=(800 * US, None)), count=0).job
    assert [rank.window.start_ns for rank in found.ranks] == [95 * US - 10 + 800 * US] * 2
    assert [len(rank.collectives) for rank in found.ranks] == [2, 2]
    assert found.zero_ns == 95 * US - 10, "where the first step opens"


def test_a_rank_without_what_is_asked_for_is_named(tmp_path: Path) -> None:
    path = export(tmp_path / "all.sqlite", (100, 0, steps()), (101, 1, steps()), (102, 2, [(ALL_REDUCE, 210, 400)]))
    document = printed(path, "--range=step")
    assert labels(document) == ["GPU 0", "GPU 1"]
    [failed] = document["failed"]
    assert failed["profile"] == "GPU 2 of all.sqlite"
    assert failed["sentence"].startswith("no range matches 'step'")
    with pytest.raises(GpuledgerError, match="not one of 1 profile could be analysed") as refused:
        run.fleet([str(path)], Selection(scope_pattern="nope"), count=0)
    assert "GPU 2 of all.sqlite: no range matches 'nope'" in (refused.value.found or "")


# At random


@st.composite
def exports(draw: st.DrawFn) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
    """Ranks on few processes and GPUs; most do the same collectives, some begin late or do none."""
    places = draw(st.lists(st.tuples(st.integers(100, 102), st.integers(0, 2)), min_size=2, max_size=4, unique=True))
    luck = random.Random(draw(st.integers(0, 10_000)))
    count = draw(st.integers(1, 5))
    ranks = []
    for pid, device in places:
        kernels, time = [], luck.choice((10, 10, 300))
        for _ in range(count - (luck.random() < 0.2)):
            for name in luck.choice(((GEMM, ALL_REDUCE), (GEMM, GEMM, ALL_REDUCE))):
                time += luck.choice((0, 1, 30))
                length = luck.choice((1, 20, 200))
                kernels.append((name, time, time + length))
                time += length
        if kernels:
            ranks.append((pid, device, kernels))
    return ranks


@settings(max_examples=tries(5))
@given(exports())
def test_one_profile_says_what_one_profile_per_rank_says(
    ranks: list[tuple[int, int, list[tuple[int, int, int]]]],
) -> None:
    if not ranks:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = export(Path(folder) / "all.sqlite", *ranks)
        assert len(split_by_rank(path, Path(folder) / "split")) == len(ranks)
        assert answers(path) == answers(Path(folder) / "split")


def test_phases_of_one_profile_tell_waiting_from_transfer_as_fleet_does(tmp_path: Path) -> None:
    path = export(tmp_path / "job.sqlite", (101, 0, steps()), (103, 1, steps(50)))
    document = json.loads(gpuledger("ranges", path, "--phase=communication=nccl", "--format=json").stdout)
    ranks = printed(path)["ranks"]
    for gpu, wait_us in ((0, 50), (1, 0)):
        [in_all, *_] = [row for row in document["phase_waits"] if row["gpu"] == gpu]
        assert (in_all["phase"], in_all["layer"], in_all["collectives"]) == ("communication", None, 4)
        assert in_all["matched"] == 4
        assert (in_all["wait_ns"], in_all["transfer_ns"]) == (4 * wait_us * US, 4 * 140 * US)
        assert (ranks[gpu]["wait_ns"], ranks[gpu]["transfer_ns"]) == (wait_us * US, 140 * US)  # per step
