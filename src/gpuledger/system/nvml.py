"""What state the GPU was in while something was measured: a block to watch in, its clocks, power and throttling out.

A thread asks NVML, the driver's library, through the package nvidia-ml-py, twenty times a second; questions and
answers pass the GPU's queues by. Where the package or the library is missing, or the GPU cannot be found, there is a
reason instead. A single figure that this GPU does not tell is None.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from statistics import median_low
from typing import Any, Final

_EVERY_S: Final = 0.05
_SM, _MEMORY = 1, 2  # NVML's numbers of the clocks
_IDLE: Final = 0x1

LIMITS: Final = (
    (0x4, "the power limit", True),
    (0x8, "a hardware slowdown (heat, power brake or a failing supply)", True),
    (0x10, "the clocks of other GPUs (sync boost)", True),
    (0x20, "heat, by the driver", True),
    (0x40, "heat, by the hardware", True),
    (0x80, "the power brake of the machine", True),
    (0x2, "clocks that somebody set", False),
    (0x100, "the clocks of a display", False),
)
"""Why a GPU may run below its highest clock, by NVML's bits; the last two are settings, not throttling."""


@dataclass(frozen=True, slots=True)
class SampledRange:
    """A figure that was looked at several times."""

    least: int
    median: int
    most: int


@dataclass(frozen=True, slots=True)
class ClockLimit:
    """Something that held the clocks down, and in which share of the looks at it."""

    what: str
    share: float
    is_throttling: bool


@dataclass(frozen=True, slots=True)
class GpuReadings:
    """What was seen of a GPU."""

    looks: int
    sm_mhz: SampledRange | None
    memory_mhz: SampledRange | None
    power_mw: SampledRange | None
    temperature_c: SampledRange | None
    highest_sm_mhz: int | None
    power_limit_mw: int | None
    limits: tuple[ClockLimit, ...]

    @property
    def is_throttled(self) -> bool:
        return any(limit.is_throttling for limit in self.limits)


@dataclass(frozen=True, slots=True)
class NotWatched:
    """Stands where something would have been seen."""

    reason: str


class GpuWatch:
    """Watches a GPU, given as torch tells its UUID, while a block runs; then `seen` says what was seen."""

    def __init__(self) -> None:
        self.seen: GpuReadings | NotWatched = NotWatched("nothing ran on a GPU")

    @contextmanager
    def __call__(self, uuid: str) -> Iterator[None]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the package's predecessor of the same name complains about itself
                nvml = import_module("pynvml")
        except ImportError:
            self.seen = NotWatched("the package nvidia-ml-py is not installed")
            yield
            return
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            self.seen = NotWatched(f"NVML does not start: {error}")
            yield
            return
        try:
            yield from self._watch(nvml, uuid)
        finally:
            nvml.nvmlShutdown()

    def _watch(self, nvml: Any, uuid: str) -> Iterator[None]:
        try:
            looker = _Looker(nvml, _handle(nvml, uuid))
        except (nvml.NVMLError, LookupError) as error:
            self.seen = NotWatched(f"NVML does not find the GPU: {error}")
            yield
            return
        over = threading.Event()
        thread = threading.Thread(target=looker.look_until, args=(over,), name="gpuledger nvml", daemon=True)
        looker.look()  # a short block is seen at its two ends
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            looker.look()
            self.seen = looker.watched()


def _handle(nvml: Any, uuid: str) -> Any:
    if uuid:
        return nvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}")
    count = nvml.nvmlDeviceGetCount()
    if count != 1:
        raise LookupError(f"there are {count}, and torch does not say which one it uses")
    return nvml.nvmlDeviceGetHandleByIndex(0)


class _Looker:
    """Takes one look after another at one GPU."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)  # its name since 2023
        self._questions: dict[str, Callable[[], int]] = {
            "sm": lambda: nvml.nvmlDeviceGetClockInfo(handle, _SM),
            "memory": lambda: nvml.nvmlDeviceGetClockInfo(handle, _MEMORY),
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle),
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, 0),
            "reasons": lambda: (reasons or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle),
        }
        self._answers: dict[str, list[int]] = {name: [] for name in self._questions}
        self._looks = 0

    def look(self) -> None:
        self._looks += 1
        for name, question in self._questions.items():
            answer = self._asked(question)
            if answer is not None:
                self._answers[name].append(answer)

    def look_until(self, over: threading.Event) -> None:
        while not over.wait(_EVERY_S):
            self.look()

    def watched(self) -> GpuReadings:
        highest = self._asked(lambda: self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, _SM))
        most = self._asked(lambda: self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._handle))
        sm, memory, power, temperature = (self._range(name) for name in ("sm", "memory", "power", "temperature"))
        return GpuReadings(self._looks, sm, memory, power, temperature, highest, most, self._limits())

    def _asked(self, question: Callable[[], int]) -> int | None:
        try:
            return int(question())
        except self._nvml.NVMLError:
            return None  # not every GPU tells everything

    def _range(self, name: str) -> SampledRange | None:
        answers = self._answers[name]
        return SampledRange(min(answers), median_low(answers), max(answers)) if answers else None

    def _limits(self) -> tuple[ClockLimit, ...]:
        """What held the clocks down in those looks in which the GPU was not idle."""
        busy = [bits for bits in self._answers["reasons"] if not bits & _IDLE]
        found = ((what, sum(bool(bits & bit) for bits in busy), throttles) for bit, what, throttles in LIMITS)
        return tuple(ClockLimit(what, count / len(busy), throttles) for what, count, throttles in found if count)
