"""Several ranks of one job: collectives are matched, clocks aligned, and waiting told from moving data."""

from __future__ import annotations

import contextlib
import json
import lzma
import pickle
import sqlite3
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import NotMeasured, Table, open_trace
from gpuledger.analyse.ranks.collectives import (
    bus_bytes,
    bus_bytes_per_s,
    collectives_by_group,
    worst_collectives,
    worst_place,
)
from gpuledger.analyse.ranks.fixing import fixing
from gpuledger.analyse.ranks.job import Job, job, slowest_step_ns, step_lengths
from gpuledger.analyse.ranks.matching import shift
from gpuledger.analyse.ranks.rank import RankSummary, rank_summary
from gpuledger.analyse.ranks.rank_collectives import DTYPES, KINDS, Group, PackedCollectives, dtype_of, kind_of
from gpuledger.findings.finding import Finding
from gpuledger.findings.ranks.job_findings import job_findings
from gpuledger.jobs.run import Fleet
from gpuledger.present.views.compare.fleet import FleetAnswer, fleet_answer
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from gpuledger.trace.strings import Strings
from support.command import ROOT
from support.traces.rank_notation import US, moved, rank, ranks, unpacked, waits_of
from support.traces.trace_notation import of_tables, table, trace


def waits(found: Job) -> list[Any]:
    """All that is said about collectives but where they lie in time."""
    return [
        (
            lane.name,
            lane.members,
            lane.kind.tolist(),
            waits_of(lane),
            lane.transfer_ns.tolist(),
            lane.late.tolist(),
        )
        for lane in found.lanes
    ]


def findings_of(found: Job) -> tuple[Finding, ...]:
    return job_findings(found, fixing(found))


def answer_of(found: Job) -> FleetAnswer:
    return fleet_answer("job", Fleet(found, 1, 1, ()))


def whole(found: Job) -> tuple[Any, ...]:
    """A job as plain values."""
    return (waits(found), found.clocks, found.parts, found.notes, found.world_size, answer_of(found))


def codes(found: Job) -> dict[str, int]:
    return {note.code: note.count for note in found.notes if note.code != "groups-unknown"}


def test_clocks_are_known_through_a_neighbour() -> None:
    """Rank 3 shares no group with rank 0."""
    pairs = {"ab": (0, 1), "cd": (2, 3), "ac": (0, 2), "bd": (1, 3)}
    groups = tuple(Group(name, ranks, 2) for name, ranks in pairs.items())

    def one(number: int, by: int) -> RankSummary:
        mine = [name for name, ranks in pairs.items() if number in ranks]
        lines = [f"{at * 100}-{at * 100 + 50} all_reduce in {name}" for at, name in enumerate(pairs) if name in mine]
        return moved(rank(number, *lines, groups=groups), by)

    found = job([one(number, number * 10**9) for number in range(4)])
    assert [clock.offset_ns for clock in found.clocks] == [0, 10**9, 2 * 10**9, 3 * 10**9]
    assert sorted((lane.name, lane.members) for lane in found.lanes) == sorted(pairs.items())
    assert (found.coverage, codes(found)) == (1.0, {})


def test_steps_are_matched_in_time_where_captures_begin_apart() -> None:
    """The second rank began to record a step later, and its clock is an hour ahead."""
    hour = 3600 * 10**9
    first = rank(
        0, *(f"{at}-{at + 37 + at // 100} all_reduce" for at in (0, 100, 210, 300)), edges_us=(0, 100, 210, 300, 400)
    )
    second = rank(
        1, *(f"{at + 20}-{at + 37 + at // 100} all_reduce" for at in (100, 210, 300)), edges_us=(100, 210, 300, 420)
    )
    found = job([first, moved(second, hour)])
    lengths = step_lengths(found)
    assert not isinstance(lengths, NotMeasured)
    assert lengths.steps.tolist() == [1, 2, 3]
    assert lengths.length_ns.tolist() == [[110 * US, 110 * US], [90 * US, 90 * US], [100 * US, 120 * US]]
    assert slowest_step_ns(found) == 110 * US
    assert len(found.lanes[0]) == 3


