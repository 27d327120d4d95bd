"""The operation timer: its statistics hold what they promise, it stops when it may, and says so when it may not."""

from __future__ import annotations

import ast
import csv
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.capture import window as window_module
from gpuledger.timing import timer
from gpuledger.timing.settle import (
    FEWEST,
    batch_size,
    blocks,
    interval,
    measure,
    median,
    rank_below,
    settled_after,
    spread,
)
from support.command import ROOT, Ran, gpuledger
from support.pages.schemas import schema_of

times = st.lists(st.floats(1, 1e9), min_size=1, max_size=300)


class Clock:
    """Stands still unless somebody makes it go on."""

    def __init__(self) -> None:
        self.ns = 0.0

    def __call__(self) -> int:
        return round(self.ns)

    def takes(self, ns: float) -> float:
        self.ns += ns
        return ns


def test_the_interval_of_twenty_samples_runs_from_the_sixth_to_the_fifteenth() -> None:
    """As in any table of order statistics."""
    assert [rank_below(count) for count in (1, 5, 6, 9, 20, 100)] == [0, 0, 1, 2, 6, 40]
    assert interval([float(value) for value in range(1, 21)]) == (6.0, 15.0)


@pytest.mark.parametrize("count", [6, 11, 40, 100])
def test_the_interval_holds_the_true_median_95_times_in_a_hundred(count: int) -> None:
    chance = random.Random(count)
    hits = 0
    for _ in range(2000):
        found = interval(sorted(chance.lognormvariate(0, 1) for _ in range(count)))
        assert found is not None
        hits += found[0] <= 1 <= found[1]
    assert 0.94 <= hits / 2000 <= 0.99  # ranks are whole numbers, so it is a little more than 95 %


def test_it_still_does_where_neighbours_are_alike() -> None:
    """Clocks change slowly. Taking each sample for itself would be right less than half of the time."""
    chance = random.Random(1)
    by_block = by_sample = 0
    for _ in range(300):
        samples, now = [], 0.0
        for _ in range(2000):
            now = 0.9 * now + chance.gauss(0, 1)
            samples.append(1000 + now)
        (low, high), naive = spread(samples).interval_ns or (0, 0), interval(sorted(samples)) or (0, 0)
        by_block += low <= 1000 <= high
        by_sample += naive[0] <= 1000 <= naive[1]
    assert by_block > 270
    assert by_sample < 180


def test_the_interval_holds_the_median_that_stands_beside_it() -> None:
    """Of forty blocks thirty have a median of 2; of all samples half are 2 and half are 0."""
    found = spread([0.0, 2.0, 2.0] * 30 + [0.0] * 30)
    assert (found.median_ns, found.interval_ns) == (1.0, (1.0, 2.0))


def test_stopping_when_it_is_tight_does_not_spoil_the_interval() -> None:
    chance = random.Random(2)
    hits = 0
    for _ in range(300):
        clock = Clock()
        found = measure(
            lambda clock=clock: [clock.takes(1e6 * chance.lognormvariate(0, 0.03))],  # type: ignore[misc]
            clock,
            seconds=60,
            target_share=0.01,
        )
        assert found.is_within(0.01)
        hits += found.interval_ns is not None and found.interval_ns[0] <= 1e6 <= found.interval_ns[1]
    assert hits > 270


@given(times)
def test_what_is_said_of_samples_fits_together(samples: list[float]) -> None:
    found = spread(samples)
    assert found.least_ns <= found.p10_ns <= found.median_ns <= found.p90_ns <= found.most_ns
    assert found.samples == len(samples)
    assert (found.interval_ns is None) == (len(samples) < 6)
    if found.interval_ns is not None:
        assert found.least_ns <= found.interval_ns[0] <= found.median_ns <= found.interval_ns[1] <= found.most_ns
    assert spread([7.0] * len(samples)).is_within(0.0001) == (len(samples) >= 6)


@given(times)
def test_blocks_are_odd_and_leave_out_fewer_than_one(samples: list[float]) -> None:
    made = blocks(samples)
    size = len(samples) // len(made)
    assert size % 2 == 1
    assert 0 <= len(samples) - size * len(made) < size
    assert made[-1] == median(sorted(samples[-size:]))


