"""NVML, the driver's library, through the package nvidia-ml-py: what state a GPU is in while something is measured.

A block to watch in, clocks, power, temperature and throttling out: a thread asks twenty times a second; questions and
answers pass the GPU's queues by. Where the package or the library is missing, or the GPU cannot be found, there is a
reason instead. A single figure that this GPU does not tell is None.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from statistics import median_low
from typing import Any, Final

from msgspec import Struct

_EVERY_S: Final = 0.05
SM_CLOCK, _MEMORY_CLOCK = 1, 2  # NVML's numbers
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


class NoNvml(Exception):
    """Why NVML cannot be asked."""


@contextmanager
def nvml_session() -> Iterator[Any]:
    """NVML, started and ended again; `NoNvml` where that cannot be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the package's predecessor of the same name complains about itself
            nvml = import_module("pynvml")
    except ImportError:
        raise NoNvml("the package nvidia-ml-py is not installed") from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise NoNvml(f"NVML does not start: {error}") from None
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def clock_reasons(nvml: Any, handle: Any) -> int:
    """Why the clocks are as they are, as bits of `LIMITS`."""
    newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)  # its name since 2023
    return int((newer or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle))


def throttles_in(bits: int) -> tuple[str, ...]:
    """What holds the clocks down, unless the GPU is idle."""
    return () if bits & _IDLE else tuple(what for bit, what, throttles in LIMITS if throttles and bits & bit)


class SampledRange(Struct, frozen=True):
    """A figure that was looked at several times."""

    min: int
    median: int
    max: int


class ClockLimit(Struct, frozen=True):
    """Something that held the clocks down, and in which share of the looks at it."""

    what: str
    share: float
    is_throttling: bool


class GpuReadings(Struct, frozen=True):
    """What NVML said of a GPU while something ran on it."""

    looks: int
    sm_mhz: SampledRange | None
    memory_mhz: SampledRange | None
    power_mw: SampledRange | None
    temperature_c: SampledRange | None
    highest_sm_mhz: int | None
    power_limit_mw: int | None
    limits: tuple[ClockLimit, ...]
    """What held the clocks down."""
    throttled: bool
    """Whether anything but a setting did."""


class NotWatched(Struct, frozen=True):
    """Stands where something would have been seen."""

    reason: str


class GpuWatch:
    """Watches a GPU, given as torch tells its UUID, while a block runs; then `seen` says what was seen."""

    def __init__(self) -> None:
        self.seen: GpuReadings | NotWatched = NotWatched("nothing ran on a GPU")

    @contextmanager
    def __call__(self, uuid: str) -> Iterator[None]:
        looker = None
        with ExitStack() as stack:
            try:
                looker = _Looker(stack.enter_context(nvml_session()), uuid)
            except NoNvml as reason:
                self.seen = NotWatched(str(reason))
            if looker is None:
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
                self.seen = looker.readings()


def _handle(nvml: Any, uuid: str) -> Any:
    if uuid:
        return nvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}")
    count = nvml.nvmlDeviceGetCount()
    if count != 1:
        raise LookupError(f"there are {count}, and torch does not say which one it uses")
    return nvml.nvmlDeviceGetHandleByIndex(0)


class _Looker:
    """Takes one look after another at one GPU."""

    def __init__(self, nvml: Any, uuid: str) -> None:
        try:
            handle = _handle(nvml, uuid)
        except (nvml.NVMLError, LookupError) as error:
            raise NoNvml(f"NVML does not find the GPU: {error}") from None
        self._nvml, self._handle = nvml, handle
        self._questions: dict[str, Callable[[], int]] = {
            "sm": lambda: nvml.nvmlDeviceGetClockInfo(handle, SM_CLOCK),
            "memory": lambda: nvml.nvmlDeviceGetClockInfo(handle, _MEMORY_CLOCK),
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle),
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, 0),
            "reasons": lambda: clock_reasons(nvml, handle),
        }
        self._answers: dict[str, list[int]] = {name: [] for name in self._questions}
        self._looks = 0

    def look(self) -> None:
        self._looks += 1
        for name, question in self._questions.items():
            if (answer := self._ask(question)) is not None:
                self._answers[name].append(answer)

    def look_until(self, over: threading.Event) -> None:
        while not over.wait(_EVERY_S):
            self.look()

    def readings(self) -> GpuReadings:
        sm, memory, power, temperature = (
            SampledRange(min(answers), median_low(answers), max(answers)) if answers else None
            for answers in (self._answers[name] for name in ("sm", "memory", "power", "temperature"))
        )
        highest = self._ask(lambda: self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, SM_CLOCK))
        most = self._ask(lambda: self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._handle))
        busy = [bits for bits in self._answers["reasons"] if not bits & _IDLE]
        counts = ((what, sum(bool(bits & bit) for bits in busy), throttles) for bit, what, throttles in LIMITS)
        limits = tuple(
            ClockLimit(what, round(count / len(busy), 4), throttles) for what, count, throttles in counts if count
        )
        throttled = any(limit.is_throttling for limit in limits)
        return GpuReadings(self._looks, sm, memory, power, temperature, highest, most, limits, throttled)

    def _ask(self, question: Callable[[], int]) -> int | None:
        try:
            return int(question())
        except self._nvml.NVMLError:
            return None  # not every GPU tells everything