def test_a_transfer_is_that_of_ranks_that_the_last_one_mattered_to() -> None:
    """Bytes, time and rate of one row are of the same collective, so that they agree."""
    root = rank(0, "0-90 barrier", "100-130 broadcast 400 B", "200-300 broadcast 400 B", "400-500 broadcast 400 B")
    other = rank(1, "0-90 barrier", "150-190 broadcast 400 B", "240-300 broadcast 400 B", "480-500 broadcast 400 B")
    found = job([root, other])
    [broadcast] = [entry for entry in collectives_by_group(found) if entry.kind == "broadcast"]
    assert (broadcast.transfer_ns, broadcast.bus_gb_per_s) == (30 * US, 400 * 10**9 // (30 * US) / 1e9)
    assert [one.transfer_ns for one in worst_collectives(found) if one.skew_ns == 50 * US] == [30 * US]
    unseen = job([rank(0, "0-90 barrier", "100-130 broadcast"), rank(1, "0-90 barrier", "150-190 broadcast")])
    [broadcast] = [entry for entry in collectives_by_group(unseen) if entry.kind == "broadcast"]
    assert (broadcast.transfer_ns, broadcast.bus_gb_per_s) == (30 * US, None)


# Laws


FAR = st.integers(10**10, 10**18).flatmap(lambda by: st.sampled_from((by, -by)))


@given(ranks(), FAR, st.data())
def test_another_clock_changes_nothing_but_the_offset(given: list[RankSummary], by: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(given) - 1))
    before, after = job(given), job([moved(each, by) if each.rank == at else each for each in given])
    assert waits(after) == waits(before)
    assert after.parts == before.parts
    assert [clock.residual_ns for clock in after.clocks] == [0] * len(given)
    for place, clock in enumerate(after.clocks[1:], 1):
        assert clock.offset_ns == (-by if at == 0 else by if place == at else 0)


@given(ranks(jitter_us=40), st.randoms(use_true_random=False))
def test_the_order_of_profiles_changes_nothing(given: list[RankSummary], random: Any) -> None:
    shuffled = list(given)
    random.shuffle(shuffled)
    assert whole(job(shuffled)) == whole(job(given))


@given(ranks(jitter_us=40))
def test_wait_and_transfer_fit_in_the_kernel(given: list[RankSummary]) -> None:
    found = job(given)
    for lane in found.lanes:
        for member in lane.members:
            start, end, wait = lane.start_ns(member), lane.end_ns(member), lane.wait_ns(member)
            assert ((wait >= 0) & (wait + lane.transfer_ns <= end - start)).all()
            assert ((lane.first_ns <= start) & (start <= lane.last_ns)).all()
            assert (start[lane.late == member] == lane.last_ns[lane.late == member]).all()
        assert lane.waited_ns.tolist() == [sum(row) for row in waits_of(lane)]
    assert sum(part.wait_ns for part in found.parts) == sum(part.caused_ns for part in found.parts)
    for part, each in zip(found.parts, found.ranks, strict=True):
        assert part.exposed_wait_ns <= min(part.wait_ns, each.exposed_comm_ns)