@given(st.integers(2001, 100_000))
def test_ranks_of_many_samples_are_near_the_exact_ones_and_on_the_safe_side(count: int) -> None:
    assert -0.5 <= (count / 2 - 0.98 * count**0.5) - rank_below(count) <= 2.5


def test_it_stops_as_soon_as_it_is_sure() -> None:
    clock = Clock()
    found = measure(lambda: [clock.takes(1e6)], clock, seconds=5, target_share=0.01)
    assert (found.samples, found.median_ns, found.interval_ns) == (FEWEST, 1e6, (1e6, 1e6))


def test_it_looks_for_as_long_as_things_take_to_change() -> None:
    clock = Clock()
    assert measure(lambda: [clock.takes(1e6)], clock, seconds=5, target_share=0.01, least_seconds=1).samples == 1000


def test_it_gives_up_when_the_time_is_over_and_says_how_far_it_came() -> None:
    clock, turn = Clock(), iter(range(10**6))
    found = measure(lambda: [clock.takes(1e6 if next(turn) % 2 else 2e6)], clock, seconds=1, target_share=0.01)
    assert clock() <= 1.01e9
    assert not found.is_within(0.01)
    assert found.interval_ns == (1e6, 2e6)
    assert found.off_share is not None
    assert found.off_share > 0.3


def test_one_sample_that_takes_longer_than_there_is_time_is_kept() -> None:
    clock = Clock()
    found = measure(lambda: [clock.takes(60e9)], clock, seconds=5, target_share=0.01)
    assert (found.samples, found.median_ns, found.interval_ns, found.off_share) == (1, 60e9, None, None)
    assert not found.is_within(0.5)


def test_a_drift_is_no_rest() -> None:
    """Each moment looks calm, but the second half is 4 % slower."""
    found = spread([100.0 + at / 100 for at in range(800)])
    assert found.drift_share == pytest.approx(0.04, abs=0.002)
    assert not found.is_within(0.03)


def test_outliers_are_kept_and_do_not_move_the_median() -> None:
    found = spread([100.0] * 95 + [10_000.0] * 5)
    assert (found.median_ns, found.p90_ns, found.most_ns) == (100.0, 100.0, 10_000.0)
    assert found.is_within(0.01)


def test_warming_up_goes_on_until_three_are_alike() -> None:
    clock, first = Clock(), iter([9e9, 5e6, 3e6, 2e6, 1.05e6, 1e6, 1.02e6])
    assert settled_after(lambda: clock.takes(next(first)), clock, fewest=3, seconds=60) == 7
    clock = Clock()
    assert settled_after(lambda: clock.takes(1e6), clock, fewest=3, least_seconds=0.05, seconds=60) == 50
    turn = iter(range(10**6))
    clock = Clock()
    assert settled_after(lambda: clock.takes(1e6 * (1 + next(turn) % 2)), clock, fewest=3, seconds=0.03) == 20


@given(st.floats(1, 1e10), st.floats(0, 1e6))
def test_a_batch_is_long_enough_and_not_much_longer(call_ns: float, overhead_ns: float) -> None:
    calls = batch_size(lambda count: overhead_ns + count * call_ns, least_ns=1e6)
    assert calls == 1 or overhead_ns + calls * call_ns >= 1e6 or calls == 1 << 20
    assert calls == 1 or calls * call_ns <= 1.3e7
    assert batch_size(lambda _: 0.0, least_ns=1e6, most=1000) == 1000


def test_the_statistics_need_neither_torch_nor_the_package() -> None:
    allowed = {
        "settle.py": set(),
        "timer.py": {"gpuledger.capture.window", "gpuledger.timing.settle", "gpuledger.verdicts"},
    }
    for name, modules in allowed.items():
        tree = ast.parse((ROOT / "src" / "gpuledger" / "timing" / name).read_text())
        used = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        used |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert {each for each in used if each.startswith(("gpuledger", "torch"))} == modules


def test_what_a_function_returns_decides_what_is_timed() -> None:
    def operation() -> int:
        return 7

    assert timer.prepare_operation(lambda: operation) is operation
    assert timer.prepare_operation(operation) is operation


