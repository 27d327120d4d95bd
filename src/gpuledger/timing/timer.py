"""How long one call of an operation takes: a function that prepares it in, a `Timing` out; of two, a `TimedPair`.

    def attention():                      # prepares: weights, inputs
        q, k, v = (torch.randn(4, 32, 4096, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)

    time_operation(attention).spread.median_ns

What the function returns decides: something callable is the operation, and is called without arguments; where it
returns anything else, the function itself is the operation.

On a GPU the operation is captured in a CUDA graph where it can be, so that the device's time is measured and not the
host's; several short calls go into one graph, because launching a graph takes the host some microseconds. Where it
cannot be captured, it runs as it is, and the time holds the host's share. A sample is the average over a batch of at
least a millisecond between two events on the device's clock; with `cold`, each call is a sample, and a write larger
than the L2 cache comes before it. Then some 2 us are those of the launch between two events. On a CPU the host's clock
is used. Calls warm up before, until they are alike.

NVTX: "gpuledger:warmup" and "gpuledger:measure". Torch is needed, and loaded, for GPUs only.
"""

from __future__ import annotations

import gc
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from math import ceil, copysign
from typing import Any, Final

import numpy as np

from gpuledger.capture.window import window
from gpuledger.timing.settle import PairSpread, SampleSpread, batch_size, measure, measure_in_turns, settled_after
from gpuledger.verdicts import FAIL, PASS, UNDECIDED, DoubtfulFigure, Verdict

Operation = Callable[[], object]
Watch = Callable[[str], AbstractContextManager[object]]
"""Given the GPU's UUID, something to hold open while it is measured, such as `gpuledger.system.nvml.Watch()`."""

LEAST_WARMUP: Final = 3
_BATCH_NS: Final = 1e6
_GRAPH_NS: Final = 200_000  # a graph should take so long: launching one takes the host 5 to 10 us
_MOST_IN_A_GRAPH: Final = 512
_WARM_SECONDS: Final = 2.0
_HEAT_SECONDS: Final = 0.2  # a GPU's clocks take so long to rise
_LEAST_SECONDS: Final = 1.0  # power and heat hold clocks down only after a while
_LONGER_SHARE: Final = 0.05
_COLD_CALLS: Final = 10
_COLD_CPU_BYTES: Final = 256 << 20


class NoDevice(RuntimeError):
    """There is nothing to run on."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one call took, and how that was measured."""

    spread: SampleSpread
    is_settled: bool  # whether the median is known as well as was asked for
    target_share: float
    device: str  # cuda or cpu
    device_name: str
    is_graph: bool
    why_eager: str  # why it is not a graph; empty if it is one, or was not to be
    is_cold: bool
    calls: int
    batch: int  # calls in a sample
    warmup_calls: int
    seconds: float  # how long measuring took, without the warm-up
    samples_ns: tuple[float, ...] = ()  # in the order in which they were taken


@dataclass(frozen=True, slots=True)
class TimedPair:
    """Two operations timed in turns."""

    first: Timing
    second: Timing
    spread: PairSpread
    is_settled: bool

    @property
    def decision(self) -> Verdict:
        """Whether they are the same to within what was asked for."""
        are_alike = self.spread.are_alike(self.first.target_share)
        return UNDECIDED if are_alike is None else PASS if are_alike else FAIL

    @property
    def deciding_seconds(self) -> float | None:
        """How long would decide, if nothing else changes; None where that is decided, or no time would."""
        spread, target = self.spread, self.first.target_share
        if spread.interval_share is None or self.decision != UNDECIDED:
            return None
        known = DoubtfulFigure(spread.difference_share, *spread.interval_share, spread.first.samples)
        needed = known.deciding_samples(copysign(target, spread.difference_share)) or 0
        return self.first.seconds * needed / known.samples if needed > known.samples else None