@given(ranks(), st.data())
def test_what_one_capture_lacks_at_its_ends_is_not_matched_and_the_rest_is(
    given: list[RankSummary], data: st.DataObject
) -> None:
    times = len(given[0].collectives)
    first = data.draw(st.integers(0, (times - 1) // 2))
    kept = slice(first, times - data.draw(st.integers(0, (times - 1) // 2 - first // 2)))
    cut = replace(given[1], collectives=PackedCollectives.of(unpacked(given[1]).at(kept)))
    matched = [waits_of(lane) for lane in job([given[0], cut, *given[2:]]).lanes]
    everything = [waits_of(lane)[kept] for lane in job(given).lanes]
    assert matched == [rows for rows in everything if rows]


@given(ranks())
def test_a_summary_travels(given: list[RankSummary]) -> None:
    assert whole(job(pickle.loads(pickle.dumps(given)))) == whole(job(given))  # noqa: S301


# Hostile


def test_a_name_that_stands_for_several_groups_matches_nothing() -> None:
    groups = (Group("tp", (), 2),)
    found = job([rank(at, "0-50 all_reduce in tp", groups=groups) for at in range(4)])
    assert (found.lanes, codes(found)["collectives-unmatched"]) == ((), 4)


def test_absurd_sizes_give_no_numbers() -> None:
    groups = (Group("g", (), 10**18),)
    found = job([rank(at, "0-50 all_gather 200000000000000 B in g", groups=groups) for at in range(3)])
    assert bus_bytes(found.lanes[0]).tolist() == bus_bytes_per_s(found.lanes[0]).tolist() == [-1]
    assert [entry.bus_gb_per_s for entry in answer_of(found).collectives] == [None]


def test_a_shift_is_found_among_equal_collectives_by_their_ends() -> None:
    """All look alike, clocks tell nothing: only the uneven distances do."""
    ends = np.cumsum(np.random.default_rng(1).integers(100, 400, 60))
    lines = [f"{end - 50}-{end} all_reduce 8 B" for end in ends.tolist()]
    first, second = rank(0, *lines[:50]), moved(rank(1, *lines[7:57]), 10**15)
    assert shift(unpacked(first), unpacked(second)) == -7
    found = job([first, second])
    assert (found.clocks[1].offset_ns, len(found.lanes[0])) == (10**15, 43)


def test_of_shifts_that_are_equally_good_the_one_that_matches_more_is_taken() -> None:
    lines = [f"{end - 50}-{end} barrier" for end in (100, 200, 300, 400, 500)]
    uneven = [f"{end - 50}-{end} barrier" for end in (100, 209, 318, 409, 500)]  # evener by one place, but not by much
    assert shift(unpacked(rank(0, *lines)), unpacked(moved(rank(1, *uneven), 10**12))) == 0


def test_of_shifts_that_are_equally_good_the_one_that_hosts_clocks_allow_is_taken() -> None:
    lines = [f"{end - 50}-{end} barrier" for end in range(20_000, 240_000, 20_000)]
    first, second = rank(0, *lines[:10]), moved(rank(1, *lines[1:]), 10**6)
    assert shift(unpacked(first), unpacked(second)) == -1


# One rank's trace


@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce", "float32"),
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "all_reduce",
            "bfloat16",
        ),
        ("ncclDevKernel_ReduceScatter_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter", "float16"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather", None),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "send_recv", None),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", "broadcast", None),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "other", None),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, int)", "all_reduce", None),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
            "all_reduce",
            None,
        ),
        ("void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)", "all_to_all", None),
        ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)", "all_to_all", None),
        ("barrier_on_stream_kernel_threadgroup(int, int)", "barrier", None),
    ],
)
def test_a_kernels_name_says_what_it_does(name: str, kind: str, dtype: str | None) -> None:
    [found] = [unpacked(rank_summary(trace("s0: 0-10 gemm", f"s0: 20-30 {name}"), "test", Selection()))]
    assert (found.start_ns.tolist(), [KINDS[each] for each in found.kind]) == ([20], [kind])
    assert found.dtype.tolist() == [DTYPES.index(dtype) if dtype else -1]
    assert (found.bytes.tolist(), found.group.tolist()) == ([-1], [-1])