def test_an_operation_on_the_host_is_timed() -> None:
    calls = []
    found = timer.time_operation(
        lambda: lambda: calls.append(1), seconds=0.05, target_share=0.5, warmup=2, device="cpu"
    )
    assert (found.device, found.is_graph, found.why_eager, found.is_cold, found.warmup_calls) == (
        "cpu",
        False,
        "",
        False,
        2,
    )
    assert found.calls == found.spread.samples * found.batch
    assert found.batch > 100  # an append takes far less than 10 us
    assert found.spread.median_ns < 1e5
    assert len(calls) > found.calls


def test_cold_calls_are_timed_one_by_one() -> None:
    found = timer.time_operation(lambda: lambda: None, seconds=0.01, cold=True, warmup=1, device="cpu")
    assert (found.batch, found.is_cold, found.calls) == (1, True, found.spread.samples)


@pytest.mark.parametrize("missing", [True, False])
def test_without_a_gpu_the_hosts_clock_is_used_unless_a_gpu_was_asked_for(
    missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = None if missing else SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert timer.device_for(None) == timer.device_for("cpu") == "cpu"
    with pytest.raises(timer.NoDevice, match="needs torch" if missing else "no CUDA device"):
        timer.device_for("cuda")


class FakeCuda:
    """A torch.cuda on a clock of its own: launching takes the host 8 us, and a graph node the device 2 us or more."""

    LAUNCH_NS = 8000

    def __init__(self, clock: Clock) -> None:
        self.clock, self.nodes, self.capturing, self.log = clock, 0, False, list[str]()
        self.default_generators = [
            SimpleNamespace(clone_state=lambda: "state", graphsafe_set_state=lambda _: self.log.append("chance"))
        ]
        self.nvtx = SimpleNamespace(range_push=lambda _: None, range_pop=lambda: None)

    def kernel(self, ns: float = 2000, in_a_graph: float = 1.0) -> None:
        if self.capturing:
            self.nodes += 1
            self.cost = ns * in_a_graph
        else:
            self.clock.takes(max(ns, self.LAUNCH_NS))

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def current_stream(self) -> None:
        return None

    def synchronize(self) -> None:
        if self.capturing:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    def get_sync_debug_mode(self) -> int:
        return 0

    def set_sync_debug_mode(self, mode: int | str) -> None:
        self.log.append(f"sync {mode}")

    def get_device_properties(self, _: int) -> Any:
        return SimpleNamespace(name="Fake GPU", uuid="1234")

    def Stream(self) -> Any:  # noqa: N802
        return SimpleNamespace(wait_stream=lambda _: None, synchronize=lambda: None)

    @contextmanager
    def stream(self, _: object) -> Iterator[None]:
        yield

    def Event(self, enable_timing: bool) -> Any:  # noqa: N802
        event = SimpleNamespace(at=0.0, synchronize=lambda: None)
        event.record = lambda: setattr(event, "at", self.clock.ns)
        event.elapsed_time = lambda end: (end.at - event.at) / 1e6
        return event

    def CUDAGraph(self) -> Any:  # noqa: N802
        graph = SimpleNamespace(ns=0.0)
        graph.replay = lambda: self.clock.takes(max(graph.ns, self.LAUNCH_NS))
        return graph

    @contextmanager
    def graph(self, graph: Any, stream: object) -> Iterator[None]:
        self.capturing, self.nodes = True, 0
        try:
            yield
        finally:
            self.capturing = False
        if not self.nodes:
            warnings.warn("The CUDA Graph is empty.", stacklevel=2)
        graph.ns = self.nodes * getattr(self, "cost", 0.0)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    clock = Clock()
    fake = FakeCuda(clock)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=fake))
    monkeypatch.setattr(timer, "time", SimpleNamespace(perf_counter_ns=clock))
    window_module._cuda.cache_clear()
    yield fake
    window_module._cuda.cache_clear()


def test_short_calls_go_into_one_graph_so_that_launching_does_not_count(cuda: FakeCuda) -> None:
    found = timer.time_operation(lambda: cuda.kernel)
    assert (found.is_graph, found.why_eager, found.device_name) == (True, "", "Fake GPU")
    assert found.spread.median_ns == pytest.approx(2000)
    assert found.batch * 2000 >= 1e6
    assert found.is_settled


