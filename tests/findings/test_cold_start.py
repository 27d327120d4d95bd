"""What happens once is told as such: nothing is saved of it, and one gap alone proves little."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gpuledger import build_report, open_trace
from gpuledger.findings.finding import Finding
from gpuledger.ledger.causes import TRIGGERS, Cause, QueueTrigger
from support.book_checks import analysed
from support.nsys_exports import PID, TID, call, kernel, minimal, push

MS = 1_000_000
US = 1_000


def told(path: Path) -> dict[str, Finding]:
    return {finding.code: finding for finding in build_report(open_trace(path)).findings}


def launched(*kernels: tuple[int, int, int, int]) -> dict[str, list[dict[str, Any]]]:
    """(launch's start, its end, kernel's start, its end) of each, in nanoseconds."""
    numbered = list(enumerate(kernels, 1))
    return {
        "KERNEL": [kernel(start, end, correlationId=number) for number, (_, _, start, end) in numbered],
        "RUNTIME": [call(begin, end, correlationId=number) for number, (begin, end, _, _) in numbered],
    }


def test_a_first_launch_is_a_cold_start_and_saves_nothing(tmp_path: Path) -> None:
    """It was: LAUNCH-BOUND, saves 100 %, high."""
    rows = launched((0, 8690 * US, 8695 * US, 8700 * US))
    found = told(minimal(tmp_path / "a.sqlite", **rows))
    assert set(found) == {"COLD-START"}
    finding = found["COLD-START"]
    assert (finding.saving_ns, finding.explains_ns, finding.confidence) == (0, 8695 * US, "low")
    assert finding.claim == "the first GPU work takes 8.70 ms to start, once"
    assert finding.sentences == ("99.9 % of it module load", "99.9 % of it in cudaLaunchKernel")


def test_a_first_launch_that_is_quick_is_no_cold_start(tmp_path: Path) -> None:
    assert told(minimal(tmp_path / "a.sqlite", **launched((0, 900 * US, 905 * US, 1000 * US)))) == {}


@pytest.mark.parametrize(
    ("domain", "often", "is_set_up"), [("NCCL", 1, True), ("NCCL", 8, True), ("NCCL", 9, False), ("mine", 1, False)]
)
def test_what_a_library_does_to_set_itself_up_is_start_up(
    domain: str, often: int, is_set_up: bool, tmp_path: Path
) -> None:
    """It allocates for 5 ms between two of its own launches; as often as every step does it, that is work."""
    rows = launched((0, 5 * US, 6 * US, 10 * US), (6 * MS, 6 * MS + 5 * US, 6 * MS + 6 * US, 6 * MS + 10 * US))
    rows["RUNTIME"].append(call(20 * US, 5 * MS, nameId=4, correlationId=9))
    inits = [push(10 * number, 10 * number + 9, "ncclCommInitRank", domainId=1) for number in range(often - 1)]
    rows["NVTX"] = [
        push(0, None, domain, eventType=75, domainId=1),
        *inits,
        push(100, 7 * MS, "ncclCommInitRank", domainId=1),
    ]
    path = minimal(tmp_path / "a.sqlite", **rows)
    named(path, 4, "cudaHostAlloc_v3020")
    found = told(path)
    assert next(iter(found)) == ("COLD-START" if is_set_up else "HOST-ALLOC")
    if is_set_up:
        assert found["COLD-START"].claim == "libraries are loaded and set up: 6.00 ms, once"
        assert not any(finding.saving_ns for finding in found.values())


def test_a_context_is_created_once(tmp_path: Path) -> None:
    """One process works for a millisecond; another then begins with cudaFree(0)."""
    other_pid, other_tid = PID + (1 << 24), TID + (1 << 24)
    rows = launched((0, 5 * US, 10 * US, MS))
    rows["RUNTIME"] += [
        call(MS, 201 * MS, nameId=4, globalTid=other_tid, correlationId=1),
        call(201 * MS, 201 * MS + 5 * US, globalTid=other_tid, correlationId=2),
    ]
    rows["KERNEL"].append(kernel(201 * MS + 10 * US, 202 * MS, globalPid=other_pid, correlationId=2))
    path = minimal(tmp_path / "a.sqlite", **rows)
    named(path, 4, "cudaFree_v3020")
    found = told(path)
    assert "HOST-ALLOC" not in found
    assert found["COLD-START"].claim == "the CUDA context is created: 200 ms, once"
    assert found["COLD-START"].sentences[-1] == "100.0 % of it in cudaFree"
    assert found["COLD-START"].evidence[-1].pid == other_pid >> 24 & 0xFFFFFF


def named(path: Path, number: int, text: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO StringIds (id, value) VALUES (?, ?)", (number, text))
    database.close()


@pytest.mark.parametrize(("count", "is_bound"), [(2, False), (9, False), (10, True), (40, True)])
def test_a_run_of_launches_takes_ten(count: int, is_bound: bool, tmp_path: Path) -> None:
    """A launch of 40 us for each kernel of 5 us."""
    times = [50 * US * at for at in range(count)]
    rows = launched(*((time, time + 40 * US, time + 43 * US, time + 48 * US) for time in times))
    assert ("LAUNCH-BOUND" in told(minimal(tmp_path / "a.sqlite", **rows))) is is_bound


def test_one_gap_is_not_believed_highly(tmp_path: Path) -> None:
    """The host works for 10 ms before one kernel, or for 1 ms before each of ten."""
    alone = launched((0, 5 * US, 10 * US, MS), (11 * MS, 11 * MS + 5 * US, 11 * MS + 10 * US, 12 * MS))
    often = launched(*((2 * MS * at, 2 * MS * at + 5 * US, 2 * MS * at + 10 * US, 2 * MS * at + MS) for at in range(3)))
    assert told(minimal(tmp_path / "a.sqlite", **alone))["HOST-CODE"].confidence == "medium"
    assert told(minimal(tmp_path / "b.sqlite", **often))["HOST-CODE"].confidence == "high"


@pytest.mark.parametrize(
    ("between", "waits", "code"),
    [(MS, False, "HOST-CODE"), (50 * US, False, "HOST-LOAD"), (50 * US, True, "HOST-LOAD"), (MS, True, "HOST-THREAD")],
)
def test_what_leads_to_a_load_compiles_and_what_comes_long_before_does_not(
    between: int, waits: bool, code: str, tmp_path: Path
) -> None:
    """40 ms of the program's own, or of another thread's, then an allocation, and a load of 300 us some time later.

    It was: HOST-LOAD for 800 ms of host code before the first `cuInit`, as a load of 3 ms came 25 ms after it; and
    HOST-THREAD while XLA compiled in another thread.
    """
    begins = 40 * MS
    rows = launched((0, 5 * US, 10 * US, 100 * US), (44 * MS, 44 * MS + 5 * US, 44 * MS + 10 * US, 45 * MS))
    rows["RUNTIME"] += [
        call(begins, begins + 10 * US, nameId=4, correlationId=8),
        call(begins + between, begins + between + 300 * US, nameId=5, correlationId=9),
    ]
    if waits:
        rows["OSRT"] = [{"start": 200 * US, "end": begins - 10 * US, "nameId": 6, "globalTid": TID, "eventClass": 27}]
    path = minimal(tmp_path / "a.sqlite", **rows)
    for number, name in enumerate(("cudaMalloc_v3020", "cuModuleLoadData", "futex"), 4):
        named(path, number, name)
    assert max(told(path).values(), key=lambda finding: finding.explains_ns).code == code


@pytest.mark.parametrize("system", ["futex", "waitpid"])
def test_a_compiler_in_another_process_is_saved_with_what_it_makes(system: str, tmp_path: Path) -> None:
    """Triton waits for ptxas: on an H200 33 of the 78 ms that it took each step were said to be saved."""
    rows = launched(*((begin, begin + 5 * US, begin + 10 * US, begin + MS) for begin in (0, 44 * MS, 88 * MS)))
    rows["RUNTIME"] += [
        call(begin + 43 * MS, begin + 43 * MS + 100 * US, nameId=5, correlationId=9 + begin) for begin in (0, 44 * MS)
    ]
    rows["OSRT"] = [call(begin + 2 * MS, begin + 43 * MS - 10 * US, nameId=6, eventClass=27) for begin in (0, 44 * MS)]
    path = minimal(tmp_path / "a.sqlite", **rows)
    for number, name in ((5, "cuModuleLoadData"), (6, system)):
        named(path, number, name)
    load = told(path)["HOST-LOAD"]
    assert load.saving_ns == pytest.approx(86 * MS, rel=0.03)


@pytest.mark.parametrize(("begins", "is_set_up"), [(1290 * MS, True), (10 * MS, False)])
def test_a_first_copy_that_begins_late_sets_up(begins: int, is_set_up: bool, tmp_path: Path) -> None:
    """It was: '52.1 % of it sync', as the first `cudaMemcpyAsync`, of 8 bytes, returned after 1.29 s; nothing ran."""
    copy = {"start": begins, "end": 1291 * MS, "globalPid": PID, "bytes": 8, "copyKind": 1, "correlationId": 1}
    path = minimal(tmp_path / "a.sqlite", MEMCPY=[copy], RUNTIME=[call(0, 1292 * MS, nameId=4, correlationId=1)])
    named(path, 4, "cudaMemcpyAsync_v3020")
    claims = [finding.claim for finding in told(path).values()]
    assert ("the CUDA context is created: 1.29 s, once" in claims) is is_set_up


@pytest.mark.parametrize("calls", [1, 20])
def test_memory_of_one_call_is_allocated_once(calls: int, tmp_path: Path) -> None:
    """It was: 'put one `acc data` region around the loop', for the one call that pins what OpenACC copies through."""
    rows = launched((0, 5 * US, 10 * US, 100 * US), (21 * MS, 21 * MS + 5 * US, 21 * MS + 10 * US, 22 * MS))
    length = 20 * MS // calls
    rows["RUNTIME"] += [
        call(200 * US + length * at, 190 * US + length * (at + 1), nameId=4, correlationId=8 + at)
        for at in range(calls)
    ]
    for row in rows["KERNEL"]:
        row |= {"demangledName": 10, "shortName": 10}
    path = minimal(tmp_path / "a.sqlite", **rows)
    named(path, 10, "work_12_gpu")  # as OpenACC calls kernels
    named(path, 4, "cuMemHostAlloc")
    finding = told(path)["HOST-ALLOC"]
    assert finding.claim == "the GPU waits 20.9 ms, once, while the host allocates or frees memory"
    is_one = calls == 1
    assert (finding.confidence == "low") is is_one
    assert (finding.fix or "").startswith("nothing, where the program runs for long") is is_one
    assert (finding.sentences[0] == "95.6 % of it in one call of cuMemHostAlloc") is is_one
    pins_in_loop = finding.fix == "allocate once at start-up; allocate, free and pin nothing in the loop"
    assert pins_in_loop is not is_one  # whoever calls it: not `acc data`, for what MPI pins


def test_code_that_one_of_many_steps_loads_is_not_saved_in_each(tmp_path: Path) -> None:
    """Ten steps of 1 ms, and a load of 50 ms in the fifth, but not in its first launch."""
    load_at, load = 4, 50 * MS
    begins = [MS * at + (load if at > load_at else 0) for at in range(10)]
    rows = launched(*((begin, begin + 5 * US, begin + 10 * US, begin + 900 * US) for begin in begins))
    start = begins[load_at] + 910 * US
    rows["RUNTIME"].append(call(start, start + load, nameId=4, correlationId=99))
    rows["NVTX"] = [push(begin, begin + 8 * US, "step") for begin in begins]
    path = minimal(tmp_path / "a.sqlite", **rows)
    named(path, 4, "cuLibraryLoadData")
    finding = told(path)["HOST-LOAD"]
    assert (finding.saving_ns, finding.saving_ns_per_step, finding.confidence) == (0, 0, "low")
    assert finding.then_ns is None  # nothing is saved after others either
    assert finding.sentences[0] == "100.0 % of it in one gap: it is loaded once"


@pytest.mark.parametrize(("queued", "sets_up"), [(2400 * US, False), (10 * US, True)])
def test_a_first_call_sets_up_nothing_while_its_work_is_queued(queued: int, sets_up: bool, tmp_path: Path) -> None:
    """It was: 'libraries are loaded and set up: 2.27 ms, once', of it queued, not started: 99.7 %.

    An operator's first call takes 3 ms, in which its kernel is launched so long before it starts.
    """
    begins = [200 * US, *range(4 * MS, 5 * MS, 50 * US)]
    start = begins[0] + 2900 * US
    kernels = [(0, 5 * US, 6 * US, 150 * US), (start - queued - 5 * US, start - queued, start, start + 40 * US)]
    kernels += [(begin, begin + 5 * US, begin + 6 * US, begin + 45 * US) for begin in begins[1:]]
    rows = launched(*kernels)
    rows["NVTX"] = [push(begins[0], start + 50 * US, "op"), *(push(at, at + 48 * US, "op") for at in begins[1:])]
    [device] = analysed(minimal(tmp_path / "a.sqlite", **rows))
    gaps = device.ledger.gaps
    told_of_longest = TRIGGERS[gaps.trigger[gaps.length_ns.argmax()]]
    assert told_of_longest is (QueueTrigger.COLD if sets_up else Cause.DEVICE_WAIT)


def test_of_launches_that_load_their_kernels_all_is_saved(tmp_path: Path) -> None:
    """Where code is loaded lazily no other call shows it."""
    begins = [51 * MS * at for at in range(8)]
    rows = launched(*((at, at + 50 * MS, at + 50 * MS + 5 * US, at + 51 * MS) for at in begins))
    for number, row in enumerate(rows["KERNEL"], 10):
        row |= {"demangledName": number, "shortName": number}
    path = minimal(tmp_path / "a.sqlite", **rows)
    for number in range(10, 18):
        named(path, number, f"k{number}")
    finding = told(path)["HOST-LOAD"]
    assert finding.explains_ns == 7 * (50 * MS + 5 * US)  # the first is a cold start
    assert finding.saving_ns > 0.99 * finding.explains_ns