@pytest.mark.parametrize(
    ("spelling", "dtype"),
    [
        ("Float", "float32"),
        ("float", "float32"),
        ("c10::BFloat16", "bfloat16"),
        ("BFloat16", "bfloat16"),
        ("Half", "float16"),
    ]
    + [("long int", "int64"), ("Long", "int64"), ("unsigned char", "uint8"), ("Byte", "uint8"), ("Char", "int8")]
    + [
        ("Float8_e4m3fn", "float8_e4m3"),
        ("c10::complex<float>", "complex64"),
        ("ComplexFloat", "complex64"),
        ("bool", "bool"),
    ],
)
def test_types_are_known_in_both_spellings(spelling: str, dtype: str) -> None:
    assert DTYPES[dtype_of(spelling)] == dtype


@pytest.mark.parametrize(
    ("name", "kind"),
    [("_allgather_base", "all_gather"), ("all_to_allv", "all_to_all"), ("allreduce_coalesced", "all_reduce")]
    + [("_reduce_oop", "reduce"), ("recv", "send_recv"), ("nccl:all_to_all", "all_to_all"), ("wait", "other")],
)
def test_a_frameworks_name_says_what_it_does(name: str, kind: str) -> None:
    assert KINDS[kind_of(name)] == kind


def launched(
    *, inputs: str | None = None, operator: bool = False, on_kernel: bool = False, around: str = "record_param_comms"
) -> Trace:
    """One Generic kernel, launched in operators that may list their inputs or describe the collective."""
    texts = [
        "ncclDevKernel_Generic_4()",
        "cudaLaunchKernel",
        "runtime",
        "op",
        around,
        "push_pop",
        "nccl:all_reduce",
    ]
    texts += ["allreduce", "7", "[0, 1]", "BFloat16", inputs or ""]
    strings = Strings(dict.fromkeys(texts))
    kernels = table(Table.KERNELS, strings, 1, start_ns=[50], end_ns=[90], correlation=[3], pid=[1], name=texts[:1])
    calls = table(
        Table.CALLS,
        strings,
        1,
        start_ns=[20],
        end_ns=[25],
        correlation=[3],
        pid=[1],
        tid=[2],
        name=texts[1:2],
        layer=["runtime"],
    )
    ranges = table(
        Table.RANGES,
        strings,
        2,
        start_ns=[10, 12],
        end_ns=[40, 35],
        pid=[1, 1],
        tid=[2, 2],
        name=[around, "nccl:all_reduce"],
        kind=["op", "push_pop"],
        inputs=[strings.code(inputs) if inputs else -1, -1],
    )
    described = [row for row, there in (((10, 40, 1, 2, -1), operator), ((50, 90, -1, -1, 3), on_kernel)) if there]
    start, end, pid, tid, correlation = zip(*described, strict=True) if described else ((),) * 5
    count = len(described)
    rows = table(
        Table.COLLECTIVES,
        strings,
        count,
        start_ns=start,
        end_ns=end,
        pid=pid,
        tid=tid,
        correlation=correlation,
        name=["allreduce"] * count,
        group=["7"] * count,
        ranks=["[0, 1]"] * count,
        group_size=[2] * count,
        in_elements=[100] * count,
        dtype=["BFloat16"] * count,
    )
    tables = {Table.KERNELS: kernels, Table.CALLS: calls, Table.RANGES: ranges}
    return of_tables(strings, tables | ({Table.COLLECTIVES: rows} if count else {}))