def test_two_operations_go_into_graphs_of_their_own_and_are_timed_in_turns(cuda: FakeCuda) -> None:
    pair = timer.time_in_turns((lambda: cuda.kernel, lambda: lambda: cuda.kernel(2500)))
    assert (pair.first.is_graph, pair.second.is_graph, pair.is_settled) == (True, True, True)
    assert (pair.first.spread.median_ns, pair.second.spread.median_ns) == pytest.approx((2000, 2500))
    assert pair.spread.difference_ns == pytest.approx(500)
    assert len(pair.first.samples_ns) == len(pair.second.samples_ns) == pair.spread.first.samples


def test_as_it_is_the_hosts_time_counts(cuda: FakeCuda) -> None:
    found = timer.time_operation(lambda: cuda.kernel, graph=False)
    assert (found.is_graph, found.why_eager) == (False, "")
    assert found.spread.median_ns == pytest.approx(8000)


def waits_and(cuda: FakeCuda) -> Callable[[], None]:
    def operation() -> None:
        cuda.kernel()
        cuda.synchronize()

    return operation


def test_what_cannot_be_captured_runs_as_it_is_and_the_reason_is_told(cuda: FakeCuda) -> None:
    found = timer.time_operation(lambda: waits_and(cuda))
    assert (found.is_graph, found.why_eager) == (False, "operation not permitted when stream is capturing")
    assert found.spread.median_ns == pytest.approx(8000)
    assert "chance" in cuda.log  # the random numbers are as before the capture
    assert cuda.log.count("sync error") == cuda.log.count("sync 0") == 1


def test_a_graph_that_is_slower_is_not_used(cuda: FakeCuda) -> None:
    """Seen on an H200: copies of 1 GiB take 54 % longer as nodes of a graph."""
    found = timer.time_operation(lambda: lambda: cuda.kernel(500_000, in_a_graph=1.54))
    assert (found.is_graph, found.why_eager) == (False, "as one it takes 54 % longer")
    assert found.spread.median_ns == pytest.approx(500_000)


def test_an_operation_that_launches_nothing_is_found_out(cuda: FakeCuda) -> None:
    found = timer.time_operation(lambda: lambda: cuda.clock.takes(9000) and None)
    assert not found.is_graph
    assert found.why_eager.startswith("it launches nothing on the GPU")


def test_the_gpu_is_watched_while_it_is_measured_and_only_then(cuda: FakeCuda) -> None:
    seen = []

    @contextmanager
    def watch(uuid: str) -> Iterator[None]:
        start = cuda.clock()
        yield
        seen.append((uuid, start, cuda.clock()))

    found = timer.time_operation(lambda: cuda.kernel, watch=watch)
    [(uuid, start, end)] = seen
    assert uuid == "1234"
    assert start > 0
    assert (end - start) / 1e9 == pytest.approx(found.seconds)


MOCKS = """\
import math

def sines():
    values = [float(n) for n in range(100)]
    print("preparing")
    return lambda: [math.sin(value) for value in values]

def itself():
    return math.fsum(range(100))

def breaks():
    def run():
        raise ValueError("shapes\\ndo not fit")
    return run

def at_once():
    return 1 / 0

def needs(x):
    return x

def generator():
    yield 1

async def coroutine():
    pass

def ends():
    raise SystemExit(3)

class Group:
    @staticmethod
    def member():
        return None

value = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's modules, which are imported anew in each test."""
    for name, code in (("mocks", MOCKS), ("syntax", "x = 1\ndef f(:\n"), ("imports", "import mocks\nimport nowhere\n")):
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("mocks", "syntax", "imports"):
        sys.modules.pop(name, None)


def timed(folder: Path, *arguments: str, seconds: float = 0.05) -> Ran:
    """A busy machine may leave a twentieth of a second for too few samples: whoever needs an interval takes longer."""
    return gpuledger("time", *arguments, "--device=cpu", f"--seconds={seconds}", cwd=folder)


@pytest.mark.parametrize("operation", ["mocks.py:sines", "mocks:itself", "mocks.py:Group.member"])
def test_the_command_says_how_long_and_how_sure(operation: str, folder: Path) -> None:
    ran = timed(folder, operation)
    assert ran.exit_code == 0
    assert f"{operation}  " in ran.stdout
    assert "\nOne call takes " in ran.stdout
    for what in ("median", "95 % interval", "p10 to p90", "min, max", "calls", "warm-up"):
        assert f"\n{what}  " in ran.stdout
    assert "preparing" not in ran.stdout
    assert ("preparing" in ran.stderr) == operation.endswith("sines")