def time_operation(
    make: Callable[[], object],
    *,
    seconds: float = 5.0,
    target_share: float = 0.01,
    graph: bool = True,
    cold: bool = False,
    warmup: int | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> Timing:
    """Time the operation that `make` prepares, or is, until its median is known to `target_share`.

    After `seconds` it stops in any case and says that it did not settle. `warmup` is how many calls to make before,
    by default as many as it takes until they are alike. `device` is cuda or cpu, by default cuda where there is one.
    """
    chosen = device_for(device)
    cuda: Any = import_module("torch").cuda if chosen == "cuda" else None
    limits = {"seconds": seconds, "target_share": target_share, "least_seconds": _LEAST_SECONDS}
    operation = prepare_operation(make)
    with window("gpuledger:warmup"):
        warm = _warm(operation, cuda, graph=graph, cold=cold, warmup=warmup, seconds=seconds)
    with _measuring(cuda, watch):
        start = time.perf_counter_ns()
        spread = measure(warm.take, time.perf_counter_ns, **limits)
        took = time.perf_counter_ns() - start
    return warm.timing(spread, target_share, chosen, took)


def time_in_turns(
    makes: tuple[Callable[[], object], Callable[[], object]],
    *,
    seconds: float = 5.0,
    target_share: float = 0.01,
    graph: bool = True,
    cold: bool = False,
    warmup: int | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> TimedPair:
    """Time two operations in turns, until their difference is known to `target_share` of the first.

    The options are those of `time_operation`; `seconds` are those of both together.
    """
    chosen = device_for(device)
    cuda: Any = import_module("torch").cuda if chosen == "cuda" else None
    limits = {"seconds": seconds, "target_share": target_share, "least_seconds": _LEAST_SECONDS}
    operations = [prepare_operation(make) for make in makes]
    how: dict[str, Any] = {"graph": graph, "cold": cold, "warmup": warmup, "seconds": seconds / 2}
    with window("gpuledger:warmup"):
        one, other = (_warm(operation, cuda, **how) for operation in operations)
    with _measuring(cuda, watch):
        start = time.perf_counter_ns()
        pair = measure_in_turns(one.take, other.take, time.perf_counter_ns, **limits)
        took = time.perf_counter_ns() - start
    return TimedPair(
        one.timing(pair.first, target_share, chosen, took),
        other.timing(pair.second, target_share, chosen, took),
        pair,
        pair.is_within(target_share),
    )


@dataclass(slots=True)
class _Warm:
    """An operation that has warmed up, and how its samples are taken."""

    stopwatch: _OnCpu | _OnCuda
    units: int
    is_cold: bool
    warmup_calls: int
    why_eager: str
    samples: list[float] = field(default_factory=list)

    @property
    def batch(self) -> int:
        return 1 if self.is_cold else self.units * self.stopwatch.unit

    def take(self) -> list[float]:
        one_by_one, together = self.stopwatch.apart, self.stopwatch.run
        taken = one_by_one(_COLD_CALLS) if self.is_cold else [together(self.units) / self.batch]
        self.samples += taken
        return taken

    def timing(self, spread: SampleSpread, target_share: float, device: str, took_ns: int) -> Timing:
        return Timing(
            spread=spread,
            is_settled=spread.is_within(target_share),
            target_share=target_share,
            device=device,
            device_name=self.stopwatch.name,
            is_graph=isinstance(self.stopwatch, _OnCuda) and self.stopwatch.is_graph,
            why_eager=self.why_eager,
            is_cold=self.is_cold,
            calls=spread.samples * self.batch,
            batch=self.batch,
            warmup_calls=self.warmup_calls,
            seconds=took_ns / 1e9,
            samples_ns=tuple(self.samples),
        )


def _warm(operation: Operation, cuda: Any, *, graph: bool, cold: bool, warmup: int | None, seconds: float) -> _Warm:
    """Call an operation until it is warm, captured where that can be done."""
    stopwatch = _OnCpu(operation) if cuda is None else _OnCuda(operation, cuda)
    why_eager, warmed = "", warmup or 0
    for _ in range(warmed):
        stopwatch.once()
    if warmup is None:
        stopwatch.once()  # by itself, because it may compile for longer than warming up should take
        warmed = 1 + settled_after(stopwatch.once, time.perf_counter_ns, fewest=LEAST_WARMUP - 1, seconds=_WARM_SECONDS)
    if isinstance(stopwatch, _OnCuda) and graph:
        why_eager = stopwatch.capture(several=not cold)
    units = 1 if cold else batch_size(stopwatch.run, least_ns=_BATCH_NS)
    heat = _HEAT_SECONDS if cuda is not None else 0.0
    if warmup is None:
        warmed += (units * stopwatch.unit) * settled_after(
            lambda: stopwatch.run(units),
            time.perf_counter_ns,
            fewest=LEAST_WARMUP,
            least_seconds=min(heat, seconds / 5),
            seconds=min(_WARM_SECONDS, seconds / 2),
        )
    return _Warm(stopwatch, units, cold, warmed, why_eager)


@contextmanager
def _measuring(cuda: Any, watch: Watch | None) -> Iterator[None]:
    """The stretch in which samples are taken: marked, watched, and without collections of garbage.

    As in timeit: a collection would fall on one sample and not on another.
    """
    watching: AbstractContextManager[object] = nullcontext()
    if watch is not None and cuda is not None:  # '' where this torch does not say which GPU it is
        watching = watch(str(getattr(cuda.get_device_properties(cuda.current_device()), "uuid", "")))
    with window("gpuledger:measure"), watching:
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_on:
                gc.enable()


def device_for(device: str | None) -> str:
    """cuda or cpu: what was asked for, if it is there, or cuda where it is. Raises NoDevice."""
    if device == "cpu":
        return "cpu"
    try:
        has_cuda = bool(import_module("torch").cuda.is_available())
        fault = "torch sees no CUDA device"
    except ImportError:
        has_cuda, fault = False, "timing on a GPU needs torch, which is not installed"
    if device == "cuda" and not has_cuda:
        raise NoDevice(fault)
    return "cuda" if has_cuda else "cpu"


def prepare_operation(make: Callable[[], object]) -> Operation:
    """The operation: what `make` returns if that can be called, else `make` itself."""
    returned = make()
    return returned if callable(returned) else make


class _OnCpu:
    """The host's clock. Both clocks make `unit` calls at a time, and tell nanoseconds."""

    unit = 1

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self.name = platform.processor() or platform.machine()
        self._flood: np.ndarray[tuple[int], np.dtype[np.int8]] | None = None

    def once(self) -> float:
        """One call as it is, waited for."""
        return self.run(1)

    def run(self, units: int) -> float:
        """So many times `unit` calls."""
        operation, clock = self._operation, time.perf_counter_ns
        start = clock()
        for _ in range(units):
            operation()
        return clock() - start

    def apart(self, calls: int) -> list[float]:
        """Each of some calls by itself, the caches emptied before it."""
        if self._flood is None:
            self._flood = np.zeros(_COLD_CPU_BYTES, np.int8)
        times = []
        for _ in range(calls):
            self._flood.fill(1)
            times.append(self.run(1))
        return times


class _OnCuda:
    """The device's clock, between two events on a stream of its own."""

    def __init__(self, operation: Operation, cuda: Any) -> None:
        self._operation, self._cuda = operation, cuda
        self.unit, self.is_graph = 1, False
        self._launch: Callable[[], object] = operation
        self._stream = cuda.Stream()
        self._stream.wait_stream(cuda.current_stream())  # inputs may still be on their way
        self._flood: Any = None
        properties = cuda.get_device_properties(cuda.current_device())
        self.name = str(properties.name)
        self._cache_bytes = int(getattr(properties, "L2_cache_size", 0)) or 64 << 20

    def once(self) -> float:
        start = time.perf_counter_ns()
        with self._cuda.stream(self._stream):
            self._operation()
        self._cuda.synchronize()
        return time.perf_counter_ns() - start

    def run(self, units: int) -> float:
        with self._cuda.stream(self._stream):
            start, end = self._marks()
            start.record()
            for _ in range(units):
                self._launch()
            end.record()
            end.synchronize()
        return float(start.elapsed_time(end)) * 1e6

    def apart(self, calls: int) -> list[float]:
        if self._flood is None:
            torch = import_module("torch")
            self._flood = torch.empty(4 * self._cache_bytes, dtype=torch.int8, device="cuda")
        pairs = [self._marks() for _ in range(calls)]
        with self._cuda.stream(self._stream):
            for start, end in pairs:
                self._flood.zero_()  # also keeps the device busy while the host launches what comes next
                start.record()
                self._launch()
                end.record()
        self._stream.synchronize()
        return [float(start.elapsed_time(end)) * 1e6 for start, end in pairs]

    def capture(self, *, several: bool) -> str:
        """Make a graph of the operation, of several calls where one is short; why that could not be done, else ''."""
        eager_ns = self._per_call()
        if fault := self._waiting() or self._captured(1):
            return fault
        calls = min(ceil(_GRAPH_NS / max(self._per_call(), 1.0)), _MOST_IN_A_GRAPH)
        if several and calls > 1:
            self._captured(calls)  # where that fails, the graph of one call stays
        longer = self._per_call() / eager_ns - 1
        if longer <= _LONGER_SHARE:
            return ""
        # copies in a graph may take another way than those of a stream, and a slower one
        self._launch, self.unit, self.is_graph = self._operation, 1, False
        return f"as one it takes {100 * longer:.0f} % longer"

    def _per_call(self) -> float:
        """How long a call takes as it is launched now, roughly, in ns."""
        units = batch_size(self.run, least_ns=_BATCH_NS)
        return min(self.run(units) for _ in range(3)) / (units * self.unit)

    def _waiting(self) -> str:
        """Whether the host waits for the device in the operation; better asked than tried, as that leaves traces."""
        before = self._cuda.get_sync_debug_mode()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the mode is a prototype, and says so
                self._cuda.set_sync_debug_mode("error")
                with self._cuda.stream(self._stream):
                    self._operation()
        except RuntimeError as error:
            return _first_cause(error)
        finally:
            self._cuda.set_sync_debug_mode(before)
        return ""

    def _captured(self, calls: int) -> str:
        graph = self._cuda.CUDAGraph()
        chance = self._cuda.default_generators[self._cuda.current_device()]
        state = chance.clone_state()
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                with self._cuda.graph(graph, stream=self._stream):
                    for _ in range(calls):
                        self._operation()
        except Exception as error:  # whatever it is, the operation may still run as it is
            self._cuda.synchronize()
            chance.graphsafe_set_state(state)  # it would go on as if in a capture
            return _first_cause(error)
        if any("empty" in str(warning.message) for warning in said):
            return "it launches nothing on the GPU; --device=cpu takes the host's clock"
        self._launch, self.unit, self.is_graph = graph.replay, calls, True
        return ""

    def _marks(self) -> tuple[Any, Any]:
        return self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)


def _first_cause(error: BaseException) -> str:
    """What went wrong first, in a line: ending a capture that failed raises an error of its own."""
    while error.__context__ is not None:
        error = error.__context__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
