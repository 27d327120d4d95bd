"""Which calls lost their work, whatever was taken out; tests/cases/lost_work.md has every other reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Trace
from gpuledger.ledger.books import Line
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.lost_work import LostWork, lost_work
from support.book_checks import analysed, check_balance
from support.trace_notation import trace

LAUNCHES = ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaGraphLaunch_v10000")


def lost(made: Trace) -> LostWork:
    return lost_work(made, *host_and_activities(made))


@given(st.sets(st.integers(1, 18)))
def test_whatever_is_taken_out_between_the_first_and_the_last_is_lost(gone: set[int]) -> None:
    """And what looks idle for it, and nothing else, is booked to `lost`. A launch every 100 ns, of kernels of 60."""
    made = trace("20 times every 100: 0-10 launch{'' if n in gone else ' -> s7: 20-80'}", gone=gone)
    assert lost(made).calls.tolist() == sorted(gone)
    [device] = analysed(made)
    check_balance(device)
    runs = len([at for at in gone if at - 1 not in gone])
    assert device.ledger.total().get(Line("idle.lost"), 0) == 100 * len(gone) + 40 * runs


NUMBER = st.integers(-2, 12)
CALL = st.tuples(*[NUMBER] * 2, st.sampled_from([*LAUNCHES, "cudaStreamBeginCapture_v10000", "x"]), *[NUMBER] * 4)
WORK = st.tuples(*[NUMBER] * 2, *[NUMBER] * 3, st.sampled_from([-1, 0, 5, 1 << 33, (1 << 33) + 1]))


@given(st.lists(CALL, max_size=12), st.lists(WORK, max_size=8), st.lists(WORK, max_size=8))
def test_nonsense_loses_only_calls_that_no_work_points_to(
    calls: list[tuple[int, int, str, int, int, int, int]], kernels: list[tuple[int, ...]], copies: list[tuple[int, ...]]
) -> None:
    work = "{}-{} {} pid={} correlation={} stream={} graph_node={}"
    made = trace(
        "tables calls kernels copies",
        *("{}-{} {} pid={} correlation={} tid={} result={}".format(*call) for call in calls),
        *("s0: " + work.format(*row[:2], "k", *row[2:]) for row in kernels),
        *("s0: " + work.format(*row[:2], "Memset", *row[2:]) for row in copies),
    )
    missing = lost(made)
    pointed = {(pid, correlation) for _, _, pid, correlation, *_ in (*kernels, *copies)}
    lost_calls = [calls[at] for at in missing.calls.tolist()]
    assert all((pid, correlation) not in pointed for _, _, _, pid, correlation, *_ in lost_calls)
    assert all(name in LAUNCHES for _, _, name, *_ in lost_calls)
    assert 0 <= missing.share < 1
    for device in analysed(made):
        check_balance(device)