def test_the_document_is_valid_and_the_other_formats_say_the_same(folder: Path) -> None:
    found = json.loads(timed(folder, "mocks.py:sines", "--format=json").stdout)
    schema_of("time").validate(found)
    assert (found["operation"], found["device"], found["gpu"]) == ("mocks.py:sines", "cpu", None)
    [row] = csv.DictReader(StringIO(timed(folder, "mocks.py:sines", "--format=csv", seconds=1).stdout))
    assert set(found) - set(row) == {"schema", "sentences", "interval_ns", "samples_ns", "gpu", "gpu_not_watched"}
    assert float(row["interval_low_ns"]) <= float(row["median_ns"]) <= float(row["interval_high_ns"])
    assert "| median |" in timed(folder, "mocks.py:sines", "--format=md").stdout


def test_what_did_not_settle_says_so(folder: Path) -> None:
    ran = timed(folder, "mocks.py:sines", "--target=0.0001%", seconds=1)
    assert ran.exit_code == 0
    assert "not converged" in ran.stdout
    assert "note: did not converge within " in ran.stdout


@pytest.mark.parametrize(
    ("operation", "sentence"),
    [
        ("mocks.py:breaks", "mocks.py:13: failed while it was timed: ValueError: shapes do not fit"),
        ("mocks:breaks", "mocks.py:13: failed while it was timed: ValueError: shapes do not fit"),
        ("mocks.py:at_once", "mocks.py:17: failed while preparing: ZeroDivisionError: division by zero"),
        ("mocks.py:needs", "mocks.py:19: failed while preparing: TypeError: needs() missing 1 required positional"),
        ("mocks.py:generator", "mocks.py:22: is a generator: calling it only prepares it to run"),
        ("mocks.py:coroutine", "mocks.py:25: is a coroutine: calling it only prepares it to run"),
        ("mocks.py:ends", "mocks.py:29: failed while preparing: SystemExit: 3"),
        ("mocks.py:value", "mocks.py: value is of type int, not a function"),
        ("mocks.py:sinus", "mocks.py: no sinus in it"),
        ("syntax.py:f", "syntax.py:2: cannot be imported: SyntaxError: invalid syntax"),
        ("imports.py:f", "imports.py:2: cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("imports:f", "imports.py:2: cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("nowhere.py:f", "nowhere.py: no such file"),
        ("nowhere:f", "nowhere: no such module, here or where Python looks"),
    ],
)
def test_a_fault_in_the_users_code_is_one_sentence_with_its_line(operation: str, sentence: str, folder: Path) -> None:
    ran = timed(folder, operation)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {sentence}")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("mocks",), "expected MODULE:FUNCTION"),
        (("mocks.py:",), "expected MODULE:FUNCTION"),
        (("mocks.py:sines", "--target=0"), "expected a share between 0 and 1"),
        (("mocks.py:sines", "--target=120%"), "expected a share between 0 and 1"),
        (("mocks.py:sines", "--warmup=0"), "--warmup"),
    ],
)
def test_a_wrong_call_exits_2(arguments: tuple[str, ...], complaint: str, folder: Path) -> None:
    ran = timed(folder, *arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert complaint in " ".join(ran.stderr.split())


def test_a_gpu_that_is_not_there_is_missed_before_anything_runs(folder: Path) -> None:
    if find_spec("torch") is not None and __import__("torch").cuda.is_available():
        pytest.skip("there is one")
    ran = gpuledger("time", "mocks.py:sines", "--device=cuda", cwd=folder)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    assert "hint: --device=cpu" in ran.stderr
    assert "preparing" not in ran.stderr


def test_an_operation_of_torch_is_timed_on_the_host() -> None:
    torch = pytest.importorskip("torch")
    weights = torch.eye(64)
    found = timer.time_operation(lambda: lambda: weights @ weights, seconds=0.2, device="cpu")
    assert 100 < found.spread.median_ns < 1e9


def test_an_operation_of_torch_is_timed_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    numbers = torch.ones(1 << 20, device="cuda")
    found = timer.time_operation(lambda: lambda: numbers.mul_(1.0), seconds=2)
    assert (found.device, found.is_graph) == ("cuda", True)
    assert timer.time_operation(lambda: lambda: numbers.sum().item(), seconds=1).why_eager