@pytest.mark.parametrize(("operator", "on_kernel"), [(True, False), (False, True), (True, True)])
def test_a_description_says_more_than_a_name(operator: bool, on_kernel: bool) -> None:
    found = unpacked(rank_summary(launched(operator=operator, on_kernel=on_kernel), "test", Selection()))
    assert [KINDS[each] for each in found.kind] == ["all_reduce"]
    assert [DTYPES[each] for each in found.dtype] == ["bfloat16"]
    assert found.bytes.tolist() == [200]
    assert found.groups[found.group[0]] == Group("7", (0, 1), 2)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ('[[6144], [], []]\n["float", "Scalar", ""]', 24576),
        ('[[16, 8], []]\n["c10::BFloat16", ""]', 256),
        ('[[], []]\n["TensorList", "Scalar"]', -1),
        ('[[16]]\n["fraction"]', -1),
        ('[[-16]]\n["float"]', -1),
        (f'[[{10**30}]]\n["float"]', -1),
        ("[" * 100_000, -1),
        ("[" * 100_000 + "\n[]", -1),
        ("{}\n{}", -1),
        ("[[1]]\n[[1]]", -1),
        ("[]\n[]", -1),
        (None, -1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bytes_come_from_recorded_shapes_or_not_at_all(inputs: str | None, expected: int) -> None:
    found = unpacked(rank_summary(launched(inputs=inputs), "test", Selection()))
    assert [KINDS[each] for each in found.kind] == ["all_reduce"]
    assert found.bytes.tolist() == [expected]


def test_what_an_operator_gets_is_not_what_the_rank_gives() -> None:
    gets = launched(inputs='[[6144], [768]]\n["float", "float"]', around="c10d::alltoall_base_")
    assert unpacked(rank_summary(gets, "test", Selection())).bytes.tolist() == [-1]


def test_an_operator_with_two_kernels_does_not_say_how_much_each_moves() -> None:
    once = launched(operator=True)
    tables = {each: once[each].at(np.array([0, 0])) for each in (Table.KERNELS, Table.CALLS)}
    twice = of_tables(once.strings, dict(once.tables) | tables)
    found = unpacked(rank_summary(twice, "test", Selection()))
    assert ([KINDS[each] for each in found.kind], found.bytes.tolist()) == (["all_reduce"] * 2, [-1, -1])


def test_a_summary_has_the_books_of_the_report() -> None:
    found = rank_summary(
        trace("s0: 0-10 gemm", "s1: 5-25 ncclDevKernel_AllReduce_Sum_f32_RING_LL()"), "test", Selection()
    )
    assert found.line_ns == {"compute.gemm": 10, "comm": 15}
    assert (found.compute_ns, found.exposed_comm_ns, found.hidden_comm_ns) == (10, 15, 5)
    assert sum(found.line_ns.values()) == found.steady_ns
    assert list(found.exposed.unpacked()) == [Span(10, 25)]


# Profiles that others published

CORPUS = ROOT.parent / "shared" / "corpus"


def test_two_gpus_of_an_nsys_profile_agree_with_a_query(tmp_path: Path) -> None:
    packed = CORPUS / "nsys" / "GindaChen+nsys-ai__tests__fixtures__mfu_2gpu_after.sqlite.xz"
    if not packed.exists():
        pytest.skip("no third-party profiles beside the checkout")
    path = tmp_path / "mfu.sqlite"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    read = open_trace(path)
    found = job([rank_summary(read, f"gpu {at}", Selection(device=at)) for at in (0, 1)])
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        query = (
            "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
            " WHERE value LIKE 'nccl%' AND deviceId = ? ORDER BY start"
        )
        first, second = (database.execute(query, (device,)).fetchall() for device in (0, 1))
    [lane] = found.lanes
    assert (len(first), len(second), len(lane), found.clocks[1].offset_ns) == (31, 31, 31, 0)
    last = [max(a[0], b[0]) for a, b in zip(first, second, strict=True)]
    assert lane.wait_ns(0).tolist() == [at - a[0] for at, a in zip(last, first, strict=True)]
    assert lane.wait_ns(1).tolist() == [at - b[0] for at, b in zip(last, second, strict=True)]
    ends = [min(a[1], b[1]) for a, b in zip(first, second, strict=True)]
    assert lane.transfer_ns.tolist() == [end - at for at, end in zip(last, ends, strict=True)]


@pytest.fixture(scope="module")
def dlrm(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The eight traces, in no order."""
    packed = list((CORPUS / "torch").glob("*dlrm_kineto.tar.gz"))
    if not packed:
        pytest.skip("no third-party profiles beside the checkout")
    folder = tmp_path_factory.mktemp("dlrm")
    with tarfile.open(packed[0]) as archive:
        archive.extractall(folder, filter="data")
    return sorted(folder.rglob("*.json"), key=lambda path: path.name[::-1])


def naive(paths: Sequence[Path]) -> list[tuple[int, list[int], int]]:
    """For the n-th NCCL kernel of all ranks: the late rank, the waits by rank, and the transfer, by plain loops."""
    kernels: dict[int, list[tuple[int, int]]] = {}
    for path in paths:
        read = json.loads(path.read_text())
        mine = [each for each in read["traceEvents"] if each.get("cat") == "kernel" and each["name"].startswith("nccl")]
        times = [(each["ts"] * 1000, (each["ts"] + each["dur"]) * 1000) for each in mine]
        kernels[read["distributedInfo"]["rank"]] = sorted(times)
    found = []
    for at in range(len(kernels[0])):
        starts = {number: times[at][0] for number, times in kernels.items()}
        last = max(starts.values())
        late = next(number for number in sorted(starts) if starts[number] == last)
        waited = [last - starts[number] for number in sorted(starts)]
        found.append((late, waited, min(times[at][1] for times in kernels.values()) - last))
    return found


@pytest.fixture(scope="module")
def dlrm_job(dlrm: list[Path]) -> Job:
    return job([rank_summary(open_trace(path), path.name, Selection(), operations=10_000) for path in dlrm])


def test_eight_real_ranks_agree_with_a_naive_count(dlrm: list[Path], dlrm_job: Job) -> None:
    found, expected = dlrm_job, naive(dlrm)
    [lane] = found.lanes
    assert [each.rank for each in found.ranks] == list(range(8))
    assert (found.world_size, codes(found), found.coverage) == (8, {}, 1.0)
    assert [(part.seen, part.matched) for part in found.parts] == [(8, 8)] * 8
    assert lane.late.tolist() == [late for late, _, _ in expected]
    assert waits_of(lane) == [waited for _, waited, _ in expected]
    assert lane.transfer_ns.tolist() == [transfer for _, _, transfer in expected]
    kinds = [KINDS[kind] for kind in lane.kind]
    assert kinds == ["all_to_all"] * 4 + ["all_reduce", "all_to_all", "all_reduce", "all_reduce"]
    assert max(clock.residual_ns for clock in found.clocks if isinstance(clock.residual_ns, int)) <= 2 * US


def test_eight_real_ranks_have_a_late_one(dlrm_job: Job) -> None:
    """One step was recorded, and the waiting is at its first collective: who is waited for began late."""
    found = dlrm_job
    by_code = {each.code: each for each in findings_of(found)}
    skew = by_code["COMM-SKEW"]
    assert "bringing any one rank to the median pace would not make the job faster" in skew.claim
    assert "rank 7 arrives last at 5 of 8 collectives, which account for 75.9 % of all waiting" in skew.sentences
    [lane] = found.lanes
    later = sum(
        np.diff(np.sort(starts)).sum() for starts in np.stack(list(map(lane.start_ns, lane.members)), axis=1)[1:]
    )  # all but the first collective
    assert (skew.saving_low_ns_per_step, skew.is_bound) == (0, True)
    assert 0.9 * later < (skew.saving_ns_per_step or 0) <= later < found.waited_ns
    assert next(iter(by_code)) == "COMM-SKEW"  # 11.2 ms of waiting come before 198 us of transfer
    first = worst_place(found)
    assert not isinstance(first, NotMeasured)
    waited = int(found.lanes[0].waited_ns[0])  # the same as a naive count of it, see above
    assert (first.kind, first.ordinal, first.wait_ns) == ("all_to_all", 1, waited)
